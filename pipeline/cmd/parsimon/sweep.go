package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/schema/units"
	"parsimon/stages"
)

var sweepCommand = command{
	name: "sweep", least: 1, most: 1,
	writes: true,
	first: []string{"lake", "fail", "loss", "set", "seeds", "exact", "quantile", "service", "show", "format",
		"estimator"},
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		plan := whatif.SweepPlan{Quantile: 0.99}
		parameters := whatif.ParameterPlan{MaxRuns: 100}
		var seeds int
		show := 20
		r.declareLake(e, f)
		parse(f, &plan.Tier, "string", func(text string) (string, error) {
			tier, each := strings.CutPrefix(text, "each:")
			if !each || tier == "" {
				return "", errors.New("want each:TIER")
			}
			return tier, nil
		}, "fail", "", "each:TIER, e.g. each:fabric-spine, or each:TIER,TIER")
		parse(f, &plan.Loss, "string", func(text string) (float64, error) {
			share, err := units.ParseShare(text)
			if err == nil && !(share > 0 && share < 1) {
				err = errors.New("must be above 0 and below 1")
			}
			return share, err
		}, "loss", "", "share of its packets that each cable loses, e.g. 1e-4, in place of going down")
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
		f.Float64Var(&plan.Quantile, "quantile", plan.Quantile, "quantile of slowdown to rank by: 0.5, 0.9, 0.99 or 0.999")
		f.StringVar(&plan.Service, "service", "", "service whose flows count; default: all flows")
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
			case !slices.Contains(pipeline.Quantiles, plan.Quantile):
				return usagef("--quantile %v: must be one of %v", plan.Quantile, pipeline.Quantiles)
			}
			if parameters.Exact && !f.Changed("estimator") { // to see what link cases are off by
				r.estimator = stages.Flow.String()
			}
			o, err := r.settings(e)
			if err != nil {
				return err
			}
			if set {
				parameters.Scenario = args[0]
				p, err := whatif.SweepParameters(ctx, parameters, o)
				if errors.Is(err, scenario.ErrNoFile) && holds(o.Lake, args[0]) {
					parameters.Change = changesOf
					p, err = whatif.SweepParameters(ctx, parameters, o)
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
			s, err := whatif.RunSweep(ctx, args[0], plan, o)
			if err != nil {
				return err
			}
			return e.write(s, nextReport(s.Text(show), s.Base, e.lake))
		}
	},
}

// holds reports whether a lake has a scenario.
func holds(dir, name string) bool {
	l, err := lake.Open(dir, false)
	if err == nil {
		_, err = pipeline.Resolve(l, name)
	}
	return err == nil
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
