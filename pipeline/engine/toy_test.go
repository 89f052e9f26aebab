package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/rs/zerolog"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true
	os.Exit(m.Run())
}

// A toy is a plan that demonstrates the engine without an estimate:
//
//	numbers ─► sender_fcts ─► squares ─► sender_feedback ─► sums ─► sender_fcts
//	           0, 1, 2, …                0, 1, 4, … (temporary)     a sum for each task
//
// Stage numbers writes the numbers below toyNumbers. Each of its tasks writes one range. Stage squares reads
// the numbers of a range and writes their squares, as text, to a temporary table. Stage sums has fewer tasks.
// Each of them adds up the squares of a range, which can be in several files. The stages belong to separate
// variants, as those of one estimate can.
type toy struct {
	numbers, squares, sums *Stage
	plan                   Plan

	mu  sync.Mutex
	did []string                        // tasks that were begun, such as "squares 3"
	do  func(stage string, n int) error // called in each task; nil: nothing
}

const (
	toyNumbers = 1000
	toyTasks   = 5
	toySums    = 2
)

var toyScenario = lake.ScenarioID("cafecafecafecafe")

// toyRanges divides the numbers into tasks. Later tasks cost more, so they run first.
func toyRanges(count int64) []Task {
	tasks := make([]Task, count)
	for n := range count {
		lo := n * toyNumbers / count
		hi := (n + 1) * toyNumbers / count
		tasks[n] = Task{Lo: lo, Hi: hi, Cost: hi - lo + n, Rows: hi - lo}
	}
	return tasks
}

func newToy(scenario lake.ScenarioID) *toy {
	t := &toy{}
	t.numbers = t.stage(scenario, "numbers", schema.SenderFCTs, toyTasks, writeNumbers)
	t.squares = t.stage(scenario, "squares", schema.SenderFeedback, toyTasks, t.writeSquares)
	t.squares.Reads = []Output{t.numbers.Output(schema.SenderFCTs)}
	t.sums = t.stage(scenario, "sums", schema.SenderFCTs, toySums, t.writeSums)
	t.sums.Reads = []Output{t.squares.Output(schema.SenderFeedback)}
	t.plan = Plan{t.numbers, t.squares, t.sums}
	return t
}

// stage returns a stage that writes one table and whose tasks are ranges of the numbers.
func (t *toy) stage(scenario lake.ScenarioID, name string, writes schema.Table, tasks int64,
	work Worker) *Stage {
	return &Stage{
		Name: name, Place: lake.Place{Scenario: scenario, Variant: variant.Variant{Estimator: "toy" + name}},
		Unit: "numbers", Command: "toy " + name,
		Writes:      []schema.Table{writes},
		BytesPerRow: 8,
		Cut:         func(*Inputs, []Task) ([]Task, error) { return toyRanges(tasks), nil },
		Open: Always(func(ctx context.Context, a *Attempt) error {
			if err := t.begin(name, a.N); err != nil {
				return err
			}
			return work(ctx, a)
		}),
	}
}

func (t *toy) begin(stage string, n int) error {
	t.mu.Lock()
	t.did = append(t.did, fmt.Sprintf("%s %d", stage, n))
	do := t.do
	t.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(stage, n)
}

// begun returns the tasks that were begun since the last call, in the order in which they were begun.
func (t *toy) begun() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	did := t.did
	t.did = nil
	return did
}

func writeNumbers(_ context.Context, a *Attempt) error {
	var values []toyNumber
	for i := a.Lo; i < a.Hi; i++ {
		values = append(values, toyNumber{i, i, i})
	}
	a.SetStats(toyStats{Numbers: len(values)})
	return toyNumberTable.Write(a.Sink(schema.SenderFCTs), values)
}

type toyNumber struct {
	Row   int64 `col:"flow_row"`
	FCT   int64 `col:"fct_ns"`
	Ideal int64 `col:"ideal_ns"`
}

type toySquare struct {
	Link     int32        `col:"link_id"`
	Row      int64        `col:"flow_row"`
	Hop      int16        `col:"hop"`
	Observed columns.Item `col:"observed"`
}

