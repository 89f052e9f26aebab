package whatif

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

func TestParseAxis(t *testing.T) {
	for text, want := range map[string]Axis{
		"seed=1":            {"seed", []string{"1"}},
		"load.max=20%, 40%": {"load.max", []string{"20%", "40%"}},
		" workload.services[0].racks =[0, 2],[1]": {"workload.services[0].racks", []string{"[0, 2]", "[1]"}},
		"topology.clos={pods: 1, planes: 2},{}":   {"topology.clos", []string{"{pods: 1, planes: 2}", "{}"}},
		"name=a=b,c":                              {"name", []string{"a=b", "c"}},
	} {
		if got, err := ParseAxis(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
	bad := []string{"", "seed", "=1", "seed=", "seed=1,", "seed=,1", "racks=[0,1", "racks=0]", "racks=]0,1["}
	for _, text := range bad {
		if got, err := ParseAxis(text); err == nil || !strings.Contains(err.Error(), "KEY=VALUE,VALUE") {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	if _, err := ParseAxis("seed=1,2,1"); err == nil ||
		!strings.Contains(err.Error(), "the value 1 stands twice") {
		t.Errorf("seeds that count twice: %v", err)
	}
}

// Every combination of values is a run. The last axis changes fastest.
func TestCombine(t *testing.T) {
	plan := ParameterPlan{Scenario: fixture.Services(t), MaxRuns: 4, Axes: []Axis{
		{"workload.flows_count", []string{"300", "400"}}, {"load.max", []string{"20%", "40%"}},
	}}
	p := Parameters{Axes: plan.Axes}
	if err := p.combine(t.Context(), plan, Settings{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"300, load.max=20%", "300, load.max=40%", "400, load.max=20%", "400, load.max=40%"}
	if len(p.Runs) != len(want) {
		t.Fatalf("%d runs", len(p.Runs))
	}
	for i, r := range p.Runs {
		got := p.SettingsOf(i)
		if got != "workload.flows_count="+want[i] || !strings.HasSuffix(r.scenario.Name, got) {
			t.Errorf("run %d: scenario %q with %q, want %q", i, r.scenario.Name, got, want[i])
		}
	}
}

// A sweep estimates each combination as the same scenario that a run with these settings makes. Its rows are
// in table sweep_runs. Repeating the sweep gives the same results.
func TestSweepParameters(t *testing.T) {
	t.Parallel()
	file := fixture.Services(t)
	o := settings(t, estimators.Independent)
	plan := ParameterPlan{Scenario: file, MaxRuns: 2, Exact: true, Axes: []Axis{
		{"workload.flows_count", []string{"300"}}, {"load.max", []string{"20%", "40%"}},
	}}
	p, err := SweepParameters(t.Context(), plan, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Runs) != 2 {
		t.Fatalf("%d runs", len(p.Runs))
	}
	for i, r := range p.Runs {
		load := plan.Axes[1].Values[i]
		if r.Settings["workload.flows_count"] != "300" || r.Settings["load.max"] != load || r.Flows != 300 {
			t.Errorf("run %d: %+v", i, r)
		}
		with := []scenario.Setting{{Key: "workload.flows_count", Value: "300"}, {Key: "load.max", Value: load}}
		s, err := scenario.LoadWith(file, with)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := s.Settle(); err != nil || scenario.IDOf(c.Canonical) != r.ScenarioID {
			t.Errorf("run %d is scenario %s, want that of %+v, %v", i, r.ScenarioID, c, err)
		}
		for q, x := range []float64{r.P50, r.P90, r.P99, r.P999} {
			if x < 1 || r.Exact[q] < 1 {
				t.Errorf("run %d: %+v", i, r)
			}
		}
		want := fmt.Sprint([]any{2, 300, []float64{0.2, 0.4}[i], r.P99, r.Exact[0]})
		got := estimates.Ask(t, o.Lake,
			`SELECT count(*), max(value_number) FILTER (parameter = 'workload.flows_count')::BIGINT,
			max(value_number) FILTER (parameter = 'load.max'), min(p99_slowdown), min(p50_exact)
			FROM sweep_runs WHERE scenario = '`+r.ScenarioID+"' AND settings = 'workload.flows_count=300, load.max="+load+"'")
		if got != want {
			t.Errorf("run %d: table sweep_runs has %s, want %s", i, got, want)
		}
	}
	if p.Runs[1].P99 <= p.Runs[0].P99 {
		t.Errorf("p99 does not grow with load: %+v", p.Runs)
	}
	var text bytes.Buffer
	err = p.Text().Write(&text, "text")
	if err != nil || !strings.Contains(text.String(), p.Runs[1].ScenarioID) ||
		!strings.Contains(text.String(), "exact_p99") {
		t.Errorf("%v\n%s", err, text.String())
	}
	again, err := SweepParameters(t.Context(), plan, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Runs {
		again.Runs[i].Seconds = p.Runs[i].Seconds
		again.Runs[i].scenario = p.Runs[i].scenario
	}
	if !reflect.DeepEqual(again.Runs, p.Runs) {
		t.Errorf("again: %+v, before %+v", again.Runs, p.Runs)
	}
}

// All combinations are checked before the first run.
func TestSweepParametersChecksFirst(t *testing.T) {
	o := settings(t, estimators.Independent)
	seeds := Axis{"seed", []string{"1", "2"}}
	for want, plan := range map[string]ParameterPlan{
		"2 or more combinations, --max-runs allows 1": {MaxRuns: 1, Axes: []Axis{seeds}},
		"workload.max_load": {
			MaxRuns: 9, Axes: []Axis{{"load.max", []string{"20%", "900%"}}}},
		"no-such": {
			MaxRuns: 9, Axes: []Axis{{"fail", []string{"[]", "['no-such:cable']"}}}},
		"workload.services[7]": {
			MaxRuns: 9, Axes: []Axis{{"workload.services[7].sigma", []string{"1"}}}},
		"more than one axis is workload.max_load": {
			MaxRuns: 9, Axes: []Axis{{"load.max", []string{"20%"}}, {"workload.max_load", []string{"40%"}}}},
	} {
		plan.Scenario = fixture.Services(t)
		if _, err := SweepParameters(t.Context(), plan, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", plan, err, want)
		}
	}
	files := mustList(t, o.Lake)
	if len(files) > 0 {
		t.Errorf("the lake has %q before anything ran", files)
	}
}

// A sweep of a scenario in the lake does not change the answer of the scenario. It notes that the answer was
// made by another estimator. The short form has one estimator each day.
func TestSweepKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow})
	if _, err := WhatIf(t.Context(), base, do(t, "fail=pod0-fabric0:plane0-spine0"), o,
		CompareOptions{}); err != nil {
		t.Fatal(err)
	}
	plan := ParameterPlan{Scenario: base, MaxRuns: 2, Axes: []Axis{{"bandwidth", []string{"100%", "50%"}}},
		Change: func(settings []scenario.Setting) (scenario.Changes, error) {
			return do(t, "bandwidth=fabric-spine="+settings[0].Value), nil
		}}
	notes := map[estimators.Name]string{
		estimators.Flow: "", estimators.Independent: "is by flow-2, and this sweep is by independent"}
	for i, estimator := range []estimators.Name{estimators.Flow, estimators.Independent} {
		if daily.Skips(i, 2) {
			continue
		}
		note := notes[estimator]
		o.Variant.Estimator = estimator
		p, err := SweepParameters(t.Context(), plan, o)
		if err != nil || p.Runs[0].ScenarioID != base || !strings.Contains(p.Note, note) ||
			(p.Note == "") != (note == "") {
			t.Fatalf("%v: %+v, %v", estimator, p, err)
		}
		answer := estimates.Open(t, o.Lake).Answer(lake.ScenarioID(base))
		if answer.String() != "flow-2" {
			t.Errorf("after a sweep by %v the answer is by %s", estimator, answer)
		}
		p, err = SweepParameters(t.Context(), plan, spent(o))
		if err != nil || len(p.Runs) != 2 || p.Left != 0 {
			t.Errorf("%v, complete, after the budget: %+v, %v", estimator, p, err)
		}
	}
}
