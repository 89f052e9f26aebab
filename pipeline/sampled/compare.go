package sampled

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/text"
	"parsimon/schema/sizebin"
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
	o.base, o.stages = other, nil
	o.forget()
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

// draw estimates windows, or the whole, of both sides, and says why it ended.
func (c *comparer) draw(ctx context.Context) (stopped string, err error) {
	stopped, err = c.base.eachRound(func(slots []int) error {
		c.other.drawn = c.base.drawn
		return c.round(ctx, slots)
	}, func() bool {
		goals := c.goals()
		return c.base.precise(len(goals), func(i int) (float64, bool, bool, any) {
			return (goals[i].Hi - goals[i].Lo) / 2, goals[i].Known, goals[i].Reached, goals[i]
		})
	})
	if stopped == Whole {
		err = c.whole(ctx)
	}
	return stopped, err
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
		x := Change{Key: k, Group: k.String(), SizeBin: k.binName(), Quantile: q, Sampled: a.Flows(), Base: d.Base,
			Other: d.Other, Change: d.Change, Lo: d.Lo, Hi: d.Hi}
		e, _ := a.Quantile(q, c.base.ask.Confidence)
		x.Known = e.Beyond >= fewBeyond || len(c.a) == len(c.base.index.slots)
		all = append(all, x)
	}
	return all
}

// goals are the asked changes.
func (c *comparer) goals() (all []Change) {
	for _, k := range c.base.asked() {
		for _, x := range c.changes(k) {
			if slices.Contains(c.base.ask.Of, x.Quantile) {
				x.Reached = x.Known && (x.Hi-x.Lo)/2 <= c.base.ask.Within
				all = append(all, x)
			}
		}
	}
	return all
}

// A Comparison is two scenarios held against each other by the same windows, for scripts.
type Comparison struct {
	Base         Side           `json:"base"`
	Other        Side           `json:"other"`
	SampledShare float64        `json:"sampled_share"` // of the base's flows
	Windows      int            `json:"windows"`
	Stopped      string         `json:"stopped"` // Precise, Spent or Whole
	Confidence   float64        `json:"confidence"`
	Within       float64        `json:"within"`
	Goals        []Change       `json:"goals"`
	Changes      []Change       `json:"percentiles"` // of all groups
	Gates        []gate.Verdict `json:"gates,omitempty"`
	Seconds      float64        `json:"seconds"`
}

// A Side is one of the scenarios of a Comparison.
type Side struct {
	ScenarioID string `json:"scenario_id"`
	Name       string `json:"name"`
	Variant    string `json:"variant"`
	Flows      int64  `json:"flows"`
}

// A Change is the change of a percentile of the flows that are in both scenarios, with its interval.
type Change struct {
	Key      Key     `json:"-"`
	Group    string  `json:"group"`
	SizeBin  string  `json:"size_bin"`
	Quantile float64 `json:"quantile"`
	Sampled  int64   `json:"sampled"` // flows of both sides, in windows
	Base     float64 `json:"base"`
	Other    float64 `json:"other"`
	Change   float64 `json:"change"` // other / base - 1
	Lo       float64 `json:"change_lo"`
	Hi       float64 `json:"change_hi"`
	Known    bool    `json:"known"` // there are enough sampled flows beyond the percentile
	Reached  bool    `json:"reached"`
}

// String is the change as one line for people.
func (x Change) String() string {
	return fmt.Sprintf("%s of %s, size %s: %+.2f%% (%+.2f%% to %+.2f%%)", percentileName(x.Quantile), x.Group, x.SizeBin,
		100*x.Change, 100*x.Lo, 100*x.Hi)
}

// result writes both sides' tables and the comparison.
func (c *comparer) result(ctx context.Context, stopped string) (*Comparison, error) {
	r := &Comparison{SampledShare: c.base.sampledShare(), Windows: len(c.a), Stopped: stopped,
		Confidence: c.base.ask.Confidence, Within: c.base.ask.Within, Goals: c.goals()}
	for i, s := range []*sampler{c.base, c.other} {
		if _, err := s.combine(ctx, stopped); err != nil {
			return nil, err
		}
		*[]*Side{&r.Base, &r.Other}[i] = Side{string(s.base.ID()), s.base.Spec.Name, s.variant(), s.index.totals[all]}
	}
	for _, k := range c.base.index.order {
		r.Changes = append(r.Changes, c.changes(k)...)
	}
	r.Seconds = time.Since(c.base.began).Seconds()
	return r, nil
}

// Text is the comparison for people.
func (r *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base   %s (%s), variant %s, %d flows", r.Base.ScenarioID, r.Base.Name, r.Base.Variant, r.Base.Flows)
	a.Linef("other  %s (%s), variant %s, %d flows", r.Other.ScenarioID, r.Other.Name, r.Other.Variant, r.Other.Flows)
	sampled := fmt.Sprintf("sampled, the same %d windows of both, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		sampled = "not sampled: all of both was estimated"
	}
	a.Linef("\nSlowdown of the flows of both, with %g%% intervals of the change (%s)", 100*r.Confidence, sampled)
	table := a.Table("flows of", "size_bin", "quantile", "base", "other", "change", "from", "to", "few flows")
	for _, x := range r.Changes {
		if x.SizeBin == sizebin.All || x.Group == all.String() {
			table.Add(x.Group, x.SizeBin, x.Quantile, x.Base, x.Other, text.Percent(x.Change), text.Percent(x.Lo),
				text.Percent(x.Hi), !x.Known)
		}
	}
	a.Linef("\nAsked: changes within ±%g%%", 100*r.Within)
	for _, x := range r.Goals {
		a.Linef("  %s  %s", x, map[bool]string{true: "reached", false: "not reached"}[x.Reached])
	}
	a.Linef("\n%.1f s", r.Seconds)
	return a
}

// Judge holds gates against the changes, and keeps the verdicts. Slowdowns are those of the other scenario, without an
// interval.
func (r *Comparison) Judge(gates []gate.Gate) (err error) {
	r.Gates, err = judge(gates, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, c := range r.Changes {
			switch {
			case c.Group != group || c.SizeBin != bin || c.Quantile != g.Quantile:
			case g.Change:
				return gate.Interval{Value: c.Change, Lo: c.Lo, Hi: c.Hi}, true
			default:
				return gate.Interval{Value: c.Other, Lo: c.Other, Hi: c.Other}, true
			}
		}
		return x, false
	})
	return err
}
