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

// Compare estimates two scenarios from the same windows, round by round, until the interval of every
// requested change is within ask.Within or the budget is spent. Windows, warm-up and strata are those of
// base, so that effects of a window that are common to both sides cancel. The flows of other are those of
// base, or were made from them. The lake keeps both estimates, as it does after Run.
func Compare(ctx context.Context, base, other *pipeline.Estimation, ask Ask) (*Comparison, error) {
	s, stopped, err := estimateWindows(ctx, base, other, ask)
	if err != nil {
		return nil, err
	}
	return s.comparison(ctx, stopped)
}

// compareWith makes another scenario the other side and counts its flows in the slots.
func (s *sampler) compareWith(ctx context.Context, other *pipeline.Estimation) (err error) {
	if err := other.Generate(ctx); err != nil {
		return err
	}
	o := *s
	o.base = other
	o.stages = nil
	o.forget()
	s.other = &o
	o.index, err = readCut(ctx, other, recount(s.index.slots))
	return err
}

// pair adds the flows of the last round that both sides have: those with equal id and size.
func (s *sampler) pair(ctx context.Context) error {
	here := s.rounds[len(s.rounds)-1]
	there := s.other.rounds[len(s.rounds)-1]
	cells := map[[2]int64]int32{} // by id and size
	err := s.other.each(ctx, there, func(_ int, f *estimatedFlow) {
		cells[[2]int64{f.ID, f.SizeBytes}] = cellOf(f.Slowdown)
	})
	if err != nil {
		return err
	}
	for _, n := range here.slots {
		s.here[n] = histograms{}
		s.over[n] = histograms{}
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

// changes returns the changes of some percentiles of a group. Percentiles without a change are missing.
func (s *sampler) changes(k Key, quantiles []float64) (all []Change) {
	a := s.sampleFrom(k, s.here)
	b := s.sampleFrom(k, s.over)
	for _, q := range quantiles {
		d, ok := compareSamples(a, b, q, s.ask.Confidence)
		if !ok {
			break
		}
		e, _ := a.Quantile(q, s.ask.Confidence)
		g := Goal{
			Group: k.String(), SizeBin: k.binName(), Quantile: q, Sampled: a.Flows(), HalfWidth: (d.Hi - d.Lo) / 2,
			Known: e.Beyond >= fewBeyond || len(s.here) == len(s.index.slots),
		}
		g.Reached = g.Known && g.HalfWidth <= s.ask.Within
		all = append(all, Change{Goal: g, Base: d.Base, Other: d.Other, Change: d.Change, Lo: d.Lo, Hi: d.Hi})
	}
	return all
}

// A Comparison compares two scenarios from the same windows, for scripts.
type Comparison struct {
	Base         Side           `json:"base"`
	Other        Side           `json:"other"`
	SampledShare float64        `json:"sampled_share"` // of the base's flows
	Windows      int            `json:"windows"`
	Stopped      string         `json:"stopped"` // Precise, Spent or Whole
	Confidence   float64        `json:"confidence"`
	Within       float64        `json:"within"`
	Goals        []Change       `json:"goals"`       // requested changes
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

// String describes the side for people.
func (s Side) String() string {
	return fmt.Sprintf("%s (%s), variant %s, %d flows", s.ScenarioID, s.Name, s.Variant, s.Flows)
}

// A Change is the change of a percentile of the flows that are in both scenarios, with its interval.
type Change struct {
	Goal           // its Sampled counts flows in windows that both scenarios have
	Base   float64 `json:"base"`
	Other  float64 `json:"other"`
	Change float64 `json:"change"` // other / base - 1
	Lo     float64 `json:"change_lo"`
	Hi     float64 `json:"change_hi"`
}

// comparison writes the tables of both estimates and returns the answer.
func (s *sampler) comparison(ctx context.Context, stopped string) (*Comparison, error) {
	for _, side := range []*sampler{s, s.other} {
		if _, err := side.combine(ctx, stopped); err != nil {
			return nil, err
		}
	}
	r := &Comparison{
		Base: s.side(), Other: s.other.side(),
		SampledShare: s.sampledShare(s.counts), Windows: len(s.here), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within, Warnings: s.index.remarks,
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

// side describes the scenario of a sampler.
func (s *sampler) side() Side {
	return Side{
		ScenarioID: string(s.base.ID()), Name: s.base.Spec.Name, Variant: s.variant().String(),
		Flows: s.index.totals[all],
	}
}

// Text returns the comparison for people.
func (r *Comparison) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("base   %v", r.Base)
	a.Linef("other  %v", r.Other)
	sampled := fmt.Sprintf("sampled, the same %d windows of both, %.3g%% of flows", r.Windows,
		100*r.SampledShare)
	if r.Stopped == Whole {
		sampled = "not sampled: all of both was estimated; without --within, the answer has FCTs and links, too"
	}
	a.Linef("\nSlowdown of the flows of both, over the ideal FCT in each, "+
		"with %g%% intervals of the change (%s)", 100*r.Confidence, sampled)
	table := a.Table("flows of", "size_bin", "quantile", "base", "other", "change", "from", "to", "few flows")
	for _, x := range r.Changes {
		if x.SizeBin == sizebin.All || x.Group == all.String() {
			table.Add(x.Group, x.SizeBin, x.Quantile, x.Base, x.Other, text.Percent(x.Change), text.Percent(x.Lo),
				text.Percent(x.Hi), !x.Known)
		}
	}
	a.Linef("\nAsked: changes within ±%g%%", 100*r.Within)
	for _, x := range r.Goals {
		reached := "not reached"
		if x.Reached {
			reached = "reached"
		}
		a.Linef("  %s: %+.2f%% (%+.2f%% to %+.2f%%)  %s", x, 100*x.Change, 100*x.Lo, 100*x.Hi, reached)
	}
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	a.Linef("\n%.1f s", r.Seconds)
	return a
}

// Judge compares the changes with gates and keeps the verdicts. Gates on slowdowns apply to the other
// scenario, whose slowdowns have no interval here.
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
