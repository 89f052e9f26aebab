package whatif

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
)

// An Axis is a key of a scenario file and the values that a sweep gives it.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseAxis reads KEY=V,V. Commas within brackets and braces do not separate values.
func ParseAxis(axis string) (a Axis, err error) {
	key, list, ok := strings.Cut(axis, "=")
	a.Key = strings.TrimSpace(key)
	depth, from := 0, 0
	for i, c := range list + "," {
		switch {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return a, axisError(axis)
			}
		case c == ',' && depth == 0:
			a.Values = append(a.Values, strings.TrimSpace((list + ",")[from:i]))
			from = i + 1
		}
	}
	if !ok || a.Key == "" || depth != 0 || slices.Contains(a.Values, "") {
		return a, axisError(axis)
	}
	for i, value := range a.Values {
		if slices.Contains(a.Values[:i], value) {
			return a, fmt.Errorf("%q: the value %s stands twice", axis, value)
		}
	}
	return a, nil
}

func axisError(axis string) error {
	return fmt.Errorf("%q: want KEY=VALUE,VALUE such as workload.max_load=20%%,40%%", axis)
}

// A ParameterPlan says what a sweep of parameters runs: every combination of the values of its axes.
type ParameterPlan struct {
	Scenario string // a scenario file or the name of one that ships
	Axes     []Axis
	// Change is what settings change in Scenario where that is one of the lake; nil: Scenario is a file.
	Change func(settings []scenario.Setting) (scenario.Changes, error)
	// Until makes the sweep look for the first value of the only axis with this condition, by bisection: from one value on
	// it must be true. nil: every value is run.
	Until   *gate.Gate
	Exact   bool // also simulate the whole network, and hold each estimate against it
	MaxRuns int  // refuse more combinations
}

// Parameters is the answer of a sweep of parameters.
type Parameters struct {
	Name  string         `json:"sweep"`
	Axes  []Axis         `json:"axes"`
	Runs  []ParameterRun `json:"runs"`
	Until string         `json:"until,omitempty"`
	Found *ParameterRun  `json:"found,omitempty"` // the first run with condition Until
	// OverSeeds are the jobs over the seeds, if one of the axes is the seed.
	OverSeeds []JobSpread `json:"over_seeds,omitempty"`
	Note      string      `json:"note,omitempty"` // the answer of the scenario in the lake is of another estimator
	Seconds   float64     `json:"seconds"`
}

// A ParameterRun is one combination.
type ParameterRun struct {
	ScenarioID string            `json:"scenario_id"`
	Variant    string            `json:"variant"`
	Settings   map[string]string `json:"settings"`
	summary.PercentilesResult
	Exact []float64     `json:"exact,omitempty"` // the same percentiles of the whole-network simulation
	Until *gate.Verdict `json:"until,omitempty"` // of condition Until: it is true if Failed
	// Jobs are there if flows wait for others.
	Jobs    []summary.JobResult `json:"jobs,omitempty"`
	Seconds float64             `json:"seconds"`

	scenario *scenario.Scenario // of a file
	changes  scenario.Changes   // of a scenario of the lake
}

// SweepParameters estimates every combination. All scenarios are checked before the first run. A sweep that was
// interrupted continues: runs that are complete are only read.
func SweepParameters(ctx context.Context, plan ParameterPlan, o Settings) (*Parameters, error) {
	began := time.Now()
	if !plan.Exact { // which shows what estimates by link cases are off by
		o.For = pipeline.ForDifference
	}
	p := &Parameters{Axes: plan.Axes}
	if err := p.combine(plan, o); err != nil {
		return nil, err
	}
	p.Name = plan.Scenario + ": " + strings.Join(p.keys(), ", ") // two sweeps of a scenario do not mix
	run := func(i int) (bool, error) {
		until, err := p.run(ctx, i, plan, o)
		if err != nil {
			return false, fmt.Errorf("run %d of %d (%s): %w", i+1, len(p.Runs), p.SettingsOf(i), err)
		}
		line := o.Log.Info().Int("run", i+1).Int("of", len(p.Runs)).Str("settings", p.SettingsOf(i))
		if v := p.Runs[i].Until; v != nil {
			line = line.Str("condition", v.Gate).Any("value", v.Value).Bool("true", v.Failed)
		}
		line.Float64("p99", p.Runs[i].P99).Msg("sweep")
		return until, nil
	}
	if err := p.runAll(plan, run); err != nil {
		return nil, err
	}
	p.OverSeeds, p.Seconds = p.overSeeds(), time.Since(began).Seconds()
	return p, nil
}

