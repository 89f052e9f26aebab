package newflows

import (
	"fmt"
	"os"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/lake/parquet"
	"parsimon/stages"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true // a reader of a released batch finds wrong values
	os.Exit(m.Run())
}

// A question outside the workload: an idle pair is ideal, and answers are the same every time.
func TestAsk(t *testing.T) {
	clustering, err := stages.ParseClustering("50%")
	if err != nil {
		t.Fatal(err)
	}
	independent, flow := pipeline.Variant{}, pipeline.Variant{Estimator: stages.Flow, Passes: pipeline.MaxPasses}
	for _, v := range []pipeline.Variant{independent, flow, {Cluster: clustering}} {
		t.Run(v.String(), func(t *testing.T) { testAsk(t, v) })
	}
}

func testAsk(t *testing.T, v pipeline.Variant) {
	topology, flows := fixture.Trace(t, 3000)
	dir := t.TempDir()
	estimates.Of(t, dir, estimates.Trace(t, topology, flows), v, pipeline.Settings{})
	model, err := pipeline.OpenModel(rows.Open(t, dir), "")
	if err != nil {
		t.Fatal(err)
	}
	best, err := pipeline.BestVariant(model)
	if err != nil || best.String() != v.String() {
		t.Fatalf("picked %s, the lake holds %s: %v", best, v, err)
	}
	run := pipeline.ReadOnly(model, best, pipeline.Settings{})
	ask := func(q Question) (*Answer, error) { return Ask(t.Context(), run, q) }
	a, err := ask(Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ask(Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("two answers: %v, %v, %v", a, b, err)
	}
	for i, q := range a.Quantiles {
		if q.Slowdown < 1 || i > 0 && q.Slowdown < a.Quantiles[i-1].Slowdown {
			t.Errorf("quantiles %+v", a.Quantiles)
		}
	}
	if a.Paths != 2 {
		t.Errorf("%d paths between racks joined by two fabric switches", a.Paths)
	}
	for _, q := range []Question{{Src: 0, Dst: 0, SizeBytes: 1, N: 1}, {Src: 0, Dst: 99, SizeBytes: 1, N: 1}, {Src: 0, Dst: 5, N: 1}, {Src: 0, Dst: 5, SizeBytes: 1}} {
		if _, err := ask(q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}
