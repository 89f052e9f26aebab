// Package estimates makes estimates for tests of the packages that read them.
package estimates

import (
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
)

// Trace is the scenario of a topology and a flow file.
func Trace(t testing.TB, topology, flows string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.FromFiles(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of estimates a scenario in the lake in a directory. What it returns is closed and can be read.
func Of(t testing.TB, dir string, s *scenario.Scenario, v pipeline.Variant, o pipeline.Settings) *pipeline.Estimation {
	t.Helper()
	e, err := pipeline.Begin(t.Context(), dir, s, v, o)
	if err == nil {
		defer e.Close()
		err = e.Estimate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}
