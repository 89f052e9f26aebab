package whatif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
)

// runsAtOnce returns the numbers of runs at once that the sweeps of a test have. The short form has two runs.
func runsAtOnce() []int {
	if testing.Short() {
		return []int{1, 2}
	}
	return append([]int{1}, daily.Today(2, 2, 5)...)
}

// A sweep gives the same rows for any number of runs at once. Otherwise, a ranking would depend on the
// machine.
func TestSweepIsTheSameSideBySide(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Exact})
	plan := SweepPlan{Tier: "fabric-spine", Quantile: 0.9}
	if testing.Short() {
		plan.Tier = "pod0-fabric0:plane0-spine0,pod0-fabric1:plane1-spine0"
	}
	var want *Sweep
	wantRows := ""
	for _, workers := range runsAtOnce() {
		o.Workers = workers
		plan.worst = fmt.Sprintf("%d at once", workers) // has separate records and rows
		s, err := RunSweep(t.Context(), base, plan, o)
		if err != nil {
			t.Fatal(err)
		}
		if s.AtOnce != workers || s.Reused != 0 {
			t.Errorf("%d at once, %d reused, want %d and none", s.AtOnce, s.Reused, workers)
		}
		rows := sweepRows(t, o, base, s)
		forgetRecords(t, o, base, s)
		for i := range s.Cables {
			s.Cables[i].Seconds = 0
		}
		if want == nil {
			want = s
			wantRows = rows
			continue
		}
		if !reflect.DeepEqual(s.Cables, want.Cables) {
			t.Errorf("%d at once: %+v\nwant %+v", workers, s.Cables, want.Cables)
		}
		if rows != wantRows {
			t.Errorf("%d at once: table sweeps has\n%s\nwant\n%s", workers, rows, wantRows)
		}
	}
}

// sweepRows returns the rows of table sweeps that a sweep wrote, as text without their tier.
func sweepRows(t *testing.T, o Settings, base string, s *Sweep) (text string) {
	t.Helper()
	l := estimates.Open(t, o.Lake)
	v, err := variant.Parse(s.Variant)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := l.ReadManifest(lake.Place{Scenario: lake.ScenarioID(base), Variant: v})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Tier    string  `col:"tier"`
		A       int32   `col:"node_a"`
		B       int32   `col:"node_b"`
		Service string  `col:"service"`
		Flows   int64   `col:"flows"`
		P90     float64 `col:"p90_slowdown"`
		Change  float64 `col:"p90_change"`
	}
	err = columns.Each(l.Read(schema.Sweeps, lake.FilesOf(m.Files, schema.Sweeps), nil), func(r *row) error {
		if r.Tier == s.Plan.what() {
			text += fmt.Sprintln(r.A, r.B, r.Service, r.Flows, r.P90, r.Change)
		}
		return nil
	})
	if err != nil || text == "" {
		t.Fatalf("rows of the sweep: %q, %v", text, err)
	}
	return text
}

