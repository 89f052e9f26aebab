package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/queries/subprocess"
	"parsimon/schema/names"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
)

// compareFlags say how two estimates are compared.
type compareFlags struct {
	answerFlags
	whatif.CompareOptions
	windows windowFlags
}

func (c *compareFlags) declare(f *pflag.FlagSet) {
	c.Links = 5
	group(f, "Answer", func() {
		f.StringSliceVar(&c.By, "by", nil, "compare `groups` of flows too, by "+
			strings.Join(whatif.ComparisonGroups(), ", "))
		intVar(f, &c.Links, intRange{0, 100_000}, "links", "number of links to name as explanation")
		c.declareForm(f, tableForms()...)
		c.declareGates(f, withBase)
	})
	group(f, "Windows of time", func() { c.windows.declareCommon(f) })
}

// writeCompared writes a comparison and judges its gates.
func (c *compareFlags) writeCompared(ctx context.Context, e *env, found *whatif.Comparison,
	people *text.Answer) error {
	err := found.Judge(ctx, c.gates)
	e.metrics.comparison(found)
	return c.judged(e.stdout, found, people, err)
}

// A whatIfVerb changes a scenario of the lake, estimates the result, and compares the two.
type whatIfVerb struct {
	*env
	how     runFlags
	changes scenario.Changes
	compare compareFlags
}

func (v *whatIfVerb) declare(f *pflag.FlagSet) {
	v.how.declareLake(v.env, f)
	group(f, "Changes", func() { declareChanges(f, &v.changes) })
	v.compare.declare(f)
	v.how.declareEstimate(f)
	v.how.defaultAuto(f, "exact for both if BASE was estimated by it, else as run chooses")
}

func (v *whatIfVerb) run(ctx context.Context, args []string) error {
	if len(v.changes.Do)+len(v.changes.PathMoves.Changes())+len(v.changes.Settings) == 0 {
		return usagef("no change: give --fail, --add-cable, --bandwidth, --delay, --scale, --move, --balance, " +
			"--event, --transport, --switch-buffer or --set")
	}
	ask, sampling, err := v.compare.windows.askChange(v.compare.By, "links")
	if sampling {
		err = v.compare.windows.simulate(&v.how)
	}
	if err != nil {
		return err
	}
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	base, err := v.base(args[0])
	if err != nil {
		return err
	}
	if !sampling {
		w, err := whatif.WhatIf(ctx, base, v.changes, o, v.compare.CompareOptions)
		if err != nil {
			return err
		}
		return v.compare.writeCompared(ctx, v.env, w.Comparison, w.Text())
	}
	changed := func(base *pipeline.Estimation) (*pipeline.Estimation, error) {
		if err := base.Generate(ctx); err != nil {
			return nil, err
		}
		return pipeline.Derive(ctx, base.Model, v.changes, o.Variant, o.Settings)
	}
	return compareWindows{v.env, &v.compare.answerFlags, o, ask}.run(ctx, base, changed)
}

// A compareVerb compares two scenarios of the lake.
type compareVerb struct {
	*env
	how     runFlags
	compare compareFlags
}

func (v *compareVerb) declare(f *pflag.FlagSet) {
	v.how.declareLake(v.env, f)
	v.compare.declare(f)
	group(f, machineGroup, func() {
		v.how.declareWorkers(f)
		v.how.declareMemory(f)
	})
	f.BoolVar(&v.compare.Across, "across", false, "compare estimates of different variants")
}

func (v *compareVerb) run(ctx context.Context, args []string) error {
	ask, sampling, err := v.compare.windows.askChange(v.compare.By, "across", "links")
	if err != nil {
		return err
	}
	l, err := v.openLake(lake.Open)
	if err != nil {
		return err
	}
	base, err := v.side(l, args[0])
	if err != nil {
		return err
	}
	other, err := v.side(l, args[1])
	if err != nil {
		return err
	}
	if !sampling {
		c, err := whatif.Compare(ctx, l, base, other, v.compare.CompareOptions)
		if err != nil {
			return err
		}
		return v.compare.writeCompared(ctx, v.env, c, c.Text())
	}
	if base.Variant+other.Variant != "" {
		return usagef("--within simulates windows of both scenarios packet by packet: name no variant")
	}
	v.how.estimator = estimators.Exact.String()
	v.how.how.For = pipeline.ForWindows
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	open := func(*pipeline.Estimation) (*pipeline.Estimation, error) {
		return pipeline.Resume(ctx, o.Lake, other.Scenario, o.Variant, o.Settings)
	}
	return compareWindows{v.env, &v.compare.answerFlags, o, ask}.run(ctx, base.Scenario, open)
}

// side finds SCENARIO or SCENARIO@VARIANT in a lake. The name of a scenario may contain an @. VARIANT may be
// the beginning of a name. If several scenarios have the name, a note on stderr says which one was found.
func (e *env) side(l *lake.Lake, name string) (of whatif.Side, err error) {
	id, note, err := pipeline.ResolveNoted(l, name, names.Abbreviated)
	at := strings.LastIndexByte(name, '@')
	if err != nil && at >= 0 {
		of.Variant = name[at+1:]
		id, note, err = pipeline.ResolveNoted(l, name[:at], names.Abbreviated)
	}
	of.Scenario = string(id)
	if err != nil {
		return of, err
	}
	if note != "" && !subprocess.IsChild() {
		_, _ = fmt.Fprintln(e.stderr, "parsimon: "+text.Clean(note))
	}
	of.Variant = variantOf(l, id, of.Variant)
	return of, nil
}

// base finds the scenario that a command changes.
func (e *env) base(name string) (string, error) {
	l, err := e.openLake(lake.Open)
	if err != nil {
		return "", err
	}
	of, err := e.side(l, name)
	if err == nil && of.Variant != "" {
		err = usagef("%s: name the scenario only; --estimator says which of its estimates is the base", name)
	}
	return of.Scenario, err
}

// variantOf completes the beginning of the name of a variant of the scenario. Other names are returned as
// they are.
func variantOf(l *lake.Lake, id lake.ScenarioID, asked string) string {
	if _, err := pipeline.ParseVariant(asked); err == nil {
		return asked
	}
	status, _ := pipeline.ReadScenarioStatus(l, id, lake.BySize) // after an error there are no variants
	found, ok := variant.WithPrefix(status.Estimates(), asked)
	if asked == "" || !ok {
		return asked
	}
	return found.String()
}

// compareWindows compares two scenarios by the same windows of time of both.
type compareWindows struct {
	*env
	answer   *answerFlags
	settings whatif.Settings
	ask      sampling.Ask
}

// run compares a scenario with the one that open opens.
func (c compareWindows) run(
	ctx context.Context, base string, open func(base *pipeline.Estimation) (*pipeline.Estimation, error),
) error {
	o := &c.settings
	before, err := c.open(pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings))
	if err != nil {
		return err
	}
	other, err := c.open(open(before))
	if err != nil {
		return err
	}
	found, err := sampling.Compare(ctx, before, other, c.ask)
	if err != nil {
		return err
	}
	return c.answer.writeWindows(c.stdout, found, found.Judge(c.answer.gates))
}
