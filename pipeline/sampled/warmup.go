package sampled

import (
	"cmp"
	"context"
	"math"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling"
)

const (
	firstWarmup     = int64(1e6)
	maxWarmup       = int64(256e6)
	warmupTolerance = 0.0025
	warmupWindows   = 4
	// stretch is the slowdown that is assumed of flows that began before a warm-up.
	stretch = 2
	// A slot takes slotWarmups warm-ups on average. Shorter ones would waste work on warm-ups, longer ones are fewer clusters.
	slotWarmups = 4
	maxSlots    = 100_000
)

// A Warmup is how long windows are warmed up, and how much twice as long changes.
type Warmup struct {
	NS      int64     `json:"warmup_ns"`
	Change  []float64 `json:"change"` // relative, of pipeline.Quantiles of the measured windows
	Windows int       `json:"windows"`
	Flows   int64     `json:"flows"` // measured
}

// warmupQuantiles are those that have to settle.
const warmupQuantiles = 3

// slotFlows is how many flows a slot has for a warm-up.
func slotFlows(g pipeline.GenerateStats, warmupNS int64) int64 {
	slots := (g.LastStartNS - g.FirstStartNS) / (slotWarmups * warmupNS)
	return g.Flows / max(1, min(slots, maxSlots))
}

// measureWarmup finds the warm-up, or finds it measured.
func (s *sampler) measureWarmup(ctx context.Context) (err error) {
	g, err := s.base.Generated()
	if err != nil {
		return err
	}
	path := lake.Of(s.base.ID()).StatePath("sampling", s.base.Variant().String(), "warmup.json")
	if found, err := s.base.Lake.ReadState(path, &s.warmup); err == nil && found {
		s.index, err = readIndex(ctx, s.base, slotFlows(g, s.warmup.NS))
		return err
	}
	for s.warmup.NS = firstWarmup; ; s.warmup.NS *= 2 {
		if s.index, err = readIndex(ctx, s.base, slotFlows(g, s.warmup.NS)); err != nil {
			return err
		}
		slots := busiest(s.index.slots, warmupWindows)
		if s.share(slots, 2*s.warmup.NS) > wholeShare || s.warmup.NS >= maxWarmup {
			s.warmup.Change = make([]float64, len(pipeline.Quantiles)) // the whole will be estimated, or nothing longer pays
			return nil
		}
		short, err := s.pooled(ctx, slots, s.warmup.NS)
		if err != nil {
			return err
		}
		long, err := s.pooled(ctx, slots, 2*s.warmup.NS)
		if err != nil {
			return err
		}
		s.warmup.Change, s.warmup.Windows, s.warmup.Flows = nil, len(slots), 0
		settled := true
		for i, p := range pipeline.Quantiles {
			a, _ := short.Quantile(p, 0.95)
			b, _ := long.Quantile(p, 0.95)
			change := math.Abs(b.Value/a.Value - 1)
			s.warmup.Change = append(s.warmup.Change, change)
			settled = settled && (i >= warmupQuantiles || change <= warmupTolerance)
		}
		for _, n := range slots {
			s.warmup.Flows += s.index.slots[n].Flows
		}
		s.base.Log.Info().Dur("warmup", ns(s.warmup.NS)).Floats64("change_p50_p90_p99_p999", s.warmup.Change).Msg("warm-up doubled")
		if settled {
			return s.base.Executor().Session().WriteState(path, s.warmup)
		}
	}
}

// pooled are the slowdowns of all flows of some slots as one sample.
func (s *sampler) pooled(ctx context.Context, slots []int, warmupNS int64) (sampling.Sample, error) {
	r, err := s.estimate(ctx, slots, warmupNS, nil)
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, r)
	if err != nil {
		return nil, err
	}
	pool := sampling.Stratum{Slots: len(slots)}
	for _, n := range slots {
		pool.Drawn = append(pool.Drawn, found[n][all])
	}
	return sampling.Sample{pool}, nil
}

// busiest are slots at equal distances in the upper quarter by load, ascending by number.
func busiest(slots []sampling.Slot, count int) (out []int) {
	order := make([]int, len(slots))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(slots[b].Load(), slots[a].Load()) })
	upper := order[:(len(order)+3)/4]
	for i := range min(count, len(upper)) {
		out = append(out, upper[i*len(upper)/min(count, len(upper))])
	}
	slices.Sort(out)
	return out
}
