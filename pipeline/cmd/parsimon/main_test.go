package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parsimon runs a command line as the shell would.
func parsimon(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	e := &env{stdout: &out, stderr: &log}
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

// tinyScenario writes a scenario file of 32 hosts.
func tinyScenario(t *testing.T, extra string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	text := `topology:
  clos: {pods: 2, racks_per_pod: 4, hosts_per_rack: 4, planes: 2, spines_per_plane: 2, host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 40%
  flows_count: 3000
  services:
    - {name: web, vnet: blue, sizes: webserver, sigma: 1, share: 3}
    - {name: batch, vnet: red, sizes: hadoop, sigma: 2}
` + extra
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every command has a manual on stdout, by "help CMD" and by --help, and exits 0.
func TestManuals(t *testing.T) {
	overview := must(t, "help")
	if must(t, "--help") != overview {
		t.Error("help and --help differ")
	}
	for _, c := range commands() {
		if !strings.Contains(overview, "  "+c.name+" ") {
			t.Errorf("the overview does not list %s", c.name)
		}
		page := must(t, "help", c.name)
		if must(t, c.name, "--help") != page {
			t.Errorf("%s: help and --help differ", c.name)
		}
		for _, want := range []string{"Usage:\n  parsimon " + c.name, "Flags:", "--quiet"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the manual lacks %q", c.name, want)
			}
		}
	}
}

// Engines for many machines are other programs' to link.
func TestFreeOfBeam(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "parsimon/pipeline") {
		t.Fatalf("go list -deps says only %d packages", len(deps))
	}
	for _, d := range deps {
		if strings.HasPrefix(d, "github.com/apache/beam/") {
			t.Errorf("the program links %s", d)
		}
	}
}

// A wrong command line exits 2, a failure 1; both say why on stderr and nothing on stdout.
func TestExitCodes(t *testing.T) {
	lake := t.TempDir()
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "Commands:", nil},
		{exitUsage, `no command "fly"`, []string{"fly"}},
		{exitUsage, "--lake is required", []string{"run", "small"}},
		{exitUsage, "unknown flag", []string{"run", "small", "--lake", lake, "--bogus"}},
		{exitUsage, "--estimator", []string{"run", "small", "--lake", lake, "--estimator", "guess"}},
		{exitUsage, "goes with --exact", []string{"run", "small", "--lake", lake, "--switch-buffer", "12MB"}},
		{exitUsage, "goes with --switch-buffer", []string{"run", "small", "--lake", lake, "--exact", "--retransmit-timeout", "1ms"}},
		{exitUsage, "--link-backend", []string{"run", "small", "--lake", lake, "--link-backend", "omnet"}},
		{exitUsage, "the wait of each packet", []string{"run", "small", "--lake", lake, "--link-backend", "ns3", "--ns3", "ns3"}},
		{exitUsage, "--ns3 goes with", []string{"run", "small", "--lake", lake, "--ns3", "ns3"}},
		{exitUsage, "--ns3-timeout", []string{"run", "small", "--lake", lake, "--ns3-timeout", "-1s"}},
		{exitUsage, "--workers", []string{"run", "small", "--lake", lake, "--workers", "-1"}},
		{exitUsage, "--topology and --flows", []string{"run", "--lake", lake}},
		{exitUsage, "--max-rejects", []string{"run", "small", "--lake", lake, "--max-rejects", "110%"}},
		{exitUsage, "--memory-limit", []string{"run", "small", "--lake", lake, "--memory-limit", "lots"}},
		{exitUsage, "--shard", []string{"simulate", "--lake", lake, "--shard", "4/4"}},
		{exitUsage, "--log-level", []string{"run", "small", "--lake", lake, "--log-level", "loud"}},
		{exitUsage, "one of the two", []string{"query", "--lake", lake}},
		{exitUsage, "slowdown_by_size", []string{"query", "slowdown_by_siz", "--lake", lake}},
		{exitUsage, "--param", []string{"query", "slowdown_by_size", "--lake", lake, "--param", "x"}},
		{exitFailed, "no-such.yaml", []string{"run", "no-such.yaml", "--lake", lake}},
		{exitFailed, "no tables", []string{"query", "slowdown_by_size", "--lake", lake}},
		{exitFailed, "missing", []string{"status", "--lake", filepath.Join(lake, "missing")}},
		{exitFailed, "holds no scenario", []string{"route", "--lake", lake}},
		{exitFailed, "f.csv", []string{"run", "--lake", lake, "--topology", "no-topology.json", "--flows", "f.csv"}},
		{exitFailed, "no-topology.json", []string{"run", "--lake", lake, "--topology", "no-topology.json", "--flows", "main_test.go"}},
		{exitFailed, "none", []string{"bench-kernel", "--cases", filepath.Join(lake, "none")}},
	} {
		code, out, log := parsimon(t, c.args...)
		if code != c.code || !strings.Contains(log, c.want) || out != "" {
			t.Errorf("parsimon %s: exit %d, want %d and %q\nstdout: %s\nstderr: %s", strings.Join(c.args, " "), code, c.code, c.want, out, log)
		}
	}
}

