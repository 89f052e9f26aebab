package main

import (
	"math"
	"testing"

	"parsimon/datasets"
	"parsimon/pipeline/scenario"
	"parsimon/schema/daily"
)

// maxLoadError is the largest accepted error of the load of a shipped scenario's busiest link, relative to
// the requested load.
const maxLoadError = 0.1

// A shipped scenario that requests 70% on the busiest link must not offer it 140%. Otherwise, pages would
// compare estimates of an overloaded network with the paper's estimates of a loaded one. The load is that of
// column load: bytes without headers. The 34 million flows of scenario large are drawn on one day of a week,
// and "make loads" draws all.
func TestShippedScenariosHaveTheLoadThatTheyAskFor(t *testing.T) {
	drawn := 0
	for _, name := range datasets.Names(datasets.Scenarios) {
		if name == "large" && (testing.Short() || len(daily.Today(7, name)) == 0) {
			continue
		}
		drawn += checkLoad(t, name, nil)
	}
	if drawn < 40 {
		t.Errorf("%d scenarios draw flows", drawn)
	}
}

// The sweeps of the sensitivity scenario ask for 30, 50 and 70%. The load must be correct for each of their
// settings.
func TestSensitivitySweepsHaveTheLoadThatTheyAskFor(t *testing.T) {
	for _, oversubscription := range []string{"1", "2", "4"} {
		for _, sigma := range []string{"1", "2"} {
			for _, load := range []string{"30%", "70%"} {
				checkLoad(t, "sensitivity", []scenario.Setting{
					{Key: "topology.clos.oversubscription", Value: oversubscription},
					{Key: "workload.services[0].sigma", Value: sigma},
					{Key: "load.max", Value: load},
				})
			}
		}
	}
}

// checkLoad draws a scenario, and returns 1 if its flows are drawn.
func checkLoad(t *testing.T, name string, settings []scenario.Setting) int {
	t.Helper()
	s, err := scenario.LoadWith(name, settings)
	if err != nil {
		t.Fatal(err)
	}
	l, err := drawLoads(t.Context(), s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if l.asked == 0 {
		return 0
	}
	ratio := l.payload / l.asked
	if math.Abs(ratio-1) > maxLoadError {
		t.Errorf("%s %v asks for %.0f%% of its busiest link and offers it %.1f%% (%.1f%% with headers), %.2f "+
			"times as "+
			"much; choose another seed or more flows", name, settings, 100*l.asked, 100*l.payload, 100*l.wire, ratio)
	}
	return 1
}
