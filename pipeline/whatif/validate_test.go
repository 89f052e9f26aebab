package whatif

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/stages/estimators"
)

// tracedFlows is the number of flows of tracedEstimate.
const tracedFlows = 1000

// tracedEstimate estimates a traced workload and opens the estimate.
func tracedEstimate(t *testing.T) *pipeline.Estimation {
	t.Helper()
	o := settings(t, estimators.Independent)
	topology, flows := fixture.Trace(t, tracedFlows)
	estimate(t, estimates.Trace(t, topology, flows), o)
	e, err := pipeline.Resume(t.Context(), o.Lake, "", o.Variant, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// copyTo writes the rows of a SELECT statement to a Parquet file.
func copyTo(t *testing.T, db *sql.DB, rows, file string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "COPY ("+rows+") TO '"+file+"' (FORMAT parquet)"); err != nil {
		t.Fatalf("%s: %v", rows, err)
	}
}

// For a reference that is derived from the estimate with a known error, Validate finds that error.
func TestValidateAgainstKnownErrors(t *testing.T) {
	t.Parallel()
	run := tracedEstimate(t)
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := fmt.Sprintf("SELECT flow_id, fct_ns FROM read_parquet('%s/slowdowns/*/*/*.parquet')", run.Lake.Path())
	refuse := func(file, want string) { // the error is one line that names the file
		t.Helper()
		_, err := Validate(t.Context(), run, file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("truth %s: error %v, want %q", file, err, want)
		}
	}
	for _, c := range []struct {
		fct          string
		errorWanted  float64
		distanceWant float64
	}{{"fct_ns", 0, 0}, {"fct_ns * 2", -0.5, math.Log(2)}, {"fct_ns / 1.25", 0.25, math.Log(1.25)}} {
		file := filepath.Join(t.TempDir(), "truth.parquet")
		copyTo(t, db, fmt.Sprintf("SELECT flow_id, %s AS fct_ns FROM (%s)", c.fct, all), file)
		v, err := Validate(t.Context(), run, file)
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
			near := func(x, want float64) bool { return math.Abs(x-want) <= 1e-9 }
			if !near(r.Error, c.errorWanted) || !near(r.ErrorLo, c.errorWanted) ||
				!near(r.Wasserstein, c.distanceWant) {
				t.Errorf("truth = %s: %+v", c.fct, r)
			}
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.parquet")
	copyTo(t, db, "SELECT -1 AS flow_id, 5 AS fct_ns", empty)
	refuse(empty, "flow ids")
	for _, c := range [][2]string{
		{"SELECT flow_id FROM (" + all + ")", `column "fct_ns" not found`},
		{"SELECT CAST(flow_id AS VARCHAR) AS flow_id, fct_ns FROM (" + all + ")",
			"column flow_id is of type VARCHAR"},
		{"SELECT flow_id, CAST(fct_ns AS VARCHAR) AS fct_ns FROM (" + all + ")",
			"column fct_ns is of type VARCHAR"},
		{all + " UNION ALL (" + all + " ORDER BY flow_id LIMIT 2)", "2 flow ids occur more than once"},
		{all + " UNION ALL SELECT NULL, 5", "1 rows have no flow_id or no fct_ns"},
		{all + " UNION ALL SELECT -7, NULL", "1 rows have no flow_id or no fct_ns"},
		{all + " UNION ALL SELECT -7, 0", "fct_ns is not above 0 and finite in 1 rows (first: flow_id -7)"},
		{
			all + " UNION ALL SELECT -7, CAST('nan' AS DOUBLE)",
			"fct_ns is not above 0 and finite in 1 rows (first: flow_id -7)",
		},
		{all + " WHERE false", "do the flow ids agree"},
	} {
		file := filepath.Join(t.TempDir(), "bad.parquet")
		copyTo(t, db, c[0], file)
		refuse(file, c[1])
	}
	// The name of the file is also a glob, and the file has a reference for only some of the flows.
	dir := t.TempDir()
	copyTo(t, db, all+" WHERE flow_row % 4 = 0", dir+"/t[1].parquet")
	if err := os.WriteFile(filepath.Join(dir, "t1.parquet"), []byte("no Parquet"), 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := Validate(t.Context(), run, filepath.Join(dir, "t[1].parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var a text.Answer
	v.AddTo(&a)
	const share = "; 25% of the flows are in both\n"
	if err := a.Write(&b, "text"); err != nil || v.Matched != 0.25 || !strings.Contains(b.String(), share) {
		t.Errorf("matched %v, %v: %s", v.Matched, err, b.String())
	}
	for file, want := range map[string]string{
		dir: "is a directory", filepath.Join(dir, "t1.parquet"): "t1.parquet: "} {
		refuse(file, want)
	}
	refuse("no-truth.parquet", "no-truth.parquet")
	if _, err := Validate(t.Context(), run, ""); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("no whole-network simulation: %v", err)
	}
}

// Over many pairs of samples of one distribution, the 95% interval of the error does not contain the true
// error, 0, in about 5% of the trials. This applies both to the same flows and to different flows.
func TestBootstrapCoverage(t *testing.T) {
	trials := 120
	if testing.Short() {
		trials = 30
	}
	for _, paired := range []bool{true, false} {
		misses := 0
		for trial := range trials {
			s := &sample{name: "all"}
			rng := uint64(trial + 1)
			draw := func() float64 {
				rng = rng*6364136223846793005 + 1442695040888963407
				return 1 - math.Log(1-float64(rng>>11)/(1<<53))
			}
			for i := range 1500 {
				switch row := int64(trial*1500 + i); {
				case paired:
					s.add(row, draw(), draw())
				case i < 600:
					s.add(row+1<<62, 0, draw())
				default:
					s.add(row, draw(), 0)
				}
			}
			for _, r := range s.validate() {
				if r.Quantile == 0.9 && (r.ErrorLo > 0 || r.ErrorHi < 0) {
					misses++
				}
			}
		}
		share := float64(misses) / float64(trials)
		if share > 0.12 {
			t.Errorf("paired %v: a 95%% interval misses in %.0f%% of the trials", paired, 100*share)
		}
	}
}

// A simulation of the whole network of a small scenario is a reference for validation.
func TestExactEndToEnd(t *testing.T) {
	t.Parallel()
	run := tracedEstimate(t)
	if err := run.Exact(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := Validate(t.Context(), run, "")
	if err != nil {
		t.Fatal(err)
	}
	last := v.Rows[len(v.Rows)-1]
	if last.Flows != tracedFlows {
		t.Errorf("%d flows compared", last.Flows)
	}
	for _, r := range v.Rows {
		if r.Name == "all" && r.Quantile == 0.9 && math.Abs(r.Error) > 0.5 {
			t.Errorf("p90 is off by %+.2f", r.Error)
		}
	}
	status, err := pipeline.ReadStatus(run.Lake, lake.ByContent)
	if err != nil || status.Scenarios[0].State != pipeline.StateComplete ||
		len(status.Scenarios[0].Variants) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
}
