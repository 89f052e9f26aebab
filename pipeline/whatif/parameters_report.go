package whatif

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// publish writes the rows of one run of table sweep_runs: one for each axis.
func (p *Parameters) publish(e *pipeline.Estimation, i int) error {
	run, rows := &p.Runs[i], columns.NewRows(schema.SweepRuns)
	for _, a := range p.Axes {
		row := columns.Row{
			"sweep": p.Name, "settings": p.SettingsOf(i), "parameter": a.Key, "value": run.Settings[a.Key],
			"value_number": numberOf(run.Settings[a.Key]), "flows": run.Flows, "seconds": run.Seconds,
			"p50_slowdown": run.P50, "p90_slowdown": run.P90, "p99_slowdown": run.P99, "p999_slowdown": run.P999,
		}
		for q, x := range run.Exact { // nil: not simulated
			row[[]string{"p50_exact", "p90_exact", "p99_exact", "p999_exact"}[q]] = x
		}
		rows.Add(row)
	}
	rec := rows.Record()
	defer rec.Release()
	at, session := lake.Place{Scenario: e.ID(), Variant: run.Variant}, e.Executor().Session()
	return session.PublishRecord(at, schema.SweepRuns, fileOf(p.Name), rec)
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
