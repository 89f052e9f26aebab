package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// pivot makes one row of each run of a sweep, with a column for each parameter, of the answer of question
// parameter_sweep, which has a row for each run and parameter.
func pivot(long *answer) *answer {
	parameters := swept(long)
	measured := []string{"flows", "p50_slowdown", "p90_slowdown", "p99_slowdown", "p999_slowdown"}
	for i := range long.Len() {
		if !long.Null(i, "p99_exact") {
			measured = append(measured, "p50_exact", "p90_exact", "p99_exact", "p999_exact")
			break
		}
	}
	measured = append(measured, "seconds", "scenario")
	out := &answer{columns: append(slices.Clone(parameters), measured...)}
	place := map[[2]string]int{}
	for i := range long.Len() {
		run := [2]string{long.Text(i, "scenario"), long.Text(i, "settings")}
		at, known := place[run]
		if !known {
			at = len(out.rows)
			place[run] = at
			row := make([]any, len(out.columns))
			for k, column := range measured {
				row[len(parameters)+k] = long.at(i, column)
			}
			out.rows = append(out.rows, row)
		}
		out.rows[at][slices.Index(parameters, long.Text(i, "parameter"))] = long.at(i, "value")
	}
	return out
}

// swept lists the parameters of a sweep in their order.
func swept(long *answer) []string {
	var out []string
	for i := range long.Len() {
		if p := long.Text(i, "parameter"); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// sweptText says in words what the sweep of parameters found.
func (c *content) sweptText() string {
	runs := c.answers["parameter_sweep_runs"]
	if runs.Len() == 0 {
		return ""
	}
	parameters := swept(c.answers["parameter_sweep"])
	best, worst := -1, -1
	for i := range runs.rows {
		x := runs.Float(i, "p99_slowdown")
		if math.IsNaN(x) {
			continue
		}
		if worst < 0 || x > runs.Float(worst, "p99_slowdown") {
			worst = i
		}
		if best < 0 || x < runs.Float(best, "p99_slowdown") {
			best = i
		}
	}
	text := fmt.Sprintf("This scenario is one of %d runs that differ in %s.", runs.Len(), strings.Join(parameters, ", "))
	if worst < 0 {
		return text
	}
	values := func(i int) string {
		var said []string
		for _, p := range parameters {
			said = append(said, p+" "+runs.Text(i, p))
		}
		return strings.Join(said, ", ")
	}
	return text + fmt.Sprintf(" p99 slowdown is lowest, %s, with %s, and highest, %s, with %s.",
		times(runs.Float(best, "p99_slowdown")), values(best), times(runs.Float(worst, "p99_slowdown")), values(worst))
}
