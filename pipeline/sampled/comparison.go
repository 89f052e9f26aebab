package sampled

import (
	"context"
	"fmt"
	"math"
	"time"

	"parsimon/pipeline/gate"
	"parsimon/pipeline/text"
	"parsimon/schema/sizebin"
)

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

// halfWidth is half of the interval's width; infinite where there are too few flows.
func (x Change) halfWidth() float64 {
	if !x.Known {
		return math.Inf(1)
	}
	return (x.Hi - x.Lo) / 2
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
	p := &text.Answer{}
	p.Linef("base   %s (%s), variant %s, %d flows", r.Base.ScenarioID, r.Base.Name, r.Base.Variant, r.Base.Flows)
	p.Linef("other  %s (%s), variant %s, %d flows", r.Other.ScenarioID, r.Other.Name, r.Other.Variant, r.Other.Flows)
	sampled := fmt.Sprintf("sampled, the same %d windows of both, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		sampled = "not sampled: all of both was estimated"
	}
	p.Linef("\nSlowdown of the flows of both, with %g%% intervals of the change (%s)", 100*r.Confidence, sampled)
	p.Linef("%-24s %-12s %8s %10s %10s %9s  %s", "flows of", "size_bin", "quantile", "base", "other", "change", "interval")
	for _, x := range r.Changes {
		if x.SizeBin != sizebin.All && x.Group != groupName(all) {
			continue
		}
		note := ""
		if !x.Known {
			note = "  (few flows)"
		}
		p.Linef("%-24s %-12s %8g %10.3f %10.3f %+8.2f%%  %+.2f%% to %+.2f%%%s", x.Group, x.SizeBin, x.Quantile, x.Base, x.Other,
			100*x.Change, 100*x.Lo, 100*x.Hi, note)
	}
	p.Linef("\nAsked: changes within ±%g%%", 100*r.Within)
	for _, x := range r.Goals {
		p.Linef("  %s  %s", x, map[bool]string{true: "reached", false: "not reached"}[x.Reached])
	}
	p.Linef("\n%.1f s", r.Seconds)
	return p
}
