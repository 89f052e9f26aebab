package pipeline

import (
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
)

// Passes until the percentiles settle give what as many passes give, and a run with more passes
// begins where one with fewer ended.
func TestAutoPasses(t *testing.T) {
	topology, flows := fixture.Trace(t, 4000)
	o := options{Lake: t.TempDir(), Variant: flowOf(AutoPasses), Keep: true}
	auto := estimate(t, topology, flows, o)
	passes := auto.Variant().Passes
	if !slices.Contains(autoPasses[:len(autoPasses)-1], passes) || auto.Variant().String() != "flow-"+string(rune('0'+passes)) {
		t.Fatalf("ended after %d passes, as variant %s", passes, auto.Variant())
	}
	o.Variant = flowOf(passes)
	for _, r := range estimate(t, topology, flows, o).Executor().Reports {
		if r.Reused != r.Tasks {
			t.Errorf("stage %s is done again", r.Stage)
		}
	}
	o.Variant = flowOf(passes + 1)
	again := 0
	for _, r := range estimate(t, topology, flows, o).Executor().Reports {
		if r.Stage == "simulate" && r.Reused != r.Tasks {
			again++
		}
	}
	if again != 1 {
		t.Errorf("one more pass made %d", again)
	}
	o.Variant = flowOf(AutoPasses)
	most := resume(t, o)
	defer most.Close()
	if got := most.Variant().Passes; got != passes+1 {
		t.Errorf("the lake has an estimate of %d passes, opened is that of %d", passes+1, got)
	}
}

// Names of variants can be parsed again, and no others.
func TestVariants(t *testing.T) {
	for _, name := range []string{"exact", "independent", "independent-ns3", "independent-cluster-0.05", "independent-ns3-cluster-paper", "flow-1", "flow-12", "flow-2-ablate-feeder", "flow-3-ablate-waits+marks", "independent-cluster-paper", "flow-3-cluster-0.05", "flow-2-ablate-feeder-cluster-code", "flow-2-warm-0123456789abcdef-3", "flow-5-warm-0123456789abcdef-1-ablate-marks"} {
		v, err := ParseVariant(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.String() != name {
			t.Errorf("%s becomes %s", name, v)
		}
	}
	for _, name := range []string{"", "flow", "flow-", "flow-0", "flow-x", "flow-100", "flow-2-ablate-everything", "exact-ns3", "exact-cluster-paper", "exact-0-5", "independent-", "independent-ns4", "independent-ns3x", "flow-2-warm-", "flow-2-warm-0123-3", "flow-2-warm-0123456789abcdef", "flow-2-warm-0123456789abcdef-0", "flow-x-warm-0123456789abcdef-1"} {
		if v, err := ParseVariant(name); err == nil {
			t.Errorf("%q is taken for %+v", name, v)
		} else if !strings.Contains(err.Error(), "no ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
