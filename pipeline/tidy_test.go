package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"parsimon/schema"
	"parsimon/stages"
)

// filesOf counts the files of a table, of all scenarios and variants.
func filesOf(t *testing.T, lake string, table schema.Table) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(lake, table.Name, "*", "variant=*", "*.parquet"))
	if !table.Variant {
		files, err = filepath.Glob(filepath.Join(lake, table.Name, "*", "*.parquet"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// An estimate lets go of what only passes tell each other, and nothing else; it is complete all the same,
// and finds itself so; the rows are those of a run that keeps everything.
func TestTidy(t *testing.T) {
	topology, flows := trace(t, 3000)
	kept, tidy := t.TempDir(), t.TempDir()
	estimate(t, topology, flows, Options{Lake: kept, Estimator: stages.Flow, Passes: 2, Keep: true})
	o := Options{Lake: tidy, Estimator: stages.Flow, Passes: 2, Cache: LakeCache(tidy)}
	run := estimate(t, topology, flows, o)
	for _, table := range schema.Tables() {
		want := filesOf(t, kept, table)
		if slices.Contains([]string{schema.HopObservations.Name, schema.Feedback.Name, schema.SenderFeedback.Name}, table.Name) {
			if want == 0 {
				t.Errorf("with Keep there are no files of %s", table.Name)
			}
			want = 0
		}
		if got := filesOf(t, tidy, table); got != want && table.Variant {
			t.Errorf("%d files of %s, want %d", got, table.Name, want)
		}
	}
	rows := func(lake string) string {
		l, err := OpenLake(lake, false)
		if err != nil {
			t.Fatal(err)
		}
		return digestTables(t, l, []schema.Table{schema.Hops, schema.LinkStats, schema.SenderFCTs, schema.HopContributions, schema.Slowdowns, schema.Intervals})
	}
	if rows(kept) != rows(tidy) {
		t.Error("the rows are not those of a run that keeps everything")
	}
	status, err := ReadStatus(run.lake, true)
	if err != nil {
		t.Fatal(err)
	}
	if s := status.Scenarios[0]; s.State != stateComplete {
		t.Errorf("the scenario is %s: %+v", s.State, s.Stages)
	}
	for _, r := range estimate(t, topology, flows, o).reports {
		if r.Reused != r.Tasks {
			t.Errorf("stage %s of a complete scenario is done again", r.Stage)
		}
	}
}

// What was let go is made again where somebody needs it: a table that is damaged, more passes, other
// partitions, or a stage by itself.
func TestTidiedIsMadeAgain(t *testing.T) {
	topology, flows := trace(t, 3000)
	fresh := t.TempDir()
	estimate(t, topology, flows, Options{Lake: fresh, Estimator: stages.Flow, Passes: 3})

	lake := t.TempDir()
	o := Options{Lake: lake, Estimator: stages.Flow, Passes: 2, Cache: LakeCache(lake)}
	estimate(t, topology, flows, o)
	before := digestOf(t, lake, stages.Flow)
	for _, table := range []schema.Table{schema.Slowdowns, schema.SenderFCTs, schema.LinkStats, schema.Hops, schema.Flows} {
		files, err := filepath.Glob(filepath.Join(lake, table.Name, "*", "*.parquet"))
		if table.Variant {
			files, err = filepath.Glob(filepath.Join(lake, table.Name, "*", "variant=flow-2", "*.parquet"))
		}
		if err != nil || len(files) == 0 {
			t.Fatal(table.Name, files, err)
		}
		if err := os.WriteFile(files[0], []byte("PAR1 no longer"), 0o644); err != nil {
			t.Fatal(err)
		}
		estimate(t, topology, flows, o)
		if digestOf(t, lake, stages.Flow) != before {
			t.Errorf("after damage to %s the rows are others", table.Name)
		}
		if n := filesOf(t, lake, schema.HopObservations) + filesOf(t, lake, schema.Feedback) + filesOf(t, lake, schema.SenderFeedback); n > 0 {
			t.Errorf("after damage to %s, %d files stay that nobody needs", table.Name, n)
		}
	}

	more := o
	more.Passes, more.Partitions = 3, 5
	estimate(t, topology, flows, more)
	run := resume(t, lake, stages.Flow)
	defer run.Close()
	if got := tableRows(t, lake, schema.Slowdowns, run.ScenarioID(), "flow-3"); got != tableRows(t, fresh, schema.Slowdowns, run.ScenarioID(), "flow-3") {
		t.Error("three passes after two are not what three passes are")
	}
}
