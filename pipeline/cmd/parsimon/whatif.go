package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/queries/subprocess"
	"parsimon/schema/units"
	"parsimon/stages/estimators"
)

// compareFlags say how two estimates are compared, and the output.
type compareFlags struct {
	whatif.CompareOptions
	within withinFlags
}

func (c *compareFlags) declare(e *env, f *pflag.FlagSet) {
	c.Links = 5
	group(f, "Answer", func() {
		f.StringSliceVar(&c.By, "by", nil, "compare groups of flows too: "+strings.Join(whatif.ComparisonGroups(), ", "))
		intVar(f, &c.Links, 0, 100_000, "links", "links to name as explanation")
		e.declareForm(f, forms...)
		e.declareGates(f, true)
	})
	group(f, "Windows of time", func() { c.within.declareCommon(f) })
}

// write writes a comparison and holds it against the gates.
func (c *compareFlags) write(ctx context.Context, e *env, found *whatif.Comparison, people *text.Answer) error {
	err := found.Judge(ctx, e.gates)
	e.metrics.comparison(found)
	return e.judged(found, people, err)
}

var whatIfCommand = command{
	name:   "what-if",
	least:  1,
	most:   1,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var c scenario.Changes
		var how compareFlags
		r.declareLake(e, f)
		group(f, "Changes", func() { declareChanges(f, &c) })
		how.declare(e, f)
		r.declareEstimate(f)
		r.defaultAuto(f, "exact for both if BASE was estimated by it; else as run chooses")
		return func(ctx context.Context, args []string) error {
			if len(c.Do)+len(c.PathMoves.Changes())+len(c.Settings) == 0 {
				return usagef("no change: give --fail, --add-cable, --bandwidth, --delay, --scale, --move, --balance, --event, " +
					"--transport, --window, --switch-buffer or --set")
			}
			ask, sampling, err := how.within.askChange(how.By, "links")
			if sampling {
				err = how.within.simulate(&r)
			}
			if err != nil {
				return err
			}
			o, err := r.settings(e)
			if err != nil {
				return err
			}
			base, err := e.base(args[0])
			if err != nil {
				return err
			}
			if !sampling {
				w, err := whatif.WhatIf(ctx, base, c, o, how.CompareOptions)
				if err != nil {
					return err
				}
				return how.write(ctx, e, w.Comparison, w.Text())
			}
			return compareWithin(ctx, e, o, ask, base,
				func(base *pipeline.Estimation) (*pipeline.Estimation, error) {
					if err := base.Generate(ctx); err != nil {
						return nil, err
					}
					return pipeline.Derive(ctx, base.Model, c, o.Variant, o.Settings)
				})
		}
	},
}

var compareCommand = command{
	name: "compare", least: 2, most: 2,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var how compareFlags
		r.declareLake(e, f)
		how.declare(e, f)
		r.declareWorkers(f)
		r.declareMemory(f)
		f.BoolVar(&how.Across, "across", false, "compare although the ways of estimating differ")
		return func(ctx context.Context, args []string) error {
			ask, sampling, err := how.within.askChange(how.By, "across", "links")
			if err != nil {
				return err
			}
			l, err := e.openLake(lake.Open)
			if err != nil {
				return err
			}
			base, err := e.side(l, args[0])
			other, otherErr := e.side(l, args[1])
			if err := cmp.Or(err, otherErr); err != nil {
				return err
			}
			if !sampling {
				c, err := whatif.Compare(ctx, l, base, other, how.CompareOptions)
				if err != nil {
					return err
				}
				return how.write(ctx, e, c, c.Text())
			}
			if base.Variant+other.Variant != "" {
				return usagef("--within simulates windows of both scenarios packet by packet: name no variant")
			}
			r.estimator, r.how.For = estimators.Exact.String(), pipeline.ForWindows
			o, err := r.settings(e)
			if err != nil {
				return err
			}
			return compareWithin(ctx, e, o, ask, base.Scenario,
				func(*pipeline.Estimation) (*pipeline.Estimation, error) {
					return pipeline.Resume(ctx, o.Lake, other.Scenario, o.Variant, o.Settings)
				})
		}
	},
}

