package whatif

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/cache"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/estimators"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true // a reader of a released batch then finds wrong values
	var err error
	if basesDir, err = os.MkdirTemp("", "parsimon-whatif-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(basesDir)
	os.Exit(code)
}

// settings returns settings with a lake in a new directory. A small estimate spends most of its time on its
// files, so it has few partitions.
func settings(t testing.TB, by estimators.Name) Settings {
	t.Helper()
	return Settings{Lake: t.TempDir(), Variant: pipeline.Variant{Estimator: by},
		Settings: pipeline.Settings{Partitions: 4}}
}

// bases are functions that estimate fixture.Services with a cache, each once, by variant. Their lakes are in
// basesDir.
var (
	bases    sync.Map
	basesDir string
)

// A base is an estimate of fixture.Services that tests copy.
type base struct{ lake, scenario string }

// servicesBase returns settings with a new lake, which has an estimate of fixture.Services and its cache, and
// the id of the scenario.
func servicesBase(t testing.TB, v pipeline.Variant) (o Settings, id string) {
	t.Helper()
	once, _ := bases.LoadOrStore(v, sync.OnceValue(func() base {
		o := settings(t, v.Estimator)
		o.Variant = v
		o.Lake = filepath.Join(basesDir, fmt.Sprintf("%s-%d-%v", v.Estimator, v.Passes, v.Auto))
		c, err := cache.Open(lake.CachePath(o.Lake), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		o.Cache = c
		return base{o.Lake, estimate(t, mustLoad(t, fixture.Services(t)), o)}
	}))
	made := once.(func() base)()
	o = settings(t, v.Estimator)
	o.Variant = v
	if err := os.CopyFS(o.Lake, os.DirFS(made.lake)); err != nil {
		t.Fatal(err)
	}
	return o, made.scenario
}

// opened opens an estimate of a scenario for reading. If scenario is empty, it opens the scenario last worked
// on.
func opened(t testing.TB, dir, scenario string, v pipeline.Variant) *pipeline.Estimation {
	t.Helper()
	model, err := pipeline.OpenModel(t.Context(), estimates.Open(t, dir), scenario)
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.ReadOnly(model, v, pipeline.Settings{})
}

// do parses changes such as "bandwidth=fabric-spine=20G".
func do(t testing.TB, texts ...string) (c scenario.Changes) {
	t.Helper()
	for _, text := range texts {
		kind, of, _ := strings.Cut(text, "=")
		change, err := scenario.ParseChange(kind, of)
		if err != nil {
			t.Fatal(err)
		}
		c.Do = append(c.Do, change)
	}
	return c
}

// withCache adds the cache of the lake to the settings. It is closed at the end of the test.
func withCache(t testing.TB, o *Settings) {
	t.Helper()
	c, err := cache.Open(lake.CachePath(o.Lake), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o.Cache = c
}

func mustLoad(t testing.TB, file string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sixteenHosts returns a scenario with the given number of flows between 16 hosts.
func sixteenHosts(t testing.TB, flows int, transport string) *scenario.Scenario {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `
seed: 1
topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 4, planes: 2, oversubscription: 2,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 45%%
  flows_count: %d
  services: [{name: all, sizes: webserver, sigma: 1}]
transport: {kind: %s}
`, flows, transport), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, file)
}

// estimate estimates a scenario and returns its id.
func estimate(t testing.TB, s *scenario.Scenario, o Settings) string {
	t.Helper()
	return string(estimates.Of(t, o.Lake, s, o.Variant, o.Settings).ID())
}

// tableRows returns every row of a table of an estimate as text, omitting some columns.
func tableRows(t testing.TB, e *pipeline.Estimation, table schema.Table, without ...string) string {
	t.Helper()
	in, err := e.Read(table)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = columns.ForEach(in, func(rec arrow.Record) error {
		for row := range int(rec.NumRows()) {
			for c := range int(rec.NumCols()) {
				if !slices.Contains(without, rec.ColumnName(c)) {
					b.WriteString(rec.Column(c).ValueStr(row))
					b.WriteByte(' ')
				}
			}
			b.WriteByte('\n')
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() == 0 {
		t.Fatalf("table %s of scenario %s has no rows", table.Name, e.ID())
	}
	return b.String()
}

// mustList lists the names in a directory.
func mustList(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
