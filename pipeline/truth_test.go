package pipeline

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"parsimon/schema/daily"
)

// shared returns a path in the folder of reference results beside the repository. Tests that need it are
// skipped if it is missing.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "shared"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no ground truth beside the repository: %v", err)
	}
	return path
}

// The paper's estimator with repaired ECMP has known errors relative to the paper's own ns-3. Estimator
// independent must have the same errors within three percentage points, averaged over a few seeds. Paths and
// draws differ from those of the run that measured the known errors. Both FCTs are divided by the same ideal
// FCT. The test runs every fourth day.
func TestIndependentAgainstNS3(t *testing.T) {
	type known struct {
		scenario, topology string
		p99                float64 // known relative error of p99
		seeds              uint64
	}
	for _, c := range daily.Today(4, known{"47", "cluster_4_to_1", 0.09, 2}) {
		t.Run(c.scenario, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes seconds")
			}
			truth := shared(t, "reference", "scenarios", c.scenario, "ns3.parquet")
			flows := shared(t, "reference", "scenarios", c.scenario, "flows.parquet")
			topology := shared(t, "reference", "topologies", c.topology+".json")
			var sum float64
			for seed := uint64(1); seed <= c.seeds; seed++ {
				e := truthErrors(t, topology, flows, truth, independent, seed)
				t.Logf("seed %d: p99 error %+.1f%%", seed, 100*e[2])
				sum += e[2]
			}
			mean := sum / float64(c.seeds)
			if math.Abs(mean-c.p99) > 0.03 {
				t.Errorf("p99 error %+.3f, known %+.3f", mean, c.p99)
			}
		})
	}
}

// Estimator flow is compared with the paper's own ns-3. p50, p90 and p99 must be within 10% and p99.9 within
// 15%, in a calm scenario (95) and a loaded one (47, with 58% on the most loaded link), with one setting.
// One of the two runs each day, and "make accuracy" covers all scenarios.
func TestFlowAgainstNS3(t *testing.T) {
	type truth struct{ scenario, topology string }
	for _, c := range daily.Today(2, truth{"95", "cluster_2_to_1"}, truth{"47", "cluster_4_to_1"}) {
		t.Run(c.scenario, func(t *testing.T) {
			if testing.Short() && c.scenario != "95" {
				t.Skip("takes seconds")
			}
			truth := shared(t, "reference", "scenarios", c.scenario, "ns3.parquet")
			flows := shared(t, "reference", "scenarios", c.scenario, "flows.parquet")
			topology := shared(t, "reference", "topologies", c.topology+".json")
			e := truthErrors(t, topology, flows, truth, flow, 1)
			t.Logf("errors of p50, p90, p99, p99.9: %+.3f", e)
			for i, bound := range []float64{0.1, 0.1, 0.1, 0.15} {
				if math.Abs(e[i]) > bound {
					t.Errorf("errors of p50, p90, p99, p99.9: %+.3f", e)
				}
			}
		})
	}
}

// truthErrors estimates a scenario, joins its slowdowns with the reference in SQL, and returns the relative
// errors of p50, p90, p99 and p99.9.
func truthErrors(t *testing.T, topology, flows, truth string, v Variant, seed uint64) (errs [4]float64) {
	t.Helper()
	s, err := paperScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed = seed
	o := options{Lake: t.TempDir(), Variant: v}
	estimateScenario(t, s, o)
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var flowsJoined int64
	for i, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		err = db.QueryRow(fmt.Sprintf(`
			SELECT quantile_cont(e.fct_ns / e.ideal_ns, %[1]g) / quantile_cont(n.fct_ns / e.ideal_ns, %[1]g) - 1,
				count(*)
			FROM read_parquet('%[2]s/slowdowns/*/*/*.parquet') e JOIN read_parquet('%[3]s') n USING (flow_id)`,
			q, o.Lake, truth)).Scan(&errs[i], &flowsJoined)
		if err != nil {
			t.Fatal(err)
		}
	}
	if flowsJoined < 39_000 {
		t.Errorf("only %d flows have a truth", flowsJoined)
	}
	return errs
}

// BenchmarkEstimate runs all stages on a shared scenario. It is used to profile the whole pipeline.
func BenchmarkEstimate(b *testing.B) {
	flows := shared(b, "reference", "scenarios", "47", "flows.parquet")
	topology := shared(b, "reference", "topologies", "cluster_4_to_1.json")
	for b.Loop() {
		for _, r := range estimate(b, topology, flows, options{Lake: b.TempDir()}).Executor().Reports {
			b.ReportMetric(r.Seconds, r.Stage+"-s")
		}
	}
}
