package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
)

// sorted returns random rows of a table. The column that the table is sorted by has the given keys.
func sorted(t schema.Table, rng *rand.Rand, keys []int64) arrow.Record {
	random := fixture.Batch(t, rng, len(keys))
	defer random.Release()
	key := t.Index(t.Sort[0])
	b := array.NewBuilder(memory.DefaultAllocator, t.Columns[key].Type)
	defer b.Release()
	for _, k := range keys {
		switch b := b.(type) {
		case *array.Int32Builder:
			b.Append(int32(k))
		case *array.Int64Builder:
			b.Append(k)
		}
	}
	columns := slices.Clone(random.Columns())
	columns[key] = b.NewArray()
	defer columns[key].Release()
	return array.NewRecord(t.Arrow(), columns, int64(len(keys)))
}

// tasksOf returns tasks with the given costs.
func tasksOf(costs ...int64) []Task {
	out := make([]Task, len(costs))
	for i, c := range costs {
		out[i] = Task{Lo: int64(i), Hi: int64(i + 1), Cost: c}
	}
	return out
}

// Shards divide the tasks: for any number of shards, each task belongs to exactly one shard, and the shards
// have similar amounts of work.
func TestShardsDivideTasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 5, 64, 200} {
		for _, count := range []int{1, 2, 4, 7, 300} {
			tasks := make([]Task, n)
			var total, longest int64
			for i := range tasks {
				tasks[i].Cost = rng.Int64N(1000)
				total += tasks[i].Cost
				longest = max(longest, tasks[i].Cost)
			}
			loads := make([]int64, count)
			done := make([]int, n)
			for i := range count {
				for at, mine := range (Shard{i, count}).choice()(tasks) {
					if mine {
						done[at]++
						loads[i] += tasks[at].Cost
					}
				}
			}
			if slices.ContainsFunc(done, func(times int) bool { return times != 1 }) {
				t.Errorf("%d tasks in %d shards are done so often: %v", n, count, done)
			}
			// Graham's bound for longest-first scheduling is 4/3 of the optimum. This bound is twice the
			// optimum.
			most := slices.Max(loads)
			if most > total/int64(count)+longest {
				t.Errorf("%d tasks in %d shards: the largest has %d of %d, the longest task %d", n, count, most, total,
					longest)
			}
		}
	}
	equal := assign(tasksOf(0, 0, 0, 0, 0, 0), 3)
	slices.Sort(equal)
	if !slices.Equal(equal, []int{0, 0, 1, 1, 2, 2}) {
		t.Errorf("tasks that cost nothing: %v", equal)
	}
}

