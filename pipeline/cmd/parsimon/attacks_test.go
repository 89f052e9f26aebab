package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// Every command refuses an empty name, such as that of an unset variable.
func TestEmptyNames(t *testing.T) {
	r := tinyLake(t)
	before := files(t, r.lake)
	for _, args := range [][]string{
		{"rm", ""}, {"rm", "--workload", ""}, {"rm", "tiny", ""}, {"what-if", "", "--scale", "web=2"},
		{"compare", "", "tiny"}, {"compare", "tiny", ""}, {"report", ""}, {"report", "tiny", "--compare", ""},
		{"validate", "--scenario", ""}, {"stage", "route", "--scenario", ""},
		{"sweep", "", "--fail", "each:fabric-spine"},
		{"run", "--workload", ""}, {"run", ""}, {"query", ""},
		{"query", "slowdown_by_size", "--param", "scenario="},
		{"ingest", "", "--topology", "x"}, {"ingest", "x", "--topology", ""},
	} {
		mustFail(t, failure{exitUsage, "is empty", append(args, "--lake", r.lake)})
	}
	mustFail(t, failure{exitUsage, "is empty", []string{"status", "--lake", ""}})
	mustFail(t, failure{exitFailed, "is empty", []string{"report", "@flow-2", "--lake", r.lake}})
	after := files(t, r.lake)
	if len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
}

// rm accepts only complete names, and a workload is found by its complete name.
func TestWholeNames(t *testing.T) {
	long(t)
	t.Parallel()
	r := copiedLake(t)
	named := r.id[:8] // the name of one is the beginning of the id of the other
	must(t, "what-if", "tiny", "--scale", "web=0.5", "--name", named, "--passes", "1", "--lake", r.lake, "-q")
	mustFail(t, failure{exitFailed, "whole ids and names only", []string{"rm", r.id[:6], "--lake", r.lake}})
	mustFail(t, failure{exitFailed, "may be any of", []string{"report", named, "--lake", r.lake}})
	must(t, "rm", named, "--lake", r.lake)
	contains(t, must(t, "status", "--lake", r.lake), r.id)
	must(t, "what-if", "tiny", "--scale", "web=0.5", "--name", "a@b", "--passes", "1", "--lake", r.lake, "-q")
	for _, other := range []string{"a@b", "a@b@flow-1"} {
		contains(t, must(t, "compare", "tiny@flow-2", other, "--across", "--lake", r.lake, "-q"), "a@b")
	}
	tr := newTrace(t)
	must(t, append(tr.args(tr.lake, tr.first), "--workload", "prod-canary")...)
	mustFail(t,
		failure{exitFailed, `no workload "prod"`, []string{"run", "--workload", "prod", "--lake", tr.lake}},
		failure{exitFailed, `no workload "prod"`, []string{"rm", "--workload", "prod", "--lake", tr.lake}})
}

