package sampling

import (
	"context"
	"fmt"
	"math"
	"sort"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling/windows"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/workload"
)

// A round is the estimate of some slots as one hidden scenario.
type round struct {
	slots []int                // slot numbers, ascending
	run   *pipeline.Estimation // closed; its tables can be read
	parts [][2]int64           // simulated parts of the time in ns; nil for the whole time
	error float64              // relative error of the rate of flows in the fluid after a part
}

// histograms has the slowdowns of a slot by group.
type histograms map[Key]*histogram

// estimate estimates slots, unless the lake already has their estimate.
func (s *sampler) estimate(ctx context.Context, slots []int, warmupNS int64) (*round, error) {
	selection := s.selection(slots, warmupNS)
	run, err := s.derive(ctx, selection)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	return s.simulate(ctx, slots, selection, run)
}

// selection returns the selection of slots.
func (s *sampler) selection(slots []int, warmupNS int64) windows.Selection {
	spans := names.Of(slots, func(n int) [2]int64 {
		return [2]int64{s.index.slots[n].FromNS, s.index.slots[n].ToNS}
	})
	return windows.Selection{
		Spans: spans, WarmupNS: warmupNS, CooldownNS: cooldown * warmupNS, LongestBytes: s.index.longestBytes,
	}
}

// derive opens the scenario of a selection.
func (s *sampler) derive(ctx context.Context, selection windows.Selection) (*pipeline.Estimation, error) {
	settings := s.base.Settings
	settings.Log = settings.Log.Level(zerolog.WarnLevel)
	return pipeline.DeriveWindows(ctx, s.base, selection, settings)
}

// simulate estimates the scenario of a selection of slots.
func (s *sampler) simulate(
	ctx context.Context, slots []int, selection windows.Selection, run *pipeline.Estimation,
) (*round, error) {
	if err := run.Estimate(ctx); err != nil {
		return nil, fmt.Errorf("%d windows from %d ns on: %w", len(slots), s.index.slots[slots[0]].FromNS, err)
	}
	s.stages = append(s.stages, run.Executor().Reports...)
	g, err := s.base.Generated()
	if err != nil {
		return nil, err
	}
	fluid, err := run.FluidError()
	return &round{slots, run, selection.Parts(g.FirstStartNS, g.LastStartNS), fluid}, err
}

// slotOf returns the slot, among drawn slots in ascending order, in which a flow starts. It returns false for
// flows that start elsewhere: in a warm-up, in a cool-down or before.
func (s *sampler) slotOf(startNS int64, slots []int) (int, bool) {
	i := sort.Search(len(slots), func(i int) bool { return s.index.slots[slots[i]].ToNS > startNS })
	if i == len(slots) || s.index.slots[slots[i]].FromNS > startNS {
		return 0, false
	}
	return slots[i], true
}

// An estimatedFlow is a flow of a slot with its result.
type estimatedFlow struct {
	ID        int64 `col:"flow_id"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
	workload.Labels
	FCTNS    int64   `col:"fct_ns"`
	Slowdown float64 `col:"slowdown"`
}

// each calls do for every flow that starts in a slot of a round.
func (s *sampler) each(ctx context.Context, r *round, do func(slot int, f *estimatedFlow)) error {
	in, err := r.run.Read(schema.Slowdowns)
	if err != nil {
		return err
	}
	return columns.Each(in, func(f *estimatedFlow) error {
		slot, counted := s.slotOf(f.StartNS, r.slots)
		if counted {
			do(slot, f)
		}
		return ctx.Err()
	})
}

// add adds a flow to a group.
func (c histograms) add(k Key, cell int32) {
	of := c[k]
	if of == nil {
		of = &histogram{}
		c[k] = of
	}
	of.Add(cell)
}

// seal ends the adding of flows.
func (c histograms) seal() {
	for _, of := range c {
		of.Seal()
	}
}

// A reading has the slowdowns of a round by slot, and their lower and upper bounds (see round.bounds).
type reading struct{ found, least, most map[int]histograms }

// read reads the slowdowns of a round.
func (s *sampler) read(ctx context.Context, r *round) (*reading, error) {
	x := &reading{map[int]histograms{}, map[int]histograms{}, map[int]histograms{}}
	all := []map[int]histograms{x.found, x.least, x.most}
	for _, of := range all {
		for _, n := range r.slots {
			of[n] = histograms{}
		}
	}
	err := s.each(ctx, r, func(slot int, f *estimatedFlow) {
		least, most := r.bounds(f)
		cells := []int32{cellOf(f.Slowdown), cellOf(least), cellOf(most)}
		for _, k := range s.index.groups(f.Service, f.VNet, f.SizeBytes) {
			for i, of := range all {
				of[slot].add(k, cells[i])
			}
		}
	})
	for _, of := range all {
		for _, c := range of {
			c.seal()
		}
	}
	return x, err
}

// bounds returns the slowdown of a flow if the fluid after its part is too slow, or too fast, by its mean
// error within parts. Both bounds of a flow that ends in its part are its slowdown.
func (r *round) bounds(f *estimatedFlow) (least, most float64) {
	after := f.Slowdown * max(0, 1-float64(r.endOf(f.StartNS)-f.StartNS)/float64(f.FCTNS))
	return f.Slowdown - after + after/(1+r.error), f.Slowdown + after*r.error
}

// endOf returns the end of the part in which a flow starts.
func (r *round) endOf(startNS int64) int64 {
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i][1] > startNS })
	if i == len(r.parts) {
		return math.MaxInt64
	}
	return r.parts[i][1]
}

// sampleFrom returns the sample of a group from the histograms of the drawn slots.
func (s *sampler) sampleFrom(k Key, of map[int]histograms) sample {
	sample := make(sample, len(s.design.Strata))
	for h, slots := range s.design.Strata {
		drawn := names.Of(slots[:s.drawn[h]], func(n int) *histogram { return of[n][k] })
		sample[h] = stratum{Slots: len(slots), Drawn: drawn}
	}
	return sample
}
