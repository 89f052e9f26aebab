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
	minWarmup = int64(1e6)
	maxWarmup = int64(1024e6)
	// An asked percentile is settled if half of the warm-up changes it by less than this, or than this share of the asked
	// precision.
	warmupTolerance = 0.0025
	warmupShare     = 0.25
	// A cool-down is so many warm-ups. Flows of the window that last longer are alone in the end, and too fast.
	cooldown = 1
	// A slot takes slotWarmups warm-ups on average. Load changes slowly: a longer window costs more and says little more,
	// and the warm-up of a shorter one says nothing.
	slotWarmups = 1
	// The load of a slot is that of so many warm-ups before its end. On the large network it explains 24% of the variance
	// of the slots' flows beyond p99, and 46% beyond p90; the slot's own load explains 1% and 6%.
	loadWarmups = 12
	// minSlotFlows in each of the first round's windows are enough for p99.
	minSlotFlows = 200
	maxSlots     = 100_000
	pathEvery    = 64
	// DCTCP averages marks over 16 round trips. With round trips of 180 us, p99 of windows with a warm-up of 11 of them
	// was 3.8% below that of the same flows in the whole, and with one of 44, 0.9%.
	warmupRoundTrips = 64
)

// A Warmup is how long windows are warmed up, and what half as long changes.
type Warmup struct {
	NS      int64    `json:"warmup_ns"`
	Windows int      `json:"windows"` // measured with half of the warm-up; 0: none, the whole is estimated
	Effect  []Effect `json:"effect"`  // of half of the warm-up instead of the warm-up
}

// change is the effect on a quantile that the interval is widened by: 0 if it is not significant.
func (w Warmup) change(q float64) float64 {
	for _, m := range w.Effect {
		if m.Quantile == q && (m.ErrorLo > 0 || m.ErrorHi < 0) {
			return math.Abs(m.Error)
		}
	}
	return 0
}

// settled reports whether half of the warm-up changes nothing that matters for the ask.
func (w Warmup) settled(a Ask) bool {
	tolerance := max(warmupTolerance, warmupShare*a.Within)
	return !slices.ContainsFunc(a.Of, func(q float64) bool { return w.change(q) > tolerance })
}

// firstWarmupNS is a quarter of the time in which the slowest host sends a flow of the size that divides the
// workload's bytes in halves, or warmupRoundTrips, whichever is longer, as a power of two in ms. It is for queues and
// congestion windows to settle: flows that began earlier are carried over.
func (x *index) firstWarmupNS(slowestBps int64) int64 {
	half, below := int64(0), int64(0)
	for _, bytes := range x.bytesOf {
		half += bytes / 2
	}
	for size, bytes := range x.bytesOf {
		if below += bytes; below >= half && bytes > 0 {
			takes := int64(math.Exp2(float64(size)) * 2e9 / float64(slowestBps))
			takes = max(takes, int64(warmupRoundTrips*x.roundTrips/max(1, x.routed)))
			return min(maxWarmup, minWarmup<<max(0, bits.Len64(uint64(takes/minWarmup))-1))
		}
	}
	return minWarmup
}

// measureWarmup finds the warm-up, the slots and their design: it estimates the least windows of a first round, and the
// same with half of the warm-up.
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
		first := some // with a budget: the whole may take too long
		if s.design = s.full; s.ask.Budget == 0 {
			first = s.full.Drawn(s.full.First())
		}
		if s.share(first, s.warmup.NS) > wholeShare || s.warmup.NS > maxWarmup {
			return nil
		}
		s.design = least
		if err := s.measure(ctx, some); err != nil || s.warmup.settled(s.ask) {
			return err
		}
		s.warmup.Effect = nil
	}
}

// measure compares estimates of the same windows with the warm-up and with half of it. The error of a warm-up that
// falls by half or more with each doubling is at most what the last doubling changed. Half of it costs less than half
// of what twice as long does.
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
	s.warmup.Windows, s.warmup.Effect = len(some), effects(halves, wholes)
	s.base.Log.Info().Dur("warmup", time.Duration(s.warmup.NS)).Any("effects", s.warmup.Effect).Msg("half of the warm-up")
	return nil
}

func (s *sampler) estimated(ctx context.Context, slots []int, warmupNS int64) (map[int]histograms, error) {
	r, err := s.estimate(ctx, slots, warmupNS)
	if err != nil {
		return nil, err
	}
	x, err := s.read(ctx, r)
	return x.found, err
}

// fewMeasured is the least number of measured flows beyond a percentile for its error to be reported.
const fewMeasured = 10

// An Effect is what half of the warm-up changes in a percentile.
type Effect struct {
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`
	Error    float64 `json:"error"`    // with half of the warm-up / with the warm-up - 1
	ErrorLo  float64 `json:"error_lo"` // 95% interval over the windows
	ErrorHi  float64 `json:"error_hi"`
}

// effects are the errors of the percentiles of all windows together, whose flows have slowdowns with half of the
// warm-up and with the whole.
func effects(halves, wholes []*histogram) (out []Effect) {
	half, whole, flows := stratum{Slots: math.MaxInt}, stratum{Slots: math.MaxInt}, int64(0)
	for i, c := range wholes {
		if n := c.Flows(); n > 0 {
			half.Drawn, whole.Drawn = append(half.Drawn, halves[i]), append(whole.Drawn, c)
			flows += n
		}
	}
	for _, p := range pipeline.Quantiles {
		d, ok := compareSamples(sample{whole}, sample{half}, p, 0.95)
		if !ok || len(half.Drawn) < 2 || float64(flows)*(1-p) < fewMeasured {
			break // and of the greater ones fewer
		}
		out = append(out, Effect{Quantile: p, Flows: flows, Error: d.Change, ErrorLo: d.Lo, ErrorHi: d.Hi})
	}
	return out
}