// A file that a flag names is replaced only if it is a regular file outside of lakes. This is checked before
// the work begins.
func TestOutputs(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	r := copiedLake(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	null := at("null")
	if err := syscall.Mknod(null, syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		null = os.DevNull
	}
	writeFiles(t, map[string]string{at("target"): strings.Repeat("x", 1<<21)})
	if err := os.Symlink(at("target"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(r.lake, "parsimon.duckdb"), at("views")); err != nil {
		t.Fatal(err)
	}
	report := []string{"report", "tiny", "--lake", r.lake, "--output"}
	export := []string{"export", "tiny", "--lake", r.lake, "--output"}
	for _, path := range []string{null, at("link")} {
		before, _ := os.Lstat(path)
		must(t, append(export, path)...)
		must(t, "rm", "--older-than", "30d", "--lake", r.lake, "--metrics-file", path)
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) ||
			after.Mode() != before.Mode() {
			t.Errorf("%s is another file: %v", path, err)
		}
	}
	text, err := os.ReadFile(at("target"))
	if err != nil || !strings.HasPrefix(string(text), "# HELP") || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("the target of the link: %v, %.80q", err, text)
	}
	if err := errors.Join(os.Symlink("new", at("tonight")), syscall.Mkfifo(at("pipe"), 0o644),
		os.Symlink(filepath.Join(r.lake, "flows", "new.html"), at("inside"))); err != nil {
		t.Fatal(err)
	}
	must(t, append(export, at("tonight"))...) // to a file that does not exist yet
	written, err := os.ReadFile(at("new"))
	if err != nil || len(written) < 1000 {
		t.Errorf("%d bytes: %v", len(written), err)
	}
	read := make(chan []byte)
	go func() {
		text, _ := os.ReadFile(at("pipe"))
		read <- text
	}()
	must(t, append(export, at("pipe"))...)
	got := <-read
	if !bytes.Equal(got, written) {
		t.Errorf("a pipe got %d bytes, and a file %d", len(got), len(written))
	}
	mustFail(t, failure{exitFailed, `the name "\xff" of the scenario is not UTF-8 text`,
		[]string{"what-if", "tiny", "--scale", "web=0.5", "--name", "\xff", "--lake", r.lake, "-q"}})
	before := files(t, r.lake)
	for _, path := range []string{"parsimon.duckdb", "_state/readers.lock", "_cache/x", "slowdowns", "flows/new",
		"_new"} {
		mustFail(t, failure{exitFailed, "belongs to the lake", append(report, filepath.Join(r.lake, path))})
		mustFail(t, failure{exitFailed, "belongs to the lake",
			[]string{"rm", "tiny", "--lake", r.lake, "--metrics-file", filepath.Join(r.lake, path)}})
	}
	mustFail(t,
		failure{exitFailed, "belongs to the lake", append(report, at("views"))},
		failure{exitFailed, "belongs to the lake", append(report, at("inside"))},
		failure{exitFailed, "is a pipe", []string{"run", "--flows", at("pipe"), "--topology", "small-4to1",
			"--lake", r.lake}},
		failure{exitFailed, "is a pipe",
			[]string{"ingest", at("pipe"), "--format", "csv", "--topology", "small-4to1", "--lake", r.lake}},
		failure{exitFailed, "no known format", []string{"topology", at("pipe")}},
		failure{exitFailed, "pipe:1: is empty", []string{"run", at("pipe"), "--lake", r.lake}},
		failure{exitFailed, "is a pipe", []string{"ingest", at("target"), "--format", "csv", "--hosts", at("pipe"),
			"--topology", "small-4to1", "--lake", r.lake}},
		failure{exitFailed, "is a directory", append(report, dir)},
		failure{exitFailed, "no such file",
			[]string{"rm", "tiny", "--lake", r.lake, "--metrics-file", at("no/where")}})
	after := files(t, r.lake)
	for path, data := range before {
		if after[path] != data && !strings.HasSuffix(path, ".lock") {
			t.Errorf("%s has changed", path)
		}
	}
	must(t, append(report, filepath.Join(r.lake, "report.html"))...) // beside the lake's own files
}

