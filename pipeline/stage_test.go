package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/schema"
)

// testRun is a run on an empty lake, without a scenario.
func testRun(t *testing.T, dir string) *Run {
	t.Helper()
	l, err := OpenLake(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := l.lock("cafe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	return &Run{lake: l, spec: spec{ScenarioID: "cafe"}, workers: 3, log: zerolog.Nop(), progress: silent{}, unlock: unlock, sound: map[string]bool{}, memory: DefaultMemory}
}

// recorder is a stage that writes one part of table nodes a task, and remembers which it did.
type recorder struct {
	run  *Run
	s    stage
	mu   sync.Mutex
	did  []int
	fail int // the task that fails, or -1
}

func (r *recorder) newWork() (work, error) {
	return func(_ context.Context, n int, _ task) ([]part, int64, any, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n == r.fail {
			return nil, 0, nil, fmt.Errorf("task %d: no luck", n)
		}
		r.did = append(r.did, n)
		rec := randomBatch(schema.Nodes, rand.New(rand.NewPCG(1, uint64(n))), 10+n)
		p, err := r.run.lake.writePart(schema.Nodes, r.s.place.file(schema.Nodes, n), rec)
		return []part{p}, 1, map[string]int{"n": n}, err
	}, nil
}

func fakeStage() stage {
	return stage{"route", place{scenario: "cafe"}, []schema.Table{schema.Nodes}}
}

func tasksOf(costs ...int64) []task {
	out := make([]task, len(costs))
	for i, c := range costs {
		out[i] = task{int64(i), int64(i + 1), c}
	}
	return out
}

// A stage that failed goes on where it was; one that is complete does nothing; a damaged, missing
// or truncated file is made again, and only that one; another plan starts again.
func TestStageResumes(t *testing.T) {
	dir := t.TempDir()
	run, s := testRun(t, dir), fakeStage()
	ctx := context.Background()
	plan := tasksOf(5, 9, 7, 1)
	do := func(fail int, plan []task) ([]int, error) {
		r := &recorder{run: run, s: s, fail: fail}
		err := run.perform(ctx, s, plan, "x", r.newWork)
		slices.Sort(r.did)
		return r.did, err
	}
	run.workers = 1
	did, err := do(2, plan)
	if err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Fatalf("failed task: %v", err)
	}
	if !slices.Equal(did, []int{1}) { // costliest first: 1, then 2 fails
		t.Fatalf("did %v before the failure", did)
	}
	if _, _, err := s.complete(run.lake); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("half a stage counts as complete: %v", err)
	}
	run.workers = 3
	if did, err = do(-1, plan); err != nil || !slices.Equal(did, []int{0, 2, 3}) {
		t.Fatalf("resumed with %v, %v", did, err)
	}
	if did, err = do(-1, plan); err != nil || len(did) != 0 {
		t.Fatalf("complete, yet did %v, %v", did, err)
	}
	_, records, err := s.complete(run.lake)
	if err != nil {
		t.Fatal(err)
	}
	parts := partsOf(records, schema.Nodes)
	if len(parts) != 4 || parts[3].Rows != 13 {
		t.Fatalf("parts %+v", parts)
	}
	path := func(n int) string { return filepath.Join(dir, filepath.FromSlash(parts[n].Path)) }
	for name, damage := range map[string]func() error{
		"gone":      func() error { return os.Remove(path(1)) },
		"cut short": func() error { return os.Truncate(path(1), parts[1].Bytes-1) },
		"no footer": func() error { return os.WriteFile(path(1), make([]byte, parts[1].Bytes), 0o644) },
		"a bit": func() error {
			data, err := os.ReadFile(path(1))
			if err != nil {
				return err
			}
			data[10] ^= 1
			return os.WriteFile(path(1), data, 0o644)
		},
		"empty record": func() error {
			return os.WriteFile(s.path(run.lake, recordName(1)), []byte("{}"), 0o644)
		},
		"a bit of the record": func() error {
			data, err := os.ReadFile(s.path(run.lake, recordName(1)))
			if err != nil {
				return err
			}
			return os.WriteFile(s.path(run.lake, recordName(1)), bytes.Replace(data, []byte(`"rows"`), []byte(`"rowt"`), 1), 0o644)
		},
		"no record": func() error { return os.Remove(s.path(run.lake, recordName(1))) },
		"bad record": func() error {
			return os.WriteFile(s.path(run.lake, recordName(1)), []byte("{"), 0o644)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if did, err = do(-1, plan); err != nil || !slices.Equal(did, []int{1}) {
			t.Errorf("%s: did %v, %v", name, did, err)
		}
	}
	if did, err = do(-1, tasksOf(5, 9)); err != nil || len(did) != 2 {
		t.Fatalf("other plan: did %v, %v", did, err)
	}
	if _, err := os.Stat(path(3)); !errors.Is(err, os.ErrNotExist) {
		t.Error("a part of the former plan is still there")
	}
	if left, _ := os.ReadDir(run.lake.tmp); len(left) != 0 {
		t.Errorf("%d temporary files left", len(left))
	}
}

func TestStageStopsWhenTold(t *testing.T) {
	run, s := testRun(t, t.TempDir()), fakeStage()
	ctx, cancel := context.WithCancel(context.Background())
	run.workers = 1
	started := 0
	err := run.perform(ctx, s, tasksOf(1, 2, 3), "x", func() (work, error) {
		return func(ctx context.Context, n int, _ task) ([]part, int64, any, error) {
			started++
			cancel()
			return nil, 1, nil, nil
		}, nil
	})
	if !IsInterrupt(err) || started != 1 {
		t.Errorf("%d tasks started, %v", started, err)
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	run := testRun(t, dir)
	other, err := OpenLake(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.lock("cafe"); !errors.Is(err, ErrBusy) {
		t.Errorf("second lock: %v", err)
	}
	if unlock, err := other.lock("beef"); err != nil {
		t.Errorf("another scenario: %v", err)
	} else {
		unlock()
	}
	run.unlock()
	unlock, err := other.lock("cafe")
	if err != nil {
		t.Fatalf("after the first let go: %v", err)
	}
	unlock()
}

// A writer that finds no room leaves no file behind and says which it was writing.
func TestWriteErrorLeavesNothing(t *testing.T) {
	run := testRun(t, t.TempDir())
	w, err := run.lake.create(schema.Nodes, "nodes/scenario=cafe/part-00000.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.file.Close(); err != nil { // every write fails from here on, as on a full disk
		t.Fatal(err)
	}
	_ = w.Write(randomBatch(schema.Nodes, rand.New(rand.NewPCG(1, 1)), 100))
	if _, err := w.commit(); err == nil || !strings.Contains(err.Error(), "nodes/scenario=cafe/part-00000.parquet") {
		t.Errorf("commit: %v", err)
	}
	w.abandon()
	if left, _ := os.ReadDir(run.lake.tmp); len(left) != 0 {
		t.Errorf("%d temporary files left", len(left))
	}
}
