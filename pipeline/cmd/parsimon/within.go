package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/sampled"
)

// withinFlags ask for an estimate from windows of time.
type withinFlags struct {
	within, confidence, by string
	of                     []string
	budget, check          time.Duration
	flags                  *pflag.FlagSet
}

func (w *withinFlags) declare(f *pflag.FlagSet) {
	w.flags = f
	f.StringVar(&w.within, "within", "", "estimate windows of time that are drawn at random instead of the whole workload, until the interval of the percentile is no wider than ± this share of it, e.g. 2%")
	f.StringArrayVar(&w.of, "of", []string{"p99"}, "with --within: percentile that has to be precise: p50, p90, p99 or p99.9; may be repeated")
	f.StringVar(&w.by, "by", "", "with --within: groups whose percentiles have to be precise: service, vnet or size_bin, or one group such as service=storage; default: all flows together")
	f.StringVar(&w.confidence, "confidence", "95%", "with --within: how often the intervals hold the value of the whole workload")
	f.DurationVar(&w.budget, "budget", 0, "with --within: stop before a round of windows that would end later than this, e.g. 5m; 0: no limit")
	f.DurationVar(&w.check, "check", 0, "with --within: simulate so much of the workload packet by packet, e.g. 20ms, and add the method's error to the intervals (slow)")
}

// ask is what the flags ask for; ok is false without --within.
func (w *withinFlags) ask() (a sampled.Ask, ok bool, err error) {
	if w.within == "" {
		for _, name := range []string{"of", "by", "confidence", "budget", "check"} {
			if w.flags.Changed(name) {
				return a, false, usagef("--%s goes with --within", name)
			}
		}
		return a, false, nil
	}
	if a.Within, err = parseShare(w.within); err != nil {
		return a, false, usagef("--within %q: want a share such as 2%%", w.within)
	}
	if a.Confidence, err = parseShare(w.confidence); err != nil {
		return a, false, usagef("--confidence %q: want a share such as 95%%", w.confidence)
	}
	for _, text := range w.of {
		percent, err := strconv.ParseFloat(strings.TrimPrefix(text, "p"), 64)
		if err != nil {
			return a, false, usagef("--of %q: want p50, p90, p99 or p99.9", text)
		}
		q := 0.0
		for _, known := range pipeline.Quantiles {
			if diff := known*100 - percent; diff > -1e-6 && diff < 1e-6 {
				q = known
			}
		}
		if q == 0 {
			return a, false, usagef("--of %q: want p50, p90, p99 or p99.9", text)
		}
		a.Of = append(a.Of, q)
	}
	if w.budget < 0 || w.check < 0 {
		return a, false, usagef("--budget and --check must be 0 or more")
	}
	a.By, a.Budget, a.Check = w.by, w.budget, w.check
	if err := a.Validate(); err != nil {
		return a, false, usagef("%v", err)
	}
	return a, true, nil
}

// parseShare reads a share such as 2% or 0.02.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	return x, err
}

// runWithin estimates a scenario from windows and writes the answer.
func runWithin(ctx context.Context, e *env, run *pipeline.Estimation, a sampled.Ask, form string) error {
	result, err := sampled.Run(ctx, run, a)
	if err != nil {
		return err
	}
	if form == "json" {
		return writeJSON(e.stdout, result)
	}
	return result.Write(e.stdout)
}
