package whatif

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/lake"
	"parsimon/stages/estimators"
)

// An engine such as Beam repeats a failed attempt at a cable, and may run two attempts at once. If attempts
// were in each other's way, or left scenarios or other rows, such a sweep could not be trusted.
func TestAttemptsAtOneCable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Exact})
	plan := SweepPlan{Tier: "pod0-fabric0:plane0-spine0,pod0-fabric1:plane1-spine0", Quantile: 0.99}
	local := o
	local.Lake = t.TempDir()
	if err := os.CopyFS(local.Lake, os.DirFS(o.Lake)); err != nil {
		t.Fatal(err)
	}
	alone, err := RunSweep(ctx, base, plan, local)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	failing := o
	stopping := &stopper{Progress: engine.Silent{}, stop: stop, unit: "packet-hops"}
	stopping.after.Store(1)
	failing.Progress = stopping
	if err := cableRunner(t, base, plan, failing).Do(stopped, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("a failed attempt: %v", err)
	}
	runners := []*CableRunner{cableRunner(t, base, plan, o), cableRunner(t, base, plan, o)}
	if todo, err := runners[0].Todo(ctx); err != nil || len(todo) != 2 {
		t.Errorf("to do: %v, %v", todo, err)
	}
	var wg sync.WaitGroup
	for _, r := range runners {
		for n := range 2 {
			wg.Go(func() {
				if err := r.Do(ctx, n); err != nil {
					t.Errorf("cable %d: %v", n, err)
				}
			})
		}
	}
	wg.Wait()
	if runners[0].flows == nil && runners[1].flows == nil { // one of them may have estimated both cables
		t.Error("both cables are estimated, but no runner has read the flows of the base")
	}
	again := cableRunner(t, base, plan, o)
	if err := again.Do(ctx, 0); err != nil || again.flows != nil {
		t.Errorf("a cable that is estimated already needs no flows of the base: %v", err)
	}
	if todo, err := runners[1].Todo(ctx); err != nil || len(todo) != 0 {
		t.Errorf("to do: %v, %v", todo, err)
	}
	s, err := RunSweep(ctx, base, plan, o)
	if err != nil || s.Reused != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	got := sweepRows(t, o, base, s)
	want := sweepRows(t, local, base, alone)
	if got != want {
		t.Errorf("table sweeps has\n%s\nwant\n%s", got, want)
	}
	left, err := estimates.Open(t, o.Lake).Scenarios()
	if err != nil || len(left) != 1 {
		t.Errorf("scenarios left: %v, %v", left, err)
	}
}

// A sweep begins only if the estimate that it is compared with is complete and stays as it is.
func TestCablesNeedTheBase(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Exact})
	plan := SweepPlan{Tier: "fabric-spine", Quantile: 0.99}
	other := o
	other.Variant.Estimator = estimators.Independent
	var incomplete *engine.IncompleteError
	if todo, err := cableRunner(t, base, plan, other).Todo(t.Context()); !errors.As(err, &incomplete) {
		t.Errorf("without an estimate of the base: %v, %v", todo, err)
	}
	alone := lockedBase(t, base, o)
	if err := cableRunner(t, base, plan, o).Do(t.Context(), 0); !errors.Is(err, lake.ErrBusy) {
		t.Errorf("while another process works on the base: %v", err)
	}
	alone.Close()
	plan.Tier = "gold"
	if _, err := NewCableRunner(t.Context(), base, plan, o); err == nil {
		t.Error("a tier that does not exist is accepted")
	}
}

func cableRunner(t *testing.T, base string, plan SweepPlan, o Settings) *CableRunner {
	t.Helper()
	r, err := NewCableRunner(t.Context(), base, plan, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lockedBase opens an estimate of the base, as a process does that works on it alone.
func lockedBase(t *testing.T, base string, o Settings) *pipeline.Estimation {
	t.Helper()
	run, err := pipeline.Resume(t.Context(), o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	return run
}
