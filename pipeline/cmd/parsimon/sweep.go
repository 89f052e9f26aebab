package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

var sweepCommand = command{
	name: "sweep", args: "BASE --lake DIR --fail each:TIER|--set KEY=V,V ...",
	writes:  true,
	first:   []string{"lake", "fail", "set", "seeds", "exact", "quantile", "service", "show", "format", "estimator"},
	summary: "each cable of a tier down, one at a time (N-1); or every combination of parameters",
	help: `
With --fail each:TIER alone, takes every cable of a tier of BASE, a scenario of the lake, down, one at
a time, estimates what remains, and ranks the cables by what that does to a percentile of slowdown.

  parsimon sweep small --lake lake --fail each:fabric-spine
  parsimon sweep small --lake lake --fail each:tor-fabric,fabric-spine --quantile 0.999 --service web

With --set, BASE is a scenario file or the name of one that ships, and every combination of the given
values is estimated as a scenario of its own: any key of the file, list elements by [I], and
--seeds N for the seeds 1 to N. --fail each:TIER adds each cable down as one more parameter. A
transport of another kind has its default constants. All combinations are checked before the first run.

  parsimon sweep small --lake lake --set workload.max_load=20%,40%,60% --set transport.kind=dctcp,hpcc
  parsimon sweep small --lake lake --set topology.clos.oversubscription=1,2,4 --seeds 3 --exact

Results go to tables sweeps (question worst_failures) and sweep_runs (question parameter_sweep). A sweep
that was interrupted continues when it is given again.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var plan whatif.SweepPlan
		var fail string
		var show int
		var form string
		var axes []string
		var seeds, maxRuns int
		var exact bool
		r.declareLake(f)
		f.StringVar(&fail, "fail", "", "each:TIER, e.g. each:fabric-spine, or each:TIER,TIER")
		f.StringArrayVar(&axes, "set", nil, "key of the scenario file and its values, KEY=V,V; may be repeated: every combination is run")
		f.IntVar(&seeds, "seeds", 0, "with --set: seeds 1 to N as one more parameter")
		f.BoolVar(&exact, "exact", false, "with --set: also simulate the whole network, packet by packet, for each combination (slow)")
		f.IntVar(&maxRuns, "max-runs", 100, "with --set: refuse more combinations")
		f.Float64Var(&plan.Quantile, "quantile", 0.99, "quantile of slowdown to rank by: 0.5, 0.9, 0.99 or 0.999")
		f.StringVar(&plan.Service, "service", "", "service whose flows count; default: all flows")
		f.IntVar(&show, "show", 20, "how many to show")
		declareForms(f, &form)
		r.declareEstimate(f)
		return func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return usagef("name one scenario")
			}
			var each bool
			if plan.Tier, each = strings.CutPrefix(fail, "each:"); fail != "" && (!each || plan.Tier == "") {
				return usagef("--fail %q: want each:TIER", fail)
			}
			if len(axes) > 0 || seeds > 0 {
				parameters := whatif.ParameterPlan{Scenario: args[0], FailTier: plan.Tier, Exact: exact, MaxRuns: maxRuns}
				return sweepParameters(ctx, e, &r, parameters, axes, seeds, form)
			}
			if fail == "" || exact {
				return usagef("want --fail each:TIER or --set KEY=V,V (--exact goes with --set)")
			}
			switch {
			case !slices.Contains(whatif.SweepQuantiles(), plan.Quantile):
				return usagef("--quantile %v: must be one of %v", plan.Quantile, whatif.SweepQuantiles())
			case show < 0:
				return usagef("--show must not be negative")
			}
			o, done, err := r.whatIf(e)
			if err != nil {
				return err
			}
			defer done()
			s, err := whatif.RunSweep(ctx, args[0], plan, o)
			if err != nil {
				return err
			}
			e.metrics.failures(s)
			return e.write(form, s, func() (*text.Answer, error) { return nextReport(s.Text(show), s.Base, r.lake), nil })
		}
	},
}

// sweepParameters runs every combination of parameters.
func sweepParameters(ctx context.Context, e *env, r *runFlags, plan whatif.ParameterPlan, axes []string, seeds int,
	form string) error {
	for _, text := range axes {
		axis, err := whatif.ParseAxis(text)
		if err != nil {
			return usagef("--set %v", err)
		}
		plan.Axes = append(plan.Axes, axis)
	}
	if seeds < 0 || seeds > 10_000 || plan.MaxRuns < 1 {
		return usagef("--seeds %d, --max-runs %d: must be 0 to 10,000, and at least 1", seeds, plan.MaxRuns)
	}
	if seeds > 0 {
		axis := whatif.Axis{Key: "seed"}
		for n := range seeds {
			axis.Values = append(axis.Values, strconv.Itoa(n+1))
		}
		plan.Axes = append(plan.Axes, axis)
	}
	o, done, err := r.whatIf(e)
	if err != nil {
		return err
	}
	defer done()
	p, err := whatif.SweepParameters(ctx, plan, o)
	if errors.Is(err, scenario.ErrNoFile) {
		if l, lost := lake.Open(o.Lake, false); lost == nil {
			if model, unknown := pipeline.OpenModel(l, plan.Scenario); unknown == nil {
				return fmt.Errorf("scenario %s (%s) is in the lake, but --set changes keys of a scenario file: name the file "+
					"that it was made from", model.ID(), model.Spec.Name)
			}
		}
	}
	if err != nil {
		return err
	}
	e.metrics.parameters(p)
	return e.write(form, p, func() (*text.Answer, error) {
		return nextReport(p.Text(), p.Slowest().ScenarioID, r.lake), nil
	})
}

// nextReport adds the command that draws a sweep.
func nextReport(a *text.Answer, scenario, lake string) *text.Answer {
	a.Linef("\nNext:\n  parsimon report %s --lake %s", scenario, report.ShellQuote(lake))
	return a
}
