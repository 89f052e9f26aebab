package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/stages/estimators"
)

// A tourVerb estimates a scenario with every estimator, shows the steps of the paper's method, and prints the
// answers of the estimators side by side.
type tourVerb struct {
	*env
	answerFlags
	input scenarioFlags
	how   runFlags
}

func (v *tourVerb) declare(f *pflag.FlagSet) {
	v.how.declareLake(v.env, f)
	v.input.declare(f)
	v.how.declareWorkers(f)
	v.declareForm(f, "text", "json")
}

func (v *tourVerb) run(ctx context.Context, args []string) error {
	tour := &tourResult{Lake: v.lake}
	for _, name := range estimators.All() {
		stop, err := v.visit(ctx, name, args)
		if err != nil {
			return err
		}
		tour.Estimates = append(tour.Estimates, stop)
	}
	return v.write(v.stdout, tour, tour.text())
}

// visit estimates the scenario with one estimator.
func (v *tourVerb) visit(ctx context.Context, name estimators.Name, args []string) (*tourEstimate, error) {
	how := v.how
	how.estimator = name.String()
	run, err := begin(ctx, v.env, &v.input, &how, args)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if err := run.Estimate(ctx); err != nil {
		return nil, err
	}
	if err := run.MakeAnswer(); err != nil {
		return nil, err
	}
	seconds, cpuSeconds := run.Took()
	stages, err := tourStages(run)
	if err != nil {
		return nil, err
	}
	result, err := summary.Read(ctx, run, summary.Options{})
	if err != nil {
		return nil, err
	}
	return &tourEstimate{
		Estimator: name.String(), Scenario: result.ScenarioID, Name: result.Name, Seconds: seconds,
		CPUSeconds: cpuSeconds, Stages: stages, Percentiles: result.Percentiles,
	}, nil
}

// tourStages lists the stages of a complete estimate, with the rows of each table that they wrote.
func tourStages(run *pipeline.Estimation) ([]tourStage, error) {
	type pass struct {
		stage  string
		number int
	}
	reports := map[pass]engine.Report{}
	for _, r := range run.Executor().Reports {
		reports[pass{r.Stage, r.Pass}] = r
	}
	var stages []tourStage
	for _, s := range run.Plan() {
		records, err := run.Executor().Records(s)
		if err != nil {
			return nil, err
		}
		for _, t := range s.Writes {
			var rows int64
			for _, f := range records.Files(t) {
				rows += f.Rows
			}
			if rows == 0 {
				continue // such as rejects of a workload without rejects
			}
			r := reports[pass{s.Name, s.Pass}]
			stages = append(stages, tourStage{
				Stage: s.Name, Pass: s.Pass, Table: t.Name, Rows: rows, Seconds: r.Seconds, CPUSeconds: r.CPUSeconds,
			})
		}
	}
	return stages, nil
}

// A tourResult is the answer of the tour.
type tourResult struct {
	Lake      string          `json:"lake"`
	Estimates []*tourEstimate `json:"estimates"`
}

// A tourEstimate is the estimate by one estimator.
type tourEstimate struct {
	Estimator   string                      `json:"estimator"`
	Scenario    string                      `json:"scenario_id"`
	Name        string                      `json:"name"`
	Seconds     float64                     `json:"seconds"`
	CPUSeconds  float64                     `json:"cpu_seconds"`
	Stages      []tourStage                 `json:"stages"`
	Percentiles []summary.PercentilesResult `json:"percentiles"`
}

// A tourStage is a table that a stage wrote. The times are those of the stage; 0 if an earlier run did it.
type tourStage struct {
	Stage      string  `json:"stage"`
	Pass       int     `json:"pass,omitempty"`
	Table      string  `json:"table"`
	Rows       int64   `json:"rows"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// text writes the tour for people: the steps of the paper's method, then the estimates side by side.
func (r *tourResult) text() *text.Answer {
	a := &text.Answer{}
	first := r.Estimates[0]
	a.Linef("The paper's method on scenario %s (estimator %s), step by step", first.Name, first.Estimator)
	a.Linef("  generate: flows from traffic matrices      route: each flow's path, a row for each hop")
	a.Linef("  simulate: each link alone (a link case), delays by flow size, and Monte Carlo draws from them")
	a.Linef("  sample: the draws, summed by flow          intervals: confidence intervals of the percentiles")
	first.addStages(a)
	a.Linef("\nSlowdown (FCT / ideal FCT) by estimator and flow size")
	a.Linef("  independent: the paper's   flow: link cases with feedback   exact: every packet of the whole " +
		"network")
	table := a.Table("estimator", "size_bin", "flows", "p50_slowdown", "p90_slowdown", "p99_slowdown", "seconds",
		"cpu_s")
	for _, e := range r.Estimates {
		for _, p := range e.Percentiles {
			if p.SizeBin == "all" {
				table.Add(e.Estimator, p.SizeBin, p.Flows, p.P50, p.P90, p.P99, e.Seconds, e.CPUSeconds)
				continue
			}
			table.Add(e.Estimator, p.SizeBin, p.Flows, p.P50, p.P90, p.P99, nil, nil)
		}
	}
	a.Linef("\nThe same in SQL (views that end with _all have every estimate; the others have the last)\n" +
		"  parsimon query --lake " + r.Lake + " --sql \"" + strings.ReplaceAll(tourSQL, "SCENARIO",
		first.Scenario) + "\"")
	return a
}

// tourSQL is the last table of the tour as a query, without the times. View size_bins has a row for all
// sizes.
const tourSQL = "SELECT variant, b.size_bin, count(*) AS flows, " +
	"quantile_cont(slowdown, 0.5) AS p50_slowdown, quantile_cont(slowdown, 0.9) AS p90_slowdown, " +
	"quantile_cont(slowdown, 0.99) AS p99_slowdown " +
	"FROM slowdowns_all JOIN size_bins AS b ON b.bin = size_bin_of(size_bytes) OR b.size_bin = 'all' " +
	"WHERE scenario = 'SCENARIO' GROUP BY variant, b.bin, b.size_bin ORDER BY variant, b.bin"

// addStages adds a row for each table of an estimate.
func (e *tourEstimate) addStages(a *text.Answer) {
	table := a.Table("stage", "table", "rows", "seconds", "cpu_s")
	last := ""
	for _, s := range e.Stages {
		if s.Stage == last {
			table.Add("", s.Table, s.Rows, nil, nil)
			continue
		}
		last = s.Stage
		table.Add(s.Stage, s.Table, s.Rows, s.Seconds, s.CPUSeconds)
	}
}
