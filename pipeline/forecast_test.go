package pipeline

import (
	"math"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/scenario"
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
