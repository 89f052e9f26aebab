package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

func topologyFixture(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "stages", "topology", "format", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTopologyTable(t *testing.T) {
	out := must(t, "topology", topologyFixture(t, "cabling.csv"))
	for _, want := range []string{
		"12 hosts, 6 switches, 20 cables", "12 devices with one cable (inferred",
		"24 rows with a length, at 5 ns/m", "columns not used: " +
			"label",
		"tor    1                       4", "tor-spine  100 Gbps   150ns  8       0", "0.38:1",
		"planned: 4 cables not part of the network",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out = must(t, "topology", topologyFixture(t, "sonic"))
	want := "marking_min              1048576 bytes          WRED_PROFILE|AZURE_LOSSLESS|green_min_threshold   " +
		"      2  "
	if !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	out = must(t, "topology", "small-4to1")
	if !strings.Contains(out, "256 hosts, 44 switches, 336 cables") {
		t.Errorf("a shipped topology:\n%s", out)
	}
}

func TestTopologyFaults(t *testing.T) {
	file := topologyFixture(t, "cabling_faults.csv")
	code, out, log := parsimon(t, "topology", file)
	if code != exitFailed || !strings.Contains(log, "12 faults") {
		t.Errorf("exit %d: %s", code, log)
	}
	for _, want := range []string{
		"Faults: 2 parallel", file +
			": line 9: leaf1:Ethernet50 – spine1:Ethernet3: a second cable between leaf1 " +
			"and spine1 (the first: line 5)",
		"repair: --repair parallel: take them as members of a link aggregation group",
		file + ": line 15: db1, db2, leaf9",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, _ = parsimon(t, "topology", file, "--format", "json")
	var answer struct {
		Hosts, Switches, Cables int
		Faults                  []format.Fault
		Description             *topology.Description
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != exitFailed {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	if len(answer.Faults) != 12 || answer.Faults[0].Line != 6 || answer.Faults[0].File != file ||
		answer.Hosts != 6 || answer.Switches != 5 || answer.Description != nil {
		t.Errorf("%+v", answer)
	}
}

func TestTopologyJSON(t *testing.T) {
	out := must(t, "topology", topologyFixture(t, "cabling.csv"), "--format", "json")
	var answer map[string]any
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	if answer["hosts"] != 12.0 || answer["switches"] != 6.0 || answer["cables"] != 20.0 ||
		len(answer["faults"].([]any)) != 0 {
		t.Errorf("%v", answer)
	}
}

// The effect of the options is written as tables, which every command reads.
func TestTopologyWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net")
	args := []string{"topology", topologyFixture(t, "layer1_topology.json"), "--speed", "spine*=100G",
		"--speed", "*=25G", "--write", dir, "--default-delay", "500ns"}
	must(t, args...)
	l, err := format.Load(dir, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Usable(); err != nil || len(n.Hosts()) != 4 || n.Links[0].DelayNS != 500 {
		t.Errorf("%+v, %v", n, err)
	}
	missing := filepath.Join(t.TempDir(), "none")
	code, _, log := parsimon(t, "topology", topologyFixture(t, "layer1_topology.json"), "--write", missing)
	if code != exitFailed || !strings.Contains(log, "nothing written to "+missing) {
		t.Errorf("exit %d: %s", code, log)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a topology with faults was written")
	}
}

func TestTopologyUsage(t *testing.T) {
	file := topologyFixture(t, "cabling.csv")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "an argument is missing", nil},
		{exitUsage, `"xml" for "--format"`, []string{file, "--format", "xml"}},
		{exitUsage, `speed rule "leaf"`, []string{file, "--speed", "leaf"}},
		{exitUsage, `"--default-delay" flag: is`, []string{file, "--default-delay", "soon"}},
		{exitUsage, `--repair "all"`, []string{file, "--repair", "all"}},
		{exitFailed, "shipped topologies: ", []string{"nowhere.csv"}},
		{exitFailed, "no known format", []string{filepath.Join("..", "..", "..", "go.mod")}},
	} {
		code, _, log := parsimon(t, append([]string{"topology"}, c.args...)...)
		if code != c.code || !strings.Contains(log, c.want) {
			t.Errorf("%v: exit %d, %s; want %d, %q", c.args, code, log, c.code, c.want)
		}
	}
	out := must(t, "help", "topology")
	for _, d := range format.Docs() {
		if !strings.Contains(out, strings.ToUpper(d[0])) || !strings.Contains(out, d[1]) {
			t.Errorf("the manual does not document %s", d[0])
		}
	}
}
