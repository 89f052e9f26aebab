package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/schema/names"
)

// A ParameterPlan is the plan of a parameter sweep, which runs every combination of the values of its axes.
type ParameterPlan struct {
	Scenario string // a scenario file or the name of a built-in scenario
	Axes     []Axis
	// Change converts settings to changes of Scenario if that is a scenario of the lake; nil: Scenario is a
	// file.
	Change func(settings []scenario.Setting) (scenario.Changes, error)
	// Until makes the sweep search, by bisection, for the first value of the only axis for which this
	// condition is true. The condition must stay true for all later values. nil: every value is run.
	Until   *gate.Gate
	Exact   bool // also simulate the whole network, and compare each estimate with it
	MaxRuns int  // maximum number of combinations

	base *pipeline.Model // set with Change
}

// Parameters is the result of a parameter sweep.
type Parameters struct {
	Name  string         `json:"sweep"`
	Axes  []Axis         `json:"axes"`
	Runs  []ParameterRun `json:"runs"`
	Left  int            `json:"left"` // number of combinations without a run, because the budget was over
	Until string         `json:"until,omitempty"`
	Found *ParameterRun  `json:"found,omitempty"` // the first run for which Until is true
	// OverSeeds has the results of jobs over the seeds, if one of the axes is the seed.
	OverSeeds []JobSpread `json:"over_seeds,omitempty"`
	// Set if the answer of the scenario in the lake was made by another estimator.
	Note    string  `json:"note,omitempty"`
	AtOnce  int     `json:"at_once"`
	Seconds float64 `json:"seconds"`
}

// A ParameterRun is the run of one combination.
type ParameterRun struct {
	ScenarioID string            `json:"scenario_id"`
	Variant    string            `json:"variant"`
	Settings   map[string]string `json:"settings"`
	summary.PercentilesResult
	Exact []float64 `json:"exact,omitempty"` // the same percentiles of a simulation of the whole network
	// The verdict of condition Until, which is true if Failed is set.
	Until *gate.Verdict `json:"until,omitempty"`
	// Jobs is set if flows wait for others.
	Jobs     []summary.JobResult `json:"jobs,omitempty"`
	Load     *summary.LoadResult `json:"load,omitempty"` // set for a workload that was drawn for a load
	Warnings []string            `json:"warnings"`
	Seconds  float64             `json:"seconds"`

	id       lake.ScenarioID
	scenario *scenario.Scenario // set for a scenario file
	changes  scenario.Changes   // set for a scenario of the lake
	note     string             // see Parameters.Note
}

// SweepParameters estimates every combination, several side by side. It checks all scenarios before the first
// run. An interrupted sweep continues when it is started again: complete runs are only read. If the budget is
// over, the result has the runs that have begun or that were complete before. A search has no budget.
func SweepParameters(ctx context.Context, plan ParameterPlan, o Settings) (*Parameters, error) {
	began := time.Now()
	if !plan.Exact { // with Exact, the sweep shows the errors of estimates by link cases
		o.For = pipeline.ForDifference
	}
	p := &Parameters{Axes: plan.Axes}
	var err error
	if plan.Change != nil {
		plan.base, err = pipeline.OpenModelIn(ctx, o.Lake, plan.Scenario)
	}
	if err == nil {
		err = p.combine(ctx, plan, o)
	}
	if err != nil {
		return nil, err
	}
	// Distinguishes several sweeps of one scenario.
	p.Name = plan.Scenario + ": " + strings.Join(p.keys(), ", ")
	if plan.Until != nil {
		err = p.search(ctx, plan, o)
	} else {
		err = p.runAll(ctx, plan, o, o.deadline(began))
	}
	if err != nil {
		return nil, err
	}
	for _, r := range p.Runs {
		p.Note = cmp.Or(p.Note, r.note)
	}
	p.OverSeeds = p.overSeeds()
	p.Seconds = time.Since(began).Seconds()
	return p, nil
}

// schedule returns the schedule of all combinations.
func (p *Parameters) schedule(plan ParameterPlan, of pipeline.Settings) (*schedule, error) {
	need := int64(0)
	for i := range p.Runs {
		bytes, err := p.Runs[i].peakBytes(plan)
		if err != nil {
			return nil, err
		}
		need = max(need, bytes)
	}
	return newSchedule(of, len(p.Runs), need), nil
}

