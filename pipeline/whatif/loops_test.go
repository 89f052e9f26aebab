package whatif

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
	"parsimon/stages"
)

// Flows that wait for others start at other times when a cable is slower, and are compared all the same; those of a
// scenario in which they do not wait are others.
func TestWhatIfOfClosedLoop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	err := os.WriteFile(file, []byte(`topology: {graph: {hosts: [a, b], switches: [s], bandwidth: 10Gbps, delay: 1us, cables: ["a:s", "b:s"]}}
workload: {jobs: [{name: j, ranks: 2, iterations: 3, steps: [{collective: all-reduce, size: 100KB}, {compute: 5us}]}]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o := settings(t, stages.WholeNetwork)
	base := estimate(t, mustLoad(t, file), o)
	slower := do(t, "bandwidth=a:s=5G")
	w, err := WhatIf(t.Context(), base, slower, o, CompareOptions{})
	if err != nil || w.Both != 12 || w.BaseFlows != 12 {
		t.Fatalf("%+v, %v: want 12 flows in both", w, err)
	}
	open, err := pipeline.Derive(t.Context(), o.Lake, base, scenario.Changes{FoundStarts: true},
		pipeline.Variant{Estimator: stages.Flow}, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := open.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = Compare(t.Context(), open.Lake, Side{Scenario: base}, Side{Scenario: string(open.ID())},
		CompareOptions{Across: true})
	if err == nil || !strings.Contains(err.Error(), "flows wait for others in one of") {
		t.Errorf("compared with the flows that do not wait: %v", err)
	}
}
