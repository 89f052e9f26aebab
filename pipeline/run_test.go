package pipeline

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/stages"
)

// The environment of a child process of these tests: the test binary runs itself to be killed.
const (
	childLake  = "PARSIMON_TEST_CHILD_LAKE"
	childFlows = "PARSIMON_TEST_CHILD_FLOWS"
	childStage = "PARSIMON_TEST_CHILD_KILL_STAGE"
	childAfter = "PARSIMON_TEST_CHILD_KILL_AFTER"
	childBy    = "PARSIMON_TEST_CHILD_ESTIMATOR"

	childCluster = "PARSIMON_TEST_CHILD_CLUSTER"
	childCache   = "PARSIMON_TEST_CHILD_CACHE"
	childStep    = "PARSIMON_TEST_CHILD_STEP"  // of Run.Steps, by its place
	childShare   = "PARSIMON_TEST_CHILD_SHARE" // of the step's tasks
)

func TestMain(m *testing.M) {
	poisonFreed = true // who looks at a batch that was released finds nonsense
	if lake := os.Getenv(childLake); lake != "" {
		if err := runChild(lake); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runChild(lake string) error {
	if os.Getenv(childShare) != "" {
		return runChildShare(lake)
	}
	after, err := strconv.Atoi(os.Getenv(childAfter))
	if err != nil {
		return err
	}
	s, err := TraceScenario(filepath.Join(filepath.Dir(os.Getenv(childFlows)), "topology.json"), os.Getenv(childFlows))
	if err != nil {
		return err
	}
	by, err := stages.ParseEstimator(os.Getenv(childBy))
	if err != nil {
		return err
	}
	o := Options{Lake: lake, Estimator: by, Workers: 2, Partitions: 9, Cache: os.Getenv(childCache), Log: zerolog.Nop(), Progress: &killer{stage: os.Getenv(childStage), after: int64(after)}}
	if how := os.Getenv(childCluster); how != "" {
		if o.Cluster, err = stages.ParseClustering(how); err != nil {
			return err
		}
	}
	run, err := Begin(s, o)
	if err != nil {
		return err
	}
	defer run.Close()
	return run.Estimate(context.Background())
}

// killer kills its own process, as kill -9 would, when a stage reports progress for the n-th time.
type killer struct {
	stage string
	after int64
	now   string
	seen  atomic.Int64
}

func (k *killer) begin(stage, _ string, _ int64) { k.now = stage; k.seen.Store(0) }
func (k *killer) end()                           {}
func (k *killer) add(int64) {
	if k.now == k.stage && k.seen.Add(1) == k.after {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it does not return from here
	}
}

// trace writes a topology of two racks and a flow file between its hosts into a directory.
func trace(t *testing.T, flows int) (topology, file string) {
	t.Helper()
	dir := t.TempDir()
	topology, file = filepath.Join(dir, "topology.json"), filepath.Join(dir, "flows.csv")
	host := func(id int) string { return fmt.Sprintf(`{"id":%d,"kind":"Host"}`, id) }
	sw := func(id int) string { return fmt.Sprintf(`{"id":%d,"kind":"Switch"}`, id) }
	link := func(a, b int, bps int64) string {
		return fmt.Sprintf(`{"a":%d,"b":%d,"bandwidth":%d,"delay":1000}`, a, b, bps)
	}
	rack := func(tor, first int) string {
		var hosts, links []string
		for h := range 4 {
			hosts = append(hosts, host(first+h))
			links = append(links, link(first+h, tor, 1e10))
		}
		return fmt.Sprintf(`{"tor":%s,"hosts":[%s],"host2tor":[%s]}`, sw(tor), strings.Join(hosts, ","), strings.Join(links, ","))
	}
	text := fmt.Sprintf(`{"planes":[[%s],[%s]],"pods":[{"fabs":[%s,%s],"racks":[%s,%s],"tor2fab":[%s]}],"fab2spine":[%s]}`,
		sw(20), sw(21), sw(10), sw(11), rack(8, 0), rack(9, 4),
		strings.Join([]string{link(8, 10, 4e10), link(8, 11, 4e10), link(9, 10, 4e10), link(9, 11, 4e10)}, ","),
		strings.Join([]string{link(10, 20, 4e10), link(11, 21, 4e10)}, ","))
	if err := os.WriteFile(topology, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("flow_id,src,dst,size_bytes,start_ns,service,vnet\n")
	rng := rand.New(rand.NewPCG(11, 12))
	clock := int64(1_000_000_000)
	for i := range flows {
		src, dst := rng.IntN(8), rng.IntN(7)
		if dst >= src {
			dst++
		}
		clock += rng.Int64N(9000)
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d,s%d,v%d\n", i*2, src, dst, 1+int64(math.Exp(rng.Float64()*12)), clock, i%3, i%2)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return topology, file
}

// digest hashes every row of the tables whose order does not depend on partitions.
func digest(t *testing.T, lake string) string { return digestOf(t, lake, stages.Independent) }

func digestOf(t *testing.T, lake string, by stages.Estimator) string {
	t.Helper()
	l, err := OpenLake(lake, false)
	if err != nil {
		t.Fatal(err)
	}
	tables := []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Hops, schema.LinkLoads, schema.LinkStats, schema.Slowdowns}
	if by == stages.Independent {
		tables = append(tables, schema.HopDelays, schema.DelayBuckets)
	} else {
		tables = append(tables, schema.HopContributions)
		if filesOf(t, lake, schema.Feedback) > 0 { // kept
			tables = append(tables, schema.Feedback)
		}
	}
	return digestTables(t, l, tables)
}

func digestTables(t *testing.T, l *Lake, tables []schema.Table) string {
	t.Helper()
	h := fnv.New64a()
	var rows int64
	for _, table := range tables {
		files, err := filepath.Glob(filepath.Join(l.root, table.Name, "*", "*.parquet"))
		if table.Variant {
			files, err = filepath.Glob(filepath.Join(l.root, table.Name, "*", "*", "*.parquet"))
		}
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of table %s: %v", table.Name, err)
		}
		in := openTable(table, files, nil, nil)
		for {
			rec, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for row := range int(rec.NumRows()) {
				for c := range int(rec.NumCols()) {
					if rec.ColumnName(c) == "cached" { // says where from, not what
						continue
					}
					_, _ = io.WriteString(h, rec.Column(c).ValueStr(row))
					_, _ = h.Write([]byte{0})
				}
			}
			rows += rec.NumRows()
			rec.Release()
		}
	}
	return fmt.Sprintf("%d rows %x", rows, h.Sum64())
}

func estimate(t *testing.T, topology, flows string, o Options) *Run {
	t.Helper()
	s, err := TraceScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	o.Log = zerolog.Nop()
	run, err := Begin(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Estimate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return run
}

// The same rows, bit for bit, with any number of workers and partitions, in a lake of their own or
// one after the other in the same.
func TestSameRowsAtAnyParallelism(t *testing.T) {
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		t.Run(by.String(), func(t *testing.T) { sameRows(t, by) })
	}
}

func sameRows(t *testing.T, by stages.Estimator) {
	topology, flows := trace(t, 8000)
	lake := t.TempDir()
	estimate(t, topology, flows, Options{Lake: lake, Estimator: by, Workers: 1, Partitions: 1, Keep: true})
	want := digestOf(t, lake, by)
	for _, o := range []Options{{Workers: 2, Partitions: 1}, {Workers: 2, Partitions: 7}, {Workers: 1, Partitions: 64}, {Workers: 8, Partitions: 64}, {}} {
		o.Lake, o.Estimator, o.Keep = t.TempDir(), by, true
		estimate(t, topology, flows, o)
		if got := digestOf(t, o.Lake, by); got != want {
			t.Errorf("%d workers, %d partitions: %s, want %s", o.Workers, o.Partitions, got, want)
		}
	}
	estimate(t, topology, flows, Options{Lake: lake, Estimator: by, Workers: 2, Partitions: 5, Keep: true})
	if got := digestOf(t, lake, by); got != want {
		t.Errorf("cut anew in the same lake: %s, want %s", got, want)
	}
}

// A run killed in the middle of any stage is continued by the same command, to the same rows.
func TestKilledRunContinues(t *testing.T) {
	topology, flows := trace(t, 70_000)
	wants := map[stages.Estimator]string{}
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		undisturbed := t.TempDir()
		estimate(t, topology, flows, Options{Lake: undisturbed, Estimator: by, Workers: 2, Partitions: 9})
		wants[by] = digestOf(t, undisturbed, by)
	}
	for _, at := range []struct {
		by    stages.Estimator
		stage string
		after int
	}{
		{stages.Independent, "generate", 1}, {stages.Independent, "route", 1}, {stages.Independent, "simulate", 1},
		{stages.Independent, "simulate", 20}, {stages.Independent, "bucket", 4}, {stages.Independent, "sample", 1},
		{stages.Flow, "simulate", 20}, {stages.Flow, "feedback", 1}, {stages.Flow, "sender-feedback", 1}, {stages.Flow, "replay", 3}, {stages.Flow, "sample", 1}, {stages.Flow, "intervals", 2},
	} {
		want := wants[at.by]
		lake := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childLake+"="+lake, childFlows+"="+flows, childStage+"="+at.stage, childAfter+"="+strconv.Itoa(at.after), childBy+"="+at.by.String())
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s: the child was not killed: %v\n%s", at.stage, err, out)
		}
		l, err := OpenLake(lake, false)
		if err != nil {
			t.Fatal(err)
		}
		status, err := ReadStatus(l, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(status.Scenarios) != 1 || status.Scenarios[0].State != statePartial {
			t.Errorf("%s: status after the kill is %+v", at.stage, status.Scenarios)
		}
		run := estimate(t, topology, flows, Options{Lake: lake, Estimator: at.by, Workers: 2, Partitions: 9})
		if got := digestOf(t, lake, at.by); got != want {
			t.Errorf("killed in %s: %s, want %s", at.stage, got, want)
		}
		for _, r := range run.reports {
			if r.Stage == at.stage {
				break
			}
			if r.Reused != r.Tasks {
				t.Errorf("killed in %s: %s was done again (%d of %d tasks kept)", at.stage, r.Stage, r.Reused, r.Tasks)
			}
		}
		if status, err = ReadStatus(l, true); err != nil || status.Scenarios[0].State != stateComplete {
			t.Errorf("%s: status in the end is %+v, %v", at.stage, status.Scenarios, err)
		}
		if left, err := os.ReadDir(filepath.Join(lake, tmpDir)); err == nil && len(left) > 0 {
			t.Errorf("%s: %d files left in %s", at.stage, len(left), tmpDir)
		}
	}
}

