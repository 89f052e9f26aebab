package sampling

import (
	"context"
	"fmt"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
)

// Compare estimates two scenarios from the same windows, round by round, until the interval of every asked change is
// within ask.Within, or the time is spent. Windows, warm-up and strata are the base's, so that what a window does to
// both sides cancels in the difference. The flows of other are those of base, or made from them. Both estimates go to
// the lake, as those of Run do.
func Compare(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (*Comparison, error) {
	s, stopped, err := estimateWindows(ctx, base, other, ask)
	if err != nil {
		return nil, err
	}
	return s.comparison(ctx, stopped)
}

// compareWith makes another scenario the other side, with the flows that it has in the slots.
func (s *sampler) compareWith(ctx context.Context, other *pipeline.Estimation) (err error) {
	if err := other.Generate(ctx); err != nil {
		return err
	}
	o := *s
	o.base, o.stages = other, nil
	o.forget()
	s.other = &o
	o.index, err = readCut(ctx, other, recount(s.index.slots))
	return err
}

// pair adds the flows of the last round that are on both sides: of the same id and size.
func (s *sampler) pair(ctx context.Context) error {
	here, there := s.rounds[len(s.rounds)-1], s.other.rounds[len(s.rounds)-1]
	cells := map[[2]int64]int32{} // by id and size
	err := s.other.each(ctx, there, func(_ int, f *estimatedFlow) {
		cells[[2]int64{f.ID, f.SizeBytes}] = cellOf(f.Slowdown)
	})
	if err != nil {
		return err
	}
	for _, n := range here.slots {
		s.here[n], s.over[n] = histograms{}, histograms{}
	}
	err = s.each(ctx, here, func(slot int, f *estimatedFlow) {
		other, found := cells[[2]int64{f.ID, f.SizeBytes}]
		if !found {
			return
		}
		cell := cellOf(f.Slowdown)
		for _, k := range s.index.groups(f.Service, f.VNet, f.SizeBytes) {
			s.here[slot].add(k, cell)
			s.over[slot].add(k, other)
		}
	})
	for _, n := range here.slots {
		s.here[n].seal()
		s.over[n].seal()
	}
	return err
}

// changes are the changes of some percentiles of a group.
func (s *sampler) changes(k Key, quantiles []float64) (all []Change) {
	a, b := s.sampleFrom(k, s.here), s.sampleFrom(k, s.over)
	for _, q := range quantiles {
		d, ok := compareSamples(a, b, q, s.ask.Confidence)
		if !ok {
			break
		}
		e, _ := a.Quantile(q, s.ask.Confidence)
		x := Change{Goal: Goal{Group: k.String(), SizeBin: k.binName(), Quantile: q, Sampled: a.Flows(),
			HalfWidth: (d.Hi - d.Lo) / 2, Known: e.Beyond >= fewBeyond || len(s.here) == len(s.index.slots)},
			Base: d.Base, Other: d.Other, Change: d.Change, Lo: d.Lo, Hi: d.Hi}
		x.Reached = x.Known && x.HalfWidth <= s.ask.Within
		all = append(all, x)
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
	Warnings     []string       `json:"warnings"`    // about the base's flows
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
	Goal           // Sampled: flows of both sides, in windows
	Base   float64 `json:"base"`
	Other  float64 `json:"other"`
	Change float64 `json:"change"` // other / base - 1
	Lo     float64 `json:"change_lo"`
	Hi     float64 `json:"change_hi"`
}

func (s *sampler) comparison(ctx context.Context, stopped string) (*Comparison, error) {
	r := &Comparison{SampledShare: s.sampledShare(), Windows: len(s.here), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within, Warnings: s.index.remarks}
	for i, s := range []*sampler{s, s.other} {
		if _, err := s.combine(ctx, stopped); err != nil {
			return nil, err
		}
		*[]*Side{&r.Base, &r.Other}[i] = Side{string(s.base.ID()), s.base.Spec.Name, s.variant(), s.index.totals[all]}
	}
	for _, k := range s.asked() {
		r.Goals = append(r.Goals, s.changes(k, s.ask.Of)...)
	}
	for _, k := range s.index.order {
		r.Changes = append(r.Changes, s.changes(k, pipeline.Quantiles)...)
	}
	r.Seconds = time.Since(s.began).Seconds()
	return r, nil
}

// Text is the comparison for people.
func (r *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base   %s (%s), variant %s, %d flows", r.Base.ScenarioID, r.Base.Name, r.Base.Variant, r.Base.Flows)
	a.Linef("other  %s (%s), variant %s, %d flows", r.Other.ScenarioID, r.Other.Name, r.Other.Variant, r.Other.Flows)
	sampled := fmt.Sprintf("sampled, the same %d windows of both, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		sampled = "not sampled: all of both was estimated; without --within, the answer has FCTs and links, too"
	}
	a.Linef("\nSlowdown of the flows of both, over the ideal FCT in each, with %g%% intervals of the change (%s)", 100*r.Confidence, sampled)
	table := a.Table("flows of", "size_bin", "quantile", "base", "other", "change", "from", "to", "few flows")
	for _, x := range r.Changes {
		if x.SizeBin == sizebin.All || x.Group == all.String() {
			table.Add(x.Group, x.SizeBin, x.Quantile, x.Base, x.Other, text.Percent(x.Change), text.Percent(x.Lo),
				text.Percent(x.Hi), !x.Known)
		}
	}
	a.Linef("\nAsked: changes within ±%g%%", 100*r.Within)
	for _, x := range r.Goals {
		a.Linef("  %s: %+.2f%% (%+.2f%% to %+.2f%%)  %s", x, 100*x.Change, 100*x.Lo, 100*x.Hi,
			map[bool]string{true: "reached", false: "not reached"}[x.Reached])
	}
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	a.Linef("\n%.1f s", r.Seconds)
	return a
}

// Judge holds gates against the changes, and keeps the verdicts. Slowdowns are those of the other scenario, without an
// interval.
func (r *Comparison) Judge(gates []gate.Gate) (err error) {
	groups := names.Of(r.Changes, func(c Change) string { return c.Group })
	r.Gates, err = judge(gates, groups, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, c := range r.Changes {
			switch {
			case c.Group != group || c.SizeBin != bin || c.Quantile != g.Quantile:
			case g.Change:
				return gate.Interval{Value: c.Change, Lo: c.Lo, Hi: c.Hi}, true
			default:
				return gate.Exactly(c.Other), true
			}
		}
		return x, false
	})
	return err
}
