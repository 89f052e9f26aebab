package pipeline

import (
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
)

// A run of two passes starts from the results of a run of one pass.
func TestSecondPass(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	o := options{Lake: t.TempDir(), Variant: flowOf(1), Partitions: 4, Keep: true}
	estimate(t, topology, flows, o)
	o.Variant = flowOf(2)
	again := 0
	for _, r := range estimate(t, topology, flows, o).Executor().Reports {
		if r.Stage == "simulate" && r.Reused != r.Tasks {
			again++
		}
	}
	if again != 1 {
		t.Errorf("the second pass made %d", again)
	}
}

// Names of variants can be parsed. Other names are rejected.
func TestVariants(t *testing.T) {
	for _, name := range []string{"exact", "independent", "independent-cluster-0.05", "flow-1", "flow-2"} {
		v, err := ParseVariant(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.String() != name {
			t.Errorf("%s becomes %s", name, v)
		}
	}
	for _, name := range []string{"", "flow", "flow-", "flow-0", "flow-x", "flow-02", "flow-3",
		"flow-2-ablate-marks", "flow-2-cluster-0.05", "exact-ns3", "exact-cluster-0.05", "exact-0-5",
		"independent-", "independent-ns3"} {
		if v, err := ParseVariant(name); err == nil {
			t.Errorf("%q is parsed as %+v", name, v)
		} else if !strings.Contains(err.Error(), "no ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
