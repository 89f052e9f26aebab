package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// A plan runs stage by stage, and the costliest tasks of each stage run first. Complete tasks do not run
// again. The temporary table is removed as soon as the stage that reads it is complete. The other tables
// stay.
func TestRun(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	want := []string{
		"numbers 4", "numbers 3", "numbers 2", "numbers 1", "numbers 0",
		"squares 4", "squares 3", "squares 2", "squares 1", "squares 0",
		"sums 1", "sums 0",
	}
	did := toy.run(t, session, settings())
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
	a := files(t, session.Lake, toy.numbers)
	b := files(t, session.Lake, toy.squares)
	c := files(t, session.Lake, toy.sums)
	if a != toyTasks || b != 0 || c != toySums {
		t.Errorf("%d, %d and %d files", a, b, c)
	}
	e := New(session, settings())
	if err := e.Run(t.Context(), toy.plan); err != nil {
		t.Fatal(err)
	}
	if did := toy.begun(); len(did) > 0 {
		t.Errorf("a complete plan did %q", did)
	}
	if len(e.Reports) != 3 || e.Reports[1].Stage != "squares" || e.Reports[1].Tasks != toyTasks ||
		e.Reports[1].Reused != toyTasks {
		t.Errorf("reports %+v", e.Reports)
	}
	left, _ := os.ReadDir(session.TmpPath())
	if len(left) > 0 {
		t.Errorf("%d unfinished files", len(left))
	}
}

// The rows are the same for any number of workers. With Keep, the temporary table stays.
func TestWorkersAndKeep(t *testing.T) {
	for _, workers := range []int{0, 3, 16} {
		session := toyLake(t)
		toy := newToy(toyScenario)
		s := settings()
		s.Workers = workers
		s.Keep = true
		did := toy.run(t, session, s)
		if len(did) != 2*toyTasks+toySums {
			t.Errorf("%d workers: did %q", workers, did)
		}
		n := files(t, session.Lake, toy.squares)
		if n != toyTasks {
			t.Errorf("%d files are kept", n)
		}
	}
}

// The statistics of a stage are those of its tasks, in order.
func TestStats(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.run(t, session, settings())
	r, err := Reader(session.Lake, settings()).Records(toy.sums)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := Stats[toyStats](r)
	if err != nil || fmt.Sprint(stats) != "[{500} {500}]" {
		t.Errorf("%v, %v", stats, err)
	}
	if _, err := Stats[[]int](r); err == nil ||
		!strings.Contains(err.Error(), "statistics of stage sums, task 1") {
		t.Errorf("of another type: %v", err)
	}
}

