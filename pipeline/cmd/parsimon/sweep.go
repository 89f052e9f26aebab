package main

import (
	"context"
	"parsimon/pipeline/whatif"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

var sweepCommand = command{
	name: "sweep", args: "BASE --lake DIR --fail each:TIER",
	summary: "which cable's failure is worst: each of a tier down, one at a time (N-1)",
	help: `
Takes every cable of a tier of BASE down, one at a time, and ranks them by what that does to a
percentile of slowdown. All are screened: the cases of the links whose flows change are run as they are
and as they would be, and what a flow is delayed there more, or less, is added to BASE's estimate. Then
the worst are estimated in full, with as many passes as --passes says. (With --estimator independent,
which does not know a flow's own delays, all are estimated in full.)

  parsimon sweep small --lake lake --fail each:fabric-spine
  parsimon sweep small --lake lake --fail each:tor-fabric,fabric-spine --quantile 0.999 --service web

Of each cable the percentiles of every service stay, in the lake's table sweeps (question
worst_failures), and the link cases that changed, in the cache; "parsimon what-if BASE --fail A:B"
makes a scenario of one quickly. A sweep that was interrupted continues when it is given again, also
with another --quantile or --service.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var plan whatif.SweepPlan
		var fail string
		var show int
		var form string
		r.declareLake(f)
		f.StringVar(&fail, "fail", "", "each:TIER, e.g. each:fabric-spine, or each:TIER,TIER (required)")
		f.Float64Var(&plan.Quantile, "quantile", 0.99, "quantile of slowdown to rank by: 0.5, 0.9, 0.99 or 0.999")
		f.StringVar(&plan.Service, "service", "", "service whose flows count; default: all flows")
		f.IntVar(&plan.Worst, "worst", 10, "how many to estimate in full after the screening")
		f.IntVar(&show, "show", 20, "how many to show")
		declareFormat(f, &form)
		r.declareEstimator(f)
		r.declareCluster(f)
		r.declareCache(f)
		r.declareWorkers(f)
		r.declarePartitions(f)
		r.declareMemory(f)
		return func(ctx context.Context, args []string) error {
			var each bool
			if plan.Tier, each = strings.CutPrefix(fail, "each:"); !each || plan.Tier == "" {
				return usagef("--fail %q: want each:TIER", fail)
			}
			switch {
			case len(args) != 1:
				return usagef("name one scenario of the lake")
			case !slices.Contains(whatif.SweepQuantiles(), plan.Quantile):
				return usagef("--quantile %v: must be one of %v", plan.Quantile, whatif.SweepQuantiles())
			case plan.Worst < 0 || show < 0:
				return usagef("--worst and --show must not be negative")
			case r.passes == "auto":
				return usagef("--passes auto: a sweep needs a number, the same for all")
			}
			if err := checkFormat(form); err != nil {
				return err
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
			if form == "json" {
				return writeJSON(e.stdout, s)
			}
			return s.Write(e.stdout, show)
		}
	},
}
