package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
)

// The page of stage lists the stages of all plans, and no others.
func TestStageDocs(t *testing.T) {
	r := tinyLake(t)
	l, err := lake.Open(r.lake, false)
	if err != nil {
		t.Fatal(err)
	}
	model, err := pipeline.OpenModel(t.Context(), l, r.id)
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := linksim.ParseClustering(linksim.DefaultClusteringError)
	if err != nil {
		t.Fatal(err)
	}
	var have, listed []string
	for _, v := range []pipeline.Variant{
		{Estimator: estimators.Flow, Passes: pipeline.MaxPasses}, {Estimator: estimators.Exact},
		{Estimator: estimators.Independent, Cluster: clusters},
	} {
		for _, s := range pipeline.ReadOnly(model, v, pipeline.Settings{}).Plan() {
			have = append(have, s.Name)
		}
	}
	help := readPage("stage").text
	for _, name := range stageNames() {
		listed = append(listed, name)
		contains(t, help, "\n  "+name+" ")
	}
	slices.Sort(have)
	slices.Sort(listed)
	have = slices.Compact(have)
	if !slices.Equal(have, listed) {
		t.Errorf("the plans have %q, the page %q", have, listed)
	}
}

// The stages, one after the other in two shards each, produce the estimate of run (OPERATORS.md).
func TestStageCommands(t *testing.T) {
	long(t)
	t.Parallel()
	r := tinyLake(t)
	dir := filepath.Join(t.TempDir(), "lake")
	id := strings.TrimSpace(must(t, "stage", "generate", r.scenario, "--lake", dir, "--quiet"))
	stage := func(name string, flags ...string) {
		for _, shard := range []string{"0/2", "1/2"} {
			must(t, append([]string{"stage", name, "--lake", dir, "--scenario", id, "--shard", shard}, flags...)...)
		}
	}
	of := func(pass int) []string { return []string{"--passes", strconv.Itoa(pass)} }
	stage("route")
	stage("simulate", of(1)...)
	stage("feedback", of(1)...)
	for _, last := range []string{"simulate", "sender-feedback", "replay", "sample"} {
		stage(last, of(2)...)
	}
	must(t, append([]string{"stage", "intervals", "--lake", dir, "--scenario", id}, of(2)...)...)
	sql := "SELECT flow_id, fct_ns FROM slowdowns_all WHERE scenario = '" + id +
		"' AND variant = 'flow-2' ORDER BY flow_id"
	got := must(t, "query", "--lake", dir, "--format", "csv", "--sql", sql)
	want := must(t, "query", "--lake", r.lake, "--format", "csv", "--sql", sql)
	if got != want || len(got) < 1000 {
		t.Errorf("%d and %d bytes of rows, which differ", len(got), len(want))
	}
}