// runAll runs all combinations, several side by side. It drops those that do not begin before the deadline,
// except complete ones, which it reads.
func (p *Parameters) runAll(ctx context.Context, plan ParameterPlan, o Settings, deadline time.Time) error {
	schedule, err := p.schedule(plan, o.Settings)
	if err != nil {
		return err
	}
	schedule.deadline = deadline
	var order []int
	order, schedule.complete = p.order(ctx, plan, o)
	p.AtOnce = schedule.atOnce
	ends := p.Runs[:1]
	// A budget may be over before the last combination, which may be the largest.
	if deadline.IsZero() && len(p.Runs) > 1 {
		ends = []ParameterRun{p.Runs[0], p.Runs[len(p.Runs)-1]} // where values grow, the others are in between
	}
	var costs []pipeline.Cost
	for i := range ends {
		e, err := ends[i].open(ctx, plan, o)
		if err != nil {
			return err
		}
		cost, err := schedule.cost(ctx, e)
		e.Close()
		if err != nil {
			return err
		}
		costs = append(costs, cost)
	}
	schedule.announce(costs...)
	err = schedule.each(ctx, "runs", func(ctx context.Context, i int, settings pipeline.Settings) error {
		how := o
		how.Settings = settings
		_, err := p.run(ctx, order[i], plan, how)
		return err
	})
	p.Left = schedule.left
	p.dropOthers()
	if err == nil && len(p.Runs) == 0 {
		err = &budgetError{o.Budget, "combination"}
	}
	return err
}

// order returns the numbers of the combinations in the order in which they are run, and how many of them, the
// last ones, are complete. With a budget, complete combinations are read last. Otherwise, a repeated sweep
// could spend the budget on them again.
func (p *Parameters) order(ctx context.Context, plan ParameterPlan, o Settings) (order []int, complete int) {
	l, err := lake.Open(o.Lake, false) // without a lake, no combination is complete
	var done []int
	for i := range p.Runs {
		if o.Budget > 0 && err == nil && p.Runs[i].complete(ctx, l, plan, o) {
			done = append(done, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, done...), len(done)
}

// dropOthers drops the combinations that have not run.
func (p *Parameters) dropOthers() {
	p.Runs = slices.DeleteFunc(p.Runs, func(r ParameterRun) bool { return r.ScenarioID == "" })
}

// search runs the combinations that the bisection needs, one after the other, because each depends on the
// result of the one before.
func (p *Parameters) search(ctx context.Context, plan ParameterPlan, o Settings) error {
	p.Until = plan.Until.Text
	p.AtOnce = 1
	var failed error
	first := sort.Search(len(p.Runs), func(i int) (until bool) {
		if failed == nil {
			until, failed = p.run(ctx, i, plan, o)
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
	p.dropOthers()
	return nil
}

// combine creates and checks the scenario of every combination.
func (p *Parameters) combine(ctx context.Context, plan ParameterPlan, o Settings) error {
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
		count *= len(a.Values)
		if count > plan.MaxRuns {
			return fmt.Errorf("%d or more combinations, --max-runs allows %d", count, plan.MaxRuns)
		}
	}
	for n := range count {
		run := ParameterRun{Settings: map[string]string{}}
		var settings []scenario.Setting
		rest := n
		for _, a := range slices.Backward(plan.Axes) { // the last axis changes fastest
			value := a.Values[rest%len(a.Values)]
			settings = append(settings, scenario.Setting{Key: a.Key, Value: value})
			run.Settings[a.Key] = value
			rest /= len(a.Values)
		}
		slices.Reverse(settings)
		if err := run.check(ctx, plan, o, settings); err != nil {
			return err
		}
		p.Runs = append(p.Runs, run)
	}
	return nil
}

func (p *Parameters) keys() []string { return names.Of(p.Axes, func(a Axis) string { return a.Key }) }

// SettingsOf returns the settings of a run, in the order of the axes.
func (p *Parameters) SettingsOf(i int) string {
	setting := func(a Axis) string { return a.Key + "=" + p.Runs[i].Settings[a.Key] }
	return strings.Join(names.Of(p.Axes, setting), ", ")
}

// Slowest returns the run with the highest p99.
func (p *Parameters) Slowest() ParameterRun {
	return slices.MaxFunc(p.Runs, func(a, b ParameterRun) int { return cmp.Compare(a.P99, b.P99) })
}
