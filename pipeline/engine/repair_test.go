package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// all returns the tasks of a stage of the toy, in the order in which one worker begins them.
func all(stage string) []string {
	if stage == "sums" {
		return []string{"sums 1", "sums 0"}
	}
	return []string{stage + " 4", stage + " 3", stage + " 2", stage + " 1", stage + " 0"}
}

// A stage whose temporary table was collected stays complete until a stage that reads the table must run
// again. The table is then recomputed from its inputs, and collected again. Nothing else is recomputed.
func TestRepair(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	l := session.Lake
	toy.run(t, session, settings())
	remove := func(path string) func() {
		return func() {
			if err := os.RemoveAll(filepath.Join(l.Path(), path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what   string
		damage func()
		did    []string
	}{
		{"nothing", func() {}, nil},
		{"a file of sums is removed", remove(toy.sums.Place.File(schema.SenderFCTs, 1)),
			append(all("squares"), "sums 1")},
		{"a file of sums is damaged", func() { spoil(t, l, toy.sums, 0) }, append(all("squares"), "sums 0")},
		{"a record of sums is removed", remove(toy.sums.StatePath(recordName(0))),
			append(all("squares"), "sums 0")},
		{"a file of numbers is damaged", func() { spoil(t, l, toy.numbers, 2) }, []string{"numbers 2"}},
		{"a record of squares is removed", remove(toy.squares.StatePath(recordName(3))), []string{"squares 3"}},
		{"a file of numbers is damaged and one of sums removed",
			func() { spoil(t, l, toy.numbers, 0); remove(toy.sums.Place.File(schema.SenderFCTs, 1))() },
			slices.Concat([]string{"numbers 0"}, all("squares"), []string{"sums 1"})},
		{"the plan of sums is removed", remove(toy.sums.StatePath("plan.json")),
			slices.Concat(all("squares"), all("sums"))},
		{"the plan of sums is damaged", func() {
			if err := os.WriteFile(filepath.Join(l.Path(), toy.sums.StatePath("plan.json")), []byte("{"),
				0o644); err != nil {
				t.Fatal(err)
			}
		}, slices.Concat(all("squares"), all("sums"))},
		{"a record of squares is that of a program with another table", func() {
			rec, err := readRecord(l, toy.squares, 3)
			if err == nil {
				rec.Files = append(rec.Files, lake.DataFile{Path: schema.Removed[0] + "/part-00003.parquet"})
				err = session.WriteState(toy.squares.StatePath(recordName(3)), rec)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"squares 3"}},
		{"everything of sums is removed",
			func() { remove(toy.sums.StatePath())(); remove(toy.sums.Place.Dir(schema.SenderFCTs))() },
			slices.Concat(all("squares"), all("sums"))},
	} {
		c.damage()
		did := toy.run(t, session, settings())
		if !slices.Equal(did, c.did) {
			t.Errorf("%s: did %q, want %q", c.what, did, c.did)
		}
		n := files(t, l, toy.squares)
		if n != 0 {
			t.Errorf("%s: %d files of squares stay", c.what, n)
		}
	}
}

// A stage that is divided into different tasks than before needs the collected table again.
func TestRepairForAnotherLayout(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.run(t, session, settings())
	cut := toy.sums.Cut
	toy.sums.Cut = func(*Inputs, []Task) ([]Task, error) { return toyRanges(3), nil }
	if err := New(session, settings()).Run(t.Context(), toy.plan); err != nil {
		t.Fatal(err)
	}
	did := toy.begun()
	want := append(all("squares"), "sums 2", "sums 1", "sums 0")
	if !slices.Equal(did[len(did)-len(want):], want) {
		t.Errorf("did %q, want %q in the end", did, want)
	}
	toy.sums.Cut = cut
	toy.run(t, session, settings())
}

// A stage that runs alone recomputes its collected files, because they are the purpose of the run.
func TestStageAloneMakesCollectedFiles(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.run(t, session, settings())
	if err := New(session, settings()).RunStage(t.Context(), toy.plan, toy.squares); err != nil {
		t.Fatal(err)
	}
	did := toy.begun()
	if !slices.Equal(did, all("squares")) {
		t.Errorf("did %q", did)
	}
	n := files(t, session.Lake, toy.squares)
	if n != toyTasks {
		t.Errorf("%d files of squares", n)
	}
}

// A stage that an older program ran without one of today's tables stays complete until a stage reads the
// table. A plan then runs it again. A stage that runs alone says what to do, and runs again if it lacks the
// table itself.
func TestTablesOfOlderPrograms(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	open := toy.numbers.Open
	toy.run(t, session, settings()) // like an older program: it writes no paths
	toy.numbers.Writes = append(toy.numbers.Writes, schema.FlowPaths)
	toy.squares.Reads = append(toy.squares.Reads, toy.numbers.Output(schema.FlowPaths))
	did := toy.run(t, session, settings())
	if len(did) > 0 {
		t.Errorf("a complete plan did %q", did)
	}
	if err := session.RemoveState(toy.squares.StatePath(recordName(3))); err != nil {
		t.Fatal(err)
	}
	err := New(session, settings()).RunStage(t.Context(), toy.plan, toy.squares)
	want := `an older version ran it, without table flow_paths: run "toy numbers" first`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	toy.numbers.Open = withPaths(open)
	did = toy.run(t, session, settings())
	if !slices.Equal(did, append(all("numbers"), "squares 3")) {
		t.Errorf("a plan that continues an older one did %q", did)
	}
	toy.numbers.Open = open
	if err := session.RemoveState(toy.numbers.StatePath()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := New(session, settings()).RunStage(t.Context(), toy.plan, toy.numbers); err != nil {
			t.Fatal(err)
		}
		did := toy.begun()
		if !slices.Equal(did, all("numbers")) {
			t.Errorf("the stage alone did %q", did)
		}
	}
}

// withPaths is the Open of a stage that also writes table flow_paths, which is empty.
func withPaths(open func(*Inputs) (Worker, error)) func(*Inputs) (Worker, error) {
	return func(in *Inputs) (Worker, error) {
		work, err := open(in)
		return func(ctx context.Context, a *Attempt) error {
			a.Sink(schema.FlowPaths)
			return work(ctx, a)
		}, err
	}
}

// Shards run again what an older program ran without one of today's tables. Otherwise, no shard of a later
// stage could run.
func TestShardsOfOlderPrograms(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.run(t, session, settings()) // like an older program: it writes no paths
	session.Close()
	toy.numbers.Writes = append(toy.numbers.Writes, schema.FlowPaths)
	toy.numbers.Open = withPaths(toy.numbers.Open)
	run := func(index int) int {
		t.Helper()
		s := settings()
		s.Shard = Shard{index, 2}
		err := shared(t, session.Lake, s, nil, func(e *Executor) error {
			return e.RunStage(t.Context(), toy.plan, toy.numbers)
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(toy.begun())
	}
	first := run(0)
	second := run(1)
	if first == 0 || second == 0 || first+second != toyTasks {
		t.Errorf("shards ran %d and %d tasks, want %d", first, second, toyTasks)
	}
	again := run(0) + run(1)
	if again > 0 {
		t.Errorf("shards ran %d tasks again", again)
	}
	r, err := Complete(session.Lake, toy.numbers, 1)
	if err != nil || len(r.Files(schema.FlowPaths)) != toyTasks {
		t.Errorf("%d files, %v", len(r.Files(schema.FlowPaths)), err)
	}
}
