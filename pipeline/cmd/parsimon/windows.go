package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/text"
	"parsimon/schema/units"
	"parsimon/stages/estimators"
)

// windowFlags request an estimate from windows of time.
type windowFlags struct {
	sampling.Ask
	flags *pflag.FlagSet
}

// declare declares the flags of run.
func (w *windowFlags) declare(f *pflag.FlagSet) {
	w.declareCommon(f)
	f.StringVar(&w.By, "by", "", "with --within: `groups` whose percentiles have to be precise: service, vnet "+
		"or size_bin, or one group such as service=storage; default: all flows together")
	needs(f, "within", "by")
}

// declareCommon declares the flags of run, what-if and compare.
func (w *windowFlags) declareCommon(f *pflag.FlagSet) {
	w.flags = f
	parse(f, &w.Within, units.ParseShare,
		flagSpec{name: "within", usage: "simulate windows of time, drawn at random, instead of the whole " +
			"workload, until the interval of the percentile is at most ± this share of it, e.g. 2%"})
	parseEach(f, &w.Of, func(text string) (float64, error) {
		at := slices.Index([]string{"50", "90", "99", "99.9"}, strings.TrimPrefix(text, "p")) // pipeline.Quantiles
		if at < 0 {
			return 0, errors.New("want p50, p90, p99 or p99.9")
		}
		return pipeline.Quantiles[at], nil
	}, "of", "with --within: percentile that has to be precise: p50, p90, p99 or p99.9; may be repeated; "+
		"default: p99")
	parse(f, &w.Confidence, units.ParseShare, flagSpec{name: "confidence", byDefault: "95%",
		usage: "with --within: share of the intervals that contain the value of the whole workload"})
	durationVar(f, &w.Budget, "budget", "",
		"with --within: answer after at most this time, e.g. 5m, from the windows simulated so far; if they are "+
			"too few, the command fails; 0: no limit")
	needs(f, "within", "of", "confidence", "budget")
}

// ask returns the request of the flags. ok is false without --within.
func (w *windowFlags) ask() (a sampling.Ask, ok bool, err error) {
	if !w.flags.Changed("within") {
		return a, false, nil
	}
	a = w.Ask
	if a.Of == nil {
		a.Of = []float64{0.99}
	}
	if err = a.Validate(); err != nil {
		return a, false, usageError{err}
	}
	return a, true, nil
}

// simulate makes the command simulate windows packet by packet.
func (w *windowFlags) simulate(r *runFlags) error {
	v, err := r.variant()
	if err == nil && !v.Auto && v.Estimator != estimators.Exact {
		err = usagef("--within simulates windows packet by packet: leave out --estimator, --passes and --cluster")
	}
	r.estimator = estimators.Exact.String()
	r.how.For = pipeline.ForWindows
	return err
}

// askChange returns the request of the flags of a comparison, whose --by may name one kind of groups. With
// --within, the flags others are an error.
func (w *windowFlags) askChange(by []string, others ...string) (sampling.Ask, bool, error) {
	if w.flags.Changed("within") {
		if len(by) > 1 || slices.Contains(by, "hops") {
			return sampling.Ask{}, false, usagef("with --within, --by names one of service, vnet and size_bin")
		}
		w.By = strings.Join(by, "")
		for _, name := range others {
			if w.flags.Changed(name) {
				return sampling.Ask{}, false, usagef("--within does not go with --%s", name)
			}
		}
	}
	return w.ask()
}

// writeWindows writes an answer from windows, and returns the verdict of its gates.
func (a *answerFlags) writeWindows(w io.Writer, value interface{ Text() *text.Answer }, verdict error) error {
	if a.form == "csv" {
		return usagef("--format csv does not go with --within")
	}
	return a.judged(w, value, value.Text(), verdict)
}
