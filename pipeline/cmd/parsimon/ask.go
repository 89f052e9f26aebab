package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

var queryCommand = command{
	name: "query", args: "NAME|--sql TEXT|--list --lake DIR",
	summary: "ask the lake in SQL",
	help: `
Answers a question of the library by name, or any single SELECT, about what the lake holds:

  parsimon query --list
  parsimon query slowdown_by_size --lake lake --param scenario=ID
  parsimon query --lake lake --sql "SELECT count(*) FROM slowdowns WHERE slowdown > 10"

Views: one per table (parsimon query --lake DIR --sql "SHOW TABLES" lists them) and one per
question. A query can neither write anything nor read outside the lake. The file
LAKE/parsimon.duckdb holds the same views for DuckDB itself: cd LAKE && duckdb parsimon.duckdb.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var lake, text, form, memory string
		var list bool
		var params []string
		f.StringVar(&lake, "lake", "", "directory of the lake (required)")
		f.StringVar(&text, "sql", "", "a SELECT of your own")
		f.BoolVar(&list, "list", false, "list the questions and their parameters")
		f.StringArrayVar(&params, "param", nil, "parameter of the question, name=value; may be repeated")
		f.StringVar(&form, "format", "table", "table, csv, json or parquet")
		f.StringVar(&memory, "memory-limit", "", "memory DuckDB may use, e.g. 1GB")
		return func(ctx context.Context, args []string) (err error) {
			if list {
				return listQueries(e.stdout)
			}
			if (len(args) == 1) == (text != "") {
				return usagef("give the name of a question or --sql, one of the two")
			}
			if lake == "" {
				return usagef("--lake is required")
			}
			if !slices.Contains(format.Names(), form) {
				return usagef("--format %q: must be one of %s", form, strings.Join(format.Names(), ", "))
			}
			if form == "parquet" {
				if file, ok := e.stdout.(*os.File); ok && isTerminal(file) {
					return usagef("--format parquet is not for a terminal: redirect it to a file")
				}
			}
			values, err := parseParams(params)
			if err != nil {
				return err
			}
			var q queries.Query
			if text == "" {
				if q, err = queries.Get(args[0]); err != nil {
					return usageError{err}
				}
			} else if len(values) > 0 {
				return usagef("--param goes with the name of a question, not with --sql")
			}
			if err := warnUnsound(e, lake, values["scenario"]); err != nil {
				return err
			}
			var limit int64
			if memory != "" {
				if limit, err = parseBytes(memory); err != nil {
					return usagef("--memory-limit %q: %v", memory, err)
				}
			}
			db, err := queries.Open(ctx, lake, queries.Options{Options: duckdb.Options{MemoryBytes: limit}})
			if err != nil {
				return err
			}
			defer func() {
				if e := db.Close(); err == nil {
					err = e
				}
			}()
			var rows *format.Rows
			if text == "" {
				rows, err = db.Run(ctx, q, values)
			} else {
				rows, err = db.SQL(ctx, text)
			}
			if err != nil {
				return err
			}
			return rows.Write(e.stdout, form)
		}
	},
}

// warnUnsound says on stderr which scenarios of the lake an answer cannot be trusted for: those a run
// is still at work on, or was cut short on, and those with files gone. Asking for just such a
// scenario is an error.
func warnUnsound(e *env, lake, scenario string) error {
	l, err := pipeline.OpenLake(lake, false)
	if err != nil {
		return err
	}
	status, err := pipeline.ReadStatus(l, false)
	if err != nil {
		return err
	}
	for _, s := range status.Scenarios {
		if s.State == "complete" {
			continue
		}
		if s.ScenarioID == scenario {
			return fmt.Errorf("scenario %s is %s: run it again before asking about it (parsimon status --lake %s says more)", s.ScenarioID, s.State, lake)
		}
		if scenario == "" {
			if _, err := fmt.Fprintf(e.stderr, "parsimon query: scenario %s (%s) is %s: answers about it may lack rows\n", s.ScenarioID, s.Name, s.State); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseParams(params []string) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usagef("--param %q: must be name=value", p)
		}
		if _, twice := values[name]; twice {
			return nil, usagef("--param %s is given twice", name)
		}
		values[name] = value
	}
	return values, nil
}

func listQueries(w io.Writer) error {
	for _, q := range queries.List() {
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    grain: %s\n    units: %s\n", q.Name, q.Question, q.Grain, q.Units); err != nil {
			return err
		}
		for _, p := range q.Params {
			if _, err := fmt.Fprintf(w, "    --param %s=%s  %s\n", p.Name, p.Default, p.Doc); err != nil {
				return err
			}
		}
	}
	return nil
}

var statusCommand = command{
	name: "status", args: "--lake DIR",
	summary: "what the lake holds: complete, partial or damaged",
	help: `
Lists the scenarios of a lake with the state of each stage, and its ingested workloads, and reads every file that should be there, every byte of it. Exits 1 if anything is damaged.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var lake, format string
		f.StringVar(&lake, "lake", "", "directory of the lake (required)")
		f.StringVar(&format, "format", "table", "table or json")
		return func(_ context.Context, args []string) error {
			if lake == "" || len(args) > 0 {
				return usagef("--lake is required, and nothing else")
			}
			if format != "table" && format != "json" {
				return usagef("--format %q: must be table or json", format)
			}
			l, err := pipeline.OpenLake(lake, false)
			if err != nil {
				return err
			}
			status, err := pipeline.ReadStatus(l, true)
			if err != nil {
				return err
			}
			if err := writeStatus(e.stdout, status, format); err != nil {
				return err
			}
			for _, s := range status.Scenarios {
				if s.State == "damaged" {
					return fmt.Errorf("scenario %s is damaged: run it again, and what is damaged is made again", s.ScenarioID)
				}
			}
			for _, s := range status.Workloads {
				if s.State == "damaged" {
					return fmt.Errorf("workload %s is damaged: ingest it again, and what is damaged is made again", s.ID)
				}
			}
			return nil
		}
	},
}

