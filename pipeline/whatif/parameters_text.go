package whatif

import (
	"slices"
	"strings"

	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// Text formats the runs for users, in the order of the combinations.
func (p *Parameters) Text() *text.Answer {
	a := &text.Answer{}
	p.addRuns(a)
	p.addNotes(a)
	return a
}

// compared reports whether the runs are compared with a simulation of the whole network.
func (p *Parameters) compared() bool { return len(p.Runs) > 0 && p.Runs[0].Exact != nil }

// mixed reports whether the runs have different variants.
func (p *Parameters) mixed() bool {
	return slices.ContainsFunc(p.Runs, func(r ParameterRun) bool { return r.Variant != p.Runs[0].Variant })
}

// loaded reports whether flows are drawn for a load.
func (p *Parameters) loaded() bool {
	return slices.ContainsFunc(p.Runs, func(r ParameterRun) bool { return r.Load != nil })
}

// loads returns the load of the most loaded link, and the load for which the flows were
// drawn.
func (r *ParameterRun) loads() []any {
	if r.Load == nil {
		return []any{nil, nil}
	}
	return []any{text.Figure(r.Load.Reached), text.Figure(r.Load.Asked)}
}

// kindsOfWarnings returns the kinds of the warnings, with which their lines begin.
func (r *ParameterRun) kindsOfWarnings() any {
	var kinds []string
	for _, line := range r.Warnings {
		kind, _, _ := strings.Cut(line, ":")
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil
	}
	return strings.Join(kinds, ", ")
}

// addRuns adds the table of the runs.
func (p *Parameters) addRuns(a *text.Answer) {
	head := p.keys()
	if p.compared() {
		head = append(head, "exact_p50", "exact_p90", "exact_p99", "exact_p999", "error_p99")
	}
	if p.Until != "" {
		head = append(head, "tested", "true")
	}
	if p.mixed() {
		head = append(head, "variant")
	}
	if p.loaded() {
		head = append(head, "load", "load_asked")
	}
	head = append(head, "warnings", "p50", "p90", "p99", "p99_lo", "p99_hi", "p999", "p50_fct_ms",
		"p99_fct_ms", "seconds", "scenario")
	table := a.Table(head...)
	for i := range p.Runs {
		table.Add(p.textRow(&p.Runs[i])...)
	}
}

// textRow returns the row of one run.
func (p *Parameters) textRow(r *ParameterRun) []any {
	row := append(p.valuesOf(r), names.Of(r.Exact, func(x float64) any { return text.Figure(x) })...)
	if p.compared() {
		row = append(row, text.Percent(r.P99/r.Exact[2]-1))
	}
	if r.Until != nil {
		verdict := "no"
		if r.Until.Failed {
			verdict = "yes"
		}
		row = append(row, figureOrNil(r.Until.Value), verdict)
	}
	if p.mixed() {
		row = append(row, r.Variant)
	}
	if p.loaded() {
		row = append(row, r.loads()...)
	}
	row = append(row, r.kindsOfWarnings())
	figures := []*float64{&r.P50, &r.P90, &r.P99, r.P99Lo, r.P99Hi, &r.P999, r.P50FCT, r.P99FCT}
	return slices.Concat(row, names.Of(figures, figureOrNil), []any{r.Seconds, r.ScenarioID})
}

// valuesOf returns the values of a run, in the order of keys.
func (p *Parameters) valuesOf(r *ParameterRun) []any {
	return names.Of(p.Axes, func(a Axis) any { return r.Settings[a.Key] })
}

// addNotes adds what a reader must know to compare the runs.
func (p *Parameters) addNotes(a *text.Answer) {
	if p.Left > 0 {
		a.Linef("%s", stoppedByBudget(len(p.Runs), p.Left, "runs"))
	}
	if p.mixed() {
		a.Linef("the runs have different estimators (column variant), which also differ: --estimator sets one " +
			"for all")
	}
	if p.Note != "" {
		a.Linef("warning: %s", p.Note)
	}
	p.addJobs(a)
	switch {
	case p.Found != nil:
		a.Linef("\nthe first value with %s: %s=%s", p.Until, p.Axes[0].Key, p.Found.Settings[p.Axes[0].Key])
	case p.Until != "":
		a.Linef("\nno value of %s has %s", p.Axes[0].Key, p.Until)
	}
	if slices.ContainsFunc(p.Axes, func(x Axis) bool { return changesIdeal(x.Key) }) {
		a.Linef("\nslowdowns are relative to each run's own ideal FCT, which bandwidths and delays change: compare " +
			"the FCTs")
	}
	a.Linef("\np99_lo and p99_hi: the 95%% interval of p99 for other traffic of the same kind. Runs whose " +
		"intervals overlap may be alike; where their flows are the same, parsimon compare has the interval of the " +
		"difference, which is narrower")
	if slices.ContainsFunc(p.Runs, func(r ParameterRun) bool { return len(r.Warnings) > 0 }) {
		a.Linef("warnings: of each run, in full with --format json and in table warnings")
	}
	a.Linef("%s in %.1f s, up to %d at once", topology.Count(len(p.Runs), "run"), p.Seconds, p.AtOnce)
}

func figureOrNil(x *float64) any {
	if x == nil {
		return nil
	}
	return text.Figure(*x)
}
