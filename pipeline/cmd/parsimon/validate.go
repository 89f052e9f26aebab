package main

import (
	"context"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
)

var validateCommand = command{
	name:   "validate",
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var truth string
		r.declareLake(e, f)
		r.declareScenario(f)
		r.declareEstimator(f)
		r.defaultAuto(f, "the answer of the last run")
		r.declareCluster(f)
		r.declareWorkers(f)
		f.StringVar(&truth, "truth", "exact", "exact, or a Parquet file with flow_id and fct_ns")
		e.declareForm(f, forms...)
		return func(ctx context.Context, _ []string) error {
			run, err := resume(ctx, e, &r)
			if err != nil {
				return err
			}
			if truth == "exact" {
				truth = ""
				if err := run.Exact(ctx); err != nil {
					return err
				}
			}
			a := &text.Answer{}
			v, err := validate(ctx, run, truth, a)
			if err != nil {
				return err
			}
			return e.write(v, a)
		}
	},
}

// validate holds an estimate against a truth file or, without one, against the simulation of the whole network, and
// adds the comparison to an answer for people.
func validate(ctx context.Context, run *pipeline.Estimation, truthFile string, a *text.Answer) (*whatif.Validation,
	error) {
	v, err := whatif.Validate(ctx, run, truthFile)
	if err != nil {
		return nil, err
	}
	if truthFile == "" {
		if err := summary.AddExact(a, run); err != nil {
			return nil, err
		}
	}
	v.AddTo(a)
	return v, nil
}
