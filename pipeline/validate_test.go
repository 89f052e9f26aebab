package pipeline

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// A truth made from the estimate has the errors it was made with.
func TestValidateAgainstKnownErrors(t *testing.T) {
	topology, flows := trace(t, 4000)
	lake := t.TempDir()
	estimate(t, topology, flows, Options{Lake: lake})
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run, err := Resume("", Options{Lake: lake, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for _, c := range []struct {
		fct          string
		errorWanted  float64
		distanceWant float64
	}{{"fct_ns", 0, 0}, {"fct_ns * 2", -0.5, math.Log(2)}, {"fct_ns / 1.25", 0.25, math.Log(1.25)}} {
		file := filepath.Join(t.TempDir(), "truth.parquet")
		if _, err := db.Exec(fmt.Sprintf("COPY (SELECT flow_id, %s AS fct_ns FROM read_parquet('%s/slowdowns/*/*/*.parquet')) TO '%s' (FORMAT parquet)", c.fct, lake, file)); err != nil {
			t.Fatal(err)
		}
		v, err := run.Validate(context.Background(), file, Window{})
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Rows) < 16 {
			t.Errorf("%d rows", len(v.Rows))
		}
		for _, r := range v.Rows {
			if math.Abs(r.Error-c.errorWanted) > 1e-9 || math.Abs(r.ErrorLo-c.errorWanted) > 1e-9 || math.Abs(r.Wasserstein-c.distanceWant) > 1e-9 {
				t.Errorf("truth = %s: %+v", c.fct, r)
			}
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.parquet")
	if _, err := db.Exec(fmt.Sprintf("COPY (SELECT -1 AS flow_id, 5 AS fct_ns) TO '%s' (FORMAT parquet)", empty)); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Validate(context.Background(), empty, Window{}); err == nil || !strings.Contains(err.Error(), "flow ids") {
		t.Errorf("a truth of other flows: %v", err)
	}
	if _, err := run.Validate(context.Background(), "no-truth.parquet", Window{}); err == nil || !strings.Contains(err.Error(), "no-truth.parquet") {
		t.Errorf("no truth: %v", err)
	}
	if _, err := run.Validate(context.Background(), "", Window{}); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("no exact run: %v", err)
	}
}

// Intervals hold: over many samples of one distribution, the error's interval misses the true error
// (none) about as often as it says.
func TestBootstrapCoverage(t *testing.T) {
	misses := 0
	const trials = 120
	for trial := range trials {
		s := &sample{name: "all"}
		for i := range 1500 {
			s.add(int64(trial*1500+i), 0, 0)
		}
		// Two independent samples of the same distribution.
		rng := uint64(trial + 1)
		for i := range s.estimate {
			rng = rng*6364136223846793005 + 1442695040888963407
			s.estimate[i] = 1 - math.Log(1-float64(rng>>11)/(1<<53))
			rng = rng*6364136223846793005 + 1442695040888963407
			s.tru[i] = 1 - math.Log(1-float64(rng>>11)/(1<<53))
		}
		for _, r := range s.compare() {
			if r.Quantile == 0.9 && (r.ErrorLo > 0 || r.ErrorHi < 0) {
				misses++
			}
		}
	}
	if share := float64(misses) / trials; share > 0.12 {
		t.Errorf("a 95%% interval misses in %.0f%% of the trials", 100*share)
	}
}

// The exact simulation of a small scenario, as a whole and as a sample, from start to finish.
func TestExactEndToEnd(t *testing.T) {
	topology, flows := trace(t, 4000)
	lake := t.TempDir()
	estimate(t, topology, flows, Options{Lake: lake})
	run, err := Resume("", Options{Lake: lake, ExactWorkers: 2, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	sampled, err := run.SampleWindow(4_000_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []Window{{}, sampled} {
		if err := run.Exact(context.Background(), w); err != nil {
			t.Fatal(err)
		}
		v, err := run.Validate(context.Background(), "", w)
		if err != nil {
			t.Fatal(err)
		}
		last := v.Rows[len(v.Rows)-1]
		if w == (Window{}) && last.Flows != 4000 || w != (Window{}) && (last.Flows < 400 || last.Flows > 1600) {
			t.Errorf("%s: %d flows compared", w.Variant(), last.Flows)
		}
		if len(v.Tiers) != 3 {
			t.Errorf("%s: queueing of %d tiers", w.Variant(), len(v.Tiers))
		}
		for _, r := range v.Rows {
			if r.SizeBin == "all" && r.Quantile == 0.9 && math.Abs(r.Error) > 0.5 {
				t.Errorf("%s: p90 is off by %+.2f", w.Variant(), r.Error)
			}
		}
	}
	status, err := ReadStatus(run.lake, true)
	if err != nil || status.Scenarios[0].State != stateComplete || len(status.Scenarios[0].Variants) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
}