var (
	toyNumberTable = columns.TableOf[toyNumber](schema.SenderFCTs)
	toySquareTable = columns.TableOf[toySquare](schema.SenderFeedback)
)

type toyStats struct {
	Numbers int `json:"numbers"`
}

func (t *toy) writeSquares(_ context.Context, a *Attempt) error {
	in := a.Read(t.numbers.Output(schema.SenderFCTs), a.Range("flow_row"))
	var squares []toySquare
	var places []int32
	var arena columns.Arena
	err := columns.ForEach(in, func(rec arrow.Record) error {
		for _, x := range columns.Int64s(rec, "fct_ns") {
			squares = append(squares, toySquare{int32(x), x, 0, columns.Item(len(places))})
			places = append(places, int32(len(places)))
			arena.Add([]byte(strconv.FormatInt(x*x, 10)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.SetStats(toyStats{Numbers: len(squares)})
	return toySquareTable.WriteOrdered(a.Sink(schema.SenderFeedback), squares, places, &arena)
}

func (t *toy) writeSums(_ context.Context, a *Attempt) error {
	in := a.Read(t.squares.Output(schema.SenderFeedback), a.Range("link_id"))
	sum := int64(0)
	count := 0
	err := columns.ForEach(in, func(rec arrow.Record) error {
		texts := columns.Named(rec, "observed").(*array.Binary)
		for i := range texts.Len() {
			square, err := strconv.ParseInt(string(texts.Value(i)), 10, 64)
			if err != nil {
				return err
			}
			sum += square
			count++
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.SetStats(toyStats{Numbers: count})
	return toyNumberTable.Write(a.Sink(schema.SenderFCTs), []toyNumber{{int64(a.N), sum, int64(a.N)}})
}

// toyLake opens a lake and a session on the toy's scenario. Both are closed at the end of the test.
func toyLake(t *testing.T) *lake.Session {
	t.Helper()
	l, err := lake.Open(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Lock(t.Context(), lake.Of(toyScenario))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// settings returns settings with one worker, which makes the order of tasks deterministic.
func settings() Settings {
	return Settings{Workers: 1, MemoryBytes: 1 << 20, Method: 1, Log: zerolog.Nop()}
}

// run runs the toy's plan and returns the tasks that were begun.
func (t *toy) run(tb testing.TB, session *lake.Session, s Settings) []string {
	tb.Helper()
	if err := New(session, s).Run(tb.Context(), t.plan); err != nil {
		tb.Fatal(err)
	}
	t.check(tb, session.Lake)
	return t.begun()
}

// check compares the sums with their formula.
func (t *toy) check(tb testing.TB, l *lake.Lake) {
	tb.Helper()
	r, err := Complete(l, t.sums, 1)
	if err != nil {
		tb.Fatal(err)
	}
	var sums []int64
	err = columns.ForEach(l.Read(schema.SenderFCTs, r.Files(schema.SenderFCTs), nil),
		func(rec arrow.Record) error {
			sums = append(sums, columns.Int64s(rec, "fct_ns")...)
			return nil
		})
	if err != nil {
		tb.Fatal(err)
	}
	below := func(n int64) int64 { return (n - 1) * n * (2*n - 1) / 6 } // the sum of i² for i < n
	var want []int64
	for _, task := range toyRanges(toySums) {
		want = append(want, below(task.Hi)-below(task.Lo))
	}
	if !slices.Equal(sums, want) {
		tb.Errorf("sums %v, want %v", sums, want)
	}
}

// files returns the number of files of a stage's table.
func files(tb testing.TB, l *lake.Lake, s *Stage) int {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(l.Path(), s.Place.Dir(s.Writes[0]), "*"))
	if err != nil {
		tb.Fatal(err)
	}
	return len(found)
}

// spoil changes one byte in the middle of a data file of a stage.
func spoil(tb testing.TB, l *lake.Lake, s *Stage, n int) {
	tb.Helper()
	r, err := Complete(l, s, 1)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(l.Path(), r.Files(s.Writes[0])[n].Path)
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}