// The newcomer's way: run, status, queries in every format, a question outside the workload.
func TestRunThenAsk(t *testing.T) {
	lake := filepath.Join(t.TempDir(), "lake")
	scenario := tinyScenario(t, "")
	summary := must(t, "run", scenario, "--lake", lake, "--quiet")
	for _, want := range []string{"scenario ", "<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB", "all", "p999", "Most loaded links", "top10_mean_load", "simulate", "unlimited", "parsimon query"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, summary)
		}
	}
	var status struct {
		Scenarios []struct {
			ID    string `json:"scenario_id"`
			State string `json:"state"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal([]byte(must(t, "status", "--lake", lake, "--format", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Scenarios) != 1 || status.Scenarios[0].State != "complete" {
		t.Fatalf("status %+v", status)
	}
	id := status.Scenarios[0].ID
	if out := must(t, "query", "slowdown_by_service", "--lake", lake, "--param", "scenario="+id, "--format", "csv"); strings.Count(out, "\n") != 3 {
		t.Errorf("two services and a header:\n%s", out)
	}
	if out := must(t, "query", "--lake", lake, "--sql", "SELECT count(*) AS flows, min(slowdown) >= 1 AS sane FROM slowdowns", "--format", "json"); !strings.Contains(out, `"flows":3000`) && !strings.Contains(out, `"flows": 3000`) || !strings.Contains(out, "true") {
		t.Errorf("slowdowns: %s", out)
	}
	if out := must(t, "query", "slowdown_by_size", "--lake", lake, "--format", "parquet"); !strings.HasPrefix(out, "PAR1") {
		t.Error("no Parquet on stdout")
	}
	if code, _, _ := parsimon(t, "query", "--lake", lake, "--sql", "DROP VIEW slowdowns"); code != exitFailed {
		t.Errorf("DROP VIEW: exit %d", code)
	}
	for _, format := range []string{"table", "csv", "json"} {
		if out := must(t, "estimate", "--lake", lake, "--src", "0", "--dst", "31", "--size", "10KB", "--n", "500", "--format", format); !strings.Contains(out, "0.999") {
			t.Errorf("estimate as %s:\n%s", format, out)
		}
	}
	if code, _, log := parsimon(t, "estimate", "--lake", lake, "--estimator", "independent", "--src", "0", "--dst", "31", "--size", "10KB"); code != exitFailed || !strings.Contains(log, "--estimator independent") {
		t.Errorf("a question to an estimate that was not made: exit %d, %s", code, log)
	}
	other := filepath.Join(t.TempDir(), "lake")
	must(t, "run", scenario, "--lake", other, "--estimator", "independent", "--quiet")
	if out := must(t, "estimate", "--lake", other, "--src", "0", "--dst", "31", "--size", "10KB", "--n", "500"); !strings.Contains(out, "0.999") {
		t.Errorf("estimate after a run by the paper's method:\n%s", out)
	}
	parts, err := filepath.Glob(filepath.Join(lake, "slowdowns", "*", "*", "*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatal("no parts of slowdowns")
	}
	if err := os.Truncate(parts[0], 77); err != nil {
		t.Fatal(err)
	}
	if code, _, log := parsimon(t, "query", "hottest_links", "--lake", lake, "--param", "scenario="+id); code != exitDamaged || !strings.Contains(log, "damaged") {
		t.Errorf("a question about a damaged scenario: exit %d, %s", code, log)
	}
	if code, _, log := parsimon(t, "status", "--lake", lake); code != exitDamaged || !strings.Contains(log, "damaged") {
		t.Errorf("status of a damaged scenario: exit %d, %s", code, log)
	}
	again := must(t, "run", scenario, "--lake", lake, "--quiet")
	if !strings.Contains(again, id) || !strings.Contains(again, "reused") {
		t.Errorf("a second run:\n%s", again)
	}
}

// Bad flow files: rows that cannot be simulated are set aside and counted, or fail the run; a
// failed cable that cuts a host off is refused by name, unless told otherwise.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	topology := filepath.Join(dir, "net")
	if err := os.Mkdir(topology, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(topology, "nodes.csv"), "node_id,kind\n0,host\n1,host\n2,host\n3,tor\n")
	write(filepath.Join(topology, "links.csv"), "src_node,dst_node,bandwidth_bps,delay_ns\n0,3,10000000000,1000\n1,3,10000000000,1000\n2,3,10000000000,1000\n")
	flows := filepath.Join(dir, "flows.csv")
	text := "src,dst,size_bytes,start_ns\n"
	for i := range 300 {
		text += fmt.Sprintf("%d,%d,%d,%d\n", i%3, (i+1)%3, 100+i*50, i*1000)
	}
	write(flows, text+"0,0,10,5\n")
	lake := filepath.Join(dir, "lake")
	out := must(t, "run", "--topology", topology, "--flows", flows, "--lake", lake, "-q")
	if !strings.Contains(out, "1 rows of the flow file could not be simulated") || !strings.Contains(out, "row 301") {
		t.Errorf("the reject is not in the summary:\n%s", out)
	}
	if out := must(t, "query", "--lake", lake, "--sql", "SELECT reason FROM rejects"); !strings.Contains(out, "src and dst are the same host") {
		t.Errorf("rejects: %s", out)
	}
	code, _, log := parsimon(t, "run", "--topology", topology, "--flows", flows, "--lake", filepath.Join(dir, "l2"), "-q", "--max-rejects", "0")
	if code != exitFailed || !strings.Contains(log, "1 of 301 rows cannot be simulated") {
		t.Errorf("no rejects accepted: exit %d, %s", code, log)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "l2", "nodes")); err == nil && len(left) > 0 {
		t.Error("a scenario that never was has left its topology")
	}
	code, _, log = parsimon(t, "run", "--topology", topology, "--flows", flows, "--lake", lake, "-q", "--max-rejects", "0")
	if code != exitFailed || !strings.Contains(log, "1 of 301 rows cannot be simulated") {
		t.Errorf("no rejects accepted any more: exit %d, %s", code, log)
	}
	code, _, log = parsimon(t, "run", "--topology", topology, "--flows", flows, "--lake", filepath.Join(dir, "l3"), "-q", "--fail", "0:3")
	if code != exitFailed || !strings.Contains(log, "host 0") {
		t.Errorf("a host cut off: exit %d, %s", code, log)
	}
	out = must(t, "run", "--topology", topology, "--flows", flows, "--lake", filepath.Join(dir, "l4"), "-q", "--fail", "0:3", "--allow-unreachable")
	if !strings.Contains(out, "200 flows have no path") {
		t.Errorf("flows without a path are not counted:\n%s", out)
	}
	code, _, log = parsimon(t, "run", "--topology", topology, "--flows", flows, "--lake", filepath.Join(dir, "l4"), "-q", "--fail", "0:3")
	if code != exitFailed || !strings.Contains(log, "200 flows have no path") {
		t.Errorf("flows without a path, not allowed any more: exit %d, %s", code, log)
	}
	code, _, log = parsimon(t, "run", "--topology", topology, "--flows", flows, "--lake", filepath.Join(dir, "l5"), "-q", "--fail", "0:1")
	if code != exitFailed || !strings.Contains(log, "0:1") {
		t.Errorf("no such cable: exit %d, %s", code, log)
	}
}
