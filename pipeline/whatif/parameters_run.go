package whatif

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// check creates the scenario of a combination, or its changes of a scenario of the lake.
func (r *ParameterRun) check(
	ctx context.Context, plan ParameterPlan, o Settings, settings []scenario.Setting,
) (err error) {
	if plan.Change != nil {
		r.changes, err = plan.Change(settings)
		if err == nil {
			r.id, _, err = plan.base.CheckChanges(ctx, r.changes, o.Variant, o.Settings)
		}
		return err
	}
	if r.scenario, err = scenario.LoadWith(plan.Scenario, settings); err != nil {
		return err
	}
	if r.id, err = pipeline.CheckScenario(ctx, r.scenario, o.Variant, o.Settings); err != nil {
		return fmt.Errorf("%s: %w", r.scenario.Name, err)
	}
	return nil
}

// peakBytes predicts the peak memory of the estimate. The flows of a scenario file are not known before they
// are drawn. Then only the size of its network counts.
func (r *ParameterRun) peakBytes(plan ParameterPlan) (int64, error) {
	if plan.Change != nil {
		return plan.base.PeakBytes()
	}
	n, err := r.scenario.IntactNetwork()
	if err != nil {
		return 0, err
	}
	return pipeline.PeakBytes(len(n.Hosts()), 0), nil
}

// open opens a combination for an estimate. A combination without changes is the scenario of the lake itself.
func (r *ParameterRun) open(
	ctx context.Context, plan ParameterPlan, o Settings,
) (*pipeline.Estimation, error) {
	if plan.Change == nil {
		return pipeline.Begin(ctx, o.Lake, r.scenario, o.Variant, o.Settings)
	}
	e, err := pipeline.Derive(ctx, plan.base, r.changes, o.Variant, o.Settings)
	if errors.Is(err, pipeline.ErrUnchanged) {
		return plan.base.Resume(ctx, o.Variant, o.Settings)
	}
	return e, err
}

// complete reports whether the lake has all that the run of the combination would estimate. It does not wait
// for other processes. A damaged scenario is not complete.
func (r *ParameterRun) complete(ctx context.Context, l *lake.Lake, plan ParameterPlan, o Settings) bool {
	if !l.Exists(lake.Of(r.id).SpecPath()) {
		return false
	}
	model, err := pipeline.OpenModel(ctx, l, string(r.id))
	if err != nil || !model.Estimated(o.Variant) {
		return false
	}
	if plan.Exact {
		_, err = pipeline.ReadOnly(model, o.Variant, o.Settings).ExactRecords()
	}
	return err == nil
}

// run estimates one combination and publishes its row. until reports whether condition Until is true for it.
func (p *Parameters) run(ctx context.Context, i int, plan ParameterPlan, o Settings) (until bool, err error) {
	run := &p.Runs[i]
	if err := p.estimate(ctx, i, plan, o); err != nil {
		return false, fmt.Errorf("run %d of %d (%s): %w", i+1, len(p.Runs), p.SettingsOf(i), err)
	}
	line := o.Log.Info().Int("run", i+1).Int("of", len(p.Runs)).Str("settings", p.SettingsOf(i))
	v := run.Until
	if v != nil {
		until = v.Failed
		line = line.Str("condition", v.Gate).Any("value", v.Value).Bool("true", v.Failed)
	}
	line.Float64("p99", run.P99).Msg("sweep")
	return until, nil
}

// estimate estimates one combination and publishes its row.
func (p *Parameters) estimate(ctx context.Context, i int, plan ParameterPlan, o Settings) error {
	began := time.Now()
	run := &p.Runs[i]
	e, err := run.open(ctx, plan, o)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return err
	}
	if plan.Change != nil {
		run.note = otherAnswer(e, cmp.Or(e.Base, e.ID()))
	}
	// A combination without changes must not change the answer of the base.
	if run.note == "" || e.Base != "" {
		if err := e.MakeAnswer(); err != nil {
			return err
		}
	}
	if err := run.read(ctx, plan, e); err != nil {
		return err
	}
	if plan.Exact {
		if err := run.compare(ctx, e); err != nil {
			return err
		}
	}
	run.Seconds = time.Since(began).Seconds()
	return p.publish(e, i)
}

// read reads the results of an estimate.
func (r *ParameterRun) read(ctx context.Context, plan ParameterPlan, e *pipeline.Estimation) error {
	var gates []gate.Gate
	if plan.Until != nil {
		gates = append(gates, *plan.Until)
	}
	found, err := summary.Read(ctx, e, summary.Options{Gates: gates})
	switch {
	case found == nil:
		return err
	case len(found.Percentiles) == 0:
		return errors.New("no flow has a path")
	case gates != nil:
		r.Until = &found.Gates[0]
	}
	r.ScenarioID = found.ScenarioID
	r.Variant = found.Variant
	r.Jobs = found.Jobs
	r.Load = found.Load
	r.Warnings = found.Warnings
	r.PercentilesResult = found.Percentiles[len(found.Percentiles)-1] // of all flows
	return nil
}

// compare simulates the whole network, and reads the percentiles of all flows.
func (r *ParameterRun) compare(ctx context.Context, e *pipeline.Estimation) error {
	if err := e.Exact(ctx); err != nil {
		return err
	}
	v, err := Validate(ctx, e, "")
	if err != nil {
		return err
	}
	for _, row := range v.Rows[len(v.Rows)-len(pipeline.Quantiles):] { // all flows
		r.Exact = append(r.Exact, row.True)
	}
	return nil
}

// publish writes the rows of one run to table sweep_runs: one row for each axis.
func (p *Parameters) publish(e *pipeline.Estimation, i int) error {
	run := &p.Runs[i]
	rows := columns.RecordOf(schema.SweepRuns, p.Axes, func(a Axis) columns.Row {
		row := columns.Row{
			"sweep": p.Name, "settings": p.SettingsOf(i), "parameter": a.Key, "value": run.Settings[a.Key],
			"value_number": numberOf(run.Settings[a.Key]), "flows": run.Flows, "seconds": run.Seconds,
			"p50_slowdown": run.P50, "p90_slowdown": run.P90,
			"p99_slowdown": run.P99, "p999_slowdown": run.P999,
			"p50_fct_ns": *run.P50FCT * 1e6, "p99_fct_ns": *run.P99FCT * 1e6,
		}
		exact := []string{"p50_exact", "p90_exact", "p99_exact", "p999_exact"}
		for q, x := range run.Exact { // nil: not simulated
			row[exact[q]] = x
		}
		return row
	})
	// The start of the sweep's name is for users, and the digest makes the name unique.
	digest := sha256.Sum256([]byte(p.Name))
	file := fmt.Sprintf("%.40s-%x", fileSafe(p.Name), digest[:8])
	at := lake.Place{Scenario: e.ID(), Variant: e.Variant().Stored()}
	return e.Executor().Session().PublishRows(at, file, rows)
}

// notFileSafe matches all characters except letters, digits and dashes. fileSafe replaces them with dashes.
var notFileSafe = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func fileSafe(name string) string { return notFileSafe.ReplaceAllString(name, "-") }