// runAll does all runs or, with Until, those that find the first run with the condition.
func (p *Parameters) runAll(plan ParameterPlan, run func(i int) (bool, error)) error {
	if plan.Until == nil {
		for i := range p.Runs {
			if _, err := run(i); err != nil {
				return err
			}
		}
		return nil
	}
	p.Until = plan.Until.Text
	var failed error
	first := sort.Search(len(p.Runs), func(i int) (until bool) {
		if failed == nil {
			until, failed = run(i)
		}
		return until
	})
	if failed != nil {
		return failed
	}
	if first < len(p.Runs) {
		found := p.Runs[first]
		p.Found = &found
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r ParameterRun) bool { return r.ScenarioID == "" })
	return nil
}

// combine makes and checks the scenario of every combination.
func (p *Parameters) combine(plan ParameterPlan, o Settings) error {
	if plan.Until != nil && len(plan.Axes) != 1 {
		return errors.New("a search for the first value has one parameter")
	}
	count := 1
	keys := map[string]bool{}
	for _, a := range plan.Axes {
		key := scenario.Setting{Key: a.Key}.FullKey()
		if keys[key] {
			return fmt.Errorf("more than one axis is %s", key)
		}
		keys[key] = true
		if count *= len(a.Values); count > plan.MaxRuns {
			return fmt.Errorf("%d or more combinations, --max-runs allows %d", count, plan.MaxRuns)
		}
	}
	for n := range count {
		run := ParameterRun{Settings: map[string]string{}}
		var settings []scenario.Setting
		rest := n
		for _, a := range slices.Backward(plan.Axes) { // the last axis changes fastest
			settings = append(settings, scenario.Setting{Key: a.Key, Value: a.Values[rest%len(a.Values)]})
			run.Settings[a.Key] = a.Values[rest%len(a.Values)]
			rest /= len(a.Values)
		}
		slices.Reverse(settings)
		if err := run.check(plan, o, settings); err != nil {
			return err
		}
		p.Runs = append(p.Runs, run)
	}
	return nil
}

// check makes the scenario of a combination, or what it changes in one of the lake.
func (r *ParameterRun) check(plan ParameterPlan, o Settings, settings []scenario.Setting) (err error) {
	if plan.Change != nil {
		if r.changes, err = plan.Change(settings); err == nil {
			_, err = pipeline.CheckChanges(o.Lake, plan.Scenario, r.changes, o.Variant, o.Settings)
		}
		return err
	}
	if r.scenario, err = scenario.LoadWith(plan.Scenario, settings); err != nil {
		return err
	}
	if err := pipeline.CheckScenario(r.scenario, o.Variant, o.Settings); err != nil {
		return fmt.Errorf("%s: %w", r.scenario.Name, err)
	}
	return nil
}

// open opens a combination for an estimate. What changes nothing is the scenario of the lake itself.
func (r *ParameterRun) open(ctx context.Context, plan ParameterPlan, o Settings) (*pipeline.Estimation, error) {
	if plan.Change == nil {
		return pipeline.Begin(ctx, o.Lake, r.scenario, o.Variant, o.Settings)
	}
	e, err := pipeline.Derive(ctx, o.Lake, plan.Scenario, r.changes, o.Variant, o.Settings)
	if errors.Is(err, pipeline.ErrUnchanged) {
		return pipeline.Resume(ctx, o.Lake, plan.Scenario, o.Variant, o.Settings)
	}
	return e, err
}

func (p *Parameters) keys() []string { return names.Of(p.Axes, func(a Axis) string { return a.Key }) }

// valuesOf are the values of a run, in the order of keys.
func (p *Parameters) valuesOf(r *ParameterRun) []any {
	return names.Of(p.Axes, func(a Axis) any { return r.Settings[a.Key] })
}

// SettingsOf are the settings of a run, in the order of the axes.
func (p *Parameters) SettingsOf(i int) string {
	setting := func(a Axis) string { return a.Key + "=" + p.Runs[i].Settings[a.Key] }
	return strings.Join(names.Of(p.Axes, setting), ", ")
}

// run estimates one combination and publishes its row. until says whether it has condition Until.
func (p *Parameters) run(ctx context.Context, i int, plan ParameterPlan, o Settings) (until bool, err error) {
	began := time.Now()
	run := &p.Runs[i]
	e, err := run.open(ctx, plan, o)
	if err != nil {
		return false, err
	}
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return false, err
	}
	other := ""
	if plan.Change != nil {
		other = otherAnswer(e, cmp.Or(e.Base, e.ID()))
		p.Note = cmp.Or(p.Note, other)
	}
	if other == "" || e.Base != "" { // what changes nothing does not change the answer of the base
		if err := e.MakeAnswer(); err != nil {
			return false, err
		}
	}
	var gates []gate.Gate
	if plan.Until != nil {
		gates = append(gates, *plan.Until)
	}
	r, err := summary.Read(ctx, e, summary.Options{Gates: gates})
	switch {
	case r == nil:
		return false, err
	case len(r.Percentiles) == 0:
		return false, errors.New("no flow has a path")
	case gates != nil:
		run.Until, until = &r.Gates[0], r.Gates[0].Failed
	}
	run.ScenarioID, run.Variant, run.Jobs = r.ScenarioID, r.Variant, r.Jobs
	run.PercentilesResult = r.Percentiles[len(r.Percentiles)-1] // of all flows
	if plan.Exact {
		if err := e.Exact(ctx); err != nil {
			return false, err
		}
		v, err := Validate(ctx, e, "")
		if err != nil {
			return false, err
		}
		for _, row := range v.Rows[len(v.Rows)-len(pipeline.Quantiles):] { // all flows
			run.Exact = append(run.Exact, row.True)
		}
	}
	run.Seconds = time.Since(began).Seconds()
	return until, p.publish(e, i)
}

