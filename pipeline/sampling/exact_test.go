package sampling

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/scenario"
	"parsimon/stages/estimators"
)

// exactTrace opens the scenario of a trace for an estimate by the given number of workers.
func exactTrace(t *testing.T, flows string, workers int) *pipeline.Estimation {
	t.Helper()
	s, err := scenario.FromFiles("small-2to1", flows)
	if err != nil {
		t.Fatal(err)
	}
	v := pipeline.Variant{Estimator: estimators.Exact}
	o := pipeline.Settings{Settings: engine.Settings{Workers: workers}}
	e, err := pipeline.Begin(context.Background(), t.TempDir(), s, v, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// For short flows, windows have the percentiles that the simulation of the whole workload has for the same
// flows. Rows are equal for any number of workers. If the warm-up or the carried flows were wrong, windows
// would be biased.
func TestExactWindows(t *testing.T) {
	ctx := context.Background()
	flows := cut(t, writeTrace(t, 20_000))
	ask := Ask{Within: 0.3, Of: []float64{0.9}, Confidence: 0.95}
	one := exactTrace(t, flows, 1)
	r, err := Run(ctx, one, ask)
	if err != nil {
		t.Fatal(err)
	}
	more, err := Run(ctx, exactTrace(t, flows, 3), ask)
	if err != nil {
		t.Fatal(err)
	}
	if r.Stopped != Precise {
		t.Fatalf("%s, %v", r.Stopped, r.Warnings)
	}
	same := func(a, b Row) bool { return a.Estimate == b.Estimate && a.Lo == b.Lo && a.Hi == b.Hi }
	if !slices.EqualFunc(r.Rows, more.Rows, same) {
		t.Error("three workers find other rows than one")
	}
	s, _, err := estimateWindows(ctx, one, nil, ask)
	if err != nil {
		t.Fatal(err)
	}
	slots := s.design.Drawn(s.design.First())
	part, err := s.estimated(ctx, slots, s.warmup.NS)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Estimate(ctx); err != nil {
		t.Fatal(err)
	}
	whole, err := s.read(ctx, &round{slots: slots, run: one})
	if err != nil {
		t.Fatal(err)
	}
	var halves, wholes []*histogram
	for _, n := range slots {
		got := part[n][all].Flows()
		want := whole.found[n][all].Flows()
		if got != want {
			t.Errorf("window %d has %d flows of %d", n, got, want)
		}
		halves = append(halves, part[n][all])
		wholes = append(wholes, whole.found[n][all])
	}
	for _, m := range effects(halves, wholes) {
		if math.Abs(m.Error) > 0.005 {
			t.Errorf("%s of windows is %+.2f%% off", percentileName(m.Quantile), 100*m.Error)
		}
	}
	// The remarks about the flows do not depend on what can still be read when windows end.
	if err := os.RemoveAll(one.Lake.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Generated(); err == nil {
		t.Fatal("records are read without a lake")
	}
	remark := "flows: " + flows + " does not end with a line end"
	got := s.result(nil, Precise, 0).Warnings
	if len(got) == 0 || !strings.HasPrefix(got[0], remark) {
		t.Errorf("warnings %q, want %q", got, remark)
	}
}

// cut removes the last line end of a file.
func cut(t *testing.T, file string) string {
	t.Helper()
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
