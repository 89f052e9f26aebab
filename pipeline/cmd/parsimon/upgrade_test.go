package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/schema"
	"parsimon/schema/daily"
)

// estimatesOfOldLakes sums the FCTs of each estimate of an old lake.
const estimatesOfOldLakes = "SELECT scenario, variant, count(*) AS flows, sum(fct_ns) AS fct_ns " +
	"FROM slowdowns_all GROUP BY ALL ORDER BY ALL"

// An oldLake is a lake of testdata/lakes.
type oldLake struct {
	version string
	answer  string // to estimatesOfOldLakes, by the program that made the lake
}

var oldLakes = []oldLake{
	{"v15", `scenario,variant,flows,fct_ns
1094455c02fbb1e0,flow-2,300,26736154
1094455c02fbb1e0,independent,300,32827578
2e0999ae31e92421,independent,20,3220451
b525fd7a1a3f47bb,flow-2,449,62320958
`},
	{"v19", `scenario,variant,flows,fct_ns
1094455c02fbb1e0,flow-2,300,26242307
1094455c02fbb1e0,independent,300,33812608
2e0999ae31e92421,independent,20,3224288
b525fd7a1a3f47bb,flow-2,449,61904177
`},
	{"v20", `scenario,variant,flows,fct_ns
1094455c02fbb1e0,flow-2,300,26242307
1094455c02fbb1e0,independent,300,33812608
2e0999ae31e92421,independent,20,3224288
b525fd7a1a3f47bb,flow-2,449,61904177
`},
	{"v21", `scenario,variant,flows,fct_ns
2e0999ae31e92421,independent,20,3224288
459f43a2831938cb,flow-2,300,26242307
459f43a2831938cb,independent,300,33812608
e8fe965a39bdae4f,flow-2,449,61904177
`},
}

