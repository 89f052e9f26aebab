package whatif

import (
	"context"
	"errors"
	"io"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/stages"
)

// Settings say how the estimates are made and worked on.
type Settings struct {
	pipeline.Settings
	Lake    string // directory
	Variant pipeline.Variant
	Warm    bool // WhatIf: the estimate of what changed starts from the base's observations
}

// An Answer is the comparison of a what-if and the estimate of what changed.
type Answer struct {
	*Comparison
	changed *pipeline.Estimation
}

// WhatIf estimates a scenario of the lake, if that is not done yet, and what changes make of it in the same way, and
// compares the two. AutoPasses are at least as many as the lake holds an estimate of the base with; where what changed
// asks for more, both take as many. With Auto, both are of the whole network if the lake holds such an estimate of the
// base, and if what changed can be simulated so. A warm estimate has the base's passes.
func WhatIf(ctx context.Context, base string, c scenario.Changes, o Settings, how CompareOptions) (*Answer, error) {
	cables, err := pipeline.CheckChanges(o.Lake, base, c)
	if err != nil {
		return nil, err
	}
	how.changed = cables
	if o.Warm {
		o.Variant.Auto = false // it starts from observations of link cases
	}
	before, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Warm {
		return warmWhatIf(ctx, before, c, o, how)
	}
	if err := finish(ctx, before); err != nil {
		return nil, err
	}
	same, settings := before.Variant(), o.Settings
	if o.Variant.Passes == pipeline.AutoPasses && same.Estimator == stages.Flow {
		settings.LeastPasses, same.Passes = same.Passes, pipeline.AutoPasses
	}
	changed, err := pipeline.Derive(ctx, o.Lake, string(before.ID()), c, same, settings)
	if err != nil {
		return nil, err
	}
	if o.Variant.Auto && same.Estimator == stages.WholeNetwork {
		if ok, err := changed.CanBeWhole(ctx); err != nil || !ok {
			changed.Close()
			if err != nil {
				return nil, err
			}
			o.Variant.Auto = false
			return WhatIf(ctx, base, c, o, how)
		}
	}
	if err := finish(ctx, changed, (*pipeline.Estimation).MakeAnswer); err != nil {
		return nil, err
	}
	if changed.Variant().String() != before.Variant().String() {
		if before, err = pipeline.Resume(ctx, o.Lake, string(before.ID()), changed.Variant(), o.Settings); err != nil {
			return nil, err
		}
		if err := finish(ctx, before); err != nil {
			return nil, err
		}
	}
	how.MemoryBytes = o.MemoryBytes
	compared, err := Compare(ctx, before.Lake, SideOf(before), SideOf(changed), how)
	return &Answer{compared, changed}, err
}

// warmWhatIf compares the base with a warm estimate. It holds the base until that is made.
func warmWhatIf(ctx context.Context, before *pipeline.Estimation, c scenario.Changes, o Settings,
	how CompareOptions) (*Answer, error) {
	defer before.Close()
	if c.ChangesFlows() {
		return nil, errors.New("a warm estimate needs the base's flows: not with changes of services")
	}
	warm, err := before.Variant().WarmFrom(before.ID())
	if err != nil {
		return nil, err
	}
	changed, err := pipeline.Derive(ctx, o.Lake, string(before.ID()), c, warm, o.Settings)
	if err != nil {
		return nil, err
	}
	if _, incomplete := changed.Records(schema.Intervals); incomplete != nil {
		if err := before.SupplyWarm(ctx); err != nil {
			changed.Close()
			return nil, err
		}
	}
	if err := finish(ctx, changed, (*pipeline.Estimation).MakeAnswer); err != nil {
		return nil, err
	}
	how.MemoryBytes = o.MemoryBytes
	compared, err := Compare(ctx, before.Lake, SideOf(before), SideOf(changed), how)
	return &Answer{compared, changed}, err
}

// finish makes an estimate, does what follows, and closes it.
func finish(ctx context.Context, e *pipeline.Estimation, then ...func(*pipeline.Estimation) error) error {
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return err
	}
	for _, do := range then {
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// Write writes the comparison, and what it took to estimate what changed.
func (a *Answer) Write(w io.Writer) error {
	if err := a.Comparison.Write(w); err != nil {
		return err
	}
	p := text.Printer{W: w}
	summary.WriteCost(&p, a.changed)
	l := a.changed.Lake
	base := pipeline.ShellName(l, lake.ScenarioID(a.Base.Scenario))
	other := pipeline.ShellName(l, lake.ScenarioID(a.Other.Scenario))
	if a.Warm { // there may be other estimates, and the two have none in common
		base, other = base+"@"+a.Base.Variant, other+"@"+a.Other.Variant
	}
	p.Linef("\nNext:\n  parsimon compare %s %s --by service,size_bin --lake %s\n  parsimon report %s --compare %s --lake %s",
		base, other, l.Path(), other, base, l.Path())
	return p.Err
}
