package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

// compareFlags say how two estimates are compared, and what is written of it.
type compareFlags struct {
	whatif.CompareOptions
	form   string
	gates  []gate.Gate
	within withinFlags
}

func (c *compareFlags) declare(f *pflag.FlagSet) {
	c.Links = 5
	group(f, "Answer", func() {
		f.StringSliceVar(&c.By, "by", nil, "compare groups of flows too: "+strings.Join(whatif.ComparisonGroups(), ", "))
		intVar(f, &c.Links, 0, 100_000, "links", "links to name as explanation")
		declareForms(f, &c.form)
		declareGates(f, &c.gates, true)
	})
	group(f, "Windows of time", func() { c.within.declareCommon(f) })
}

// write writes a comparison and holds it against the gates.
func (c *compareFlags) write(ctx context.Context, e *env, found *whatif.Comparison, people *text.Answer) (err error) {
	found.Gates, err = gate.Judge(c.gates, func(g gate.Gate) (float64, error) { return found.Value(ctx, g) })
	e.metrics.comparison(found)
	return e.judged(c.form, found, people, err)
}

var whatIfCommand = command{
	name:    "what-if",
	args:    "BASE --lake DIR --fail WHAT|--add-cable ...|--bandwidth ...|--scale ...|--balance ...|--event ...|...",
	least:   1,
	most:    1,
	writes:  true,
	summary: "change a scenario of the lake, run what that changes, and compare",
	first: []string{"lake", "fail", "add-cable", "bandwidth", "delay", "scale", "move", "balance", "event", "by", "within",
		"format", "fail-if"},
	help: `
Makes a scenario out of BASE (an id, the first letters of one, or a name), estimates it, and compares
the two: percentiles of slowdown with the change and its interval, and the links that explain it.
The flows are the base's, whose files the new scenario shares, except where --scale or --move changes
them; link cases that are as they were come from the cache. A base that is not estimated yet is
estimated first.

  parsimon what-if small --lake lake --fail pod0-fabric0:plane0-spine2
  parsimon what-if day --lake lake --fail spine1
  parsimon what-if day --lake lake --fail leaf1:Ethernet49 --delay 'wan*:*=5ms'
  parsimon what-if small --lake lake --fail random:2 --tier fabric-spine --draw 7
  parsimon what-if small --lake lake --bandwidth fabric-spine=20G --scale web=1.5 --by service
  parsimon what-if day --lake lake --scale db=1.5,storage=+50% --add-cable leaf1:spine3=100G
  parsimon what-if large --lake lake --fail random:2 --tier fabric-spine --within 2% --of p99

--add-cable joins two nodes that no cable joins (others: --bandwidth), with a delay of 1us if none is
given. Planned cables of a cabling list are taken with its speeds: --add-cable planned, or one by its ends.

A cable that fails makes the scenario that "parsimon run ... --fail" makes, row by row.

--scale keeps a service's flows and adds the whole service again, its arrivals moved in time, as often
as it takes (the last time a share of its flows); below 1, a share of its flows stays. --move puts the
hosts of each of the service's racks into the given racks in turn.

--within estimates the same windows of time of both scenarios instead of the whole (see "parsimon run"), until
the interval of the change of the percentile of --of is within ± that share, or the --budget is spent.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var c changeFlags
		var how compareFlags
		r.declareLake(f)
		group(f, "Changes", func() { c.declare(f) })
		how.declare(f)
		r.declareEstimate(f)
		r.defaultAuto(f, "as BASE was estimated, if it was; else as run chooses")
		return func(ctx context.Context, args []string) error {
			changes, err := c.changes()
			if err != nil {
				return err
			}
			ask, sampling, err := how.within.askChange(how.By, "links")
			if err != nil {
				return err
			}
			o, done, err := r.settings(e)
			if err != nil {
				return err
			}
			defer done()
			if !sampling {
				w, err := whatif.WhatIf(ctx, args[0], changes, o, how.CompareOptions)
				if err != nil {
					return err
				}
				return how.write(ctx, e, w.Comparison, w.Text())
			}
			return compareWithin(ctx, e, o, ask, args[0], how.gates, how.form,
				func(base *pipeline.Estimation) (*pipeline.Estimation, error) {
					base.ChooseForWindows()
					if err := base.Generate(ctx); err != nil {
						return nil, err
					}
					return pipeline.Derive(ctx, o.Lake, string(base.ID()), changes, base.Variant(), o.Settings)
				})
		}
	},
}

var compareCommand = command{
	name: "compare", args: "BASE[@VARIANT] OTHER[@VARIANT] --lake DIR", least: 2, most: 2,
	writes:  true,
	summary: "two scenarios side by side",
	help: `
Compares the slowdowns of two scenarios (ids, the first letters of them, or names), flow by flow: p50,
p90, p99 and p99.9 of the flows that are in both, the change with its 95% interval (bootstrap over
flows, each with both its slowdowns), and the links at which the slowest flows are delayed more or
less. The answer also goes to the lake's tables comparisons and comparison_links, where questions
what_changed and what_changed_links find it.

Scenarios that were estimated in different ways are refused, unless --across: the difference is then
also that of the ways. A variant is named as in the lake, e.g. small@independent.

With --within, both scenarios are estimated from the same windows of time, in the way that --estimator
says, until the change is known to that precision.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var how compareFlags
		r.declareLake(f)
		how.declare(f)
		r.declareEstimator(f)
		r.declareWorkers(f)
		r.declareMemory(f)
		f.BoolVar(&how.Across, "across", false, "compare although the ways of estimating differ")
		return func(ctx context.Context, args []string) error {
			ask, sampling, err := how.within.askChange(how.By, "across", "links")
			if err != nil {
				return err
			}
			if !sampling {
				l, err := r.openLake(lake.Open)
				if err != nil {
					return err
				}
				c, err := whatif.Compare(ctx, l, side(args[0]), side(args[1]), how.CompareOptions)
				if err != nil {
					return err
				}
				return how.write(ctx, e, c, c.Text())
			}
			if strings.Contains(args[0]+args[1], "@") {
				return usagef("--within estimates both scenarios in the same way: name no variant, but --estimator")
			}
			o, done, err := r.settings(e)
			if err != nil {
				return err
			}
			defer done()
			return compareWithin(ctx, e, o, ask, args[0], how.gates, how.form,
				func(*pipeline.Estimation) (*pipeline.Estimation, error) {
					return pipeline.Resume(ctx, o.Lake, args[1], o.Variant, o.Settings)
				})
		}
	},
}

// side reads SCENARIO[@VARIANT].
func side(text string) whatif.Side {
	scenario, variant, _ := strings.Cut(text, "@")
	return whatif.Side{Scenario: scenario, Variant: variant}
}

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
	f.BoolVar(&w.prepare, "prepare", false, "with --within: write the flows of the next windows into scenarios of their "+
		"own and print the ids of these, for stages in shards (--scenario ID --shard I/N); the same command without "+
		"--prepare takes the windows over")
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
