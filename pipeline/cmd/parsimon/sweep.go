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
	name: "sweep", args: "BASE --lake DIR --fail each:TIER|--set KEY=V,V ...", least: 1, most: 1,
	writes: true,
	first: []string{"lake", "fail", "loss", "set", "seeds", "exact", "quantile", "service", "show", "format",
		"estimator"},
	summary: "each cable of a tier down, one at a time (N-1); or every combination of parameters",
	help: `
With --fail each:TIER alone, takes every cable of a tier of BASE, a scenario of the lake, down, one at
a time, estimates what remains, and ranks the cables by what that does to a percentile of slowdown.

  parsimon sweep small --lake lake --fail each:fabric-spine
  parsimon sweep small --lake lake --fail each:tor-fabric,fabric-spine --quantile 0.999 --service web

With --loss, each cable loses that share of its packets instead: a gray failure.

  parsimon sweep small --lake lake --fail each:fabric-spine --loss 1e-4 --estimator exact

With --set, BASE is a scenario file or the name of one that ships (or see below), and every combination of the given
values is estimated as a scenario of its own: any key of the file, list elements by [I], and
--seeds N for the seeds 1 to N. --fail each:TIER adds each cable down as one more parameter. A
transport of another kind has its default constants. All combinations are checked before the first run.

  parsimon sweep small --lake lake --set workload.max_load=20%,40%,60% --set transport.kind=dctcp,hpcc
  parsimon sweep small --lake lake --set topology.clos.oversubscription=1,2,4 --seeds 3 --exact

BASE may also be a scenario of the lake. The keys are then the changes of what-if: bandwidth.CABLES,
delay.CABLES, scale.SERVICE, move.SERVICE, fail and add-cable. --until finds the first value of one
key with a condition, by bisection; from one value on the condition must be true. The smallest uplinks
with which p99 of db is below 4:

  parsimon sweep day --lake lake --set bandwidth.tor-spine=40G,100G,200G,400G \
      --until 'service=db p99_slowdown < 4'

Results go to tables sweeps (question worst_failures) and sweep_runs (question parameter_sweep). A sweep
that was interrupted continues when it is given again.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		plan := whatif.SweepPlan{Quantile: 0.99}
		parameters := whatif.ParameterPlan{MaxRuns: 100}
		var seeds int
		var form string
		show := 20
		r.declareLake(f)
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
		}, "loss", "", "share of its packets that each cable loses, e.g. 1e-4, in place of going down (--estimator exact)")
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
		declareForms(f, &form)
		r.declareEstimate(f)
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
			case set && plan.Loss > 0:
				return usagef("--loss goes with --fail each:TIER alone; in --set, events=[...] is a key")
			case r.estimator != stages.WholeNetwork.String() && !parameters.Exact && slices.ContainsFunc(parameters.Axes,
				func(a whatif.Axis) bool { return strings.HasPrefix(a.Key, "switches.") }):
				return usagef("--set switches…: only the whole network has buffers that end: use --estimator exact")
			case !slices.Contains(whatif.SweepQuantiles(), plan.Quantile):
				return usagef("--quantile %v: must be one of %v", plan.Quantile, whatif.SweepQuantiles())
			}
			o, done, err := r.settings(e)
			if err != nil {
				return err
			}
			defer done()
			if set {
				parameters.Scenario, parameters.FailTier = args[0], plan.Tier
				p, err := whatif.SweepParameters(ctx, parameters, o)
				if errors.Is(err, scenario.ErrNoFile) && holds(o.Lake, args[0]) {
					parameters.Change = changesOf
					p, err = whatif.SweepParameters(ctx, parameters, o)
				}
				if err != nil {
					return err
				}
				e.metrics.parameters(p)
				show := p.Slowest().ScenarioID
				if p.Found != nil {
					show = p.Found.ScenarioID
				}
				return e.write(form, p, nextReport(p.Text(), show, r.lake))
			}
			s, err := whatif.RunSweep(ctx, args[0], plan, o)
			if err != nil {
				return err
			}
			e.metrics.failures(s)
			return e.write(form, s, nextReport(s.Text(show), s.Base, r.lake))
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
func changesOf(settings []scenario.Setting) (scenario.Changes, error) {
	var c changeFlags
	f := pflag.NewFlagSet("set", pflag.ContinueOnError)
	c.declare(f)
	for _, s := range settings {
		name, of, has := strings.Cut(s.Key, ".")
		if !slices.Contains([]string{"bandwidth", "delay", "scale", "move", "fail", "add-cable"}, name) {
			return c.Changes, usagef("--set %s: a scenario of the lake has the keys bandwidth.CABLES, delay.CABLES, "+
				"scale.SERVICE, move.SERVICE, fail and add-cable", s)
		}
		if has {
			s.Value = of + "=" + s.Value
		}
		if err := f.Set(name, s.Value); err != nil {
			return c.Changes, usagef("--set %s: %v", s.Key, err)
		}
	}
	return c.changes()
}

// nextReport adds the command that draws a sweep.
func nextReport(a *text.Answer, scenario, lake string) *text.Answer {
	a.Linef("\nNext:\n  parsimon report %s --lake %s", scenario, report.ShellQuote(lake))
	return a
}