// side finds SCENARIO[@VARIANT] in a lake; the name of a scenario may have an @. VARIANT may be the beginning of one. A
// note on stderr says which scenario is meant of several of one name.
func (e *env) side(l *lake.Lake, name string) (of whatif.Side, err error) {
	id, note, err := pipeline.ResolveNoted(l, name, false)
	if at := strings.LastIndexByte(name, '@'); err != nil && at >= 0 {
		of.Variant = name[at+1:]
		id, note, err = pipeline.ResolveNoted(l, name[:at], false)
	}
	if of.Scenario = string(id); err != nil {
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
		err = usagef("%s: the base is a scenario; --estimator says which of its estimates is changed", name)
	}
	return of.Scenario, err
}

// variantOf completes the beginning of the name of one of a scenario's variants; others, and whole names, stay.
func variantOf(l *lake.Lake, id lake.ScenarioID, asked string) string {
	if _, err := pipeline.ParseVariant(asked); err == nil {
		return asked
	}
	status, _ := pipeline.ReadScenarioStatus(l, id, false) // else there are none
	isIt := func(v string) bool { return asked != "" && strings.HasPrefix(v, asked) }
	at := slices.IndexFunc(status.Variants, isIt)
	if at < 0 || slices.ContainsFunc(status.Variants[at+1:], isIt) {
		return asked
	}
	return status.Variants[at]
}

// withinFlags ask for an estimate from windows of time.
type withinFlags struct {
	sampled.Ask
	flags *pflag.FlagSet
}

// declare declares the flags of run.
func (w *withinFlags) declare(f *pflag.FlagSet) {
	w.declareCommon(f)
	f.StringVar(&w.By, "by", "", "with --within: groups whose percentiles have to be precise: service, vnet or "+
		"size_bin, or one group such as service=storage; default: all flows together")
	needs(f, "within", "by")
}

// declareCommon declares the flags of run, what-if and compare.
func (w *withinFlags) declareCommon(f *pflag.FlagSet) {
	w.flags = f
	parse(f, &w.Within, "string", units.ParseShare, "within", "", "estimate windows of time that are drawn at random "+
		"instead of the whole workload, until the interval of the percentile is no wider than ± this share of it, e.g. 2%")
	parseEach(f, &w.Of, func(text string) (float64, error) {
		at := slices.Index([]string{"50", "90", "99", "99.9"}, strings.TrimPrefix(text, "p")) // pipeline.Quantiles
		if at < 0 {
			return 0, errors.New("want p50, p90, p99 or p99.9")
		}
		return pipeline.Quantiles[at], nil
	}, "of", "with --within: percentile that has to be precise: p50, p90, p99 or p99.9; may be repeated; default: p99")
	parse(f, &w.Confidence, "string", units.ParseShare, "confidence", "95%",
		"with --within: how often the intervals hold the value of the whole workload")
	durationVar(f, &w.Budget, "budget", "",
		"with --within: answer at this time at the latest, e.g. 5m, from the windows that are simulated by then; an error if "+
			"they are too few; 0: no limit")
	needs(f, "within", "of", "confidence", "budget")
}

// ask is what the flags ask for; ok is false without --within.
func (w *withinFlags) ask() (a sampled.Ask, ok bool, err error) {
	if !w.flags.Changed("within") {
		return a, false, nil
	}
	if a = w.Ask; a.Of == nil {
		a.Of = []float64{0.99}
	}
	if err = a.Validate(); err != nil {
		return a, false, usageError{err}
	}
	return a, true, nil
}

