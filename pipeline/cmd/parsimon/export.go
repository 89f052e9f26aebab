package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/bundle"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/schema/variant"
)

// An exportVerb writes a scenario with its estimate as one file.
type exportVerb struct {
	*env
	output string // file
}

func (v *exportVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	f.StringVarP(&v.output, "output", "o", "bundle.tar.zst",
		"`file` to write; a regular file is replaced in one step")
}

func (v *exportVerb) run(ctx context.Context, args []string) error {
	if err := v.checkOutput("output", v.output); err != nil {
		return err
	}
	l, err := v.openLake(lake.Open)
	if err != nil {
		return err
	}
	if l.Old() {
		return &lake.VersionError{Of: l.Path(), Version: l.Version()}
	}
	lock := l.LockForReading()
	defer lock.Close()
	e, err := v.estimate(ctx, l, args[0])
	if err != nil {
		return err
	}
	var made *bundle.Manifest
	var size int64
	err = v.writeOutput(ctx, v.output, func(w io.Writer) error {
		counted := &countingWriter{w: w}
		made, err = bundle.Write(ctx, counted, e, bundleProgram())
		size = counted.bytes
		return err
	})
	if err != nil {
		return err
	}
	a := &text.Answer{}
	a.Linef("%s: %.2f MB, scenario %s (%s), variant %s, %d files of input, digests of %d tables", v.output,
		float64(size)/1e6, e.ID(), e.Spec.Name, made.Variant, len(made.Files), len(made.Tables))
	return a.Write(v.stdout, "text")
}

// A countingWriter counts the bytes that are written.
type countingWriter struct {
	w     io.Writer
	bytes int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(data []byte) (int, error) {
	n, err := c.w.Write(data)
	c.bytes += int64(n)
	return n, err
}

// estimate opens the estimate that is given as SCENARIO or SCENARIO@VARIANT. Without a variant, it is the
// answer of the last run.
func (v *exportVerb) estimate(ctx context.Context, l *lake.Lake, name string) (*pipeline.Estimation, error) {
	of, err := v.side(l, name)
	if err != nil {
		return nil, err
	}
	model, err := pipeline.OpenModel(ctx, l, of.Scenario)
	if err != nil {
		return nil, err
	}
	stored, err := chosenVariant(l, model.ID(), of.Variant)
	if err != nil {
		return nil, err
	}
	if stored.Sampled() {
		return nil, fmt.Errorf("%s was estimated from windows of time (--within), which a bundle does not repeat: "+
			"name an estimate of all flows, such as %s@exact, or run the scenario without --within", name, of.Scenario)
	}
	chosen, err := pipeline.VariantOf(stored)
	if err != nil {
		return nil, err
	}
	return pipeline.ReadOnly(model, chosen, pipeline.Settings{}), nil
}

// chosenVariant returns the variant that a user names or, if none is named, the answer of the last run or the
// only estimate.
func chosenVariant(l *lake.Lake, id lake.ScenarioID, named string) (variant.Variant, error) {
	if named != "" {
		return variant.Parse(named)
	}
	answer, err := l.ReadAnswer(id)
	if err != nil || !answer.IsZero() {
		return answer, err
	}
	status, err := pipeline.ReadScenarioStatus(l, id, lake.BySize)
	if err != nil {
		return answer, err
	}
	all := status.Estimates()
	switch len(all) {
	case 0:
		return answer, fmt.Errorf("scenario %s has no complete estimate: run it first", id)
	case 1:
		return all[0], nil
	}
	return answer, fmt.Errorf("scenario %s has several estimates: name one as %s@VARIANT: %s", id, id,
		strings.Join(names.Of(all, variant.Variant.String), ", "))
}

// bundleProgram returns this program as bundles name it.
func bundleProgram() bundle.Program {
	built := buildVersion()
	return bundle.Program{
		Version: built.Version, Commit: built.Commit, CommitTime: built.Time, Go: built.Go,
	}
}

// A repetition is the answer of a run of a bundle.
type repetition struct {
	*summary.Result
	Bundle *bundle.Comparison `json:"bundle"`
}

// repeat estimates the scenario of a bundle again, and compares the rows with those of the bundle.
func (v *runVerb) repeat(ctx context.Context, path string) error {
	if err := v.checkRepeat(); err != nil {
		return err
	}
	dir, err := v.closers.makeTemporary("parsimon-bundle-*")
	if err != nil {
		return err
	}
	b, err := bundle.Open(ctx, path, dir)
	if err != nil {
		return err
	}
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	differ := b.MadeBy.Differences()
	if len(differ) > 0 {
		o.Log.Warn().Msgf("%s was made by another version (%s): rows may differ", path, strings.Join(differ, "; "))
	}
	run, err := v.open(b.Begin(ctx, o.Lake, o.Settings))
	if err != nil {
		return err
	}
	if err := run.Estimate(ctx); err != nil {
		return err
	}
	if err := run.MakeAnswer(); err != nil {
		return err
	}
	found, err := b.Compare(ctx, run)
	if err != nil {
		return err
	}
	result, people, failed := v.results(ctx, run)
	if result == nil {
		return failed
	}
	found.AddTo(people)
	err = v.judged(v.stdout, repetition{result, found}, people, failed)
	return errors.Join(err, found.Err())
}

// repeatFlags are flags that may be given with a bundle, besides those that have no effect on results.
var repeatFlags = []string{"lake", "wait"}

// checkRepeat returns an error for a flag that would change the estimate of a bundle.
func (v *runVerb) checkRepeat() (err error) {
	harmless := []string{machineGroup, "Answer", "Logs and help"}
	v.input.flagSet.Visit(func(f *pflag.Flag) {
		predicts := f.Name == "dry-run" || f.Name == "cores"
		if predicts || !slices.Contains(repeatFlags, f.Name) && !slices.Contains(harmless, groupOf(f)) {
			err = usagef("--%s does not go with a bundle, which states the whole scenario and its estimator: "+
				"leave it out, or run the bundle and use what-if", f.Name)
		}
	})
	return err
}