// Damage to the lake is seen by status, named, and mended by running again.
func TestDamagedLakeIsMended(t *testing.T) {
	topology, flows := trace(t, 3000)
	lake := t.TempDir()
	run := estimate(t, topology, flows, Options{Lake: lake, Partitions: 4})
	want := digest(t, lake)
	victim := filepath.Join(lake, "hop_delays", "scenario="+run.ScenarioID(), "variant=independent", "part-00001.parquet")
	if err := os.Truncate(victim, 100); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLake(lake, false)
	if err != nil {
		t.Fatal(err)
	}
	status, err := ReadStatus(l, true)
	if err != nil {
		t.Fatal(err)
	}
	if status.Scenarios[0].State != stateDamaged || !strings.Contains(fmt.Sprint(status), victim) {
		t.Errorf("status does not name %s: %+v", victim, status)
	}
	estimate(t, topology, flows, Options{Lake: lake, Partitions: 4})
	if got := digest(t, lake); got != want {
		t.Errorf("mended: %s, want %s", got, want)
	}
}

// Single stages on what the lake holds give what a whole run gives, and say what is missing.
func TestStagesOneByOne(t *testing.T) {
	topology, flows := trace(t, 3000)
	whole, lake := t.TempDir(), t.TempDir()
	estimate(t, topology, flows, Options{Lake: whole})
	s, err := TraceScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Begin(s, Options{Lake: lake, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Generate(context.Background()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	for _, step := range []func(*Run, context.Context) error{(*Run).Simulate, (*Run).Route, (*Run).Bucket, (*Run).Simulate, (*Run).Bucket, (*Run).Sample} {
		run, err := Resume("", Options{Lake: lake, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if err := step(run, context.Background()); err != nil && !strings.Contains(err.Error(), "is not complete: run") {
			t.Fatal(err)
		}
		run.Close()
	}
	if got, want := digest(t, lake), digest(t, whole); got != want {
		t.Errorf("stage by stage: %s, whole: %s", got, want)
	}
}

// A question outside the workload: an idle pair is ideal, and answers are the same every time.
func TestAsk(t *testing.T) {
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		t.Run(by.String(), func(t *testing.T) { testAsk(t, by) })
	}
}

func testAsk(t *testing.T, by stages.Estimator) {
	topology, flows := trace(t, 3000)
	lake := t.TempDir()
	estimate(t, topology, flows, Options{Lake: lake, Estimator: by})
	run, err := Resume("", Options{Lake: lake, AnyEstimate: true, ReadOnly: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if run.estimator != by {
		t.Fatalf("picked %s, the lake holds %s", run.Variant(), by)
	}
	a, err := run.Ask(context.Background(), Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := run.Ask(context.Background(), Question{Src: 0, Dst: 5, SizeBytes: 20_000, N: 4000, Seed: 1})
	if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("two answers: %v, %v, %v", a, b, err)
	}
	for i, q := range a.Quantiles {
		if q.Slowdown < 1 || i > 0 && q.Slowdown < a.Quantiles[i-1].Slowdown {
			t.Errorf("quantiles %+v", a.Quantiles)
		}
	}
	if a.Paths != 2 {
		t.Errorf("%d paths between racks joined by two fabric switches", a.Paths)
	}
	for _, q := range []Question{{Src: 0, Dst: 0, SizeBytes: 1, N: 1}, {Src: 0, Dst: 99, SizeBytes: 1, N: 1}, {Src: 0, Dst: 5, N: 1}, {Src: 0, Dst: 5, SizeBytes: 1}} {
		if _, err := run.Ask(context.Background(), q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}
