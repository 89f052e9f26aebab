package pipeline

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/stages"
)

// Estimator flow against the simulation of the whole network, on a small and busy one. (make
// own-accuracy does so on all kinds of networks.)
func TestFlowAgainstExact(t *testing.T) {
	topology, flows := trace(t, 20_000)
	s, err := TraceScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Begin(s, Options{Lake: t.TempDir(), Estimator: stages.Flow, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	ctx := context.Background()
	if err := run.Estimate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := run.Exact(ctx, Window{}); err != nil {
		t.Fatal(err)
	}
	v, err := run.Validate(ctx, "", Window{})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, row := range v.Rows {
		bound := 0.1
		switch {
		case row.Quantile > 0.99:
			bound = 0.15
		case row.SizeBin != "all" && (row.Quantile != 0.99 || row.Flows < 1000):
			continue
		case row.SizeBin != "all":
			bound = 0.15
		}
		if row.SizeBin != "all" && row.Quantile > 0.99 {
			continue
		}
		compared++
		if math.Abs(row.Error) > bound {
			t.Errorf("%s, quantile %v: error %+.3f", row.SizeBin, row.Quantile, row.Error)
		}
	}
	if compared < 5 || v.Rows[len(v.Rows)-1].True < 2 {
		t.Errorf("%d rows compared, the last %+v: the test says nothing", compared, v.Rows[len(v.Rows)-1])
	}
}

// Passes until the percentiles stop moving give what as many passes give, and a run with more passes
// begins where one with fewer ended.
func TestAutoPasses(t *testing.T) {
	topology, flows := trace(t, 4000)
	lake := t.TempDir()
	auto := estimate(t, topology, flows, Options{Lake: lake, Estimator: stages.Flow, Passes: AutoPasses, Keep: true})
	if auto.passes < 2 || auto.passes >= autoPasses || auto.Variant() != "flow-"+string(rune('0'+auto.passes)) {
		t.Fatalf("ended after %d passes, as variant %s", auto.passes, auto.Variant())
	}
	fixed := estimate(t, topology, flows, Options{Lake: lake, Estimator: stages.Flow, Passes: auto.passes, Keep: true})
	for _, r := range fixed.reports {
		if r.Reused != r.Tasks {
			t.Errorf("stage %s is done again", r.Stage)
		}
	}
	more := estimate(t, topology, flows, Options{Lake: lake, Estimator: stages.Flow, Passes: auto.passes + 1, Keep: true})
	again := 0
	for _, r := range more.reports {
		if r.Stage == "simulate" && r.Reused != r.Tasks {
			again++
		}
	}
	if again != 1 {
		t.Errorf("one more pass made %d", again)
	}
}

// Names of variants can be taken apart again, and no others.
func TestVariants(t *testing.T) {
	for _, name := range []string{"independent", "independent-ns3", "independent-cluster-0.05", "independent-ns3-cluster-paper", "flow-1", "flow-12", "flow-2-ablate-feeder", "flow-3-ablate-waits+marks", "independent-cluster-paper", "flow-3-cluster-0.05", "flow-2-ablate-feeder-cluster-code"} {
		v, err := parseVariant(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := &Run{estimator: v.estimator, passes: v.passes, ablation: v.ablation, cluster: v.cluster, backend: v.backend}
		if r.Variant() != name {
			t.Errorf("%s becomes %s", name, r.Variant())
		}
	}
	for _, name := range []string{"", "flow", "flow-", "flow-0", "flow-x", "flow-2-ablate-everything", "exact", "independent-", "independent-ns4", "independent-ns3x"} {
		if v, err := parseVariant(name); err == nil {
			t.Errorf("%q is taken for %+v", name, v)
		} else if !strings.Contains(err.Error(), "no ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
