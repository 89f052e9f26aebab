// Package whatif answers questions that need several estimates: what changes when a cable fails or a service grows
// (WhatIf, RunSweep), how two estimates differ (Compare), and how far an estimate is from the truth (Validate).
//
//	base ──────────────► estimate ─┐
//	 └─ scenario.Changes ─► estimate ─┴─► join flow by flow ─► percentiles, intervals, links that explain the change
package whatif

import (
	"context"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/stages"
)

// Settings say how the estimates are made and worked on.
type Settings struct {
	pipeline.Settings
	Lake    string // directory
	Variant pipeline.Variant
}

// An Answer is the comparison of a what-if and the estimate of what changed.
type Answer struct {
	*Comparison
	changed *pipeline.Estimation
}

// WhatIf estimates a scenario of the lake, if that is not done yet, and what changes make of it in the same way, and
// compares the two. With Auto, what changed is estimated as the base is, unless only one of the two can be of the whole
// network: then both are by link cases. Where two passes suffice for one of them only, both are of the whole network.
func WhatIf(ctx context.Context, base string, c scenario.Changes, o Settings, how CompareOptions) (*Answer, error) {
	o.For = pipeline.ForDifference
	return whatIf(ctx, base, c, o, how)
}

func whatIf(ctx context.Context, base string, c scenario.Changes, o Settings, how CompareOptions) (*Answer, error) {
	cables, err := pipeline.CheckChanges(o.Lake, base, c, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	how.ofChange, how.changed = true, cables
	before, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	// A question does not change the answer of a run.
	if err := finish(ctx, before, before.Lake.Answer(before.ID()) == ""); err != nil {
		return nil, err
	}
	same := before.Variant()
	chosen := o.Variant.Auto && same.Estimator == stages.Flow
	if chosen {
		same = o.Variant // it may ask for the whole network
	}
	changed, err := pipeline.Derive(ctx, o.Lake, string(before.ID()), c, same, o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Variant.Auto && !chosen {
		if ok, err := changed.CanBeExact(ctx); err != nil || !ok {
			changed.Close()
			if err != nil {
				return nil, err
			}
			o.Variant, o.For = pipeline.Variant{Estimator: stages.Flow}, "" // what they warn of is in table warnings
			return whatIf(ctx, base, c, o, how)
		}
	}
	if err := finish(ctx, changed, true); err != nil {
		return nil, err
	}
	if changed.Variant().String() != before.Variant().String() {
		o.Variant = changed.Variant()
		return whatIf(ctx, base, c, o, how)
	}
	how.MemoryBytes = o.MemoryBytes
	compared, err := Compare(ctx, before.Lake, SideOf(before), SideOf(changed), how)
	if err != nil {
		return nil, err
	}
	return &Answer{compared, changed}, nil
}

// finish makes an estimate, and an answer of it if it is to be one, and closes it.
func finish(ctx context.Context, e *pipeline.Estimation, answer bool) error {
	defer e.Close()
	if err := e.Estimate(ctx); err != nil || !answer {
		return err
	}
	return e.MakeAnswer()
}

// Text is the comparison for people, and the cost of the second estimate.
func (a *Answer) Text() *text.Answer {
	out := a.Comparison.Text()
	for _, line := range a.Warnings {
		out.Linef("warning: %s", line)
	}
	summary.AddCost(out, a.changed)
	l := a.changed.Lake
	base := pipeline.ShellName(l, lake.ScenarioID(a.Base.Scenario))
	other := pipeline.ShellName(l, lake.ScenarioID(a.Other.Scenario))
	out.Linef("\nNext:\n  parsimon compare %s %s --by service,size_bin --lake %s\n  parsimon report %s --compare %s --lake %s",
		base, other, l.Path(), other, base, l.Path())
	return out
}