// unpack unpacks a lake of testdata/lakes, and returns its directory.
func unpack(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(filepath.Join("testdata", "lakes", version+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "lake")
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeLink:
			err = os.Link(filepath.Join(dir, filepath.FromSlash(h.Linkname)), path)
		default:
			var text []byte
			if text, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(path, text, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A lake outlives the program that made it. This version must read the lakes of the last versions with the
// same numbers, report that, and upgrade them. testdata/lakes has one lake of each, which a script of
// commands made: a scenario with two estimates, a what-if, and a workload with a scenario. The short form has
// one lake each day.
func TestLakesOfOlderVersions(t *testing.T) {
	withViews(t)
	t.Parallel()
	for i, of := range oldLakes {
		if daily.Skips(i, len(oldLakes)) {
			continue
		}
		t.Run(of.version, func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, of.version)
			old := of.version != fmt.Sprintf("v%d", schema.Version)
			query := []string{"query", "--lake", dir, "--format", "csv", "--sql", estimatesOfOldLakes}
			const note = "columns that are newer are empty"
			code, got, log := parsimon(t, query...)
			if code != exitOK || got != of.answer || old != strings.Contains(log, note) {
				t.Errorf("exit %d: %s\n%s\nwant %s", code, got, log, of.answer)
			}
			if old {
				run := []string{"run", "parking-lot/short", "--lake", dir, "-q"}
				mustFail(t, failure{exitFailed, "upgrade it first (parsimon upgrade)", run})
			}
			contains(t, must(t, "upgrade", "--lake", dir), "upgraded 3 scenarios and 1 workloads")
			contains(t, must(t, "upgrade", "--lake", dir), "nothing to upgrade")
			code, got, log = parsimon(t, query...)
			if code != exitOK || got != of.answer || strings.Contains(log, note) {
				t.Errorf("after the upgrade: exit %d: %s\n%s", code, got, log)
			}
			checkUpgraded(t, dir)
		})
	}
}

// checkUpgraded checks the workload of an upgraded lake, adds to it, and looks for folders of both kinds.
func checkUpgraded(t *testing.T, dir string) {
	t.Helper()
	more := filepath.Join(t.TempDir(), "more.csv")
	topology := filepath.Join(t.TempDir(), "topology.yaml")
	writeFiles(t, map[string]string{
		more:     "flow_id,src,dst,size_bytes,start_ns\n500,1,2,700,1700000000000500000\n",
		topology: oldTopology,
	})
	must(t, "ingest", more, "--topology", topology, "--workload", "days", "--lake", dir,
		"--max-rejects", "50%", "-q")
	rejects := must(t, "query", "--lake", dir, "--format", "csv", "--sql",
		"SELECT row, reverse FROM workload_rejects")
	if rejects != "row,reverse\n21,false\n" {
		t.Errorf("rejects %s", rejects)
	}
	flows := must(t, "query", "--lake", dir, "--format", "csv", "--sql",
		"SELECT count(*) AS n FROM workload_flows")
	if flows != "n\n21\n" {
		t.Errorf("flows %s", flows)
	}
	contains(t, must(t, "status", "--lake", dir), "workload days  complete")
	for _, table := range schema.Tables() {
		for _, folder := range table.Folders() {
			keys := map[string]bool{}
			entries, err := os.ReadDir(filepath.Join(dir, folder))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, e := range entries {
				key, _, _ := strings.Cut(e.Name(), "=")
				keys[key] = true
			}
			if len(keys) > 1 {
				t.Errorf("%s has folders of several kinds: %v", folder, keys)
			}
		}
	}
}

// oldTopology is the topology of the old lakes.
const oldTopology = `clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
       host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
`

// This program continues an estimate that an older one began: stages that wrote other tables run again, and
// the rows are those of the older program. Here the last stages of version 21 were not run.
func TestEstimateOfAnOlderVersionContinues(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	dir := unpack(t, "v21")
	must(t, "upgrade", "--lake", dir)
	answer := func() string {
		return must(t, "query", "--lake", dir, "--format", "csv", "--sql", "SELECT count(*) AS flows, "+
			"sum(fct_ns) AS fct_ns FROM slowdowns_all WHERE scenario = '459f43a2831938cb' AND "+
			"variant = 'independent'")
	}
	const want = "flows,fct_ns\n300,33812608\n"
	stages := filepath.Join(dir, "_state", "scenario=459f43a2831938cb", "variant=independent")
	for _, stage := range []string{"sample", "intervals"} {
		if err := os.RemoveAll(filepath.Join(stages, stage)); err != nil {
			t.Fatal(err)
		}
	}
	mustFail(t, failure{exitFailed,
		"an older version ran it, without table flow_paths: run \"parsimon stage route",
		[]string{"stage", "sample", "--lake", dir, "--scenario", "tiny", "--estimator", "independent"}})
	must(t, "what-if", "tiny", "--scale", "web=3", "--estimator", "independent", "--lake", dir, "-q")
	got := answer()
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	contains(t, must(t, "status", "--lake", dir), "459f43a2831938cb  complete  tiny")
}

// An upgrade that was killed between two steps is repeated. Nothing may be lost or duplicated.
func TestUpgradeIsRepeated(t *testing.T) {
	everyThirdDay(t, 1)
	withViews(t)
	t.Parallel()
	dir := unpack(t, "v15")
	// This is the state if it was killed after it had linked the files, of which one is incomplete.
	left := filepath.Join(dir, "workload_flows", "workload=days")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "part-00000.parquet"), []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "upgrade", "--lake", dir)
	contains(t, must(t, "status", "--lake", dir), "workload days  complete", pipeline.StateOther)
	// This is the state if it was killed before it had removed the old folders.
	old := filepath.Join(dir, "flows", "workload=days")
	if err := os.CopyFS(old, os.DirFS(left)); err != nil {
		t.Fatal(err)
	}
	must(t, "upgrade", "--lake", dir)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", old, err)
	}
	contains(t, must(t, "status", "--lake", dir), "workload days  complete")
}