func writeStatus(w io.Writer, status *pipeline.Status, format string) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		return enc.Encode(status)
	}
	var b strings.Builder
	if len(status.Scenarios)+len(status.Workloads) == 0 {
		fmt.Fprintf(&b, "%s holds no scenario and no workload\n", status.Lake)
	}
	for _, s := range status.Scenarios {
		fmt.Fprintf(&b, "%s  %s  %s\n", s.ScenarioID, s.State, s.Name)
		for _, st := range s.Stages {
			name := st.Stage
			if st.Variant != "" {
				name += " (" + st.Variant + ")"
			}
			fmt.Fprintf(&b, "  %-24s %-9s %4d of %4d tasks %12d rows %12d bytes\n", name, st.State, st.Done, st.Tasks, st.Rows, st.Bytes)
			for _, d := range st.Damage {
				fmt.Fprintf(&b, "    damaged: %s\n", d)
			}
		}
	}
	for _, s := range status.Workloads {
		fmt.Fprintf(&b, "workload %s  %s  %s, %d files: %d rows = %d flows + %d merged + %d rejected\n", s.ID, s.State, s.Format, s.Sources, s.Rows, s.Flows, s.Merged, s.Rejects)
		for _, d := range s.Damage {
			fmt.Fprintf(&b, "    damaged: %s\n", d)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var estimateCommand = command{
	name: "estimate", args: "--lake DIR --src HOST --dst HOST --size BYTES",
	summary: "slowdown of flows that need not be in the workload",
	help: `
Draws flows of one size between two hosts on a scenario that has been estimated. Each takes a path by
ECMP and a moment of the workload, and at every link meets what a flow of its size met there at that
moment. Where the scenario was estimated by the paper's method only (--estimator independent), it takes
a delay from the distribution of each of its links, independently, as the paper does. Prints quantiles
of slowdown and FCT.

  parsimon estimate --lake lake --src 3 --dst 200 --size 100KB --n 10000`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var size, format string
		var q pipeline.Question
		r.declareLake(f)
		r.declareScenario(f)
		r.declareEstimator(f)
		f.Lookup("estimator").DefValue = "what the lake holds, flow before independent"
		f.Lookup("passes").DefValue = "the most that the lake holds"
		r.declareCluster(f)
		f.Int32Var(&q.Src, "src", -1, "node id of the sending host (required)")
		f.Int32Var(&q.Dst, "dst", -1, "node id of the receiving host (required)")
		f.StringVar(&size, "size", "", "flow size, e.g. 1500 or 100KB (required)")
		f.IntVar(&q.N, "n", 10_000, "flows to draw")
		f.Uint64Var(&q.Seed, "seed", 1, "seed of the draws")
		f.StringVar(&format, "format", "table", "table, csv or json")
		return func(ctx context.Context, args []string) error {
			var err error
			if q.SizeBytes, err = parseBytes(size); err != nil {
				return usagef("--size %q: %v", size, err)
			}
			switch {
			case q.Src < 0 || q.Dst < 0:
				return usagef("--src and --dst are required")
			case q.SizeBytes > 1<<50:
				return usagef("--size %q: must be at most 2^50 bytes", size)
			case format != "table" && format != "csv" && format != "json":
				return usagef("--format %q: must be table, csv or json", format)
			}
			if q.N < 1 || q.N > 10_000_000 {
				return usagef("--n %d: must be 1 to 10,000,000", q.N)
			}
			if len(args) > 0 {
				return usagef("unexpected arguments %q", args)
			}
			o, err := r.options(e)
			if err != nil {
				return err
			}
			if o.Passes == pipeline.AutoPasses && f.Changed("estimator") {
				return usagef("--passes auto: to take the most that the lake holds, leave --estimator and --passes out")
			}
			o.ReadOnly = true
			o.AnyEstimate = !f.Changed("estimator") && (!f.Changed("passes") || o.Passes == pipeline.AutoPasses)
			run, err := pipeline.Resume(r.scenario, o)
			if err != nil {
				return err
			}
			defer run.Close()
			answer, err := run.Ask(ctx, q)
			if err != nil {
				return err
			}
			return writeAnswer(e.stdout, q, answer, format)
		}
	},
}

func writeAnswer(w io.Writer, q pipeline.Question, a *pipeline.Answer, format string) error {
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
			_ = c.Write([]string{strconv.FormatFloat(x.P, 'g', -1, 64), strconv.FormatFloat(x.Slowdown, 'g', -1, 64), strconv.FormatInt(x.FCTNS, 10), strconv.FormatInt(x.IdealNS, 10)})
		}
		c.Flush()
		return c.Error()
	case "table":
		var b strings.Builder
		fmt.Fprintf(&b, "%d draws of %d bytes from host %d to host %d, over %d paths\n", q.N, q.SizeBytes, q.Src, q.Dst, a.Paths)
		fmt.Fprintf(&b, "%8s %10s %14s %14s\n", "quantile", "slowdown", "fct_ns", "ideal_ns")
		for _, x := range a.Quantiles {
			fmt.Fprintf(&b, "%8g %10.4f %14d %14d\n", x.P, x.Slowdown, x.FCTNS, x.IdealNS)
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	return fmt.Errorf("no format %q", format)
}

var benchKernelCommand = command{
	name: "bench-kernel", args: "--cases DIR [--out FCTS.csv]",
	summary: "time the link kernel on link cases in text form",
	help: `
Simulates every *.txt link case in a directory on one thread. The last line says packet_hops, the
sum of ⌈size/1000⌉ over all flows, and ns_per_packet_hop; the clock runs over everything but
parsing. --out writes the FCTs as CSV: case, flow_id, fct_ns, ideal_ns.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var cases, out string
		f.StringVar(&cases, "cases", "", "directory of link cases (required)")
		f.StringVar(&out, "out", "", "CSV file for the FCTs")
		return func(_ context.Context, args []string) error {
			if cases == "" || len(args) > 0 {
				return usagef("--cases is required, and nothing else but --out")
			}
			return pipeline.BenchKernel(cases, out, e.stdout)
		}
	},
}
