package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampled"
)

// asked is what the flags ask for; windows is false without --within.
func (f *flags) asked() (a sampled.Ask, windows bool, err error) {
	if f.ask.Within == "" {
		for _, name := range []string{"of", "by", "confidence", "budget"} {
			if f.set.Changed(name) {
				return a, false, fmt.Errorf("--%s goes with --within", name)
			}
		}
		return a, false, nil
	}
	if *jobopts.Async {
		return a, false, errors.New("--async: which windows are drawn depends on those before, whose jobs --within waits for")
	}
	a, err = f.ask.Parse()
	return a, true, err
}

// runWindows estimates the scenario of a job from windows of time and writes the answer. The flows of windows are
// written here; each round, and the test of the warm-up, is a job of its own.
func (f *flags) runWindows(
	ctx context.Context, j Job, v pipeline.Variant, o pipeline.Settings, ask sampled.Ask, out io.Writer,
) error {
	round := func(ctx context.Context, id lake.ScenarioID) error {
		of := j
		of.Scenario = string(id)
		return f.complete(ctx, of, o.Log)
	}
	result, err := f.runOn(ctx, j, v, o, ask, round)
	if errors.Is(err, sampled.ErrWhole) {
		if err := f.complete(ctx, j, o.Log); err != nil {
			return err
		}
		result, err = f.runOn(ctx, j, v, o, ask, round)
	}
	if err != nil {
		return err
	}
	l, err := lake.Open(j.Lake, false)
	if err == nil {
		err = catalog.Write(l)
	}
	return errors.Join(err, result.Text().Write(out, "text"))
}

// runOn holds the scenario while its windows are estimated.
func (*flags) runOn(
	ctx context.Context, j Job, v pipeline.Variant, o pipeline.Settings, ask sampled.Ask, round sampled.Execute,
) (*sampled.Result, error) {
	o.For = pipeline.ForWindows
	base, err := pipeline.Resume(ctx, j.Lake, j.Scenario, v, o)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return sampled.Run(ctx, base, ask, round)
}
