package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/stages"
)

// A sweep finds of the worst what a what-if of each finds, and of the others something near; it leaves
// nothing but what the user had; given again it does nothing; interrupted it continues; a cable whose
// failure parts hosts comes first.
func TestSweep(t *testing.T) {
	file := whatIfFile(t)
	ctx := context.Background()
	o := Options{Lake: t.TempDir(), Estimator: stages.Flow, Log: zerolog.Nop()}
	o.Cache = LakeCache(o.Lake)
	base := estimated(t, file, o)
	mine, err := WhatIf(ctx, base, Changes{Fail: []string{"pod0-fabric0:plane0-spine0"}}, o, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plan := SweepPlan{Tier: "fabric-spine", Quantile: 0.9, Worst: 3}
	stopped, stop := context.WithCancel(ctx)
	cut := o
	cut.Progress = &stopper{stop: stop, unit: "cables", after: 3}
	if _, err := RunSweep(stopped, base, plan, cut); !IsInterrupt(err) {
		t.Fatalf("interrupted: %v", err)
	}
	s, err := RunSweep(ctx, base, plan, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cables) != 8 || s.Reused < 8 {
		t.Errorf("%d cables, %d reused", len(s.Cables), s.Reused)
	}
	for i, c := range s.Cables {
		if (c.Full != nil) != (i < 3) || c.Unreachable != 0 || c.Cases.Cases == 0 || (c.Cases.CachedCases > 0) != (i < 3) {
			t.Errorf("place %d: %+v", i, c)
		}
		for q, x := range c.Screened["all"].Slowdowns {
			if was := s.before["all"].Slowdowns[q]; c.Screened["all"].Flows != s.before["all"].Flows || math.Abs(x/was-1) > 0.2 {
				t.Errorf("place %d: screened %+v, base %+v", i, c.Screened["all"], s.before["all"])
			}
		}
		if i == 0 {
			w, err := WhatIf(ctx, base, Changes{Fail: []string{fmt.Sprintf("%d:%d", c.A, c.B)}}, o, CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if all := w.Rows[len(w.Rows)-4:]; all[1].Other != c.Full["all"].Slowdowns[1] {
				t.Errorf("p90 is %v, of the what-if %v", c.Full["all"].Slowdowns[1], all[1].Other)
			}
		}
	}
	last := s.Cables[len(s.Cables)-1]
	one, err := Screen(ctx, base, Changes{Fail: []string{fmt.Sprintf("%d:%d", last.A, last.B)}}, o)
	if err != nil || !reflect.DeepEqual(one.After, map[string]ServicePercentiles(last.Screened)) {
		t.Errorf("screened alone: %+v, in a sweep %+v: %v", one, last.Screened, err)
	}
	var table bytes.Buffer
	if err := one.Write(&table); err != nil || !strings.Contains(table.String(), "fail "+fmt.Sprintf("%d:%d", last.A, last.B)) {
		t.Errorf("%v\n%s", err, table.String())
	}
	l, err := OpenLake(o.Lake, false)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := l.scenarios()
	if err != nil || len(ids) > 3 || !strings.Contains(fmt.Sprint(ids), mine.Other.Scenario) {
		t.Errorf("scenarios left: %v, %v", ids, err)
	}
	plan.Quantile, plan.Service = 0.5, "batch"
	if s, err = RunSweep(ctx, base, plan, o); err != nil || s.Reused < 8 {
		t.Errorf("again, ranked otherwise: %+v, %v", s, err)
	}
	var text bytes.Buffer
	if err := s.Write(&text, 4); err != nil || !strings.Contains(text.String(), "flows: batch") {
		t.Errorf("%v\n%s", err, text.String())
	}
	o.Estimator = stages.Independent
	if s, err = RunSweep(ctx, base, SweepPlan{Tier: "pod0-rack0-host0:pod0-tor0", Quantile: 0.99, Worst: 1}, o); err != nil || s.Cables[0].Unreachable == 0 || s.Cables[0].Full == nil {
		t.Errorf("hosts without a cable: %v", err)
	}
	if _, err := Screen(ctx, base, Changes{Fail: []string{"pod0-fabric0:plane0-spine0"}}, o); err == nil || !strings.Contains(err.Error(), "by flow") {
		t.Errorf("an estimate by draws is screened: %v", err)
	}
	for _, bad := range []SweepPlan{{Tier: "fabric-spine,nothing", Quantile: 0.9}, {Tier: "fabric-spine", Quantile: 0.8}, {Tier: "fabric-spine", Quantile: 0.9, Service: "none"}} {
		if _, err := RunSweep(ctx, base, bad, o); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// stopper stops a run when a unit of work has been done some times.
type stopper struct {
	silent
	stop  context.CancelFunc
	unit  string
	now   string
	after int
}

func (s *stopper) begin(_, unit string, _ int64) { s.now = unit }
func (s *stopper) add(int64) {
	if s.now == s.unit {
		if s.after--; s.after == 0 {
			s.stop()
		}
	}
}