// A failed stage continues where it stopped. If the inputs of a stage are missing, the error names the
// command that makes them. If a file or a record is damaged, missing or truncated, only its task runs again.
func TestStageResumes(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	l := session.Lake
	squares := func(s Settings) ([]string, error) {
		err := New(session, s).RunStage(t.Context(), toy.plan, toy.squares)
		return toy.begun(), err
	}
	var incomplete *IncompleteError
	if _, err := squares(settings()); !errors.As(err, &incomplete) ||
		!strings.Contains(err.Error(),
			`stage numbers of scenario cafecafecafecafe is not complete: run "toy numbers" first`) {
		t.Errorf("without numbers: %v", err)
	}
	if err := New(session, settings()).RunStage(t.Context(), toy.plan, toy.numbers); err != nil {
		t.Fatal(err)
	}
	toy.begun()
	toy.do = func(stage string, n int) error {
		if n == 2 {
			return errors.New("no luck")
		}
		return nil
	}
	if did, err := squares(settings()); err == nil || err.Error() != "stage squares, task 3 of 5: no luck" ||
		!slices.Equal(did, []string{"squares 4", "squares 3", "squares 2"}) {
		t.Fatalf("failed: did %q, %v", did, err)
	}
	if _, err := Complete(l, toy.squares, 1); err == nil ||
		!strings.Contains(err.Error(), "3 of 5 tasks are not done (1, 2, 3)") {
		t.Errorf("half a stage counts as complete: %v", err)
	}
	toy.do = nil
	if did, err := squares(settings()); err != nil ||
		!slices.Equal(did, []string{"squares 2", "squares 1", "squares 0"}) {
		t.Fatalf("resumed: did %q, %v", did, err)
	}
	if did, err := squares(settings()); err != nil || len(did) != 0 {
		t.Fatalf("complete, yet did %q, %v", did, err)
	}
	file := func() lake.DataFile { // of task 2
		t.Helper()
		r, err := Complete(l, toy.squares, 1)
		if err != nil {
			t.Fatal(err)
		}
		files := r.Files(schema.SenderFeedback)
		if len(files) != toyTasks || files[1].Rows != 200 {
			t.Fatalf("files %+v", files)
		}
		return files[1]
	}
	path := func() string { return filepath.Join(l.Path(), file().Path) }
	record := filepath.Join(l.Path(), toy.squares.StatePath(recordName(1)))
	replace := func(path, old, now string) func() error {
		return func() error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.Replace(string(data), old, now, 1)), 0o644)
		}
	}
	for name, damage := range map[string]func() error{
		"gone":                func() error { return os.Remove(path()) },
		"cut short":           func() error { return os.Truncate(path(), file().Bytes-1) },
		"zeros":               func() error { return os.WriteFile(path(), make([]byte, file().Bytes), 0o644) },
		"a bit":               func() error { spoil(t, l, toy.squares, 1); return nil },
		"empty record":        func() error { return os.WriteFile(record, []byte("{}"), 0o644) },
		"a bit of the record": replace(record, `"rows"`, `"rowt"`),
		"no record":           func() error { return os.Remove(record) },
		"bad record":          func() error { return os.WriteFile(record, []byte("{"), 0o644) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if did, err := squares(settings()); err != nil || !slices.Equal(did, []string{"squares 1"}) {
			t.Errorf("%s: did %q, %v", name, did, err)
		}
	}
	left, _ := os.ReadDir(session.TmpPath())
	if len(left) != 0 {
		t.Errorf("%d temporary files left", len(left))
	}
}

