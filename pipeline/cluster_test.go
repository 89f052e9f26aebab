package pipeline

import (
	"testing"

	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/stages"
)

// With a limit that only idle links keep, clustering changes no row; with a wide one fewer cases are
// simulated, every flow has its estimate, and the rows are the same however the links are cut.
func TestClusteredRuns(t *testing.T) {
	file := whatIfFile(t)
	run := func(cluster string, partitions int) (string, stages.SimulateStats) {
		t.Helper()
		o := Options{Lake: t.TempDir(), Estimator: stages.Independent, Partitions: partitions, Log: zerolog.Nop()}
		variant := "independent"
		if cluster != "" {
			var err error
			if o.Cluster, err = stages.ParseClustering(cluster); err != nil {
				t.Fatal(err)
			}
			variant = independentVariant + clusteredVariant + o.Cluster.String()
		}
		id := estimated(t, file, o)
		r, err := Resume(id, o)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Variant() != variant {
			t.Errorf("variant %s, want %s", r.Variant(), variant)
		}
		status, err := ReadStatus(r.lake, true)
		if err != nil || status.Scenarios[0].State != stateComplete {
			t.Errorf("status %+v, %v", status, err)
		}
		if _, err := r.Ask(t.Context(), Question{Src: 0, Dst: 15, SizeBytes: 20_000, N: 100, Seed: 1}); err != nil {
			t.Error(err)
		}
		return tableRows(t, o.Lake, schema.Slowdowns, id, variant), casesOf(t, r)
	}
	whole, all := run("", 0)
	if same, cases := run("1e-12", 5); same != whole || cases.Cases < all.Cases*8/10 {
		t.Errorf("hardly anything is alike: %d of %d cases, rows differ: %v", cases.Cases, all.Cases, same != whole)
	}
	wide, cases := run("50%", 1)
	if cases.Cases == 0 || cases.Cases*2 > all.Cases {
		t.Errorf("%d of %d cases", cases.Cases, all.Cases)
	}
	if again, _ := run("0.5", 9); again != wide {
		t.Error("the partitions change the rows")
	}
	if _, err := Begin(mustLoad(t, file), Options{Lake: t.TempDir(), Estimator: stages.Flow, Cluster: &stages.Clustering{Error: 1}}); err == nil {
		t.Error("estimator flow is clustered")
	}
}
