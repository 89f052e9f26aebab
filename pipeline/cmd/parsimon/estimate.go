package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/newflows"
	"parsimon/pipeline/text"
)

var estimateCommand = command{
	name: "estimate", args: "--lake DIR --src HOST --dst HOST --size BYTES",
	summary: "slowdown of flows that need not be in the workload",
	help: `
Draws flows of one size between two hosts on a scenario that has been estimated. Each takes a path by
ECMP and a moment of the workload, and at every link meets what a flow of its size met there at that
moment. Where the scenario was estimated by the paper's method only (--estimator independent), it takes
a delay from the distribution of each of its links, independently, as the paper does. Prints quantiles
of slowdown and FCT.

  parsimon estimate --lake lake --src web3 --dst db7 --size 100KB --n 10000`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var form string
		q := newflows.Question{N: 10_000}
		r.declareLake(f)
		r.declareScenario(f)
		r.declareEstimator(f)
		f.Lookup("estimator").DefValue = "what the lake holds: exact before flow before independent"
		r.declareCluster(f)
		src := f.String("src", "", "sending host, by name or id (required)")
		dst := f.String("dst", "", "receiving host, by name or id (required)")
		parse(f, &q.SizeBytes, "string", sizeOf("1B"), "size", "", "flow size, e.g. 1500 or 100KB (required)")
		intVar(f, &q.N, 1, 10_000_000, "n", "flows to draw")
		f.Uint64Var(&q.Seed, "seed", 1, "seed of the draws")
		declareForm(f, &form, "table", "csv", "json")
		return func(ctx context.Context, _ []string) error {
			if *src == "" || *dst == "" || q.SizeBytes == 0 {
				return usagef("--src, --dst and --size are required")
			}
			if q.SizeBytes > 1<<50 {
				return usagef("--size: must be 1 to 2^50 bytes")
			}
			v, err := r.variant()
			if err != nil {
				return err
			}
			l, err := r.openLake()
			if err != nil {
				return err
			}
			model, err := pipeline.OpenModel(l, r.scenario)
			if err != nil {
				return err
			}
			if !f.Changed("estimator") && !f.Changed("passes") && !f.Changed("cluster") {
				if v, err = pipeline.BestVariant(model); err != nil {
					return err
				}
			}
			if q.Src, err = model.Network.FindHost(*src); err != nil {
				return fmt.Errorf("--src: %w", err)
			}
			if q.Dst, err = model.Network.FindHost(*dst); err != nil {
				return fmt.Errorf("--dst: %w", err)
			}
			answer, err := newflows.Ask(ctx, pipeline.ReadOnly(model, v, pipeline.Settings{}), q)
			if err != nil {
				return err
			}
			return e.write(form, answer.Quantiles, func() (*text.Answer, error) {
				a := &text.Answer{}
				a.Linef("%d draws of %d bytes from %s to %s, over %d paths", q.N, q.SizeBytes, model.Network.Name(q.Src),
					model.Network.Name(q.Dst), answer.Paths)
				table := a.Table("quantile", "slowdown", "fct_ns", "ideal_ns")
				for _, x := range answer.Quantiles {
					table.Add(x.P, x.Slowdown, x.FCTNS, x.IdealNS)
				}
				return a, nil
			})
		}
	},
}
