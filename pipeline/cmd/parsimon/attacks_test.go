package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An empty name is an error of every command, as that of a variable that is not set.
func TestEmptyNames(t *testing.T) {
	r := tinyLake(t)
	before := files(t, r.lake)
	for _, args := range [][]string{
		{"rm", ""}, {"rm", "--workload", ""}, {"rm", "tiny", ""}, {"what-if", "", "--scale", "web=2"},
		{"compare", "", "tiny"}, {"compare", "tiny", ""}, {"report", ""}, {"report", "tiny", "--compare", ""},
		{"validate", "--scenario", ""}, {"route", "--scenario", ""}, {"sweep", "", "--fail", "each:fabric-spine"},
		{"run", "--workload", ""}, {"run", ""}, {"query", ""}, {"query", "slowdown_by_size", "--param", "scenario="},
		{"ingest", "", "--topology", "x"}, {"ingest", "x", "--topology", ""},
	} {
		mustFail(t, failure{exitUsage, "is empty", append(args, "--lake", r.lake)})
	}
	mustFail(t, failure{exitUsage, "is empty", []string{"status", "--lake", ""}})
	mustFail(t, failure{exitFailed, "is empty", []string{"report", "@flow-2", "--lake", r.lake}})
	if after := files(t, r.lake); len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
}

// rm takes whole names only, and a workload is known by its whole name.
func TestWholeNames(t *testing.T) {
	t.Parallel()
	r := copiedLake(t)
	named := r.id[:8] // the name of one is the beginning of the id of the other
	must(t, "what-if", "tiny", "--scale", "web=0.5", "--name", named, "--passes", "1", "--lake", r.lake, "-q")
	mustFail(t, failure{exitFailed, "whole ids and names only", []string{"rm", r.id[:6], "--lake", r.lake}})
	mustFail(t, failure{exitFailed, "may be any of", []string{"report", named, "--lake", r.lake}})
	must(t, "rm", named, "--lake", r.lake)
	contains(t, must(t, "status", "--lake", r.lake), r.id)
	tr := newTrace(t)
	must(t, append(tr.args(tr.lake, tr.first), "--workload", "prod-canary")...)
	mustFail(t,
		failure{exitFailed, `no workload "prod"`, []string{"run", "--workload", "prod", "--lake", tr.lake}},
		failure{exitFailed, `no workload "prod"`, []string{"rm", "--workload", "prod", "--lake", tr.lake}})
}

// What a flag names is replaced only if it is a regular file that belongs to no lake, and is checked before the work.
func TestOutputs(t *testing.T) {
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
	for _, path := range []string{null, at("link")} {
		before, _ := os.Lstat(path)
		must(t, append(report, path)...)
		must(t, "rm", "--older-than", "30d", "--lake", r.lake, "--metrics-file", path)
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
			t.Errorf("%s is another file: %v", path, err)
		}
	}
	text, err := os.ReadFile(at("target"))
	if err != nil || !strings.HasPrefix(string(text), "# HELP") || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("the target of the link: %v, %.80q", err, text)
	}
	before := files(t, r.lake)
	for _, path := range []string{"parsimon.duckdb", "_state/readers.lock", "_cache/x", "slowdowns", "flows/new", "_new"} {
		mustFail(t, failure{exitFailed, "belongs to the lake", append(report, filepath.Join(r.lake, path))})
		mustFail(t, failure{exitFailed, "belongs to the lake",
			[]string{"rm", "tiny", "--lake", r.lake, "--metrics-file", filepath.Join(r.lake, path)}})
	}
	mustFail(t,
		failure{exitFailed, "belongs to the lake", append(report, at("views"))},
		failure{exitFailed, "is a directory", append(report, dir)},
		failure{exitFailed, "no such file", []string{"rm", "tiny", "--lake", r.lake, "--metrics-file", at("no/where")}})
	after := files(t, r.lake)
	for path, data := range before {
		if after[path] != data && !strings.HasSuffix(path, ".lock") {
			t.Errorf("%s has changed", path)
		}
	}
	must(t, append(report, filepath.Join(r.lake, "report.html"))...) // beside the lake's own files
}