// forgetRecords removes the records of a sweep, so that the next one estimates every cable.
func forgetRecords(t *testing.T, o Settings, base string, s *Sweep) {
	t.Helper()
	run, err := pipeline.Resume(t.Context(), o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	dir := lake.Of(run.ID()).StatePath(fmt.Sprintf("sweep-%d", pipeline.MethodVersion), s.Variant)
	if err := run.Executor().Session().RemoveState(dir); err != nil {
		t.Fatal(err)
	}
}

// The runs of a parameter sweep share a lake. Each has the percentiles that it has when it runs alone.
func TestParametersAreTheSameSideBySide(t *testing.T) {
	t.Parallel()
	file := fixture.Services(t)
	seeds := []string{"1", "2", "3"}
	if testing.Short() {
		seeds = seeds[:1]
	}
	var want []ParameterRun
	for _, workers := range runsAtOnce() {
		o := settings(t, estimators.Flow)
		withCache(t, &o)
		o.Workers = workers
		plan := ParameterPlan{Scenario: file, MaxRuns: 6, Axes: []Axis{
			{"load.max", []string{"5%", "10%"}}, {"seed", seeds},
		}}
		p, err := SweepParameters(t.Context(), plan, o)
		if err != nil {
			t.Fatal(err)
		}
		if p.AtOnce != workers {
			t.Errorf("%d at once, want %d", p.AtOnce, workers)
		}
		for i := range p.Runs {
			p.Runs[i].Seconds = 0
			p.Runs[i].scenario = nil
		}
		if want == nil {
			want = p.Runs
		} else if !reflect.DeepEqual(p.Runs, want) {
			t.Errorf("%d at once: %+v\nwant %+v", workers, p.Runs, want)
		}
	}
}

// Estimates share cores and memory: one core each while there are more estimates than cores, all cores for
// the last ones, and no more at once than fit in memory. An estimate that exceeds the memory runs alone.
func TestScheduleSharesCoresAndMemory(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, c := range []struct {
		cores, runs int
		needBytes   int64
		atOnce      int
		first       []int // cores of the runs that begin together
	}{
		{cores: 2, runs: 96, needBytes: gib, atOnce: 2, first: []int{1, 1}},
		{cores: 16, runs: 96, needBytes: 1, atOnce: 16, first: []int{1, 1, 1}},
		{cores: 16, runs: 96, needBytes: gib, atOnce: 4, first: []int{4, 4, 4, 4}},
		{cores: 16, runs: 5, needBytes: 1, atOnce: 5, first: []int{3, 3, 3, 3, 4}},
		{cores: 16, runs: 3, needBytes: 9 * gib, atOnce: 1, first: []int{16}},
		{cores: 1, runs: 2, needBytes: 1, atOnce: 1, first: []int{1}},
	} {
		var o pipeline.Settings
		o.Workers = c.cores
		o.MemoryBytes = 4 * gib
		s := newSchedule(o, c.runs, c.needBytes)
		if s.atOnce != c.atOnce {
			t.Errorf("%+v: %d at once", c, s.atOnce)
		}
		for n, want := range c.first {
			got := s.take()
			if got != want {
				t.Errorf("%+v: run %d has %d cores, want %d", c, n+1, got, want)
			}
		}
	}
}

// An error of one run stops the others and is the error of the sweep. No cores are lost.
func TestScheduleStopsAtAnError(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	var o pipeline.Settings
	o.Workers = 3
	o.MemoryBytes = 300
	s := newSchedule(o, 50, 1)
	var mu sync.Mutex
	began := 0
	err := s.each(t.Context(), "runs", func(ctx context.Context, i int, o pipeline.Settings) error {
		mu.Lock()
		began++
		mu.Unlock()
		if o.MemoryBytes != 100 || o.Progress == nil {
			t.Errorf("run %d has %d bytes and progress %v", i, o.MemoryBytes, o.Progress)
		}
		if i == 4 {
			return bad
		}
		if i > 4 {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	if !errors.Is(err, bad) || began > 7 {
		t.Errorf("%v after %d runs", err, began)
	}
	if s.free != 3 || s.running != 0 {
		t.Errorf("%d cores are free and %d runs are under way at the end", s.free, s.running)
	}
}

// The estimates of a sweep share the memory that the flows of the base leave, so that all keep to the limit.
func TestMemoryBesideTheBase(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int64{ // limit, kept, want
		{1000, 0, 1000}, {1000, 400, 600}, {1000, 5000, 500}, {1, 5000, 1}, {0, 40, pipeline.DefaultMemory - 40},
	} {
		got := memoryBeside(c[0], c[1])
		if got != c[2] {
			t.Errorf("limit %d, kept %d: %d", c[0], c[1], got)
		}
	}
	if unsafe.Sizeof(sweptFlow{}) != sweptFlowBytes {
		t.Errorf("a flow of the base has %d bytes", unsafe.Sizeof(sweptFlow{}))
	}
}

// After the budget of a sweep, the runs that have begun end, and no others begin.
func TestScheduleEndsWithTheBudget(t *testing.T) {
	t.Parallel()
	var o pipeline.Settings
	o.Workers = 1
	s := newSchedule(o, 5, 1)
	s.deadline = time.Now().Add(time.Hour)
	var done []int
	err := s.each(t.Context(), "runs", func(ctx context.Context, i int, _ pipeline.Settings) error {
		if i == 1 {
			s.deadline = time.Now()
		}
		done = append(done, i)
		return ctx.Err()
	})
	if err != nil || fmt.Sprint(done) != "[0 1]" || s.left != 3 {
		t.Errorf("runs %v, %d left, %v", done, s.left, err)
	}
}

// A forecast counts the runs that begin within a budget, also if they take different times.
func TestRunsWithinABudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds []float64
		atOnce  int
		budget  time.Duration
		want    int
	}{
		{seconds: []float64{2, 2, 2, 2, 2}, atOnce: 1, budget: 4 * time.Second, want: 2},
		{seconds: []float64{2, 2, 2, 2, 2}, atOnce: 2, budget: 3 * time.Second, want: 4},
		{seconds: []float64{9, 1, 1, 1, 9}, atOnce: 2, budget: 2500 * time.Millisecond, want: 4},
		{seconds: []float64{1, 1}, atOnce: 2, budget: time.Hour, want: 2},
		{seconds: []float64{1, 1}, atOnce: 1, budget: 1, want: 1},
		{seconds: []float64{1, 1}, atOnce: 1, budget: -1, want: 0},
	} {
		got := runsWithin(c.budget, c.seconds, c.atOnce)
		if got != c.want {
			t.Errorf("%+v: %d runs", c, got)
		}
	}
}

// A delay sleeps until the budget is over when the first run has ended.
type delay struct {
	engine.Progress
	until time.Time
}

func (d *delay) Add(int64) { time.Sleep(time.Until(d.until)) }

// A parameter sweep whose budget is over shows the runs that are complete, and how to continue. The next one
// continues.
func TestParametersEndWithTheBudget(t *testing.T) {
	t.Parallel()
	o := settings(t, estimators.Independent)
	o.Workers = 1
	plan := ParameterPlan{Scenario: fixture.Services(t), MaxRuns: 2, Axes: []Axis{
		{"workload.flows_count", []string{"300"}}, {"load.max", []string{"5%", "10%"}},
	}}
	within := o
	within.Budget = time.Nanosecond
	if _, err := SweepParameters(t.Context(), plan, within); err == nil ||
		!strings.Contains(err.Error(), "--budget 1ns is over before the first combination began; repeat") {
		t.Errorf("no time: %v", err)
	}
	begun, err := estimates.Open(t, o.Lake).Scenarios()
	if err != nil || len(begun) != 1 {
		t.Errorf("scenarios of which the forecast was made: %v, %v", begun, err)
	}
	var p *Parameters
	none := &budgetError{}
	for err := error(none); errors.As(err, &none); { // on a busy machine, the first run begins late
		within.Budget = max(time.Second, 2*within.Budget)
		within.Progress = &delay{engine.Silent{}, time.Now().Add(within.Budget)}
		p, err = SweepParameters(t.Context(), plan, within)
		if err != nil && !errors.As(err, &none) {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	err = p.Text().Write(&text, "text")
	if err != nil || len(p.Runs) != 1 || p.Left != 1 || p.Runs[0].Settings["load.max"] != "5%" ||
		!strings.Contains(text.String(), "stopped by --budget: 1 of 2 runs are complete, 1 remain; repeat") {
		t.Errorf("%+v, %v\n%s", p, err, text.String())
	}
	p, err = SweepParameters(t.Context(), plan, o)
	if err != nil || len(p.Runs) != 2 || p.Left != 0 {
		t.Errorf("continued: %+v, %v", p, err)
	}
}

// After the budget, a parameter sweep still reads the runs that are complete. It reads them last. Otherwise,
// a repeated sweep could spend each budget on the same runs. With Exact, a run without the simulation of the
// whole network is not complete.
func TestParametersReadWhatIsCompleteAfterTheBudget(t *testing.T) {
	t.Parallel()
	o := settings(t, estimators.Independent)
	plan := ParameterPlan{Scenario: fixture.Services(t), MaxRuns: 2, Axes: []Axis{
		{"workload.flows_count", []string{"300"}}, {"load.max", []string{"5%"}},
	}}
	sweep := func(o Settings) *Parameters {
		p, err := SweepParameters(t.Context(), plan, o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	sweep(o)
	plan.Axes[1].Values = []string{"5%", "10%"}
	p := sweep(spent(o))
	if len(p.Runs) != 1 || p.Left != 1 || p.Runs[0].Settings["load.max"] != "5%" {
		t.Errorf("one is complete: %+v", p)
	}
	p = &Parameters{Axes: plan.Axes}
	if err := p.combine(t.Context(), plan, o); err != nil {
		t.Fatal(err)
	}
	order, complete := p.order(t.Context(), plan, spent(o))
	if fmt.Sprint(order) != "[1 0]" || complete != 1 {
		t.Errorf("order %v, %d complete", order, complete)
	}
	order, complete = p.order(t.Context(), plan, o)
	if fmt.Sprint(order) != "[0 1]" || complete != 0 {
		t.Errorf("without a budget: order %v, %d complete", order, complete)
	}
	whole := sweep(o)
	for exact := range 2 {
		again := sweep(spent(o))
		if len(again.Runs) != 2 || again.Left != 0 || again.Runs[1].P99 != whole.Runs[1].P99 ||
			len(again.Runs[1].Exact) != exact*len(pipeline.Quantiles) {
			t.Errorf("all are complete: %+v", again)
		}
		if plan.Exact {
			continue
		}
		plan.Exact = true
		none := &budgetError{}
		if _, err := SweepParameters(t.Context(), plan, spent(o)); !errors.As(err, &none) {
			t.Errorf("no whole network is simulated: %v", err)
		}
		sweep(o)
	}
}
