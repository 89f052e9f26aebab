package sampling

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"time"

	"parsimon/pipeline"
	"parsimon/schema/names"
)

const (
	minWarmupNS = int64(1e6)
	maxWarmupNS = int64(1024e6)
	// A warm-up is long enough if half of it changes each requested percentile by at most warmupTolerance, or by
	// at most warmupShare of the requested precision.
	warmupTolerance = 0.0025
	warmupShare     = 0.25
	// cooldown is the length of a cool-down in warm-ups. Flows that outlast it continue in the fluid.
	cooldown = 1
	// slotWarmups is the average length of a slot in warm-ups. Load changes slowly, so that a longer window
	// costs more but has little more information. With shorter windows, most of the simulated time would be
	// warm-up.
	slotWarmups = 1
	// loadWarmups is the time, in warm-ups, over which the load of a slot is averaged. On the large network this
	// load explains 24% of the variance, between slots, of the flows beyond p99, and 46% beyond p90. The load of
	// the slot alone explains 1% and 6%.
	loadWarmups = 12
	// minSlotFlows flows in each window of the first round suffice for p99.
	minSlotFlows = 200
	// warmupRoundTrips is the least length of a warm-up in round trips, before it is rounded down to a power of
	// two in ms. DCTCP averages marks over 16 round trips. With round trips of 180 µs, p99 of windows was 3.8%
	// below that of the same flows in the whole workload with a warm-up of 11 round trips, and 0.9% below with
	// 44.
	warmupRoundTrips = 64
)

// A Warmup describes the warm-up of windows and the effect of halving it.
type Warmup struct {
	NS      int64    `json:"warmup_ns"`
	Windows int      `json:"windows"` // also simulated with half of it; 0 if the whole is estimated
	Effect  []Effect `json:"effect"`  // of half of the warm-up
}

// change returns the relative effect of half of the warm-up on a quantile, or 0 if it is not significant.
func (w Warmup) change(q float64) float64 {
	for _, m := range w.Effect {
		if m.Quantile == q && (m.ErrorLo > 0 || m.ErrorHi < 0) {
			return math.Abs(m.Error)
		}
	}
	return 0
}

// settled reports whether the warm-up is long enough for the ask.
func (w Warmup) settled(a Ask) bool {
	tolerance := max(warmupTolerance, warmupShare*a.Within)
	return !slices.ContainsFunc(a.Of, func(q float64) bool { return w.change(q) > tolerance })
}

// firstWarmupNS returns the first warm-up to try: a quarter of the time in which the slowest host sends a
// flow of the byte-weighted median size, or warmupRoundTrips if that is longer, rounded down to a power of
// two in ms. Queues and congestion windows settle in it. Flows that began earlier do not need it, because
// they are carried over.
func (x *index) firstWarmupNS(slowestBps int64) int64 {
	half := int64(0)
	for _, bytes := range x.bytesOf {
		half += bytes / 2
	}
	below := int64(0)
	for size, bytes := range x.bytesOf {
		below += bytes
		if below >= half && bytes > 0 {
			quarterNS := int64(math.Exp2(float64(size)) * 2e9 / float64(slowestBps))
			neededNS := max(quarterNS, int64(warmupRoundTrips*x.roundTrips/max(1, x.routed)))
			return min(maxWarmupNS, minWarmupNS<<max(0, bits.Len64(uint64(neededNS/minWarmupNS))-1))
		}
	}
	return minWarmupNS
}

// measureWarmup finds the warm-up, the slots and their design. It simulates the windows of a reduced first
// round with a warm-up and with half of it, and doubles the warm-up until it is settled.
//
// If the first round would already be most of the workload, it measures nothing, and draw estimates the
// whole. With a budget only the reduced round counts for this, because the whole may take too long.
func (s *sampler) measureWarmup(ctx context.Context) error {
	g, err := s.base.Generated()
	if err != nil {
		return err
	}
	slowest, _ := s.base.Network.HostBps()
	for s.warmup.NS = s.index.firstWarmupNS(slowest); ; s.warmup.NS *= 2 {
		slots := (g.LastStartNS - g.FirstStartNS) / (slotWarmups * s.warmup.NS)
		s.index.cut(max(minSlotFlows, g.Flows/max(1, min(slots, maxSlots))))
		s.full = newDesign(s.index.slots, s.base.Spec.Seed, loadWarmups*s.warmup.NS)
		least := s.full.Merged(4)
		some := least.Drawn(least.First())
		s.design = s.full
		first := some
		if s.ask.Budget == 0 {
			first = s.full.Drawn(s.full.First())
		}
		if s.share(first, s.warmup.NS) > wholeShare || s.warmup.NS > maxWarmupNS {
			return nil
		}
		s.design = least
		err := s.measure(ctx, some)
		if err != nil || s.warmup.settled(s.ask) {
			return err
		}
		s.warmup.Effect = nil
	}
}

// measure compares estimates of the same windows with the warm-up and with half of it. If the error of a
// warm-up falls by half or more with each doubling, it is at most the change due to the last doubling.
// Halving costs less than half of what doubling would cost.
func (s *sampler) measure(ctx context.Context, some []int) error {
	whole, err := s.estimated(ctx, some, s.warmup.NS)
	if err != nil {
		return err
	}
	half, err := s.estimated(ctx, some, s.warmup.NS/2)
	if err != nil {
		return err
	}
	halves := names.Of(some, func(n int) *histogram { return half[n][all] })
	wholes := names.Of(some, func(n int) *histogram { return whole[n][all] })
	s.warmup.Windows = len(some)
	s.warmup.Effect = effects(halves, wholes)
	s.base.Log.Info().Dur("warmup", time.Duration(s.warmup.NS)).Any("effects", s.warmup.Effect).
		Msg("half of the warm-up")
	return nil
}

// estimated estimates slots with a warm-up and returns the slowdowns by slot.
func (s *sampler) estimated(ctx context.Context, slots []int, warmupNS int64) (map[int]histograms, error) {
	r, err := s.estimate(ctx, slots, warmupNS)
	if err != nil {
		return nil, err
	}
	x, err := s.read(ctx, r)
	return x.found, err
}

// fewMeasured is the least number of flows beyond a percentile for which an Effect is reported.
const fewMeasured = 10

// An Effect is the relative change of a percentile due to half of the warm-up.
type Effect struct {
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`
	Error    float64 `json:"error"`    // percentile with half of the warm-up / with the warm-up - 1
	ErrorLo  float64 `json:"error_lo"` // 95% interval
	ErrorHi  float64 `json:"error_hi"`
}

// effects returns the effects on the percentiles of all windows together. halves and wholes are the slowdowns
// of each window with half of the warm-up and with all of it.
func effects(halves, wholes []*histogram) (out []Effect) {
	half := stratum{Slots: math.MaxInt}
	whole := stratum{Slots: math.MaxInt}
	flows := int64(0)
	for i, c := range wholes {
		n := c.Flows()
		if n > 0 {
			half.Drawn = append(half.Drawn, halves[i])
			whole.Drawn = append(whole.Drawn, c)
			flows += n
		}
	}
	for _, p := range pipeline.Quantiles {
		d, ok := compareSamples(sample{whole}, sample{half}, p, 0.95)
		if !ok || len(half.Drawn) < 2 || float64(flows)*(1-p) < fewMeasured {
			break // greater percentiles have fewer flows beyond them
		}
		out = append(out, Effect{Quantile: p, Flows: flows, Error: d.Change, ErrorLo: d.Lo, ErrorHi: d.Hi})
	}
	return out
}