// simulate makes the command simulate windows packet by packet.
func (w *withinFlags) simulate(r *runFlags) error {
	v, err := r.variant()
	if err == nil && !v.Auto && v.Estimator != estimators.Exact {
		err = usagef("--within simulates windows packet by packet: leave out --estimator, --passes and --cluster")
	}
	r.estimator, r.how.For = estimators.Exact.String(), pipeline.ForWindows
	return err
}

// askChange is what the flags ask a comparison for, whose --by names at most one kind of groups.
func (w *withinFlags) askChange(by []string, others ...string) (sampled.Ask, bool, error) {
	if w.flags.Changed("within") {
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

// writeWindows writes an answer from windows and then reports the gates that failed.
func writeWindows(e *env, value interface{ Text() *text.Answer }, verdict error) error {
	if e.form == "csv" {
		return usagef("--format csv does not go with --within")
	}
	return e.judged(value, value.Text(), verdict)
}

// compareWithin compares a scenario with another one, which other opens, by the same windows of both.
func compareWithin(
	ctx context.Context, e *env, o whatif.Settings, a sampled.Ask, base string,
	other func(base *pipeline.Estimation) (*pipeline.Estimation, error),
) error {
	before, err := e.open(pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings))
	if err != nil {
		return err
	}
	changed, err := e.open(other(before))
	if err != nil {
		return err
	}
	c, err := sampled.Compare(ctx, before, changed, a)
	if err != nil {
		return err
	}
	return writeWindows(e, c, c.Judge(e.gates))
}

var sweepCommand = command{
	name: "sweep", least: 1, most: 1,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		plan := whatif.SweepPlan{Quantile: 0.99}
		parameters := whatif.ParameterPlan{MaxRuns: 100}
		var seeds, confirm int
		show := 20
		r.declareLake(e, f)
		parse(f, &plan.Tier, "string", func(text string) (string, error) {
			tier, each := strings.CutPrefix(text, "each:")
			if !each || tier == "" {
				return "", errors.New("want each:TIER")
			}
			return tier, nil
		}, "fail", "", "each:TIER, such as each:fabric-spine: each cable of the tier is down, one at a time; "+
			"or each:TIER,TIER")
		for kind, doc := range map[string]string{"loss": "share of its packets that each cable loses, e.g. 1e-4",
			"bandwidth": "that each cable has, e.g. 1G or 50%", "delay": "propagation delay that each cable has, e.g. 50us"} {
			parse(f, &plan.Each, "string", func(text string) (string, error) {
				if plan.Each != "" {
					return "", errors.New("one of --loss, --bandwidth and --delay happens to each cable")
				}
				each := whatif.SweepPlan{Each: kind + " " + text}
				_, err := each.Changes([2]int32{})
				return each.Each, err
			}, kind, "", doc+", in place of going down")
		}
		intVar(f, &confirm, 0, math.MaxInt32, "confirm", "with --fail, by link cases (--estimator flow or independent): "+
			"how many of the worst cables are simulated in the whole network, too")
		needs(f, "fail", "confirm", "loss", "bandwidth", "delay")
		parseEach(f, &parameters.Axes, whatif.ParseAxis, "set", "key of the scenario file, or change of the scenario of "+
			"the lake, and its values, KEY=V,V; may be repeated: every combination is run")
		parse(f, &parameters.Until, "string", func(text string) (*gate.Gate, error) {
			g, err := gate.Parse(text)
			return &g, err
		}, "until", "", "with one --set: find the first of its values with this condition, such as 'service=db "+
			"p99_slowdown < 4', by bisection")
		needs(f, "set", "until")
		intVar(f, &seeds, 0, 10_000, "seeds", "with --set: seeds 1 to N as one more parameter")
		f.BoolVar(&parameters.Exact, "exact", false,
			"with --set: also simulate the whole network, packet by packet, for each combination (slow)")
		intVar(f, &parameters.MaxRuns, 1, math.MaxInt32, "max-runs", "with --set: refuse more combinations")
		f.Float64Var(&plan.Quantile, "quantile", plan.Quantile, "with --fail: quantile to rank by: 0.5, 0.9, 0.99 or 0.999")
		f.StringVar(&plan.Service, "service", "", "with --fail: service whose flows count; default: all flows")
		intVar(f, &show, 0, math.MaxInt32, "show", "how many to show")
		e.declareForm(f, forms...)
		r.declareEstimate(f)
		r.defaultAuto(f, "as run chooses; with --exact: flow")
		return func(ctx context.Context, args []string) error {
			if seeds > 0 {
				axis := whatif.Axis{Key: "seed"}
				for n := range seeds {
					axis.Values = append(axis.Values, strconv.Itoa(n+1))
				}
				parameters.Axes = append(parameters.Axes, axis)
			}
			set := len(parameters.Axes) > 0
			switch {
			case !set && (plan.Tier == "" || parameters.Exact):
				return usagef("want --fail each:TIER or --set KEY=V,V (--exact goes with --set)")
			case set && plan.Tier != "":
				return usagef("--fail each:TIER does not go with --set, where fail=[A:B],[C:D] and events=[...] are keys")
			case set && (f.Changed("service") || f.Changed("quantile")):
				return usagef("--service and --quantile rank the cables of --fail; with --set, --until judges a service, and " +
					"query slowdown_by_service has its percentiles")
			case !slices.Contains(pipeline.Quantiles, plan.Quantile):
				return usagef("--quantile %v: must be one of %v", plan.Quantile, pipeline.Quantiles)
			}
			if parameters.Exact && !f.Changed("estimator") { // to see what link cases are off by
				r.estimator = estimators.Flow.String()
			}
			o, err := r.settings(e)
			if err != nil {
				return err
			}
			if set {
				parameters.Scenario = args[0]
				p, err := whatif.SweepParameters(ctx, parameters, o)
				if errors.Is(err, scenario.ErrNoFile) {
					parameters.Change = changesOf
					if _, none := e.base(args[0]); none == nil {
						p, err = whatif.SweepParameters(ctx, parameters, o)
					} else {
						err = fmt.Errorf("%w; %w", err, none)
					}
				}
				if err != nil {
					return err
				}
				show := p.Slowest().ScenarioID
				if p.Found != nil {
					show = p.Found.ScenarioID
				}
				return e.write(p, nextReport(p.Text(), show, e.lake))
			}
			base, err := e.base(args[0])
			if err != nil {
				return err
			}
			s, err := whatif.RunSweep(ctx, base, plan, o)
			if err == nil {
				err = s.Confirm(ctx, confirm, o)
			}
			if err != nil {
				return err
			}
			shown := s.Base + "@" + s.Variant // --confirm has estimated another one after it
			a := nextReport(s.Text(show), shown, e.lake)
			a.Linef("  parsimon query worst_failures --lake %s --param scenario=%s --param service=%s",
				report.ShellQuote(e.lake), shown, report.ShellQuote(s.Plan.Service))
			return e.write(s, a)
		}
	},
}

// changesOf are what settings change in a scenario of the lake: the key bandwidth.CABLES and the value 40G are
// --bandwidth CABLES=40G of what-if.
func changesOf(settings []scenario.Setting) (c scenario.Changes, err error) {
	for _, s := range settings {
		if scenario.IsSetting(s.Key) {
			c.Settings = append(c.Settings, s)
			continue
		}
		kind, of, has := strings.Cut(s.Key, ".")
		value := s.Value
		if has {
			value = of + "=" + value
		}
		change, err := scenario.ParseChange(kind, value)
		if err != nil {
			return c, usagef("--set %s: %v", s, err)
		}
		c.Do = append(c.Do, change)
	}
	return c, nil
}

// nextReport adds the command that draws a sweep.
func nextReport(a *text.Answer, scenario, lake string) *text.Answer {
	a.Linef("\nNext:\n  parsimon report %s --lake %s", scenario, report.ShellQuote(lake))
	return a
}
