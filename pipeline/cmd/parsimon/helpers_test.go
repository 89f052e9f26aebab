package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parsimon/queries/subprocess"
	"parsimon/schema/daily"
)

// Queries run in child processes, whose executable is the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || subprocess.IsChild() {
		main()
	}
	code := m.Run()
	for _, dir := range sharedDirs.all {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// long skips a test that takes more than a few seconds in a -short run. "make test" runs all tests.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: make test runs it")
	}
}

// everyThirdDay skips a test in a -short run, except on one of three days, which have the numbers 0 to 2. The
// three days should take about equally long. "make test" runs all tests.
func everyThirdDay(t *testing.T, day int) {
	t.Helper()
	if daily.Skips(day, 3) {
		t.Skip("-short runs it on another day: make test runs it")
	}
}

// viewTests has the names of tests whose commands write the views of lakes.
var viewTests sync.Map

// withViews lets the commands of a test write the views of lakes, as the program does. Other tests omit them,
// because writing them takes as long as the rest of a command in a small lake, and queries of the program do
// not read them. An ingest and the removal of a scenario always write them.
func withViews(t *testing.T) {
	t.Helper()
	viewTests.Store(t.Name(), true)
	t.Cleanup(func() { viewTests.Delete(t.Name()) })
}

// parsimon runs a command line as the shell would.
func parsimon(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	e := newEnv(&out, &log)
	_, views := viewTests.Load(t.Name())
	e.noViews = !views
	code = e.main(context.Background(), args)
	return code, out.String(), log.String()
}

// must runs a command line that has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, log := parsimon(t, args...)
	if code != exitOK {
		t.Fatalf("parsimon %s: exit %d\n%s", strings.Join(args, " "), code, log)
	}
	return out
}

// A failure is a command line that fails, its exit code and a part of its error.
type failure struct {
	code int
	want string
	args []string
}

// mustFail runs command lines that have to fail with nothing on stdout.
func mustFail(t *testing.T, failures ...failure) {
	t.Helper()
	for _, f := range failures {
		code, out, log := parsimon(t, f.args...)
		if code != f.code || !strings.Contains(log, f.want) || out != "" {
			t.Errorf("parsimon %s: exit %d, want %d and %q\nstdout: %s\nstderr: %s",
				strings.Join(f.args, " "), code, f.code, f.want, out, log)
		}
	}
}

// contains reports each text that is missing.
func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// writeFiles writes files by path.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const tinyText = `topology:
  clos: {pods: 2, racks_per_pod: 4, hosts_per_rack: 4, planes: 2, spines_per_plane: 2,
    host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 40%
  flows_count: 3000
  services:
    - {name: web, vnet: blue, sizes: webserver, sigma: 1, share: 3}
    - {name: batch, vnet: red, sizes: hadoop, sigma: 2}
`

// tinyScenario writes a scenario file of 32 hosts.
func tinyScenario(t *testing.T, extra string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	writeFiles(t, map[string]string{path: tinyText + extra})
	return path
}

// tinyScenarioOf writes the scenario file of tinyScenario with another number of flows.
func tinyScenarioOf(t *testing.T, flows string) string {
	t.Helper()
	path := tinyScenario(t, "")
	writeFiles(t, map[string]string{path: strings.Replace(tinyText, "3000", flows, 1)})
	return path
}

// writeRack writes a topology of three hosts on a switch.
func writeRack(t *testing.T, dir string) {
	t.Helper()
	links := "src_node,dst_node,bandwidth_bps,delay_ns\n"
	for host := range 3 {
		links += fmt.Sprintf("%d,3,10000000000,1000\n", host)
	}
	writeFiles(t, map[string]string{
		filepath.Join(dir, "nodes.csv"): "node_id,kind\n0,host\n1,host\n2,host\n3,tor\n",
		filepath.Join(dir, "links.csv"): links,
	})
}

// sharedDirs are the directories of lakes that several tests use. They are removed after the last test.
var sharedDirs struct {
	sync.Mutex
	all []string
}

// makeSharedDir makes a directory for all tests.
func makeSharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parsimon-test-*")
	if err != nil {
		t.Fatal(err)
	}
	sharedDirs.Lock()
	defer sharedDirs.Unlock()
	sharedDirs.all = append(sharedDirs.all, dir)
	return dir
}

var (
	sharedDir  string // holds the shared lake; empty: not made
	sharedOnce sync.Once
)

// A tinyRun is a lake that holds the tiny scenario, estimated.
type tinyRun struct{ lake, id, scenario, summary string }

var shared tinyRun

// tinyLake is a lake for tests that only read it.
func tinyLake(t *testing.T) tinyRun {
	t.Helper()
	sharedOnce.Do(func() {
		sharedDir = makeSharedDir(t)
		r := tinyRun{lake: filepath.Join(sharedDir, "lake"), scenario: filepath.Join(sharedDir, "tiny.yaml")}
		writeFiles(t, map[string]string{r.scenario: tinyText})
		var out, log bytes.Buffer // the lake has views, for any test that makes it
		code := newEnv(&out, &log).main(t.Context(),
			[]string{"run", r.scenario, "--lake", r.lake, "--passes", "2", "--quiet"})
		if code != exitOK {
			t.Fatalf("the shared lake: exit %d\n%s", code, log.String())
		}
		r.summary = out.String()
		r.id = strings.Fields(must(t, "query", "--lake", r.lake, "--format", "csv", "--sql",
			"SELECT scenario_id FROM scenarios"))[1]
		shared = r
		if err := os.CopyFS(filepath.Join(sharedDir, "copy"), os.DirFS(r.lake)); err != nil {
			t.Fatal(err)
		}
	})
	if shared.id == "" {
		t.Fatal("the shared lake could not be made")
	}
	return shared
}

// copiedLake is a copy of the shared lake as it was made, because commands of other tests work on the shared
// one.
func copiedLake(t *testing.T) tinyRun {
	t.Helper()
	r := tinyLake(t)
	dir := filepath.Join(t.TempDir(), "lake")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(sharedDir, "copy"))); err != nil {
		t.Fatal(err)
	}
	r.lake = dir
	return r
}

// truncateTable truncates a data file of a table.
func truncateTable(t *testing.T, lake, table string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(lake, table, "*", "*", "part-*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("no files of %s: %v", table, err)
	}
	if err := os.Truncate(parts[0], 77); err != nil {
		t.Fatal(err)
	}
}

// asProgram in the environment of the test binary makes it the program, for scripts that call it.
const asProgram = "PARSIMON_TEST_AS_PROGRAM"
