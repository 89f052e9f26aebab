package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

var validateCommand = command{
	name: "validate", args: "--lake DIR [--scenario ID] --truth exact|FILE.parquet",
	writes:  true,
	summary: "hold an estimate against the truth",
	help: `
Joins the slowdowns of a scenario that has been estimated with a truth, and reports by flow size, and
in all, p50, p90, p99 and p99.9 of both, the error with its 95% bootstrap interval, and the
Wasserstein distance of the logarithms of the slowdowns. The comparison also goes to the lake's table
validations.

The truth is "exact", a simulation of the whole network, packet by packet, which is made now if the
lake does not hold it; or a Parquet file with flow_id and fct_ns, from another simulator or from
measurements.

--sample keeps a long trace affordable: it simulates a stretch from the middle of it, after as long a
warm-up, and compares the flows that start in the stretch. The interval states the precision of such a
sample.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var whole exactFlags
		var truth, form string
		var sample, warmup time.Duration
		r.declareLake(f)
		r.declareScenario(f)
		r.declareEstimator(f)
		r.defaultAuto(f, "the answer of the last run")
		r.declareCluster(f)
		whole.declare(f)
		r.declareWorkers(f)
		f.StringVar(&truth, "truth", "exact", "exact, or a Parquet file with flow_id and fct_ns")
		f.DurationVar(&sample, "sample", 0, "length of the stretch to simulate whole, e.g. 20ms; 0: all of the trace")
		f.DurationVar(&warmup, "warmup", 0, "simulated before the stretch but not compared; 0: as long as the stretch")
		declareForms(f, &form)
		return func(ctx context.Context, _ []string) error {
			switch {
			case whole.switchBuffer != "" && truth != "exact":
				return usagef("--switch-buffer goes with --truth exact")
			case sample < 0 || warmup < 0:
				return usagef("--sample and --warmup must not be negative")
			case sample > 0 && truth != "exact":
				return usagef("--sample goes with --truth exact")
			case warmup > 0 && sample == 0:
				return usagef("--warmup goes with --sample")
			}
			switches, err := whole.switches()
			if err != nil {
				return err
			}
			run, done, err := resume(ctx, e, &r)
			if err != nil {
				return err
			}
			defer done()
			x, err := exactOf(run, switches)
			if err != nil {
				return err
			}
			if truth == "exact" {
				g, err := run.Generated()
				if err != nil {
					return err
				}
				x.Window, truth = g.Middle(sample, warmup), ""
				if err := run.Exact(ctx, x); err != nil {
					return err
				}
			}
			a := &text.Answer{}
			v, err := validate(ctx, e, run, truth, x, a)
			if err != nil {
				return err
			}
			return e.write(form, v, a)
		}
	},
}

// validate holds an estimate against a truth file or, without one, against a whole-network simulation, and adds the
// comparison to an answer for people.
func validate(ctx context.Context, e *env, run *pipeline.Estimation, truthFile string, x pipeline.Exact,
	a *text.Answer) (*whatif.Validation, error) {
	v, err := whatif.Validate(ctx, run, truthFile, x)
	if err != nil {
		return nil, err
	}
	e.metrics.validation(v)
	if truthFile == "" {
		if err := summary.AddExact(a, run, x); err != nil {
			return nil, err
		}
	}
	v.AddTo(a)
	return v, nil
}
