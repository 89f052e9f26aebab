package whatif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/stages/estimators"
)

// A sweep estimates the failure of a cable like a what-if. It keeps no scenarios except those of the user.
// Repeating a complete sweep does nothing, and an interrupted sweep continues. A cable whose failure
// disconnects hosts is ranked first. In the short form, the cables are those of one pod.
func TestSweep(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow})
	o.Workers = 2
	withCache(t, &o)
	failing := func(c SweptCable) scenario.Changes {
		return do(t, fmt.Sprintf("fail=%d:%d", c.A, c.B))
	}
	mine, err := WhatIf(ctx, base, do(t, "fail=pod0-fabric0:plane0-spine0"), o, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cables := 8
	done := 3
	plan := SweepPlan{Tier: "fabric-spine", Quantile: 0.9}
	if testing.Short() {
		cables = 4
		done = 1
		plan.Tier = "pod0-fabric0:plane0-spine0,pod0-fabric0:plane0-spine1,pod0-fabric1:plane1-spine0," +
			"pod0-fabric1:plane1-spine1"
	}
	stopped, stop := context.WithCancel(ctx)
	cut := o
	stopping := &stopper{Progress: engine.Silent{}, stop: stop, unit: "cables"}
	stopping.after.Store(int64(done))
	cut.Progress = stopping
	if _, err := RunSweep(stopped, base, plan, cut); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	s := sweepWithoutTime(t, base, plan, o, cables)
	if err := s.Confirm(ctx, 1, spent(o)); err != nil || s.Confirmed.Left != 1 {
		t.Errorf("confirmed after the budget: %+v, %v", s.Confirmed, err)
	}
	exact := pipeline.Variant{Estimator: estimators.Exact}
	if opened(t, o.Lake, base, exact).Estimated(exact) {
		t.Error("the base is simulated after the budget")
	}
	s, err = RunSweep(ctx, base, plan, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cables) != cables || s.Reused < done || s.Reused > done+2 {
		t.Errorf("%d cables, %d reused", len(s.Cables), s.Reused)
	}
	for i, c := range s.Cables {
		if c.Full == nil || c.Unreachable != 0 || c.Cases.CachedCases == 0 {
			t.Errorf("place %d: %+v", i, c)
		}
		if i == 0 {
			w, err := WhatIf(ctx, base, failing(c), o, CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// The values are equal except for the last bit: DuckDB interpolates one of them, and the
			// bootstrap the other.
			all := w.Rows[len(w.Rows)-4:]
			if math.Abs(all[1].Other/c.Full["all"].Slowdowns[1]-1) > 1e-14 {
				t.Errorf("p90 is %v, of the what-if %v", c.Full["all"].Slowdowns[1], all[1].Other)
			}
		}
	}
	ids, err := estimates.Open(t, o.Lake).Scenarios()
	if err != nil || len(ids) > 3 || !strings.Contains(fmt.Sprint(ids), mine.Other.Scenario) {
		t.Errorf("scenarios left: %v, %v", ids, err)
	}
	plan.Quantile = 0.5
	plan.Service = "batch"
	if s, err = RunSweep(ctx, base, plan, o); err != nil || s.Reused != cables {
		t.Fatalf("again, ranked otherwise: %+v, %v", s, err)
	}
	if err := s.Confirm(ctx, 2, o); err != nil || s.Confirmed.Variant != "exact" ||
		s.Confirmed.Plan.what() != "2 worst of "+plan.Tier || len(s.Confirmed.Cables) != 2 {
		t.Fatalf("confirmed: %+v, %v", s.Confirmed, err)
	}
	found := func(a, b SweptCable) bool { return a.A == b.A && a.B == b.B }
	for _, c := range s.Confirmed.Cables {
		again := s.Confirmed.Confirm(ctx, 1, o)
		if !found(c, s.Cables[0]) && !found(c, s.Cables[1]) || again != nil || s.Confirmed.Confirmed != nil {
			t.Errorf("%s:%s is confirmed", c.NameA, c.NameB)
		}
	}
	again := *s
	if err := again.Confirm(ctx, 3, spent(o)); err != nil || len(again.Confirmed.Cables) != 2 ||
		again.Confirmed.Left != 1 {
		t.Errorf("2 of 3 confirmed before the budget was over: %+v, %v", again.Confirmed, err)
	}
	var text bytes.Buffer
	if err := s.Text(4).Write(&text, "text"); err != nil || !strings.Contains(text.String(), "flows: batch") ||
		!strings.Contains(text.String(), "change_exact") {
		t.Errorf("%v\n%s", err, text.String())
	}
	o.Variant.Estimator = estimators.Independent
	s, err = RunSweep(ctx, base, SweepPlan{Tier: "pod0-rack0-host0:pod0-tor0", Quantile: 0.99}, o)
	if err != nil || s.Cables[0].Unreachable == 0 || s.Cables[0].Full == nil {
		t.Errorf("hosts without a cable: %v", err)
	}
	if !strings.HasSuffix(s.Note, "is by flow-2, and this sweep is by independent: compare its rows with each "+
		"other, not with that answer") {
		t.Errorf("the answer of the base: %q", s.Note)
	}
	ofTheUser := SweepPlan{Tier: "pod0-fabric0:plane0-spine0", Quantile: 0.99}
	if _, err = RunSweep(ctx, base, ofTheUser, o); err != nil {
		t.Fatal(err)
	}
	l := estimates.Open(t, o.Lake)
	user, err := pipeline.ReadScenarioStatus(l, lake.ScenarioID(mine.Other.Scenario), lake.BySize)
	if err != nil || user.State != pipeline.StateComplete {
		t.Errorf("the user's what-if of a cable of the sweep is %s, %v", user.State, err)
	}
	for _, bad := range []SweepPlan{
		{Tier: "fabric-spine,nothing", Quantile: 0.9},
		{Tier: "fabric-spine", Quantile: 0.8},
		{Tier: "fabric-spine", Quantile: 0.9, Service: "none"},
	} {
		if _, err := RunSweep(ctx, base, bad, o); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	plan = SweepPlan{Tier: "pod1-rack0-host0:pod1-tor0", Quantile: 0.99}
	if _, err := RunSweep(ctx, base, plan, spent(o)); err == nil ||
		!strings.Contains(err.Error(), "--budget 1ns is over before the first cable began; repeat") {
		t.Errorf("no time: %v", err)
	}
}

// spent returns settings with a budget that is over at once.
func spent(o Settings) Settings {
	o.Budget = time.Nanosecond
	return o
}

// sweepWithoutTime continues a sweep of a number of cables, some of which are complete, after the budget is
// over. It ranks those and says how to continue.
func sweepWithoutTime(t *testing.T, base string, plan SweepPlan, o Settings, cables int) *Sweep {
	t.Helper()
	s, err := RunSweep(t.Context(), base, plan, spent(o))
	if err != nil {
		t.Fatal(err)
	}
	if s.Left == 0 || s.Left+len(s.Cables) != cables || s.Reused != len(s.Cables) || s.Cables[0].Full == nil {
		t.Errorf("%d cables left, %d ranked, %d reused", s.Left, len(s.Cables), s.Reused)
	}
	var text bytes.Buffer
	want := fmt.Sprintf("stopped by --budget: %d of %d cables are complete, %d remain; repeat", len(s.Cables),
		cables, s.Left)
	if err := s.Text(4).Write(&text, "text"); err != nil || !strings.Contains(text.String(), want) {
		t.Errorf("%v, want %q in\n%s", err, want, text.String())
	}
	return s
}

// stopper cancels a context when progress in a unit is reported for the after-th time.
type stopper struct {
	engine.Progress
	stop  context.CancelFunc
	unit  string
	now   string
	after atomic.Int64
}

func (s *stopper) Begin(_, unit string, _ int64) { s.now = unit }
func (s *stopper) Add(int64) {
	if s.now == s.unit && s.after.Add(-1) == 0 {
		s.stop()
	}
}
