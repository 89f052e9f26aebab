package pipeline

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages/estimators"
)

// A forecast of a large workload that draws and routes all of its flows takes minutes. From the first quarter
// of the flows, it has the same size within a few percent, and says that it is an estimate.
func TestForecastFromTheFirstFlows(t *testing.T) {
	for _, set := range []scenario.Setting{
		{Key: "workload.flows_count", Value: "20000"}, {Key: "workload.duration", Value: "1.5s"},
	} {
		s, err := scenario.LoadWith(fixture.Services(t), []scenario.Setting{set})
		if err != nil {
			t.Fatal(err)
		}
		forecast := func(beginning *scenario.Scenario) *Forecast {
			e, err := Begin(t.Context(), t.TempDir(), beginning, independent, options{}.must(t))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			f, err := e.forecast(t.Context(), s, beginning, 2)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		all := forecast(s)
		if all.EstimatedFrom != 0 || all.MaxLoad == 0 || forecast(s.Beginning(all.Flows+1)).Flows != all.Flows {
			t.Errorf("%v: all flows are known: %+v", set, all)
		}
		first := forecast(s.Beginning(all.Flows / 4))
		if first.EstimatedFrom != all.Flows/4 || first.MaxLoad != 0 || first.Estimator != all.Estimator {
			t.Errorf("%v: %+v, all flows: %+v", set, first, all)
		}
		near := func(what string, got, want, tolerance float64) {
			if math.Abs(got/want-1) > tolerance {
				t.Errorf("%v: %s: %v, of all flows %v", set, what, got, want)
			}
		}
		near("flows", float64(first.Flows), float64(all.Flows), 0.1)
		near("packet-hops", float64(first.PacketHops), float64(all.PacketHops), 0.2)
		near("bytes", float64(first.SharedBytes), float64(all.SharedBytes), 0.5)
		for i, by := range first.Estimators {
			near(by.Estimator, by.CPUSeconds, all.Estimators[i].CPUSeconds, 0.3)
		}
	}
}

// A canceler cancels a context when a stage begins.
type canceler struct {
	engine.Silent
	cancel func()
}

func (c canceler) Begin(string, string, int64) { c.cancel() }

// A forecast that is interrupted leaves no scenario in the lake.
func TestInterruptedForecastLeavesNoScenario(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	s, err := scenario.Load(fixture.Services(t))
	if err != nil {
		t.Fatal(err)
	}
	o := options{Progress: canceler{cancel: cancel}}.must(t)
	if _, err := ForecastOf(ctx, dir, s, independent, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("the forecast is not canceled: %v", err)
	}
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	left, err := l.Scenarios()
	if err != nil || len(left) != 0 {
		t.Errorf("the lake has %v, %v", left, err)
	}
}

// A message names a command that exists, also for the stage that only sweeps have.
func TestCommandOfTheStageOfSweeps(t *testing.T) {
	s, err := scenario.Load(fixture.Services(t))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Begin(t.Context(), t.TempDir(), s, Variant{Estimator: estimators.Exact}, options{}.must(t))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Ephemeral = true
	command := e.Plan().Writer(schema.Slowdowns).Command
	if !strings.HasPrefix(command, "parsimon validate --lake ") {
		t.Error(command)
	}
}
