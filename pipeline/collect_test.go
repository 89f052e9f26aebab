package pipeline

import (
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
)

// An estimate removes its temporary tables and nothing else. It is still complete, and its rows equal those
// of a run that keeps all tables.
func TestCollection(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	kept := t.TempDir()
	collected := t.TempDir()
	estimate(t, topology, flows, options{Lake: kept, Variant: flowOf(2), Partitions: 4, Keep: true})
	o := options{Lake: collected, Variant: flowOf(2), Partitions: 4, Cache: lake.CachePath(collected)}
	estimate(t, topology, flows, o)
	for _, table := range schema.Tables() {
		want := dataFiles(t, kept, table)
		if table.Temporary {
			if want == 0 {
				t.Errorf("with Keep there are no files of %s", table.Name)
			}
			want = 0
		}
		got := dataFiles(t, collected, table)
		if got != want && table.Variant {
			t.Errorf("%d files of %s, want %d", got, table.Name, want)
		}
	}
	digest := func(dir string) string {
		return RowDigest(t, dir, schema.Hops, schema.LinkStats, schema.SenderFCTs, schema.HopContributions,
			schema.Slowdowns, schema.Intervals)
	}
	if digest(kept) != digest(collected) {
		t.Error("the rows are not those of a run that keeps everything")
	}
	state, status := stateOf(t, collected)
	if state != StateComplete {
		t.Errorf("status %+v", status.Scenarios)
	}
	for _, r := range estimate(t, topology, flows, o).Executor().Reports {
		if r.Reused != r.Tasks {
			t.Errorf("stage %s of a complete scenario is done again", r.Stage)
		}
	}
}

// Collected tables are recomputed when they are needed: for a damaged table, for more passes, or for other
// partitions. In the short form, one of the tables is damaged each day.
func TestCollectedIsMadeAgain(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	fresh := t.TempDir()
	estimate(t, topology, flows, options{Lake: fresh, Variant: flowOf(2), Partitions: 4})

	dir := t.TempDir()
	o := options{Lake: dir, Variant: flowOf(1), Partitions: 4, Cache: lake.CachePath(dir)}
	run := estimate(t, topology, flows, o)
	before := digestOf(t, dir, estimators.Flow)
	for i, table := range []schema.Table{schema.Slowdowns, schema.SenderFCTs, schema.LinkStats, schema.Hops,
		schema.Flows} {
		if daily.Skips(i, 5) {
			continue
		}
		p := lake.Of(run.ID())
		if table.Variant {
			p.Variant = flowOf(1).Stored()
		}
		spoil(t, dir, p, table)
		estimate(t, topology, flows, o)
		if digestOf(t, dir, estimators.Flow) != before {
			t.Errorf("after damage to %s the rows are others", table.Name)
		}
		n := dataFiles(t, dir, temporaryTables...)
		if n > 0 {
			t.Errorf("after damage to %s, %d temporary files stay", table.Name, n)
		}
	}

	more := o
	more.Variant = flowOf(2)
	more.Partitions = 5
	estimate(t, topology, flows, more)
	if textOf(t, dir, schema.Slowdowns, run.ID(), "flow-2") != textOf(t, fresh, schema.Slowdowns, run.ID(),
		"flow-2") {
		t.Error("two passes after one are not what two passes are")
	}
}
