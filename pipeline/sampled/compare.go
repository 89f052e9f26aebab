package sampled

import (
	"context"
	"errors"
	"math"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
)

// A comparer compares two scenarios from the same windows of time. Windows, warm-up and strata are the base's, so that
// what a window does to both sides cancels in the difference.
type comparer struct {
	base, other *sampler
	a, b        map[int]counts // slowdowns of the flows of both scenarios, by slot
}

// Compare estimates two scenarios from the same windows, round by round, until the interval of every asked change is
// within ask.Within, or the time is spent. The flows of other are those of base, or made from them. Both estimates go
// to the lake, as those of Run do.
func Compare(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (*Comparison, error) {
	base.ChooseForWindows()
	if other.ChooseForWindows(); base.Variant().String() != other.Variant().String() {
		return nil, errors.New("the whole network of one scenario only can be simulated: compare by --estimator flow")
	}
	s, err := start(ctx, base, ask, nil)
	if err != nil {
		return nil, err
	}
	if err := other.Generate(ctx); err != nil {
		return nil, err
	}
	o := *s
	o.base, o.counts, o.longer, o.outlast, o.stages = other, map[int]counts{}, map[int]counts{}, map[Key]int64{}, nil
	if o.index, err = readCut(ctx, other, sampling.Recount(s.index.slots)); err != nil {
		return nil, err
	}
	c := &comparer{base: s, other: &o, a: map[int]counts{}, b: map[int]counts{}}
	stopped, err := c.draw(ctx)
	if err != nil {
		return nil, err
	}
	return c.result(ctx, stopped)
}

// draw estimates round after round of both sides.
func (c *comparer) draw(ctx context.Context) (stopped string, err error) {
	s := c.base
	next := s.design.First()
	s.drawn = make([]int, len(next))
	for {
		if s.share(s.design.Drawn(next), s.warmup.NS) > wholeShare {
			return Whole, c.whole(ctx)
		}
		slots := without(s.design.Drawn(next), s.design.Drawn(s.drawn))
		s.drawn, c.other.drawn = next, next
		began := time.Now()
		if err := c.round(ctx, slots); err != nil {
			return "", err
		}
		took := time.Since(began) / time.Duration(len(slots))
		if c.progress() {
			return Precise, nil
		}
		next = s.design.Next(s.drawn)
		if s.overBudget(s.design.Drawn(next), took) {
			return Spent, nil
		}
	}
}

// round estimates slots of both sides and reads them.
func (c *comparer) round(ctx context.Context, slots []int) error {
	var both [2]*round
	for i, s := range []*sampler{c.base, c.other} {
		r, err := s.estimate(ctx, slots, s.warmup.NS)
		if err != nil {
			return err
		}
		if err := s.take(ctx, r); err != nil {
			return err
		}
		both[i] = r
	}
	return c.pair(ctx, both[0], both[1])
}

// whole estimates both workloads as a whole.
func (c *comparer) whole(ctx context.Context) error {
	for _, s := range []*sampler{c.base, c.other} {
		s.drawn = make([]int, len(s.design.Strata))
		if err := s.whole(ctx); err != nil {
			return err
		}
	}
	c.a, c.b = map[int]counts{}, map[int]counts{}
	return c.pair(ctx, c.base.rounds[0], c.other.rounds[0])
}

// flowCell is what pair keeps of a flow.
type flowCell struct {
	bytes int64
	cell  int32
}

// pair adds the flows that are in both rounds: of the same id and size.
func (c *comparer) pair(ctx context.Context, base, other *round) error {
	cells := map[int64]flowCell{}
	err := c.other.each(ctx, other, func(_ int, f flow) {
		cells[f.id] = flowCell{f.bytes, sampling.CellOf(f.slowdown)}
	})
	if err != nil {
		return err
	}
	for _, n := range base.slots {
		c.a[n], c.b[n] = counts{}, counts{}
	}
	err = c.base.each(ctx, base, func(slot int, f flow) {
		of, found := cells[f.id]
		if !found || of.bytes != f.bytes {
			return
		}
		cell := sampling.CellOf(f.slowdown)
		for _, k := range c.base.index.groups(f.service, f.vnet, f.bytes) {
			c.a[slot].add(k, cell)
			c.b[slot].add(k, of.cell)
		}
	})
	for _, n := range base.slots {
		c.a[n].seal()
		c.b[n].seal()
	}
	return err
}

// changes are the changes of a group's percentiles.
func (c *comparer) changes(k Key) (all []Change) {
	a, b := c.base.sampleFrom(k, c.a), c.base.sampleFrom(k, c.b)
	for _, q := range pipeline.Quantiles {
		d, ok := sampling.Compare(a, b, q, c.base.ask.Confidence, c.base.base.Spec.Seed)
		if !ok {
			return all
		}
		x := Change{Key: k, Group: groupName(k), SizeBin: k.binName(), Quantile: q, Sampled: flowsOf(a), Base: d.Base,
			Other: d.Other, Change: d.Change, Lo: d.Lo, Hi: d.Hi}
		e, _ := a.Quantile(q, c.base.ask.Confidence)
		x.Known = e.Beyond >= fewBeyond || len(c.a) == len(c.base.index.slots)
		all = append(all, x)
	}
	return all
}

// progress logs how narrow the asked intervals are, and reports whether all are narrow enough.
func (c *comparer) progress() (precise bool) {
	var worst Change
	asked, reached := 0, 0
	for _, x := range c.goals() {
		if x.Reached {
			reached++
		}
		if asked++; asked == 1 || x.halfWidth() > worst.halfWidth() {
			worst = x
		}
	}
	log := c.base.base.Log.Info().Int("round", len(c.base.rounds)).Int("windows", len(c.a)).
		Float64("sampled_share", round4(c.base.sampledShare())).Int("asked", asked).Int("reached", reached).
		Str("widest", worst.String())
	if !math.IsInf(worst.halfWidth(), 0) {
		log = log.Float64("half_width", round4(worst.halfWidth()))
	}
	log.Float64("within", c.base.ask.Within).Msg("interval")
	return reached == asked
}

// goals are the asked changes.
func (c *comparer) goals() (all []Change) {
	for _, k := range c.base.asked() {
		for _, x := range c.changes(k) {
			if c.base.ask.wants(Row{Key: k, SizeBin: x.SizeBin, Quantile: x.Quantile}) {
				x.Reached = x.Known && x.halfWidth() <= c.base.ask.Within
				all = append(all, x)
			}
		}
	}
	return all
}