// Prometheus refuses a file with two samples of the same labels, and has three escapes.
func TestMetricsAreReadable(t *testing.T) {
	m := metrics{file: "a\t\"é\\.prom"}
	m.about()
	m.add("gate_failed", 0, "condition", "x > \"1\"\n")
	m.add("gate_failed", 0, "condition", "x > \"1\"\n")
	want := map[string]float64{"parsimon_gate_failed{job=\"a\t\\\"é\\\\\",condition=\"x > \\\"1\\\"\\n\"}": 0}
	got := m.samples["gate_failed"]
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// rewrite changes a value in the state files of a lake whose names match, with the digests that belong to
// them.
func rewrite(t *testing.T, dir, name, key string, value any) {
	t.Helper()
	l, err := lake.OpenAnyVersion(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Lock(t.Context(), lake.Place{Workload: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := 0
	for path := range files(t, filepath.Join(dir, "_state")) {
		var state map[string]json.RawMessage
		if path, err = filepath.Rel(dir, path); err != nil || filepath.Base(path) != name {
			continue
		}
		if _, err := l.ReadState(path, &state); err != nil {
			t.Fatal(err)
		}
		if state[key], err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteState(path, state); err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found == 0 {
		t.Fatalf("no %s in %s", name, dir)
	}
}

// A lake of another schema version has one message; du and rm work on it.
func TestOtherSchemaVersion(t *testing.T) {
	everyThirdDay(t, 1)
	withViews(t)
	t.Parallel()
	r := copiedLake(t)
	rewrite(t, r.lake, "manifest.json", "schema_version", schema.OldestVersion-1)
	for _, args := range [][]string{
		{"status"}, {"query", "slowdown_by_size"}, {"query", "--sql", "FROM scenarios"}, {"report", "tiny"},
		{"run", r.scenario}, {"what-if", "tiny", "--scale", "web=2"}, {"compare", "tiny", "tiny"},
	} {
		mustFail(t, failure{exitFailed, "this program reads versions", append(args, "--lake", r.lake)})
	}
	contains(t, must(t, "du", "--lake", r.lake), r.id)
	contains(t, must(t, "rm", "tiny", "--lake", r.lake), "removed 1,")
	// the lake is empty: it takes the new version
	must(t, "run", r.scenario, "--lake", r.lake, "--passes", "1", "-q")
}

// A scenario of another version of the method is read with a notice, and is not treated as one of this
// version.
func TestOtherMethodVersion(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	r := copiedLake(t)
	rewrite(t, r.lake, "plan.json", "method", pipeline.MethodVersion-1)
	contains(t, must(t, "status", "--lake", r.lake), r.id+"  "+pipeline.StateOther)
	for _, args := range [][]string{{"query", "slowdown_by_size"},
		{"query", "slowdown_by_size", "--param", "scenario=tiny"},
		{"report", "tiny", "--output", filepath.Join(t.TempDir(), "r.html")}} {
		code, out, log := parsimon(t, append(args, "--lake", r.lake)...)
		if code != exitOK || out == "" || !strings.Contains(log, pipeline.StateOther+": run it again") {
			t.Errorf("%v: exit %d, %s", args, code, log)
		}
	}
	mustFail(t,
		failure{exitFailed, "was made by version",
			[]string{"what-if", "tiny", "--scale", "web=2", "--lake", r.lake}})
	must(t, "run", r.scenario, "--lake", r.lake, "--passes", "1", "-q")
	contains(t, must(t, "status", "--lake", r.lake), r.id)
	must(t, "rm", "tiny", "--lake", r.lake)
}

// If a byte changes in a file whose inode, time and size stay the same, every reader finds the damage, and a
// run repairs it.
func TestRottenBytes(t *testing.T) {
	everyThirdDay(t, 1)
	t.Parallel()
	r := copiedLake(t)
	for _, table := range []string{"slowdowns", "flows", "nodes"} {
		parts, err := filepath.Glob(filepath.Join(r.lake, table, "*", "*", "part-*.parquet"))
		more, _ := filepath.Glob(filepath.Join(r.lake, table, "*", "part-*.parquet"))
		parts = append(parts, more...)
		if err != nil || len(parts) == 0 {
			t.Fatalf("no files of %s: %v", table, err)
		}
		info, err := os.Stat(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(parts[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		_, _ = f.ReadAt(one, info.Size()/2)
		one[0] ^= 4
		_, _ = f.WriteAt(one, info.Size()/2)
		_ = f.Close()
		if err := os.Chtimes(parts[0], info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		code, _, log := parsimon(t, "query", "--sql", "SELECT count(*) FROM "+table, "--lake", r.lake)
		if code == exitOK ||
			!strings.Contains(log, "its bytes are not those that were committed") {
			t.Errorf("query of %s: exit %d, %s", table, code, log)
		}
	}
	code, _, log := parsimon(t, "what-if", "tiny", "--scale", "web=0.9", "--passes", "1", "-q", "--lake", r.lake)
	if code == exitOK {
		t.Errorf("what-if with damaged flows: exit %d, %s", code, log)
	}
	must(t, "run", r.scenario, "--lake", r.lake, "--passes", "2", "-q")
	contains(t, must(t, "status", "--lake", r.lake), "complete  tiny")
}

// A flow of more packets than a simulation can count, and a path of more hops, are refused before the work
// begins.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	chain := "Device A,Device B,Speed\nh1,s0,10G\nh2,s300,10G\n"
	for i := range 300 {
		chain += fmt.Sprintf("s%d,s%d,10G\n", i, i+1)
	}
	writeFiles(t, map[string]string{
		filepath.Join(dir, "star.csv"):  "Device A,Device B,Speed\nh1,s,10G\nh2,s,10G\n",
		filepath.Join(dir, "chain.csv"): chain,
		filepath.Join(dir, "flows.csv"): "src,dst,size_bytes,start_ns\nh1,h2,4294967297000,0\n",
	})
	run := func(topology string, more ...string) []string {
		return append([]string{"run", "--topology", filepath.Join(dir, topology),
			"--flows", filepath.Join(dir, "flows.csv"), "--lake", filepath.Join(dir, "lake"), "-q"}, more...)
	}
	mustFail(t,
		failure{exitFailed, "flow 0: 4294967297000 bytes are 4294967297 packets", run("star.csv", "--passes", "2")},
		failure{exitFailed, "flow 0: 4294967297000 bytes are 4294967297 packets",
			run("star.csv", "--estimator", "exact")},
		failure{exitFailed, "a shortest path has more than 250 links", run("chain.csv")})
}
