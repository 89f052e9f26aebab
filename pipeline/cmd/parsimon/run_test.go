package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A run prints a summary, and status, queries and estimate read its results.
func TestRunThenAsk(t *testing.T) {
	r := tinyLake(t)
	contains(t, r.summary, "scenario "+r.id, "<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB", "all", "p999",
		"Most loaded links", "top10_mean_load", "simulate", "unlimited", "parsimon query")
	var status struct {
		Scenarios []struct {
			ID    string `json:"scenario_id"`
			State string `json:"state"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal([]byte(must(t, "status", "--lake", r.lake, "--format", "json")),
		&status); err != nil {
		t.Fatal(err)
	}
	if len(status.Scenarios) != 1 || status.Scenarios[0].State != "complete" || status.Scenarios[0].ID != r.id {
		t.Fatalf("status %+v", status)
	}
	out := must(t, "query", "slowdown_by_service", "--lake", r.lake, "--param", "scenario="+r.id,
		"--format", "csv")
	if strings.Count(out, "\n") != 3 {
		t.Errorf("want two services and a header:\n%s", out)
	}
	out = must(t, "query", "--lake", r.lake, "--format", "csv", "--sql",
		"SELECT count(*) AS flows, min(slowdown) >= 1 AS sane FROM slowdowns")
	if out != "flows,sane\n3000,true\n" {
		t.Errorf("slowdowns: %s", out)
	}
	out = must(t, "query", "slowdown_by_size", "--lake", r.lake, "--format", "parquet")
	if !strings.HasPrefix(out, "PAR1") {
		t.Error("no Parquet on stdout")
	}
	mustFail(t, failure{exitFailed, "", []string{"query", "--lake", r.lake, "--sql", "DROP VIEW slowdowns"}})
	for given, form := range map[string]string{"min_flows=99999": "table", "service=nosuch": "csv"} {
		code, _, log := parsimon(t, "query", "worst_of_service", "--lake", r.lake, "--format", form,
			"--param", given)
		if code != exitOK || !strings.Contains(log, "no rows with "+given) {
			t.Errorf("%s: exit %d, %q", given, code, log)
		}
	}
}

// A damaged lake exits 5 from every command that reads the damaged files, and the same run repairs it.
func TestDamagedLake(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	r := copiedLake(t)
	truncateTable(t, r.lake, "slowdowns")
	mustFail(t, failure{exitDamaged, "is damaged",
		[]string{"query", "hottest_links", "--lake", r.lake, "--param", "scenario=" + r.id}})
	code, out, log := parsimon(t, "status", "--lake", r.lake)
	if code != exitDamaged || !strings.Contains(log, "damaged") {
		t.Errorf("status: exit %d, %s", code, log)
	}
	contains(t, out, "damaged: ", "77 bytes")
	again := must(t, "run", r.scenario, "--lake", r.lake, "--passes", "2", "--quiet")
	contains(t, again, r.id, "reused")
	contains(t, must(t, "status", "--lake", r.lake), r.id+"  complete")
}

// writeFlows writes a flow file between the hosts of writeRack whose last row cannot be simulated.
func writeFlows(t *testing.T, path string) {
	t.Helper()
	text := "src,dst,size_bytes,start_ns\n"
	for i := range 300 {
		text += fmt.Sprintf("%d,%d,%d,%d\n", i%3, (i+1)%3, 100+i*50, i*1000)
	}
	writeFiles(t, map[string]string{path: text + "0,0,10,5\n"})
}

// Rows of a flow file that cannot be simulated are rejected and counted, or fail the run.
func TestRejectedRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	other := filepath.Join(dir, "other")
	flows := filepath.Join(dir, "flows.csv")
	topology := filepath.Join(dir, "net")
	writeRack(t, topology)
	writeFlows(t, flows)
	run := []string{"run", "--topology", topology, "--flows", flows, "-q", "--lake"}
	contains(t, must(t, append(run, lake)...), "1 rows of the flow file could not be simulated", "row 301")
	contains(t, must(t, "query", "--lake", lake, "--sql", "SELECT reason FROM rejects"),
		"src and dst are the same host")
	const want = "1 of 301 rows cannot be simulated"
	mustFail(t, failure{exitFailed, want, append(run, other, "--max-rejects", "0")})
	if left, err := os.ReadDir(filepath.Join(other, "nodes")); err == nil && len(left) > 0 {
		t.Error("a scenario that failed has left its topology")
	}
	mustFail(t, failure{exitFailed, want, append(run, lake, "--max-rejects", "0")})
}

// A failed cable that disconnects a host is refused by name, unless --allow-unreachable is given.
func TestUnreachableHost(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	flows := filepath.Join(dir, "flows.csv")
	topology := filepath.Join(dir, "net")
	writeRack(t, topology)
	writeFlows(t, flows)
	run := []string{"run", "--topology", topology, "--flows", flows, "-q", "--lake", filepath.Join(dir, "lake"),
		"--fail"}
	mustFail(t,
		failure{exitFailed, "host 0", append(run, "0:3")},
		failure{exitFailed, "0:1", append(run, "0:1")}) // there is no such cable
	contains(t, must(t, append(run, "0:3", "--allow-unreachable")...), "200 flows have no path")
	mustFail(t, failure{exitFailed, "200 flows have no path", append(run, "0:3")})
	contains(t, must(t, append(run, "3", "--allow-unreachable", "--name", "cut")...), "300 flows have no path")
	mustFail(t, failure{exitFailed, "no flow has a path",
		[]string{"sweep", "cut", "--lake", filepath.Join(dir, "lake"), "--set", "delay.0:3=1us,2us"}})
}

// Buffers of switches belong to the scenario: the estimate simulates the whole network, and has drops or
// pauses by link and in total. Link cases do not model them, and give a warning.
func TestSwitches(t *testing.T) {
	long(t)
	scenario := tinyScenarioOf(t, "1000")
	lake := filepath.Join(t.TempDir(), "lake")
	plain := parseJSON[prediction](t, "run", scenario, "--lake", lake, "--dry-run", "--format", "json", "-q")
	ids := map[string]bool{plain.ScenarioID: true}
	var drops, pausedNS int64
	for _, flags := range [][]string{{"--switch-buffer", "20KB"},
		{"--switch-buffer", "200KB", "--set", "switches.alpha=0.0625", "--pfc"}} {
		var answer struct {
			ID       string `json:"scenario_id"`
			Variant  string `json:"variant"`
			Drops    *int64 `json:"drops"`
			PausedNS *int64 `json:"paused_ns"`
		}
		out := must(t, append([]string{"run", scenario, "--lake", lake, "--quiet", "--format", "json"},
			flags...)...)
		if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Drops == nil ||
			answer.PausedNS == nil {
			t.Fatalf("%v: %v\n%s", flags, err, out)
		}
		if answer.Variant != "exact" || ids[answer.ID] {
			t.Errorf("%v: scenario %s, variant %s", flags, answer.ID, answer.Variant)
		}
		ids[answer.ID] = true
		drops = max(drops, *answer.Drops)
		pausedNS = max(pausedNS, *answer.PausedNS)
		links := must(t, "query", "--lake", lake, "--format", "csv", "--sql",
			"SELECT sum(drops)::BIGINT AS drops, sum(paused_ns)::BIGINT AS ns FROM link_stats WHERE scenario = '"+
				answer.ID+"'")
		want := fmt.Sprintf("drops,ns\n%d,%d\n", *answer.Drops, *answer.PausedNS)
		if links != want {
			t.Errorf("%v: link_stats has %q, the answer %q", flags, links, want)
		}
	}
	if drops == 0 || pausedNS == 0 {
		t.Errorf("%d drops, pauses of %d ns: the buffers are too large to show anything", drops, pausedNS)
	}
	out := must(t, "run", scenario, "--lake", lake, "--quiet", "--estimator", "flow",
		"--switch-buffer", "20KB")
	contains(t, out, "warning: buffers: ", "is longer than its switch's buffer has room for, at most 10000 "+
		"bytes, in ", "may raise p")
}

// Traffic classes are simulated in the whole network, which estimator auto chooses. Their weights can be
// swept.
func TestClasses(t *testing.T) {
	long(t)
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	file := filepath.Join(dir, "classes.yaml")
	writeFiles(t, map[string]string{
		file: strings.Replace(tinyText, "flows_count: 3000", "flows_count: 1000", 1) +
			"switches: {buffer: 100KB, classes: [{name: web, queue: 2, services: [web], weight: 3}]}\n",
	})
	contains(t, must(t, "run", file, "--lake", lake, "--quiet"), "variant exact",
		"switch buffers of 100000 bytes")
	contains(t, must(t, "query", "slowdown_by_class", "--lake", lake, "--format", "csv"),
		",exact,classes,2,web,")
	links := must(t, "query", "--lake", lake, "--format", "csv", "--sql", "SELECT class, count(*) > 0 AS n "+
		"FROM link_classes GROUP BY class ORDER BY class")
	if links != "class,n\ndefault,true\nweb,true\n" {
		t.Errorf("link_classes: %q", links)
	}
	contains(t, must(t, "sweep", file, "--lake", lake, "--quiet", "--estimator", "exact",
		"--set", "switches.classes.web.weight=1,4"), "weight", "4")
	contains(t, must(t, "sweep", "classes", "--lake", lake,
		"--quiet", "--set", "switches.classes.web.weight=1,strict",
		"--set", "switches.classes.web.mark_per_gbps=1KB,3KB"), "switches.classes.web.weight", "strict")
	must(t, "what-if", "classes", "--lake", lake, "--quiet", "--set", "switches.classes.web.queue=7", "--set",
		"switches.classes.web.weight=strict", "--name", "first")
	contains(t, must(t, "query", "slowdown_by_class", "--lake", lake, "--format", "csv"),
		",exact,first,0,default,", ",exact,first,7,web,")
	var all []string
	for _, workers := range []string{"1", "2", "3"} { // other paths change no class, and workers no bit
		other := filepath.Join(dir, "lake"+workers)
		must(t, "run", file, "--lake", other, "--quiet", "--workers", workers, "--balance", "spray")
		all = append(all, must(t, "query", "slowdown_by_class", "--lake", other, "--format", "csv")+
			must(t, "query", "--lake", other, "--format", "csv",
				"--sql", "SELECT flow_id, fct_ns FROM slowdowns ORDER BY flow_id"))
	}
	if all[0] != all[1] || all[0] != all[2] || !strings.Contains(all[0], ",2,web,") {
		t.Errorf("1, 2 and 3 workers differ: %.300s", all[0])
	}
}

// Flows are assigned to classes by the DSCP of their service or of a flow file, which is checked.
func TestClassesByDSCP(t *testing.T) {
	long(t)
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	file := filepath.Join(dir, "classes.yaml")
	flows := filepath.Join(dir, "f.csv")
	sonic := topologyFixture(t, "sonic")
	writeFiles(t, map[string]string{
		file: strings.Replace(tinyText, "{name: web,", "{name: web, dscp: 46,", 1) +
			"switches: {classes: [{name: ef, queue: 2, dscp: [46]}, {name: be, queue: 1, dscp: [0]}]}\n",
		flows: "src,dst,size_bytes,start_ns,dscp\nserver1,server3,90000,0,3\nserver2,server3,90000,0,\n",
	})
	must(t, "run", file, "--lake", lake, "--quiet")
	out := must(t, "query", "slowdown_by_class", "--lake", lake, "--format", "csv")
	contains(t, out, ",exact,classes,2,ef,")
	must(t, "run", "--topology", sonic, "--flows", flows, "--lake", lake, "--quiet", "--switch-classes",
		"--name", "s")
	out = must(t, "query", "slowdown_by_class", "--lake", lake, "--format", "csv", "--param", "scenario=s")
	contains(t, out, ",exact,s,1,queue1,1,", ",exact,s,3,queue3,1,")
	mustFail(t, failure{
		exitUsage, "an element that has a name is classes.NAME",
		[]string{"sweep", "s", "--lake", lake, "--set", "switches.classes[0].weight=1,2"},
	}, failure{exitUsage, "a scenario of the lake has no configurations of switches",
		[]string{"what-if", "s", "--lake", lake, "--set", "switches.classes=topology"}},
		failure{exitUsage, "switches.classes.gold: is an unknown key (keys: queue0, queue1",
			[]string{"what-if", "s", "--lake", lake, "--set", "switches.classes.gold.weight=2"}},
		failure{exitUsage, "switches.classes.queue3.weight: is 0, must be 1 to 1000",
			[]string{"what-if", "s", "--lake", lake, "--set", "switches.classes.queue3.weight=0"}},
		failure{exitFailed, `no service "x"`,
			[]string{"what-if", "s", "--lake", lake,
				"--set", "switches.classes=[{name: a, queue: 1, services: [x]}]"}})
	writeFiles(t, map[string]string{flows: "src,dst,size_bytes,start_ns,dscp\nserver1,server3,90000,0,64\n"})
	mustFail(t, failure{exitFailed, "f.csv: 1 of 1 rows cannot be simulated, more than the accepted 1% " +
		"(--max-rejects): 1 × dscp is not an integer from 0 to 63 (first: row 1",
		[]string{"run", "--topology", sonic, "--flows", flows, "--lake", lake}},
		failure{exitUsage, "switches.classes is topology, which has no SONiC",
			[]string{"run", file, "--lake", lake, "--switch-classes"}})
}

// TCP is simulated in the whole network, which estimator auto chooses. Link cases refuse it.
func TestTCP(t *testing.T) {
	scenario := tinyScenarioOf(t, "100")
	lake := filepath.Join(t.TempDir(), "lake")
	out := must(t, "run", scenario, "--lake", lake, "--quiet", "--transport", "cubic",
		"--switch-buffer", "100KB")
	contains(t, out, "variant exact", "switch buffers of 100000 bytes")
}

// A request that no estimate of the kind can answer is refused before anything is stored, with an
// alternative.
func TestRefusals(t *testing.T) {
	everyThirdDay(t, 0)
	dir := t.TempDir()
	classes := filepath.Join(dir, "classes.yaml")
	tiny := filepath.Join(dir, "tiny.yaml")
	jobs := filepath.Join(dir, "jobs.yaml")
	closed := filepath.Join(dir, "f.csv")
	lake := filepath.Join(dir, "lake")
	network, services, _ := strings.Cut(tinyText, "workload:")
	writeFiles(t, map[string]string{
		tiny: network + "workload:" + strings.Replace(services, "3000", "100", 1),
		jobs: network + "workload: {jobs: [{name: j, ranks: 4, steps: [{collective: all-reduce, size: " +
			"100KB}]}]}\n",
		classes: network + "workload:" + services + "switches: {classes: [{name: web, queue: 2, services: " +
			"[web]}]}\n",
		closed: "flow_id,src,dst,size_bytes,start_ns,after,delay_ns\n1,0,1,1000,0,,\n2,1,2,1000,0,1,0\n",
	})
	writeRack(t, dir)
	for name, flags := range map[string][]string{"t": {tiny}, "b": {tiny, "--switch-buffer", "200KB", "--pfc"},
		"j": {jobs, "--estimator", "exact"}} {
		must(t, append([]string{"stage", "generate", "--lake", lake, "--quiet", "--name", name}, flags...)...)
	}
	stored := func() string {
		lines := strings.Split(must(t, "status", "--lake", lake), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	before := stored()
	const cable = "pod0-fabric0:plane0-spine0"
	for _, c := range []failure{
		{exitUsage, "TCP newreno and estimator flow",
			[]string{"run", tiny, "--transport", "newreno", "--estimator", "flow"}},
		{exitUsage, "TCP cubic and estimator independent",
			[]string{"run", tiny, "--transport", "cubic", "--estimator", "independent"}},
		{exitUsage, "traffic classes and estimator flow", []string{"run", classes, "--estimator", "flow"}},
		{exitUsage, "traffic classes and estimator flow",
			[]string{"sweep", classes, "--estimator", "flow", "--set", "switches.classes[0].queue=2,3"}},
		{exitUsage, "switches.classes[0].weight: is 0, must be 1 to 1000",
			[]string{"sweep", classes, "--set", "switches.classes[0].weight=0"}},
		{exitUsage, "tiny, balance=spray: paths that move",
			[]string{"sweep", tiny, "--estimator", "flow", "--set", "balance=ecmp,spray"}},
		{exitUsage, "switches with buffers",
			[]string{"sweep", tiny, "--estimator", "flow", "--set", "switches.buffer=100KB,400KB"}},
		{exitUsage, "switches with buffers of 200000 bytes",
			[]string{"sweep", "b", "--estimator", "flow", "--fail", "each:fabric-spine"}},
		{exitUsage, "paths that move (balance ecmp, " + cable + " loss 0.001) and estimator flow",
			[]string{"sweep", "t", "--estimator", "flow", "--fail", "each:fabric-spine", "--loss", "1e-3"}},
		{exitUsage, "flows that wait",
			[]string{"sweep", "j", "--estimator", "flow", "--fail", "each:fabric-spine"}},
		{exitUsage, "switches with buffers", []string{"what-if", "b", "--fail", cable, "--estimator", "flow"}},
		{exitUsage, "must be one of", []string{"run", tiny, "--transport", "nope"}},
		{exitUsage, "must be one of", []string{"what-if", "t", "--transport", "nope"}},
		{exitUsage, "transport.window", []string{"what-if", "t", "--set", "transport.window=nope"}},
		{exitUsage, "switches.buffer", []string{"sweep", "t", "--set", "switches.buffer=3B,100KB"}},
		{exitUsage, "windows of time", []string{"what-if", "t", "--event", cable + " loss 0.1 1ms..2ms",
			"--within", "5%"}},
		{exitUsage, "exclude each other", []string{"sweep", "t", "--fail", "each:fabric-spine", "--loss", "1e-3",
			"--delay", "5us"}},
		{exitUsage, "windows of time", []string{"run", jobs, "--within", "5%"}},
		{exitUsage, "services that are scaled", []string{"what-if", "j", "--scale", "j=2"}},
		{exitUsage, "flows that wait", []string{"run", "--topology", dir, "--flows", closed,
			"--estimator", "flow"}},
		{exitUsage, "transport hpcc", []string{"run", tiny, "--balance", "spray", "--transport", "hpcc"}},
	} {
		c.args = append(c.args, "--lake", lake, "--quiet")
		mustFail(t, c)
		after := stored()
		if after != before {
			t.Fatalf("%q left something:\n%s\nbefore:\n%s", c.args, after, before)
		}
	}
}
