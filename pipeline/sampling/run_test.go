package sampling

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/estimators"
)

// writeTrace writes flows of 1 to 10 KB that start over 600 ms, more of them in the middle.
func writeTrace(t *testing.T, flows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flows.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	_, err = fmt.Fprintln(f, "src,dst,size_bytes,start_ns,service")
	for range flows {
		src := random.IntN(32)
		start := (random.Int64N(600e6) + random.Int64N(600e6)) / 2
		if err == nil {
			dst := (src + 1 + random.IntN(31)) % 32
			bytes := 1000 + random.IntN(9000)
			service := 'a' + rune(random.IntN(2))
			_, err = fmt.Fprintf(f, "%d,%d,%d,%d,%c\n", src, dst, bytes, start, service)
		}
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	return path
}

// runAsk runs an Ask for a trace.
func runAsk(t *testing.T, dir, flows string, ask Ask) *Result {
	t.Helper()
	s, err := scenario.FromFiles("small-2to1", flows)
	if err != nil {
		t.Fatal(err)
	}
	v := pipeline.Variant{Estimator: estimators.Exact}
	e, err := pipeline.Begin(context.Background(), dir, s, v, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := Run(context.Background(), e, ask)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A run estimates the whole workload from some of its flows and commits its tables. A run in another lake has
// equal rows. A more precise run reuses the windows. Hidden scenarios are listed nowhere and are removed with
// the scenario.
func TestRun(t *testing.T) {
	flows := writeTrace(t, 20_000)
	dir := t.TempDir()
	ask := Ask{Within: 0.5, Of: []float64{0.99}, Confidence: 0.95}
	r := runAsk(t, dir, flows, ask)
	if r.Stopped != Precise || r.Windows < 32 || !(r.SampledShare > 0.05 && r.SampledShare < 0.5) {
		t.Fatalf("%s after %d windows, %.3f of the flows", r.Stopped, r.Windows, r.SampledShare)
	}
	total := int64(0)
	for _, p := range r.Percentiles {
		if p.SizeBin != "all" {
			total += p.Flows
		}
		if !(1 <= *p.P99Lo && *p.P99Lo <= p.P99 && (p.P99Hi == nil || p.P99 <= *p.P99Hi)) {
			t.Errorf("size %s: p99 %v outside its interval from %v", p.SizeBin, p.P99, *p.P99Lo)
		}
	}
	if total != 20_000 {
		t.Errorf("percentiles are of %d flows, want those of the whole workload", total)
	}
	again := runAsk(t, t.TempDir(), flows, ask)
	for i, row := range r.Rows {
		other := again.Rows[i]
		if row.Estimate != other.Estimate || row.Lo != other.Lo || row.Hi != other.Hi {
			t.Errorf("%v in one lake, %v in another", row, other)
		}
	}
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	checkLake(t, l, r)
	ask.Within = 0.00001
	finer := runAsk(t, dir, flows, ask)
	if finer.Windows <= r.Windows {
		t.Errorf("%d windows for a finer answer, after %d", finer.Windows, r.Windows)
	}
	removal := pipeline.Removal{Scenarios: []string{r.ScenarioID}}
	if _, err := pipeline.Remove(context.Background(), l, removal); err != nil {
		t.Fatal(err)
	}
	if left, err := l.Scenarios(); err != nil || len(left) > 0 {
		t.Errorf("scenarios %v are left (%v)", left, err)
	}
}

// checkLake checks the committed tables and the status of a run.
func checkLake(t *testing.T, l *lake.Lake, r *Result) {
	t.Helper()
	m, found, err := l.ReadManifest(lake.Place{Scenario: lake.ScenarioID(r.ScenarioID), Variant: r.Made})
	if err != nil || !found {
		t.Fatalf("no manifest of %s: %v", r.Variant, err)
	}
	rows := map[string]int64{}
	for _, f := range m.Files {
		table, err := f.Table()
		if err != nil {
			t.Fatal(err)
		}
		rows[table.Name] += f.Rows
	}
	open := 0 // without an upper end: not in the table
	for _, row := range r.Rows {
		if math.IsInf(float64(row.Hi), 1) {
			open++
		}
	}
	share := float64(rows[schema.SampledSlowdowns.Name]) / float64(r.Flows)
	windows := rows[schema.Windows.Name]
	intervals := rows[schema.Intervals.Name]
	if windows != int64(r.Windows) || share != r.SampledShare || intervals != int64(len(r.Rows)-open) {
		t.Errorf("committed rows %v, want those of %d windows", rows, r.Windows)
	}
	status, err := pipeline.ReadStatus(l, lake.ByContent)
	if err != nil || len(status.Scenarios) != 1 || status.Scenarios[0].State != pipeline.StateComplete {
		t.Errorf("status %+v (%v), want one complete scenario", status, err)
	}
	if id, err := pipeline.LastWorkedOn(l); err != nil || string(id) != r.ScenarioID {
		t.Errorf("the scenario last worked on is %s (%v), want %s", id, err, r.ScenarioID)
	}
}

// A budget that ends before the first windows are simulated is an error. If it ends in the second part of the
// first round, the first part is the answer.
func TestBudget(t *testing.T) {
	ctx := context.Background()
	flows := writeTrace(t, 20_000)
	ask := Ask{Within: 0.001, Of: []float64{0.99}, Confidence: 0.95, Budget: 1}
	_, err := Run(ctx, exactTrace(t, flows, 1), ask)
	if err == nil || !strings.Contains(err.Error(), "--budget 1ns is over before") {
		t.Errorf("a budget of 1 ns: %v", err)
	}
	e := exactTrace(t, flows, 1)
	s := &sampler{base: e, ask: ask, windowError: errorOfWindows(simkernel.DCTCP)}
	s.forget()
	if err := s.start(ctx); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithCancelCause(ctx)
	e.Log = zerolog.New(io.Discard).Hook(
		zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
			if message == "round done" {
				cancel(context.DeadlineExceeded)
			}
		}))
	stopped, err := s.draw(ctx, limited)
	if err != nil || stopped != Spent || len(s.counts) != 8 || len(s.design.Strata) != 4 {
		t.Errorf("%s (%v), %d windows in %d strata", stopped, err, len(s.counts), len(s.design.Strata))
	}
	if r, err := s.combine(ctx, stopped); err != nil || r.Windows != 8 {
		t.Errorf("%+v (%v)", r, err)
	}
}
