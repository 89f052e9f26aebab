package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The commands of single stages, one after the other in two shards each, make the estimate of run (OPERATORS.md).
func TestStageCommands(t *testing.T) {
	t.Parallel()
	r := tinyLake(t)
	dir := filepath.Join(t.TempDir(), "lake")
	id := strings.TrimSpace(must(t, "generate", r.scenario, "--lake", dir, "--quiet"))
	stage := func(name string, flags ...string) {
		for _, shard := range []string{"0/2", "1/2"} {
			must(t, append([]string{name, "--lake", dir, "--scenario", id, "--shard", shard}, flags...)...)
		}
	}
	of := func(pass int) []string { return []string{"--passes", strconv.Itoa(pass)} }
	stage("route")
	stage("overlaps")
	stage("uplinks")
	stage("uplink-feedback")
	stage("simulate", of(1)...)
	stage("feedback", of(1)...)
	for _, last := range []string{"simulate", "sender-feedback", "replay", "sample"} {
		stage(last, of(2)...)
	}
	must(t, append([]string{"intervals", "--lake", dir, "--scenario", id}, of(2)...)...)
	whole := filepath.Join(t.TempDir(), "lake")
	must(t, "run", r.scenario, "--lake", whole, "--estimator", "flow", "--quiet")
	const sql = "SELECT flow_id, fct_ns FROM slowdowns ORDER BY flow_id"
	got := must(t, "query", "--lake", dir, "--format", "csv", "--sql", sql)
	if want := must(t, "query", "--lake", whole, "--format", "csv", "--sql", sql); got != want || len(got) < 1000 {
		t.Errorf("%d and %d bytes of rows, which differ", len(got), len(want))
	}
}
