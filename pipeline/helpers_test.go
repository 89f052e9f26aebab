package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/rs/zerolog"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// Environment variables of a child process. The test binary starts itself as a child so that it can be
// killed.
const (
	childLake    = "PARSIMON_TEST_CHILD_LAKE"
	childFlows   = "PARSIMON_TEST_CHILD_FLOWS"
	childStage   = "PARSIMON_TEST_CHILD_KILL_STAGE"
	childAfter   = "PARSIMON_TEST_CHILD_KILL_AFTER"
	childBy      = "PARSIMON_TEST_CHILD_ESTIMATOR"
	childCluster = "PARSIMON_TEST_CHILD_CLUSTER"
	childCache   = "PARSIMON_TEST_CHILD_CACHE"
	childStep    = "PARSIMON_TEST_CHILD_STEP"  // index of the step in the plan
	childShard   = "PARSIMON_TEST_CHILD_SHARD" // shard of the step's tasks
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true
	dir := os.Getenv(childLake)
	if dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runChild(dir string) error {
	if os.Getenv(childShard) != "" {
		return runChildShard(dir)
	}
	after, err := strconv.Atoi(os.Getenv(childAfter))
	if err != nil {
		return err
	}
	s, err := paperScenario(filepath.Join(filepath.Dir(os.Getenv(childFlows)), "topology.yaml"),
		os.Getenv(childFlows))
	if err != nil {
		return err
	}
	by, err := estimators.Parse(os.Getenv(childBy))
	if err != nil {
		return err
	}
	o := options{Lake: dir, Variant: Variant{Estimator: by}, Workers: 2, Partitions: 9,
		Cache: os.Getenv(childCache), Progress: &killer{stage: os.Getenv(childStage), after: int64(after)}}
	how := os.Getenv(childCluster)
	if how != "" {
		if o.Cluster, err = linksim.ParseClustering(how); err != nil {
			return err
		}
	}
	settings, done, err := o.settings()
	if err != nil {
		return err
	}
	defer done()
	run, err := Begin(context.Background(), dir, s, o.Variant, settings)
	if err != nil {
		return err
	}
	defer run.Close()
	return run.Estimate(context.Background())
}

// killer kills its own process, like kill -9, when a stage reports progress for the n-th time.
type killer struct {
	stage string
	after int64
	now   string
	seen  atomic.Int64
}

func (k *killer) Begin(stage, _ string, _ int64) { k.now = stage; k.seen.Store(0) }
func (k *killer) End()                           {}
func (k *killer) Add(int64) {
	if k.now == k.stage && k.seen.Add(1) == k.after {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the process is killed before this returns
	}
}

// options are the settings of an estimate in a test, and its lake.
type options struct {
	Lake string
	Variant
	Workers, Partitions int
	Keep                bool
	Cache               string // directory; empty: no cache
	Shard               engine.Shard
	Progress            engine.Progress
}

// settings converts the options to Settings. done releases the resources that they hold.
func (o options) settings() (s Settings, done func(), err error) {
	s = Settings{Settings: engine.Settings{Workers: o.Workers, Keep: o.Keep, Shard: o.Shard,
		Progress: o.Progress, Log: zerolog.Nop()}, Partitions: o.Partitions}
	if o.Cache == "" {
		return s, func() {}, nil
	}
	s.Cache, err = cache.Open(o.Cache, zerolog.Nop())
	return s, s.Cache.Close, err
}

func (o options) must(t testing.TB) Settings {
	t.Helper()
	s, done, err := o.settings()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return s
}

// flow and independent are the estimators with their default settings. flowOf returns flow with another
// number of passes.
var (
	flow        = flowOf(MaxPasses)
	independent = Variant{}
)

func flowOf(passes int) Variant { return Variant{Estimator: estimators.Flow, Passes: passes} }

// begin opens a trace for an estimate. It is closed at the end of the test or by Close.
func begin(t testing.TB, topology, flows string, o options) *Estimation {
	t.Helper()
	s, err := paperScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Begin(t.Context(), o.Lake, s, o.Variant, o.must(t))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// estimate runs an estimate of a trace. The returned estimation is closed, but can still be read.
func estimate(t testing.TB, topology, flows string, o options) *Estimation {
	t.Helper()
	s, err := paperScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	return estimateScenario(t, s, o)
}

func estimateScenario(t testing.TB, s *scenario.Scenario, o options) *Estimation {
	t.Helper()
	settings, done, err := o.settings()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	run, err := Begin(t.Context(), o.Lake, s, o.Variant, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := errors.Join(run.Estimate(t.Context()), run.MakeAnswer()); err != nil {
		t.Fatal(err)
	}
	return run
}

// resume opens the scenario last worked on, to run single stages. It is closed at the end of the test or by
// Close.
func resume(t testing.TB, o options) *Estimation {
	t.Helper()
	run, err := Resume(t.Context(), o.Lake, "", o.Variant, o.must(t))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// temporaryTables are the tables that are only exchanged between stages.
var temporaryTables = slices.DeleteFunc(schema.Tables(), func(t schema.Table) bool { return !t.Temporary })

// digestOf hashes every row of those tables of an estimate whose row order does not depend on partitions.
func digestOf(t testing.TB, dir string, by estimators.Name) string {
	t.Helper()
	tables := []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Hops,
		schema.LinkLoads, schema.LinkStats, schema.Slowdowns}
	if by == estimators.Independent {
		tables = append(tables, schema.DelayBuckets)
	} else {
		tables = append(tables, schema.HopContributions)
		if dataFiles(t, dir, schema.Feedback) > 0 { // temporary tables were kept
			tables = append(tables, schema.Feedback)
		}
	}
	return RowDigest(t, dir, tables...)
}

func openLake(t testing.TB, dir string) *lake.Lake {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stateOf returns the state of the only scenario of a lake. It reads all bytes of its files.
func stateOf(t testing.TB, dir string) (string, *Status) {
	t.Helper()
	status, err := ReadStatus(openLake(t, dir), lake.ByContent)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Scenarios) != 1 {
		t.Fatalf("scenarios %+v", status.Scenarios)
	}
	return status.Scenarios[0].State, status
}

// casesOf sums the statistics of all stages of an estimate that run link cases.
func casesOf(t testing.TB, run *Estimation) linksim.Stats {
	t.Helper()
	all, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unfinished fails the test if incomplete files are left in the directory for temporary files.
func unfinished(t testing.TB, dir string) {
	t.Helper()
	if left, err := os.ReadDir(filepath.Join(dir, "_tmp")); err == nil && len(left) > 0 {
		t.Errorf("%d files left in _tmp", len(left))
	}
}

// spoil overwrites the first committed file of a table.
func spoil(t testing.TB, dir string, p lake.Place, table schema.Table) string {
	t.Helper()
	m, found, err := openLake(t, dir).ReadManifest(p)
	if err != nil || !found {
		t.Fatalf("%s: manifest %v, %v", p, found, err)
	}
	files := lake.FilesOf(m.Files, table)
	if len(files) == 0 {
		t.Fatalf("%s has no files of %s", p, table.Name)
	}
	path := filepath.Join(dir, files[0].Path)
	if err := os.WriteFile(path, []byte("PAR1 no longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// paperScenario is scenario.FromFiles with the window size of the paper, which the references use.
func paperScenario(topology, flows string) (*scenario.Scenario, error) {
	s, err := scenario.FromFiles(topology, flows)
	if err == nil {
		err = s.SetAll([]scenario.Setting{{Key: "transport.window", Value: "18KB"}})
	}
	return s, err
}

// textOf returns every committed row of a table of a scenario and variant, one per line, in the order of the
// files.
func textOf(t testing.TB, dir string, table schema.Table, id lake.ScenarioID, of string) string {
	t.Helper()
	v, err := variant.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	l := openLake(t, dir)
	m, found, err := l.ReadManifest(lake.Place{Scenario: id, Variant: v})
	if err != nil || !found {
		t.Fatalf("%s, %s: manifest %v, %v", id, v, found, err)
	}
	var b strings.Builder
	n := 0
	err = columns.ForEach(l.Read(table, lake.FilesOf(m.Files, table), nil), func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			for _, c := range rec.Columns() {
				b.WriteString(c.ValueStr(i) + " ")
			}
			b.WriteByte('\n')
			n++
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%s, %s: %d rows of table %s, %v", id, of, n, table.Name, err)
	}
	return b.String()
}

// dataFiles counts the existing data files of the given tables, in all scenarios and variants.
func dataFiles(t testing.TB, dir string, tables ...schema.Table) (n int) {
	t.Helper()
	for _, table := range tables {
		for _, depth := range []string{"*", "*/variant=*"} {
			found, err := filepath.Glob(filepath.Join(dir, table.Name, depth, "part-*"))
			if err != nil {
				t.Fatal(err)
			}
			n += len(found)
		}
	}
	return n
}
