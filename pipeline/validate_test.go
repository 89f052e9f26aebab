package pipeline

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
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
		if v.Matched != 1 {
			t.Errorf("%v of the flows matched", v.Matched)
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
	all := fmt.Sprintf("SELECT flow_id, fct_ns FROM read_parquet('%s/slowdowns/*/*/*.parquet')", lake)
	for _, c := range [][2]string{
		{"SELECT flow_id FROM (" + all + ")", "no column fct_ns (it has flow_id)"},
		{"SELECT CAST(flow_id AS VARCHAR) AS flow_id, fct_ns FROM (" + all + ")", "column flow_id is of type VARCHAR"},
		{"SELECT flow_id, CAST(fct_ns AS VARCHAR) AS fct_ns FROM (" + all + ")", "column fct_ns is of type VARCHAR"},
		{all + " UNION ALL (" + all + " ORDER BY flow_id LIMIT 2)", "2 flow ids stand there more than once"},
		{all + " UNION ALL SELECT NULL, 5", "1 rows have no flow_id or no fct_ns"},
		{all + " UNION ALL SELECT -7, NULL", "1 rows have no flow_id or no fct_ns"},
		{all + " UNION ALL SELECT -7, 0", "fct_ns is not above 0 and finite in 1 rows (first: flow_id -7)"},
		{all + " UNION ALL SELECT -7, CAST('nan' AS DOUBLE)", "fct_ns is not above 0 and finite in 1 rows (first: flow_id -7)"},
		{all + " WHERE false", "do the flow ids agree"},
	} {
		file := filepath.Join(t.TempDir(), "bad.parquet")
		if _, err := db.Exec("COPY (" + c[0] + ") TO '" + file + "' (FORMAT parquet)"); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Validate(context.Background(), file, Window{}); err == nil || !strings.Contains(err.Error(), c[1]) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
			t.Errorf("truth %s: error %v, want %q", c[0], err, c[1])
		}
	}
	// A name that is a pattern of others, and a truth of some of the flows.
	dir := t.TempDir()
	if _, err := db.Exec("COPY (" + all + " WHERE flow_row % 4 = 0) TO '" + dir + "/t[1].parquet' (FORMAT parquet)"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t1.parquet"), []byte("no Parquet"), 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := run.Validate(context.Background(), filepath.Join(dir, "t[1].parquet"), Window{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := v.Write(&b); err != nil || v.Matched != 0.25 || !strings.Contains(b.String(), "; 25% of the estimated flows have a truth\n") {
		t.Errorf("matched %v, %v: %s", v.Matched, err, b.String())
	}
	for file, want := range map[string]string{dir: "is a directory", filepath.Join(dir, "t1.parquet"): "t1.parquet: "} {
		if _, err := run.Validate(context.Background(), file, Window{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("truth %s: error %v, want %q", file, err, want)
		}
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
	late := Window{FromNS: 1 << 50, ToNS: 1<<50 + 1000}
	if err := run.Exact(context.Background(), late); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Validate(context.Background(), "", late); err == nil || err.Error() != "no flow starts in the sampled stretch" {
		t.Errorf("a stretch after the last flow: %v", err)
	}
	status, err := ReadStatus(run.lake, true)
	if err != nil || status.Scenarios[0].State != stateComplete || len(status.Scenarios[0].Variants) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
}