func TestParseShard(t *testing.T) {
	for _, text := range []string{"0/1", "3/4", "99998/99999"} {
		if s, err := ParseShard(text); err != nil || s.String() != text {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "1", "4/4", "-1/4", "0/0", "1/x", "0/100000", "1/2/3"} {
		if s, err := ParseShard(text); err == nil {
			t.Errorf("%q is parsed as %v", text, s)
		}
	}
}

// shared calls do with an executor that is one of several processes.
func shared(t testing.TB, l *lake.Lake, s Settings, choose choice, do func(e *Executor) error) error {
	t.Helper()
	session, err := l.LockShared(t.Context(), lake.Of(toyScenario))
	if err != nil {
		return err
	}
	defer session.Close()
	e := New(session, s)
	if choose != nil {
		e.choose = choose
	}
	return do(e)
}

// Shards run the stages of a plan one after the other, and each shard runs its own tasks. A shard refuses to
// run beside a process that works alone, or with different tasks than earlier shards. If a stage is not
// complete, the next stage names the missing shards. The last shard of a stage collects the tables that no
// stage needs any longer. A damaged file is recomputed by its own shard.
func TestShards(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	l := session.Lake
	run := func(text string, stage *Stage) ([]string, error) {
		t.Helper()
		of, err := ParseShard(text)
		if err != nil {
			t.Fatal(err)
		}
		s := settings()
		s.Shard = of
		err = shared(t, l, s, nil, func(e *Executor) error { return e.RunStage(t.Context(), toy.plan, stage) })
		did := toy.begun()
		slices.Sort(did)
		return did, err
	}
	if _, err := run("0/2", toy.numbers); !errors.Is(err, lake.ErrBusy) {
		t.Errorf("beside a process that works alone: %v", err)
	}
	session.Close()
	first, err := run("0/2", toy.numbers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run("0/2", toy.squares); err == nil ||
		!strings.Contains(err.Error(), `run "toy numbers --shard 1/2" first, with the --partitions of the others`) {
		t.Errorf("one of two shards is done: %v", err)
	}
	cut := toy.numbers.Cut
	toy.numbers.Cut = func(*Inputs, []Task) ([]Task, error) { return toyRanges(3), nil }
	if _, err := run("1/2", toy.numbers); err == nil ||
		!strings.Contains(err.Error(), "another plan (5 tasks; this would be 3)") {
		t.Errorf("a shard with another plan: %v", err)
	}
	toy.numbers.Cut = cut
	second, err := run("1/2", toy.numbers)
	if err != nil || len(first) == 0 || len(second) == 0 || len(first)+len(second) != toyTasks {
		t.Errorf("shards %v and %v, %v", first, second, err)
	}
	n := int(second[0][len(second[0])-1] - '0')
	spoil(t, l, toy.numbers, n)
	if did, err := run("0/2", toy.numbers); err != nil || len(did) != 0 {
		t.Errorf("damage to another's file: did %v, %v", did, err)
	}
	if did, err := run("1/2", toy.numbers); err != nil || !slices.Equal(did, second[:1]) {
		t.Errorf("damage: did %v, %v", did, err)
	}
	for _, stage := range []*Stage{toy.squares, toy.sums} {
		for _, shard := range []string{"0/2", "1/2"} {
			if _, err := run(shard, stage); err != nil {
				t.Fatalf("%s %s: %v", stage, shard, err)
			}
			n := files(t, l, toy.squares) == 0
			want := stage == toy.sums && shard == "1/2"
			if n != want {
				t.Errorf("after %s %s: collected %v", stage, shard, n)
			}
		}
	}
	toy.check(t, l)
}

// race returns a stage whose attempts write different bytes, which depend on seed.
func race(stage string, table schema.Table, seed uint64) *Stage {
	return &Stage{
		Name: stage, Place: lake.Place{Scenario: toyScenario, Variant: variant.Variant{Estimator: "toy"}},
		Writes: []schema.Table{table},
		Cut:    func(*Inputs, []Task) ([]Task, error) { return tasksOf(5, 9, 7, 1, 3), nil },
		Open: Always(func(_ context.Context, a *Attempt) error {
			return writeRandom(a.Sink(table), table, seed, uint64(a.N), 10+int(seed))
		}),
	}
}

func writeRandom(out schema.Sink, t schema.Table, seed, n uint64, rows int) error {
	keys := make([]int64, rows)
	for i := range keys {
		keys[i] = int64(i)
	}
	rec := sorted(t, rand.New(rand.NewPCG(seed, n)), keys)
	defer rec.Release()
	return out.Write(rec)
}

// Several attempts run the same tasks at once and write different bytes. In the end, every record describes
// the installed files, and no unfinished file is left.
func TestDoubledAttempts(t *testing.T) {
	for _, table := range []schema.Table{schema.SenderFCTs, schema.HopObservations} {
		t.Run(table.Name, func(t *testing.T) { testDoubledAttempts(t, table) })
	}
}

func testDoubledAttempts(t *testing.T, table schema.Table) {
	session := toyLake(t)
	l := session.Lake
	s := race("race", table, 0)
	session.Close()
	parallel := settings()
	parallel.Workers = 2
	for round := range 10 {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for attempt := range errs {
			wg.Go(func() {
				errs[attempt] = shared(t, l, parallel, everyTask, func(e *Executor) error {
					return e.runStage(context.Background(), race("race", table, uint64(attempt)))
				})
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		r, err := Complete(l, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Files(table) {
			if err := l.Check(f); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			rows := int64(0)
			err := columns.ForEach(l.Read(table, []lake.DataFile{f}, nil), func(rec arrow.Record) error {
				rows += rec.NumRows()
				return nil
			})
			if err != nil || rows != f.Rows {
				t.Errorf("round %d: %d rows of %d, %v", round, rows, f.Rows, err)
			}
		}
		if left, err := os.ReadDir(filepath.Join(l.Path(), "_tmp")); err == nil && len(left) > 0 {
			t.Errorf("round %d: %d unfinished files left", round, len(left))
		}
		again, err := l.Lock(t.Context(), lake.Of(toyScenario))
		if err != nil {
			t.Fatal(err)
		}
		if err := again.RemovePlace(lake.Of(toyScenario)); err != nil {
			t.Fatal(err)
		}
		again.Close()
	}
}

// Late attempts read a collected table and write another table, which is collected later, while other
// processes have finished with both. None of the attempts fails, and every record whose files exist describes
// them correctly. After all attempts have ended, a last collection leaves nothing.
func TestLateAttempts(t *testing.T) {
	session := toyLake(t)
	l := session.Lake
	session.Close()
	parallel := settings()
	parallel.Workers = 2
	first := race("simulate", schema.HopObservations, 1)
	second := race("feedback", schema.Feedback, 1)
	second.Reads = []Output{first.Output(schema.HopObservations)}
	second.Open = Always(func(_ context.Context, a *Attempt) error {
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		err := columns.ForEach(a.Read(first.Output(schema.HopObservations), nil),
			func(arrow.Record) error { return nil })
		if err != nil {
			return err
		}
		return writeRandom(a.Sink(schema.Feedback), schema.Feedback, 1, uint64(a.N), 10)
	})
	with := func(do func(e *Executor) error) error { return shared(t, l, parallel, everyTask, do) }
	collect := func(e *Executor) error {
		return errors.Join(e.collect(first, schema.HopObservations), e.collect(second, schema.Feedback))
	}
	truthful := func(when string, s *Stage, want int) {
		t.Helper()
		r, err := Complete(l, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		for n, rec := range r.Done {
			for _, f := range rec.Files {
				if err := l.Check(f); err != nil && !lake.IsCollected(err) {
					t.Errorf("%s, %s, task %d: %v", when, s, n, err)
				}
			}
		}
		have := files(t, l, s)
		if want >= 0 && have != want {
			t.Errorf("%s, %s: %d files, want %d", when, s, have, want)
		}
	}
	for round := range 20 {
		if err := with(func(e *Executor) error { return e.runStage(context.Background(), first) }); err != nil {
			t.Fatal(err)
		}
		truthful("first", first, 5)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for attempt := range errs {
			wg.Go(func() {
				time.Sleep(time.Duration(attempt/2) * 4 * time.Millisecond)
				errs[attempt] = with(func(e *Executor) error {
					if attempt == 7 { // of the first stage, at a time when it may be collected
						return e.runStage(context.Background(), first)
					}
					if err := e.runStage(context.Background(), second); err != nil {
						return err
					}
					return collect(e)
				})
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		truthful("late", first, -1)
		truthful("late", second, -1)
		if err := with(collect); err != nil {
			t.Fatal(err)
		}
		truthful("collected", first, 0)
		truthful("collected", second, 0)
		if err := os.RemoveAll(filepath.Join(l.Path(), "_state")); err != nil {
			t.Fatal(err)
		}
	}
}
