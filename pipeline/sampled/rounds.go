package sampled

import (
	"context"
	"fmt"
	"sort"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// A round is the estimate of some slots as one hidden scenario. run is closed and serves reading.
type round struct {
	slots []int // numbers, ascending
	run   *pipeline.Estimation
	parts [][2]int64 // that are simulated; nil: all of the time
}

// counts are the slowdowns of a slot, by group.
type counts map[Key]*sampling.Counts

// estimate estimates slots, or finds them estimated.
func (s *sampler) estimate(ctx context.Context, slots []int, warmupNS int64) (*round, error) {
	w := pipeline.Windows{WarmupNS: warmupNS, CooldownNS: cooldown * warmupNS, LongestBytes: s.index.longestBytes}
	for _, n := range slots {
		w.Spans = append(w.Spans, [2]int64{s.index.slots[n].FromNS, s.index.slots[n].ToNS})
	}
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
	return &round{slots: slots, run: run, parts: w.Parts(g.FirstStartNS, g.LastStartNS)}, err
}

// slotOf is the drawn slot in which a flow starts; false for a flow of a warm-up, a cool-down or an earlier time.
func (s *sampler) slotOf(startNS int64, slots []int) (int, bool) {
	i := sort.Search(len(slots), func(i int) bool { return s.index.slots[slots[i]].ToNS > startNS })
	if i == len(slots) || s.index.slots[slots[i]].FromNS > startNS {
		return 0, false
	}
	return slots[i], true
}

// A flow of a slot. Its texts are those of a batch, whose memory is used again.
type flow struct {
	ID       int64   `col:"flow_id"`
	Bytes    int64   `col:"size_bytes"`
	StartNS  int64   `col:"start_ns"`
	FCTNS    int64   `col:"fct_ns"`
	Service  string  `col:"service"`
	VNet     string  `col:"vnet"`
	Slowdown float64 `col:"slowdown"`
}

func (s *sampler) each(ctx context.Context, r *round, do func(slot int, f *flow)) error {
	in, err := r.run.Read(schema.Slowdowns, nil, nil)
	if err != nil {
		return err
	}
	return columns.Each(in, func(f *flow) error {
		if slot, counted := s.slotOf(f.StartNS, r.slots); counted {
			do(slot, f)
		}
		return ctx.Err()
	})
}

func (c counts) add(k Key, cell int32) {
	of := c[k]
	if of == nil {
		of = &sampling.Counts{}
		c[k] = of
	}
	of.Add(cell)
}

func (c counts) seal() {
	for _, of := range c {
		of.Seal()
	}
}

// A reading is the slowdowns of a round's slots.
type reading struct {
	found     map[int]counts // by slot
	sustained map[int]counts // if cut flows were sustained
	cuts      []cut
}

func (s *sampler) read(ctx context.Context, r *round) (*reading, error) {
	x := &reading{found: map[int]counts{}, sustained: map[int]counts{}}
	for _, n := range r.slots {
		x.found[n], x.sustained[n] = counts{}, counts{}
	}
	err := s.each(ctx, r, func(slot int, f *flow) {
		cell, groups := sampling.CellOf(f.Slowdown), s.index.groups(f.Service, f.VNet, f.Bytes)
		c, isCut := r.cutOf(f)
		if isCut {
			c.slot, c.groups = slot, groups
			x.cuts = append(x.cuts, c)
		}
		for _, k := range groups {
			x.found[slot].add(k, cell)
			if !isCut {
				x.sustained[slot].add(k, cell)
			}
		}
	})
	sustain(x.cuts, x.sustained)
	for n := range x.found {
		x.found[n].seal()
		x.sustained[n].seal()
	}
	return x, err
}

// A cut is a flow that outlasts the simulated part of its window. In the simulation it is alone after that, and as fast
// as in its ideal FCT.
type cut struct {
	slot   int
	groups []Key
	flow   float64 // simulated slowdown
	shared float64 // time in the part, in ideal FCTs
	done   float64 // share of its bytes that it sends in the part
}

// cutOf is a flow that ends after its part; false for one that does not.
func (r *round) cutOf(f *flow) (c cut, ok bool) {
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i][1] > f.StartNS })
	if i == len(r.parts) || r.parts[i][1]-f.StartNS >= f.FCTNS {
		return c, false
	}
	shared := float64(r.parts[i][1]-f.StartNS) / (float64(f.FCTNS) / f.Slowdown)
	return cut{flow: f.Slowdown, shared: shared, done: max(0, 1-(f.Slowdown-shared))}, true
}

// sustain adds the slowdowns that cut flows would have if they went on at the mean rate at which all of them go in the
// parts. They are right on average and vary too little, because the rate of one flow does not.
func sustain(cuts []cut, to map[int]counts) {
	shared, done := 0.0, 0.0
	for _, c := range cuts {
		shared, done = shared+c.shared, done+c.done
	}
	for _, c := range cuts {
		slowdown := c.flow
		if done > 0 {
			slowdown = max(slowdown, c.shared+(1-c.done)*shared/done)
		}
		cell := sampling.CellOf(slowdown)
		for _, k := range c.groups {
			to[c.slot].add(k, cell)
		}
	}
}

// sampleFrom is the sample of a group from counts of the drawn slots.
func (s *sampler) sampleFrom(k Key, of map[int]counts) sampling.Sample {
	sample := make(sampling.Sample, len(s.design.Strata))
	for h, slots := range s.design.Strata {
		sample[h].Slots = len(slots)
		for _, n := range slots[:s.drawn[h]] {
			sample[h].Drawn = append(sample[h].Drawn, of[n][k])
		}
	}
	return sample
}
