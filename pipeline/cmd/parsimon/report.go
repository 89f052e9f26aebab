package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/whatif"
	"parsimon/queries/duckdb"
)

var reportCommand = command{
	name: "report", args: "SCENARIO[@VARIANT] --lake DIR [--compare BASE[@VARIANT]] [--output FILE]",
	least:   1,
	most:    1,
	summary: "charts of an estimate, as one HTML file",
	help: `
Writes one HTML file about a scenario (an id, the first letters of one, or a name): headline numbers with
intervals and warnings, charts with their tables and their SQL, what the estimate cost, and what it does not
model. The file is complete, at most 1.5 MB, and works offline in any current browser.

  parsimon report small --lake lake
  parsimon report mixed@flow-3 --lake lake --output mixed.html
  parsimon report "small, fail 288:292" --compare small --lake lake

The report of an estimate from windows of time (run --within) says so beside every percentile: it has the percentiles
of services and networks with their intervals, and leaves out what needs every flow.

--compare adds what changed over another scenario, and why nothing changed where nothing did. A comparison
that the lake does not hold yet is made first, as "parsimon compare" makes it.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var at lakeFlag
		var limits duckdb.Options
		var o report.Options
		at.declareLake(f)
		f.StringVar(&o.Compare, "compare", "", "scenario to compare with, the base")
		output := f.StringP("output", "o", "report.html", "file to write; a regular file is replaced in one step")
		declareMemory(f, &limits.MemoryBytes, "4GiB", "memory DuckDB may use; it spills beyond it")
		return func(ctx context.Context, args []string) error {
			o.Scenario = args[0]
			o.Command = "parsimon report"
			for _, word := range os.Args[min(2, len(os.Args)):] {
				o.Command += " " + report.ShellQuote(word)
			}
			if err := checkOutput("output", *output); err != nil {
				return err
			}
			l, err := at.openLake()
			if err != nil {
				return err
			}
			if limits.SpillDir, err = os.MkdirTemp("", "parsimon-report-*"); err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(limits.SpillDir) }()
			if err := prepareReport(ctx, e, l, limits, &o); err != nil {
				return err
			}
			lock := l.LockForReading()
			defer lock.Close()
			if o.Query, err = catalog.Options(l, limits); err != nil {
				return err
			}
			size, err := writeOutput(*output, func(w io.Writer) error { return report.Write(ctx, w, l.Path(), o) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %.2f MB\n", *output, float64(size)/1e6)
			return err
		}
	},
}

// prepareReport checks the scenarios of a report, makes their comparison if the lake lacks it, and adds what the
// estimate cost.
func prepareReport(ctx context.Context, e *env, l *lake.Lake, limits duckdb.Options, o *report.Options) error {
	var err error
	if o.Query, err = catalog.Options(l, limits); err != nil {
		return err
	}
	found, err := report.Find(ctx, l.Path(), *o)
	if err != nil {
		return err
	}
	if err := warnDamaged(e, l, found.Estimate.Scenario); err != nil {
		return err
	}
	if base := found.Base; base != nil {
		if err := warnDamaged(e, l, base.Scenario); err != nil {
			return err
		}
		if !found.Compared {
			_, err := whatif.Compare(ctx, l, whatif.Side{Scenario: base.Scenario, Variant: base.Variant},
				whatif.Side{Scenario: found.Estimate.Scenario, Variant: found.Estimate.Variant},
				whatif.CompareOptions{By: []string{"service"}, Links: 12})
			if err != nil {
				return err
			}
		}
	}
	ids := found.WindowScenarios
	if len(ids) == 0 {
		ids = []string{found.Estimate.Scenario}
	}
	o.Stages, err = stageCosts(l, ids)
	return err
}

// stageCosts reads what the stages of an estimate cost, those of its passes and of all its rounds of windows together.
func stageCosts(l *lake.Lake, ids []string) (out []report.StageCost, err error) {
	for _, id := range ids {
		s, err := pipeline.ReadScenarioStatus(l, lake.ScenarioID(id), false)
		if err != nil {
			return nil, err
		}
		for _, st := range s.Stages {
			at := slices.IndexFunc(out, func(c report.StageCost) bool { return c.Stage == st.Stage && c.Variant == st.Variant })
			if at < 0 {
				at, out = len(out), append(out, report.StageCost{Stage: st.Stage, Variant: st.Variant})
			}
			c := &out[at]
			c.Tasks, c.Seconds, c.Rows, c.Bytes = c.Tasks+st.Done, c.Seconds+st.Seconds, c.Rows+st.Rows, c.Bytes+st.Bytes
		}
	}
	return out, nil
}
