package sampled

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"
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

// windowsOf are the windows of slots with a warm-up.
func (s *sampler) windowsOf(slots []int, warmupNS int64) pipeline.Windows {
	w := pipeline.Windows{WarmupNS: warmupNS, CooldownNS: cooldown * warmupNS, LongestBytes: s.index.longestBytes}
	for _, n := range slots {
		w.Spans = append(w.Spans, [2]int64{s.index.slots[n].FromNS, s.index.slots[n].ToNS})
	}
	return w
}

// estimate estimates slots, or finds them estimated.
func (s *sampler) estimate(ctx context.Context, slots []int, warmupNS int64) (*round, error) {
	w := s.windowsOf(slots, warmupNS)
	how := s.base.Settings
	how.Log = how.Log.Level(zerolog.WarnLevel)
	run, err := pipeline.DeriveWindows(ctx, s.base, w, how)
	if err != nil {
		return nil, err
	}
	if s.execute != nil && !estimated(run) {
		if run, err = s.executed(ctx, run, func() (*pipeline.Estimation, error) {
			return pipeline.DeriveWindows(ctx, s.base, w, how)
		}); err != nil {
			return nil, err
		}
	}
	defer run.Close()
	if s.prepared != nil && !estimated(run) {
		*s.prepared = append(*s.prepared, string(run.ID()))
		return nil, errors.Join(run.Generate(ctx), errPrepared)
	}
	if err := run.Estimate(ctx); err != nil {
		return nil, fmt.Errorf("%d windows from %d ns on: %w", len(slots), s.index.slots[slots[0]].FromNS, err)
	}
	s.stages = append(s.stages, run.Executor().Reports...)
	cases, err := pipeline.Cases(run.Lake, pipeline.CaseStages(run.Plan())...)
	if err != nil {
		return nil, err
	}
	s.cases.Add(cases)
	g, err := s.base.Generated()
	return &round{slots: slots, run: run, parts: w.Parts(g.FirstStartNS, g.LastStartNS)}, err
}

// errPrepared says that windows are prepared and not estimated.
var errPrepared = errors.New("windows are prepared")

// estimated reports whether an estimate is complete.
func estimated(run *pipeline.Estimation) bool {
	plan := run.Plan()
	_, err := run.Executor().Records(plan[len(plan)-1])
	return err == nil
}

// Prepare writes the flows of the windows that Run would estimate next into hidden scenarios, and returns their ids;
// none if the windows that are there are enough. Processes that share the work then do the stages of each
// (pipeline.Resume, Settings.Shard), and Run takes them over.
func Prepare(ctx context.Context, base *pipeline.Estimation, ask Ask) (ids []string, err error) {
	ids = []string{}
	s, err := newSampler(ctx, base, ask)
	if err != nil {
		return nil, err
	}
	s.prepared = &ids
	if err = s.measureWarmup(ctx); err == nil {
		_, err = s.draw(ctx)
	}
	if errors.Is(err, errPrepared) {
		err = nil
	}
	return ids, err
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
	id, bytes     int64
	src           int32
	service, vnet string
	slowdown      float64
	cut           *cut // nil for a flow that ends in its simulated part
}

// each calls do with the flows of a round's slots.
func (s *sampler) each(ctx context.Context, r *round, do func(slot int, f flow)) error {
	names := []string{"flow_id", "src", "service", "vnet", "size_bytes", "start_ns", "fct_ns", "slowdown"}
	in, err := r.run.Read(schema.Slowdowns, names, nil)
	if err != nil {
		return err
	}
	return columns.Consume(in, func(rec arrow.Record) error {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		id, size, start := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		fct, src := columns.Int64s(rec, "fct_ns"), columns.Int32s(rec, "src")
		for i, slowdown := range columns.Float64s(rec, "slowdown") {
			if slot, counted := s.slotOf(start[i], r.slots); counted {
				f := flow{id: id[i], src: src[i], bytes: size[i], service: service.Value(i), vnet: vnet.Value(i),
					slowdown: slowdown}
				if c, ok := r.cutOf(start[i], fct[i], slowdown); ok {
					f.cut = &c
				}
				do(slot, f)
			}
		}
		return ctx.Err()
	})
}

// add adds a flow.
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

// read reads the slowdowns of a round's slots.
func (s *sampler) read(ctx context.Context, r *round) (*reading, error) {
	x := &reading{found: map[int]counts{}, sustained: map[int]counts{}}
	for _, n := range r.slots {
		x.found[n], x.sustained[n] = counts{}, counts{}
	}
	err := s.each(ctx, r, func(slot int, f flow) {
		cell, groups := sampling.CellOf(f.slowdown), s.index.groups(f.service, f.vnet, f.bytes)
		if f.cut != nil {
			f.cut.slot, f.cut.groups = slot, groups
			x.cuts = append(x.cuts, *f.cut)
		}
		for _, k := range groups {
			x.found[slot].add(k, cell)
			if f.cut == nil {
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

// without are the slots of a that are not in b.
func without(a, b []int) (left []int) {
	for _, n := range a {
		if _, found := slices.BinarySearch(b, n); !found {
			left = append(left, n)
		}
	}
	return left
}
