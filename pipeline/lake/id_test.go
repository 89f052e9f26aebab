package lake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/variant"
)

// ofFlow is the place of an estimate of scenario at.
var ofFlow = Place{Scenario: at.Scenario, Variant: variant.Variant{Estimator: "flow", Passes: 3}}

func TestParseScenarioID(t *testing.T) {
	if id, err := ParseScenarioID("0123456789abcdef"); err != nil || id != "0123456789abcdef" {
		t.Errorf("%v, %v", id, err)
	}
	for _, text := range []string{"", "cafe", "0123456789ABCDEF", "0123456789abcdefa", "0123456789abcde/",
		"../../../etc/pass", "0123456789abcdef\n"} {
		if id, err := ParseScenarioID(text); err == nil || !strings.Contains(err.Error(), "16 hexadecimal digits") {
			t.Errorf("%q is %q, %v", text, id, err)
		}
	}
}

func TestParseWorkloadID(t *testing.T) {
	for _, text := range []string{"a", "day-1", "2026.01.31", "A_b", strings.Repeat("x", 64)} {
		if id, err := ParseWorkloadID(text); err != nil || string(id) != text {
			t.Errorf("%q: %q, %v", text, id, err)
		}
	}
	for _, text := range []string{"", ".", "..", "../x", "a/b", "-rf", "_x", "a b", "a=b", "ß", "a\x00",
		strings.Repeat("x", 65)} {
		if id, err := ParseWorkloadID(text); err == nil || !strings.Contains(err.Error(), "workload name") {
			t.Errorf("%q is %q, %v", text, id, err)
		}
	}
}

// The paths of a place are those in the package comment.
func TestPlacePaths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{at.File(schema.Flows, 12), "flows/scenario=cafecafecafecafe/part-00012.parquet"},
		{ofFlow.File(schema.Flows, 0), "flows/scenario=cafecafecafecafe/part-00000.parquet"},
		{ofFlow.File(schema.Slowdowns, 3), "slowdowns/scenario=cafecafecafecafe/variant=flow-3/part-00003.parquet"},
		{ofFlow.File(schema.Feedback, 3), "feedback/scenario=cafecafecafecafe/variant=flow-3/part-00003.parquet"},
		{Place{Workload: "day"}.File(schema.Flows, 3), "workload_flows/workload=day/part-00003.parquet"},
		{ofFlow.StatePath("simulate", "plan.json"),
			"_state/scenario=cafecafecafecafe/variant=flow-3/simulate/plan.json"},
		{ofFlow.SpecPath(), "_state/scenario=cafecafecafecafe/spec.json"},
		{Place{Workload: "day"}.WorkloadPath(), "_state/workload=day/workload.json"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// Directories whose names are not ids are not listed as scenarios, workloads or variants.
func TestListsPassOverOtherNames(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	for _, path := range []string{at.SpecPath(), "_state/scenario=nonsense/spec.json",
		"_state/workload=day/workload.json", "_state/workload=-rf/workload.json",
		at.StatePath("variant=flow-3", "x.json"), at.StatePath("variant=a b", "x.json"), "_state/other/spec.json"} {
		if err := s.WriteState(path, 1); err != nil {
			t.Fatal(err)
		}
	}
	// Without a spec.
	if err := os.MkdirAll(filepath.Join(l.Path(), "_state", "scenario=0123456789abcdef"), 0o755); err != nil {
		t.Fatal(err)
	}
	scenarios, err := l.Scenarios()
	if err != nil || len(scenarios) != 1 || scenarios[0] != at.Scenario {
		t.Errorf("scenarios %v, %v", scenarios, err)
	}
	workloads, err := l.Workloads()
	if err != nil || len(workloads) != 1 || workloads[0] != "day" {
		t.Errorf("workloads %v, %v", workloads, err)
	}
	variants, err := l.Variants(at.Scenario)
	if err != nil || len(variants) != 1 || variants[0] != ofFlow.Variant {
		t.Errorf("variants %v, %v", variants, err)
	}
}
