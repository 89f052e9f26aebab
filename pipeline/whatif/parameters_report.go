package whatif

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
)

// publish writes the rows of one run of table sweep_runs: one for each axis.
func (p *Parameters) publish(e *pipeline.Estimation, i int) error {
	t, run := schema.SweepRuns, &p.Runs[i]
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Arrow())
	defer b.Release()
	word := func(column, v string) { b.Field(t.Index(column)).(*array.StringBuilder).Append(v) }
	number := func(column string, v float64) {
		if f := b.Field(t.Index(column)).(*array.Float64Builder); math.IsNaN(v) {
			f.AppendNull()
		} else {
			f.Append(v)
		}
	}
	for _, a := range p.Axes {
		word("sweep", p.Name)
		word("settings", p.SettingsOf(i))
		word("parameter", a.Key)
		word("value", run.Settings[a.Key])
		number("value_number", numberOf(run.Settings[a.Key]))
		b.Field(t.Index("flows")).(*array.Int64Builder).Append(run.Flows)
		for q, name := range []string{"p50", "p90", "p99", "p999"} {
			number(name+"_slowdown", []float64{run.P50, run.P90, run.P99, run.P999}[q])
			exact := math.NaN()
			if run.Exact != nil {
				exact = run.Exact[q]
			}
			number(name+"_exact", exact)
		}
		number("seconds", run.Seconds)
	}
	rec := b.NewRecord()
	defer rec.Release()
	at, session := lake.Place{Scenario: e.ID(), Variant: run.Variant}, e.Executor().Session()
	return session.PublishRecord(at, t, fileOf(p.Name), rec)
}

// fileOf names the data file of a sweep: the beginning of the sweep's name, for people, and a digest of all of it.
func fileOf(sweep string) string {
	digest := sha256.Sum256([]byte(sweep))
	return fmt.Sprintf("%.40s-%x", fileSafe(sweep), digest[:8])
}

// numberOf is the number that a value begins with, in percent a share; NaN if there is none.
func numberOf(value string) float64 {
	var x float64
	var unit string
	if n, _ := fmt.Sscanf(value, "%g%s", &x, &unit); n == 0 {
		return math.NaN()
	}
	if unit == "%" {
		x /= 100
	}
	return x
}

// Write writes the runs as a table, in the order of the combinations.
func (p *Parameters) Write(w io.Writer) error {
	if len(p.Runs) == 0 {
		return errors.New("the sweep has no run")
	}
	out := text.Printer{W: w}
	head := ""
	for _, a := range p.Axes {
		head += fmt.Sprintf("%-*s  ", width(a), a.Key)
	}
	exact := p.Runs[0].Exact != nil
	if exact {
		head += fmt.Sprintf("%10s %10s %10s %10s %10s  ", "exact_p50", "exact_p90", "exact_p99", "exact_p999", "error_p99")
	}
	out.Linef("%s%10s %10s %10s %10s %9s  %s", head, "p50", "p90", "p99", "p999", "seconds", "scenario")
	for _, r := range p.Runs {
		line := ""
		for _, a := range p.Axes {
			line += fmt.Sprintf("%-*s  ", width(a), r.Settings[a.Key])
		}
		for _, x := range r.Exact {
			line += fmt.Sprintf("%10.3f ", x)
		}
		if exact {
			line += fmt.Sprintf("%+9.1f%%  ", 100*(r.P99/r.Exact[2]-1))
		}
		out.Linef("%s%10.3f %10.3f %10.3f %10.3f %9.1f  %s", line, r.P50, r.P90, r.P99, r.P999, r.Seconds, r.ScenarioID)
	}
	out.Linef("\n%d runs in %.1f s", len(p.Runs), p.Seconds)
	return out.Err
}

// Slowest is the run with the highest p99.
func (p *Parameters) Slowest() ParameterRun {
	return slices.MaxFunc(p.Runs, func(a, b ParameterRun) int { return cmp.Compare(a.P99, b.P99) })
}

// width is the width of an axis' column.
func width(a Axis) int {
	n := len(a.Key)
	for _, v := range a.Values {
		n = max(n, len(v))
	}
	return n
}
