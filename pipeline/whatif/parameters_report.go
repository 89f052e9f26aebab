package whatif

import (
	"cmp"
	"crypto/sha256"
	"fmt"
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
			"p50_fct_ns": run.P50FCT * 1e6, "p99_fct_ns": run.P99FCT * 1e6,
		}
		for q, x := range run.Exact { // nil: not simulated
			row[[]string{"p50_exact", "p90_exact", "p99_exact", "p999_exact"}[q]] = x
		}
		rows.Add(row)
	}
	return e.Executor().Session().PublishRows(lake.Place{Scenario: e.ID(), Variant: run.Variant}, fileOf(p.Name), rows)
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

// Text has the runs for people, in the order of the combinations.
func (p *Parameters) Text() *text.Answer {
	a := &text.Answer{}
	var head []string
	for _, axis := range p.Axes {
		head = append(head, axis.Key)
	}
	exact := len(p.Runs) > 0 && p.Runs[0].Exact != nil
	if exact {
		head = append(head, "exact_p50", "exact_p90", "exact_p99", "exact_p999", "error_p99")
	}
	table := a.Table(append(head, "p50", "p90", "p99", "p999", "p50_fct_ms", "p99_fct_ms", "seconds", "scenario")...)
	for _, r := range p.Runs {
		var row []any
		for _, axis := range p.Axes {
			row = append(row, r.Settings[axis.Key])
		}
		for _, x := range r.Exact {
			row = append(row, x)
		}
		if exact {
			row = append(row, text.Percent(r.P99/r.Exact[2]-1))
		}
		table.Add(append(row, r.P50, r.P90, r.P99, r.P999, r.P50FCT, r.P99FCT, r.Seconds, r.ScenarioID)...)
	}
	p.addJobs(a, slices.Clip(head[:len(p.Axes)]))
	switch {
	case p.Found != nil:
		a.Linef("\nthe first value with %s: %s=%s", p.Until, p.Axes[0].Key, p.Found.Settings[p.Axes[0].Key])
	case p.Until != "":
		a.Linef("\nno value of %s has %s", p.Axes[0].Key, p.Until)
	}
	a.Linef("\n%d runs in %.1f s", len(p.Runs), p.Seconds)
	return a
}

// Slowest is the run with the highest p99.
func (p *Parameters) Slowest() ParameterRun {
	return slices.MaxFunc(p.Runs, func(a, b ParameterRun) int { return cmp.Compare(a.P99, b.P99) })
}
