package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/newflows"
	"parsimon/schema/units"
	"parsimon/stages/topology"
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
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var size, format, src, dst string
		var q newflows.Question
		r.declareLake(f)
		r.declareScenario(f)
		r.declareEstimator(f)
		f.Lookup("estimator").DefValue = "what the lake holds: exact before flow before independent"
		r.declareCluster(f)
		f.StringVar(&src, "src", "", "sending host, by name or id (required)")
		f.StringVar(&dst, "dst", "", "receiving host, by name or id (required)")
		f.StringVar(&size, "size", "", "flow size, e.g. 1500 or 100KB (required)")
		f.IntVar(&q.N, "n", 10_000, "flows to draw")
		f.Uint64Var(&q.Seed, "seed", 1, "seed of the draws")
		declareTable(f, &format, "csv")
		return func(ctx context.Context, args []string) error {
			var err error
			if q.SizeBytes, err = units.Parse(size, units.Bytes); err != nil {
				return usagef("--size %q: %v", size, err)
			}
			switch {
			case src == "" || dst == "":
				return usagef("--src and --dst are required")
			case q.SizeBytes < 1 || q.SizeBytes > 1<<50:
				return usagef("--size %q: must be 1 to 2^50 bytes", size)
			}
			if q.N < 1 || q.N > 10_000_000 {
				return usagef("--n %d: must be 1 to 10,000,000", q.N)
			}
			if len(args) > 0 {
				return usagef("unexpected arguments %q", args)
			}
			dir, err := r.lakePath()
			if err != nil {
				return err
			}
			v, err := r.variant()
			if err != nil {
				return err
			}
			l, err := lake.Open(dir, false)
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
			if q.Src, err = model.Network.FindHost(src); err != nil {
				return fmt.Errorf("--src: %w", err)
			}
			if q.Dst, err = model.Network.FindHost(dst); err != nil {
				return fmt.Errorf("--dst: %w", err)
			}
			answer, err := newflows.Ask(ctx, pipeline.ReadOnly(model, v, pipeline.Settings{}), q)
			if err != nil {
				return err
			}
			return writeAnswer(e.stdout, q, answer, format, model.Network)
		}
	},
}

// writeAnswer writes times in ns for scripts (csv, json) and in ms for people (table).
func writeAnswer(w io.Writer, q newflows.Question, a *newflows.Answer, format string, n *topology.Network) error {
	switch format {
	case "json":
		type row struct {
			P        float64 `json:"quantile"`
			Slowdown float64 `json:"slowdown"`
			FCTNS    int64   `json:"fct_ns"`
			IdealNS  int64   `json:"ideal_ns"`
		}
		rows := make([]row, len(a.Quantiles))
		for i, x := range a.Quantiles {
			rows[i] = row{x.P, x.Slowdown, x.FCTNS, x.IdealNS}
		}
		return json.NewEncoder(w).Encode(rows)
	case "csv":
		c := csv.NewWriter(w)
		_ = c.Write([]string{"quantile", "slowdown", "fct_ns", "ideal_ns"}) // errors are kept for Error
		for _, x := range a.Quantiles {
			_ = c.Write([]string{strconv.FormatFloat(x.P, 'g', -1, 64), strconv.FormatFloat(x.Slowdown, 'g', -1, 64),
				strconv.FormatInt(x.FCTNS, 10), strconv.FormatInt(x.IdealNS, 10)})
		}
		c.Flush()
		return c.Error()
	case "table":
		var b strings.Builder
		fmt.Fprintf(&b, "%d draws of %d bytes from %s to %s, over %d paths\n", q.N, q.SizeBytes, n.Name(q.Src), n.Name(q.Dst), a.Paths)
		fmt.Fprintf(&b, "%8s %10s %12s %12s\n", "quantile", "slowdown", "fct_ms", "ideal_ms")
		for _, x := range a.Quantiles {
			fmt.Fprintf(&b, "%8g %10.4f %12.4f %12.4f\n", x.P, x.Slowdown, float64(x.FCTNS)/1e6, float64(x.IdealNS)/1e6)
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	return fmt.Errorf("no format %q", format)
}
