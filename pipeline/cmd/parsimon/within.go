package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

// withinFlags ask for an estimate from windows of time.
type withinFlags struct {
	sampled.AskText
	prepare bool
	flags   *pflag.FlagSet
}

// declare declares the flags of run.
func (w *withinFlags) declare(f *pflag.FlagSet) {
	w.declareCommon(f)
	f.StringVar(&w.By, "by", "", "with --within: groups whose percentiles have to be precise: service, vnet or "+
		"size_bin, or one group such as service=storage; default: all flows together")
	f.BoolVar(&w.prepare, "prepare", false, "with --within: write the flows of the next windows into scenarios of their own and print the ids of these, for stages in shards (--scenario ID --shard I/N); the same command without --prepare takes the windows over")
	needs(f, "within", "by", "prepare")
}

// declareCommon declares the flags of run, what-if and compare.
func (w *withinFlags) declareCommon(f *pflag.FlagSet) {
	w.flags = f
	f.StringVar(&w.Within, "within", "", "estimate windows of time that are drawn at random instead of the whole "+
		"workload, until the interval of the percentile is no wider than ± this share of it, e.g. 2%")
	f.StringArrayVar(&w.Of, "of", []string{"p99"},
		"with --within: percentile that has to be precise: p50, p90, p99 or p99.9; may be repeated")
	f.StringVar(&w.Confidence, "confidence", "95%",
		"with --within: how often the intervals hold the value of the whole workload")
	durationVar(f, &w.Budget, "budget", "",
		"with --within: stop before a round of windows that would end later than this, e.g. 5m; 0: no limit")
	needs(f, "within", "of", "confidence", "budget")
}

// ask is what the flags ask for; ok is false without --within.
func (w *withinFlags) ask() (a sampled.Ask, ok bool, err error) {
	if w.Within == "" {
		return a, false, nil
	}
	if a, err = w.Parse(); err != nil {
		return a, false, usageError{err}
	}
	return a, true, nil
}

// askChange is what the flags ask a comparison for, whose --by names at most one kind of groups.
func (w *withinFlags) askChange(by []string, others ...string) (sampled.Ask, bool, error) {
	if w.Within != "" {
		if len(by) > 1 || slices.Contains(by, "hops") {
			return sampled.Ask{}, false, usagef("with --within, --by names one of service, vnet and size_bin")
		}
		w.By = strings.Join(by, "")
		for _, name := range others {
			if w.flags.Changed(name) {
				return sampled.Ask{}, false, usagef("--within does not go with --%s", name)
			}
		}
	}
	return w.ask()
}

// runWithin estimates a scenario from windows and writes the answer, or prepares the next windows.
func (w *withinFlags) runWithin(
	ctx context.Context, e *env, run *pipeline.Estimation, a sampled.Ask, gates []gate.Gate, form string,
) error {
	if w.prepare {
		ids, err := sampled.Prepare(ctx, run, a)
		if err == nil {
			_, err = fmt.Fprintln(e.stdout, strings.Join(ids, "\n"))
		}
		return err
	}
	result, err := sampled.Run(ctx, run, a)
	if err != nil {
		return err
	}
	if err := run.Executor().Session().SetAnswer(run.ID(), result.Variant); err != nil {
		return err
	}
	return writeWindows(e, result, result.Judge(gates), form)
}

// writeWindows writes an answer from windows and then reports the gates that failed.
func writeWindows(e *env, value interface{ Text() *text.Answer }, verdict error, form string) error {
	if form == "csv" {
		return usagef("--format csv does not go with --within")
	}
	return e.judged(form, value, value.Text(), verdict)
}

// compareWithin compares a scenario with another one, which other opens, by the same windows of both.
func compareWithin(
	ctx context.Context, e *env, o whatif.Settings, a sampled.Ask, base string, gates []gate.Gate, form string,
	other func(base *pipeline.Estimation) (*pipeline.Estimation, error),
) error {
	before, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return err
	}
	defer before.Close()
	changed, err := other(before)
	if err != nil {
		return err
	}
	defer changed.Close()
	c, err := sampled.Compare(ctx, before, changed, a)
	if err != nil {
		return err
	}
	return writeWindows(e, c, c.Judge(gates), form)
}
