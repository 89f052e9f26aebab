package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/whatif"
	"parsimon/queries/duckdb"
)

// A reportVerb writes charts of an estimate.
type reportVerb struct {
	*env
	limits  duckdb.Options
	compare string // scenario
	output  string // file
}

func (v *reportVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	f.StringVar(&v.compare, "compare", "", "the base: a `scenario` to compare with")
	f.StringVarP(&v.output, "output", "o", "report.html", "`file` to write; a regular file is replaced in one "+
		"step")
	declareMemory(f, &v.limits.MemoryBytes, "4GiB", "memory that DuckDB may use; beyond it, it "+
		"spills to the lake's disk")
}

func (v *reportVerb) run(ctx context.Context, args []string) error {
	o := report.Options{Command: "parsimon", Program: buildVersion().String()}
	for _, word := range v.args {
		o.Command += " " + report.ShellQuote(word)
	}
	if err := v.checkOutput("output", v.output); err != nil {
		return err
	}
	l, err := v.openLake(lake.Open)
	if err != nil {
		return err
	}
	var end func()
	v.limits.SpillDir, end = l.BeginQuery()
	defer end()
	if err := v.prepare(ctx, l, &o, args[0]); err != nil {
		return err
	}
	if o.Query, err = catalog.Options(l, v.limits); err != nil {
		return err
	}
	var page bytes.Buffer
	err = report.Write(ctx, &page, l.Path(), o)
	if duckdb.IsOutOfMemory(err) {
		err = tooMuchMemory("report", v.limits, duckdb.FirstLine(err).Error())
	}
	if err != nil {
		return err
	}
	megabytes := float64(page.Len()) / 1e6
	err = v.writeOutput(ctx, v.output, func(w io.Writer) error {
		_, err := page.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(v.stdout, "%s: %.2f MB\n", v.output, megabytes)
	return err
}

// find finds an estimate that is given as SCENARIO or SCENARIO@VARIANT. Without a variant, prefer is chosen
// if there is an estimate of that name.
func (v *reportVerb) find(l *lake.Lake, o *report.Options, name, prefer string) (found report.Estimate,
	err error) {
	at, err := v.side(l, name)
	if err != nil {
		return found, err
	}
	spec, err := pipeline.ReadSpec(l, lake.ScenarioID(at.Scenario))
	if err == nil {
		err = warnDamaged(v.env, l, at.Scenario)
	}
	if err != nil {
		return found, err
	}
	return report.Choose(o.Query.Files, at.Scenario, spec.Name, at.Variant, prefer)
}

// prepare finds the estimates of a report, and makes their comparison if the lake lacks it.
func (v *reportVerb) prepare(ctx context.Context, l *lake.Lake, o *report.Options, scenario string) (
	err error) {
	if o.Query, err = catalog.Options(l, v.limits); err != nil {
		return err
	}
	if o.Estimate, err = v.find(l, o, scenario, ""); err != nil || v.compare == "" {
		return err
	}
	base, err := v.find(l, o, v.compare, o.Estimate.Variant.String())
	if err != nil {
		return err
	}
	o.Base = &base
	compared, err := report.Compared(ctx, l.Path(), *o)
	if err != nil || compared {
		return err
	}
	_, err = whatif.Compare(ctx, l, whatif.Side{Scenario: base.Scenario, Variant: base.Variant.String()},
		whatif.Side{Scenario: o.Estimate.Scenario, Variant: o.Estimate.Variant.String()},
		whatif.CompareOptions{By: []string{"service"}, Links: 12})
	return err
}
