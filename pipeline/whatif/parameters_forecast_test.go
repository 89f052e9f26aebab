package whatif

import (
	"testing"
	"time"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/stages/estimators"
)

// A forecast of many combinations fills the disk if the flows of all of them stay in the lake.
func TestForecastLeavesNoScenarioInTheLake(t *testing.T) {
	o := settings(t, estimators.Independent)
	plan := ParameterPlan{Scenario: fixture.Services(t), MaxRuns: 2, Axes: []Axis{
		{"workload.flows_count", []string{"300"}}, {"load.max", []string{"20%", "40%"}},
	}}
	o.Budget = time.Nanosecond // both runs begin at once
	f, err := ForecastParameters(t.Context(), plan, o, 4)
	if err != nil || len(f.Runs) != 2 || f.AtOnce != 2 || f.Runs[0].Flows != 300 || f.Within != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	l, err := lake.Open(o.Lake, false)
	if err != nil {
		t.Fatal(err)
	}
	left, err := l.Scenarios()
	if err != nil || len(left) != 0 {
		t.Errorf("the lake has %v, %v", left, err)
	}
}