// If a stage is divided into different tasks than before, or has another version of the method, it begins
// again. Its new files have other names, so that readers see the old files until the new ones are committed.
func TestStageBeginsAgain(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	l := session.Lake
	numbers := func(s Settings) int {
		t.Helper()
		if err := New(session, s).RunStage(t.Context(), toy.plan, toy.numbers); err != nil {
			t.Fatal(err)
		}
		return len(toy.begun())
	}
	did := numbers(settings())
	if did != toyTasks {
		t.Fatalf("did %d tasks", did)
	}
	first, err := Complete(l, toy.numbers, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Commit(toy.numbers.Place, first.Files(schema.SenderFCTs)); err != nil {
		t.Fatal(err)
	}
	toy.numbers.Cut = func(_ *Inputs, prior []Task) ([]Task, error) {
		if !slices.Equal(prior, toyRanges(toyTasks)) {
			t.Errorf("the stage was cut into %v before", prior)
		}
		return toyRanges(3), nil
	}
	if did := numbers(settings()); did != 3 {
		t.Errorf("cut into 3 tasks: did %d", did)
	}
	second, err := Complete(l, toy.numbers, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n, f := range second.Files(schema.SenderFCTs) {
		if slices.ContainsFunc(first.Files(schema.SenderFCTs), func(old lake.DataFile) bool {
			return old.Path == f.Path
		}) {
			t.Errorf("file %d of the new layout is %s", n, f.Path)
		}
	}
	for _, f := range first.Files(schema.SenderFCTs) {
		if err := l.Check(f); err != nil {
			t.Errorf("a file of the old layout: %v", err)
		}
	}
	toy.numbers.Cut = func(*Inputs, []Task) ([]Task, error) { return toyRanges(3), nil }
	if did := numbers(settings()); did != 0 {
		t.Errorf("again: did %d", did)
	}
	s := settings()
	s.Method = 2
	if did := numbers(s); did != 3 {
		t.Errorf("another method: did %d", did)
	}
	if _, err := Complete(l, toy.numbers, 1); err == nil {
		t.Error("complete by the old method")
	}
}

// When its context ends, a stage stops before its next task. Complete tasks stay complete.
func TestRunStopsWithContext(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	ctx, cancel := context.WithCancel(t.Context())
	toy.do = func(string, int) error {
		cancel()
		return nil
	}
	err := New(session, settings()).Run(ctx, toy.plan)
	did := toy.begun()
	if !errors.Is(err, context.Canceled) || len(did) != 1 {
		t.Errorf("did %q, %v", did, err)
	}
	toy.do = nil
	if did := toy.run(t, session, settings()); len(did) != 2*toyTasks+toySums-1 {
		t.Errorf("continued with %q", did)
	}
}

// A task waits until it fits in memory beside the running tasks. A task that exceeds the limit runs alone.
func TestMemoryBudget(t *testing.T) {
	for _, c := range []struct{ bytes, most int64 }{{3 * 200 * 8, 3}, {200*8 + 1, 1}, {1, 1}} {
		session := toyLake(t)
		toy := newToy(toyScenario)
		var now, most, begun atomic.Int64
		full := make(chan struct{}) // closed when the maximum number of tasks is running
		toy.do = func(stage string, _ int) error {
			if stage != "numbers" {
				return nil
			}
			n := now.Add(1)
			defer now.Add(-1)
			if n > most.Load() {
				most.Store(n)
			}
			if begun.Add(1) == c.most {
				close(full)
			}
			<-full
			return nil
		}
		s := settings()
		s.Workers = toyTasks
		s.MemoryBytes = c.bytes
		toy.run(t, session, s)
		if most.Load() != c.most {
			t.Errorf("%d bytes: %d tasks at once, want %d", c.bytes, most.Load(), c.most)
		}
	}
}

// If a run does not accept the results of a complete stage, the run fails, even if another run ran the tasks.
// No results are lost: a run that accepts them finds the tasks complete.
func TestCheckRefuses(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.squares.Check = func(r Records) error {
		stats, err := Stats[toyStats](r)
		if err == nil && stats[0].Numbers > 100 {
			err = fmt.Errorf("%d numbers in one task", stats[0].Numbers)
		}
		return err
	}
	for range 2 {
		err := New(session, settings()).Run(t.Context(), toy.plan)
		if err == nil || !strings.Contains(err.Error(), "200 numbers in one task") {
			t.Errorf("refused: %v", err)
		}
	}
	did := toy.begun()
	if len(did) != 2*toyTasks {
		t.Errorf("did %q", did)
	}
	toy.squares.Check = nil
	if did := toy.run(t, session, settings()); !slices.Equal(did, []string{"sums 1", "sums 0"}) {
		t.Errorf("accepted: did %q", did)
	}
}

// If only a longer plan reads a temporary table, the table is removed together with the last of the other
// temporary tables.
func TestCollectUnread(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	open := toy.squares.Open
	toy.squares.Writes = append(toy.squares.Writes, schema.Feedback)
	toy.squares.Open = func(in *Inputs) (Worker, error) {
		work, err := open(in)
		return func(ctx context.Context, a *Attempt) error {
			return errors.Join(work(ctx, a), writeRandom(a.Sink(schema.Feedback), schema.Feedback, 1, 1, 10))
		}, err
	}
	unread := func() int {
		found, err := filepath.Glob(filepath.Join(session.Lake.Path(), toy.squares.Place.Dir(schema.Feedback), "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	toy.do = func(stage string, n int) error {
		if stage == "sums" && n == 0 {
			if unread() != toyTasks {
				t.Errorf("%d files before the last stage", unread())
			}
			return errors.New("no luck")
		}
		return nil
	}
	if err := New(session, settings()).Run(t.Context(), toy.plan); err == nil {
		t.Error("no failure")
	}
	toy.do = nil
	toy.run(t, session, settings())
	if unread() != 0 {
		t.Errorf("%d files stay", unread())
	}
}

// Reading the records of a damaged stage returns an error that names the file. A Reader changes nothing.
func TestReaderFindsDamage(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.run(t, session, settings())
	spoil(t, session.Lake, toy.sums, 1)
	path := toy.sums.Place.File(schema.SenderFCTs, 1)
	_, err := Reader(session.Lake, settings()).Records(toy.sums)
	if err == nil || !strings.Contains(err.Error(), "stage sums of scenario cafecafecafecafe is damaged") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
