package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	lakes "parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/whatif"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// tinyScenario writes a scenario file of 16 hosts.
func tinyScenario(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	text := `topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 4, planes: 2, spines_per_plane: 2,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 40%
  flows_count: 3000
  services:
    - {name: web, sizes: webserver, sigma: 1}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// digests returns the number of rows and a digest of each table of a lake.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	l, err := lakes.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	o, err := catalog.Options(l, duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := queries.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	all := map[string]string{}
	for _, f := range o.Files {
		table, err := schema.ByName(f.Table)
		if err != nil {
			t.Fatal(err)
		}
		view := table.Name
		if f.Workload != "" {
			view = table.WorkloadName()
		}
		if all[view] != "" {
			continue
		}
		columns := "*"
		if view == schema.LinkStats.Name { // columns in which results differ between runs
			columns = "* EXCLUDE (cached)"
		}
		const digest = "SELECT count(*), sum(hash(t)::HUGEINT)::VARCHAR FROM (SELECT %s FROM %s) t"
		found, err := db.SQL(t.Context(), fmt.Sprintf(digest, columns, view))
		if err != nil {
			t.Fatalf("%s: %v", view, err)
		}
		all[view] = fmt.Sprint(found.Rows[0]...)
	}
	return all
}

// beamJob runs a command line as main does, in this process, and returns its output.
func beamJob(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var f flags
	set := pflag.NewFlagSet("parsimon-beam", pflag.ContinueOnError)
	f.declare(set)
	if err := set.Parse(append(args, "--quiet")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // a runner that hangs does not hang the tests
	defer stop()
	err := f.run(ctx, set.Args(), &out)
	return out.String(), err
}

// locally runs a command line in this process, in a separate lake. It returns the closed estimate, and the
// digests of its tables.
func locally(t *testing.T, file string, args ...string) (run *pipeline.Estimation, want map[string]string) {
	t.Helper()
	lake := t.TempDir()
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var f flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.declare(set)
	if err := set.Parse(append(args, "--lake", lake)); err != nil {
		t.Fatal(err)
	}
	j, err := f.job()
	if err != nil {
		t.Fatal(err)
	}
	v, err := j.variant()
	if err != nil {
		t.Fatal(err)
	}
	if run, err = pipeline.Begin(t.Context(), lake, s, v, j.settings()); err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := summary.Read(t.Context(), run, summary.Options{Text: true}); err != nil {
		t.Fatal(err)
	}
	if want = digests(t, lake); len(want) < 10 {
		t.Fatalf("only these tables: %v", want)
	}
	return run, want
}

// sameRows compares the tables of a lake.
func sameRows(t *testing.T, when, lake string, want map[string]string) {
	t.Helper()
	have := digests(t, lake)
	for table, d := range have {
		if d != want[table] {
			t.Errorf("%s, table %s: %s, locally %s", when, table, d, want[table])
		}
	}
	for table := range want {
		if have[table] == "" {
			t.Errorf("%s, no table %s", when, table)
		}
	}
}

// A job on Prism writes the same rows of every table as a local run, also if half of its tasks are already
// done.
func TestSameRowsOnPrism(t *testing.T) {
	file := tinyScenario(t)
	for _, by := range [][]string{
		{"--passes", "2"}, {"--estimator", "independent"}, {"--estimator", "independent", "--cluster", "5%"},
	} {
		t.Run(strings.TrimSuffix(strings.Join(by, ""), "%"), func(t *testing.T) {
			run, want := locally(t, file, by...)
			id := string(run.ID())
			lake := t.TempDir()
			out, err := beamJob(t, append(by, file, "--lake", lake)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, id) || !strings.Contains(out, "Slowdown (FCT / ideal FCT)") {
				t.Errorf("the summary:\n%s", out)
			}
			sameRows(t, "from nothing", lake, want)
			variant := filepath.Join(lake, "_state", "scenario="+id, "variant="+run.Variant().String())
			for _, lost := range []string{"simulate/task-00003.json", "sample/task-00000.json"} {
				if err := os.Remove(filepath.Join(variant, lost)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := beamJob(t, append(by, "--scenario", id[:6], "--lake", lake)...); err != nil {
				t.Fatal(err)
			}
			sameRows(t, "continued", lake, want)
		})
	}
}

// sweptLocally sweeps the cables of a tier in the lake of an estimate, and returns the digests of its tables.
func sweptLocally(t *testing.T, run *pipeline.Estimation, tier string) map[string]string {
	t.Helper()
	dir := run.Lake.Path()
	plan := whatif.SweepPlan{Tier: tier, Quantile: 0.99}
	o := whatif.Settings{Lake: dir, Variant: run.Variant()}
	if _, err := whatif.RunSweep(t.Context(), string(run.ID()), plan, o); err != nil {
		t.Fatal(err)
	}
	return digests(t, dir)
}

// A sweep on Prism writes the rows of a local sweep, also if a part of it is already done. Otherwise the
// ranking of cables would depend on where they were estimated.
func TestSameSweepOnPrism(t *testing.T) {
	file := tinyScenario(t)
	for _, by := range []string{"exact", "flow"} {
		t.Run(by, func(t *testing.T) {
			cables := []string{"--estimator", by, "--fail", "each:fabric-spine"}
			run, _ := locally(t, file, cables...)
			want := sweptLocally(t, run, "fabric-spine")
			lake := t.TempDir()
			out, err := beamJob(t, append(cables, file, "--lake", lake)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "each of 8 cables of fabric-spine down") ||
				!strings.Contains(out, "8 cables, 8 of them done by an earlier sweep") {
				t.Errorf("the ranking:\n%s", out)
			}
			sameRows(t, "from nothing", lake, want)
			records, err := filepath.Glob(filepath.Join(lake, "_state", "*", "sweep-*", "*", "cable-*.json"))
			if err != nil || len(records) != 8 {
				t.Fatalf("records of cables: %v, %v", records, err)
			}
			for _, lost := range records[:3] {
				if err := os.Remove(lost); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := beamJob(t, append(cables, "--scenario", string(run.ID()), "--lake", lake)...); err != nil {
				t.Fatal(err)
			}
			sameRows(t, "continued", lake, want)
			left, err := filepath.Glob(filepath.Join(lake, "_state", "scenario=*"))
			if err != nil || len(left) != 1 {
				t.Errorf("scenarios left: %v, %v", left, err)
			}
		})
	}
}

// A job that cannot run is refused before it begins. A damaged table is recomputed. Missing flows are
// reported by the stage that needs them.
func TestJobErrors(t *testing.T) {
	file, lake := tinyScenario(t), t.TempDir()
	was := *jobopts.Endpoint // set by the tests on Prism
	*jobopts.Endpoint = ""
	for want, args := range map[string][]string{
		"--lake is required":       {file},
		"--passes 0":               {file, "--lake", lake, "--passes", "0"},
		"--endpoint":               {file, "--lake", lake, "--runner", "flink"},
		"--runner \"spork\"":       {file, "--lake", lake, "--runner", "spork"},
		"one of these is required": {"--lake", lake},
		"no-such.yaml":             {"no-such.yaml", "--lake", lake},
		"estimator":                {file, "--lake", lake, "--estimator", "guess"},
		"parsimon run does it":     {file, "--lake", lake, "--estimator", "exact"},
		"want each:TIER":           {file, "--lake", lake, "--fail", "fabric-spine"},
		"--delay needs --fail":     {file, "--lake", lake, "--delay", "1ms"},
		"gold":                     {file, "--lake", t.TempDir(), "--fail", "each:gold"},
		"goes with no scenario":    {file, "--lake", lake, "--workload", "day"},
		"holds no scenario":        {"--scenario", "cafe", "--lake", t.TempDir()},
	} {
		if _, err := beamJob(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	*jobopts.Endpoint = was
	if _, err := beamJob(t, file, "--lake", lake, "--passes", "1"); err != nil {
		t.Fatal(err)
	}
	hops, err := filepath.Glob(filepath.Join(lake, "hops", "*", "*.parquet"))
	if err != nil || len(hops) == 0 {
		t.Fatal("no hops")
	}
	if err := os.Truncate(hops[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := beamJob(t, file, "--lake", lake, "--passes", "1"); err != nil { // repaired
		t.Error(err)
	}
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Settle()
	if err != nil {
		t.Fatal(err)
	}
	id := scenario.IDOf(c.Canonical)
	if err := os.RemoveAll(filepath.Join(lake, "flows", "scenario="+id)); err != nil {
		t.Fatal(err)
	}
	_, err = beamJob(t, "--scenario", id, "--lake", lake, "--passes", "2")
	if err == nil || !strings.Contains(err.Error(), "stage generate") {
		t.Errorf("flows gone: %v", err)
	}
}