// publish writes the rows of one run of table sweep_runs: one for each axis.
func (p *Parameters) publish(e *pipeline.Estimation, i int) error {
	run := &p.Runs[i]
	rows := columns.RecordOf(schema.SweepRuns, p.Axes, func(a Axis) columns.Row {
		row := columns.Row{
			"sweep": p.Name, "settings": p.SettingsOf(i), "parameter": a.Key, "value": run.Settings[a.Key],
			"value_number": numberOf(run.Settings[a.Key]), "flows": run.Flows, "seconds": run.Seconds,
			"p50_slowdown": run.P50, "p90_slowdown": run.P90, "p99_slowdown": run.P99, "p999_slowdown": run.P999,
			"p50_fct_ns": *run.P50FCT * 1e6, "p99_fct_ns": *run.P99FCT * 1e6,
		}
		for q, x := range run.Exact { // nil: not simulated
			row[[]string{"p50_exact", "p90_exact", "p99_exact", "p999_exact"}[q]] = x
		}
		return row
	})
	digest := sha256.Sum256([]byte(p.Name)) // the beginning of the sweep's name is for people
	file := fmt.Sprintf("%.40s-%x", fileSafe(p.Name), digest[:8])
	return e.Executor().Session().PublishRows(lake.Place{Scenario: e.ID(), Variant: run.Variant}, file, rows)
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
	a, head := &text.Answer{}, p.keys()
	exact := len(p.Runs) > 0 && p.Runs[0].Exact != nil
	if exact {
		head = append(head, "exact_p50", "exact_p90", "exact_p99", "exact_p999", "error_p99")
	}
	mixed := slices.ContainsFunc(p.Runs, func(r ParameterRun) bool { return r.Variant != p.Runs[0].Variant })
	if p.Until != "" {
		head = append(head, "tested", "true")
	}
	if mixed {
		head = append(head, "variant")
	}
	table := a.Table(append(head, "p50", "p90", "p99", "p99_lo", "p99_hi", "p999", "p50_fct_ms", "p99_fct_ms", "seconds",
		"scenario")...)
	for _, r := range p.Runs {
		row := append(p.valuesOf(&r), names.Of(r.Exact, func(x float64) any { return text.Figure(x) })...)
		if exact {
			row = append(row, text.Percent(r.P99/r.Exact[2]-1))
		}
		if r.Until != nil {
			row = append(row, figureOrNil(r.Until.Value), map[bool]string{true: "yes", false: "no"}[r.Until.Failed])
		}
		if mixed {
			row = append(row, r.Variant)
		}
		figures := []*float64{&r.P50, &r.P90, &r.P99, r.P99Lo, r.P99Hi, &r.P999, r.P50FCT, r.P99FCT}
		table.Add(slices.Concat(row, names.Of(figures, figureOrNil), []any{r.Seconds, r.ScenarioID})...)
	}
	if mixed {
		a.Linef("the runs have different estimators (column variant), which also differ: --estimator sets one for all")
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
		a.Linef("\nslowdowns are relative to each run's own ideal FCT, which bandwidths and delays change: compare the FCTs")
	}
	a.Linef("\np99_lo and p99_hi: the 95%% interval of p99 for other traffic of the same kind. Runs whose intervals overlap may " +
		"be alike; where their flows are the same, parsimon compare has the interval of the difference, which is narrower")
	a.Linef("%d runs in %.1f s", len(p.Runs), p.Seconds)
	return a
}

func figureOrNil(x *float64) any {
	if x == nil {
		return nil
	}
	return text.Figure(*x)
}

// Slowest is the run with the highest p99.
func (p *Parameters) Slowest() ParameterRun {
	return slices.MaxFunc(p.Runs, func(a, b ParameterRun) int { return cmp.Compare(a.P99, b.P99) })
}

// notFileSafe is all but letters, digits and dashes, which fileSafe makes dashes.
var notFileSafe = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func fileSafe(name string) string { return notFileSafe.ReplaceAllString(name, "-") }
