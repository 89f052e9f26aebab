package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/whatif"
)

// withinFlags ask for an estimate from windows of time.
type withinFlags struct {
	within, confidence, by string
	of                     []string
	budget                 time.Duration
	prepare                bool
	flags                  *pflag.FlagSet
}

// declare declares the flags of run.
func (w *withinFlags) declare(f *pflag.FlagSet) {
	w.declareCommon(f)
	f.StringVar(&w.by, "by", "", "with --within: groups whose percentiles have to be precise: service, vnet or size_bin, or one group such as service=storage; default: all flows together")
	f.BoolVar(&w.prepare, "prepare", false, "with --within: write the flows of the next windows into scenarios of their own and print the ids of these, for stages in shards (--scenario ID --shard I/N); the same command without --prepare takes the windows over")
}

// declareCommon declares the flags of run, what-if and compare.
func (w *withinFlags) declareCommon(f *pflag.FlagSet) {
	w.flags = f
	f.StringVar(&w.within, "within", "", "estimate windows of time that are drawn at random instead of the whole workload, until the interval of the percentile is no wider than ± this share of it, e.g. 2%")
	f.StringArrayVar(&w.of, "of", []string{"p99"}, "with --within: percentile that has to be precise: p50, p90, p99 or p99.9; may be repeated")
	f.StringVar(&w.confidence, "confidence", "95%", "with --within: how often the intervals hold the value of the whole workload")
	f.DurationVar(&w.budget, "budget", 0, "with --within: stop before a round of windows that would end later than this, e.g. 5m; 0: no limit")
}

// ask is what the flags ask for; ok is false without --within.
func (w *withinFlags) ask() (a sampled.Ask, ok bool, err error) {
	if w.within == "" {
		for _, name := range []string{"of", "confidence", "budget", "prepare"} {
			if w.flags.Changed(name) {
				return a, false, usagef("--%s goes with --within", name)
			}
		}
		if w.by != "" {
			return a, false, usagef("--by goes with --within")
		}
		return a, false, nil
	}
	text := sampled.AskText{Within: w.within, Confidence: w.confidence, By: w.by, Of: w.of, Budget: w.budget}
	if a, err = text.Parse(); err != nil {
		return a, false, usagef("%v", err)
	}
	return a, true, nil
}

// runWithin estimates a scenario from windows and writes the answer, or prepares the next windows.
func (w *withinFlags) runWithin(
	ctx context.Context, e *env, run *pipeline.Estimation, a sampled.Ask, gates []gate.Gate, form string,
) error {
	if w.prepare {
		ids, err := sampled.Prepare(ctx, run, a)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := fmt.Fprintln(e.stdout, id); err != nil {
				return err
			}
		}
		return nil
	}
	result, err := sampled.Run(ctx, run, a)
	if err != nil {
		return err
	}
	if err := run.Executor().Session().SetAnswer(run.ID(), result.Variant); err != nil {
		return err
	}
	return judged(e, result, result.Judge(gates), form)
}

// judged writes an answer and then reports gates that failed; those that cannot be judged are an error without an
// answer.
func judged(e *env, result interface{ Write(io.Writer) error }, failed error, form string) error {
	if gates := (*gate.Error)(nil); failed != nil && !errors.As(failed, &gates) {
		return failed
	}
	if form == "csv" {
		return usagef("--format csv does not go with --within")
	}
	if form == "json" {
		return errors.Join(writeJSON(e.stdout, result), failed)
	}
	return errors.Join(result.Write(e.stdout), failed)
}

// askChange is what the flags ask a comparison for, whose --by names at most one kind of groups.
func (w *withinFlags) askChange(by []string, others ...string) (sampled.Ask, bool, error) {
	w.by = ""
	if w.within != "" {
		if len(by) > 1 || slices.Contains(by, "hops") {
			return sampled.Ask{}, false, usagef("with --within, --by names one of service, vnet and size_bin")
		}
		w.by = strings.Join(by, "")
		for _, name := range others {
			if w.flags.Changed(name) {
				return sampled.Ask{}, false, usagef("--within does not go with --%s", name)
			}
		}
	}
	return w.ask()
}

// whatIfWithin compares a scenario with what changes make of it by the same windows of both.
func whatIfWithin(
	ctx context.Context, e *env, base string, c scenario.Changes, o whatif.Settings, a sampled.Ask, gates []gate.Gate,
	form string,
) error {
	before, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return err
	}
	defer before.Close()
	before.ChooseForWindows()
	if err := before.Generate(ctx); err != nil {
		return err
	}
	changed, err := pipeline.Derive(ctx, o.Lake, string(before.ID()), c, before.Variant(), o.Settings)
	if err != nil {
		return err
	}
	defer changed.Close()
	return compareWithin(ctx, e, before, changed, a, gates, form)
}

// openBoth opens two scenarios of a lake to compare them.
func openBoth(ctx context.Context, base, other string, o whatif.Settings) (a, b *pipeline.Estimation, err error) {
	if strings.Contains(base+other, "@") {
		return nil, nil, usagef("--within estimates both scenarios in the same way: name no variant, but --estimator")
	}
	if a, err = pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings); err != nil {
		return nil, nil, err
	}
	if b, err = pipeline.Resume(ctx, o.Lake, other, o.Variant, o.Settings); err != nil {
		a.Close()
	}
	return a, b, err
}

// compareWithin compares two scenarios by the same windows of both.
func compareWithin(
	ctx context.Context, e *env, base, other *pipeline.Estimation, a sampled.Ask, gates []gate.Gate, form string,
) error {
	c, err := sampled.Compare(ctx, base, other, a)
	if err != nil {
		return err
	}
	return judged(e, c, c.Judge(gates), form)
}
