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
)

// A round is the estimate of some slots as one hidden scenario. run is closed and serves reading.
type round struct {
	slots []int // numbers, ascending
	run   *pipeline.Estimation
	parts [][2]int64 // that are simulated; nil: all of the time
	error float64    // of the rate of flows in the fluid that follows a part, relative
}

// counts are the slowdowns of a slot, by group.
type histograms map[Key]*histogram

// estimate estimates slots, or finds them estimated.
func (s *sampler) estimate(ctx context.Context, slots []int, warmupNS int64) (*round, error) {
	spans := names.Of(slots, func(n int) [2]int64 { return [2]int64{s.index.slots[n].FromNS, s.index.slots[n].ToNS} })
	w := windows.Selection{Spans: spans, WarmupNS: warmupNS, CooldownNS: cooldown * warmupNS,
		LongestBytes: s.index.longestBytes}
	how := s.base.Settings
	how.Log = how.Log.Level(zerolog.WarnLevel)
	run, err := pipeline.DeriveWindows(ctx, s.base, w, how)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if err := run.Estimate(ctx); err != nil {
		return nil, fmt.Errorf("%d windows from %d ns on: %w", len(slots), s.index.slots[slots[0]].FromNS, err)
	}
	s.stages = append(s.stages, run.Executor().Reports...)
	g, err := s.base.Generated()
	if err != nil {
		return nil, err
	}
	fluid, err := run.FluidError()
	return &round{slots, run, w.Parts(g.FirstStartNS, g.LastStartNS), fluid}, err
}

// slotOf is the drawn slot in which a flow starts; false for a flow of a warm-up, a cool-down or an earlier time.
func (s *sampler) slotOf(startNS int64, slots []int) (int, bool) {
	i := sort.Search(len(slots), func(i int) bool { return s.index.slots[slots[i]].ToNS > startNS })
	if i == len(slots) || s.index.slots[slots[i]].FromNS > startNS {
		return 0, false
	}
	return slots[i], true
}

// An estimatedFlow is one of a slot.
type estimatedFlow struct {
	flow
	FCTNS    int64   `col:"fct_ns"`
	Slowdown float64 `col:"slowdown"`
}

func (s *sampler) each(ctx context.Context, r *round, do func(slot int, f *estimatedFlow)) error {
	in, err := r.run.Read(schema.Slowdowns)
	if err != nil {
		return err
	}
	return columns.Each(in, func(f *estimatedFlow) error {
		if slot, counted := s.slotOf(f.StartNS, r.slots); counted {
			do(slot, f)
		}
		return ctx.Err()
	})
}

func (c histograms) add(k Key, cell int32) {
	of := c[k]
	if of == nil {
		of = &histogram{}
		c[k] = of
	}
	of.Add(cell)
}

func (c histograms) seal() {
	for _, of := range c {
		of.Seal()
	}
}

// A reading is the slowdowns of a round's slots, by slot, and what they would be at the least and at the most.
type reading struct{ found, least, most map[int]histograms }

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

// bounds are the slowdowns of a flow if the fluid that follows its part, if the flow outlasts it, errs as much as it
// does in parts, in one direction or the other.
func (r *round) bounds(f *estimatedFlow) (least, most float64) {
	after := f.Slowdown * max(0, 1-float64(r.endOf(f.StartNS)-f.StartNS)/float64(f.FCTNS))
	return f.Slowdown - after + after/(1+r.error), f.Slowdown + after*r.error
}

// endOf is the end of the part in which a flow starts.
func (r *round) endOf(startNS int64) int64 {
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i][1] > startNS })
	if i == len(r.parts) {
		return math.MaxInt64
	}
	return r.parts[i][1]
}

// sampleFrom is the sample of a group from counts of the drawn slots.
func (s *sampler) sampleFrom(k Key, of map[int]histograms) sample {
	sample := make(sample, len(s.design.Strata))
	for h, slots := range s.design.Strata {
		drawn := names.Of(slots[:s.drawn[h]], func(n int) *histogram { return of[n][k] })
		sample[h].Slots, sample[h].Drawn = len(slots), drawn
	}
	return sample
}
