package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Every command has a manual on stdout, by "help CMD" and by --help, and exits 0. The first screen lists it.
func TestManuals(t *testing.T) {
	overview := must(t, "help")
	if must(t, "--help") != overview {
		t.Error("help and --help differ")
	}
	for _, c := range newEnv(nil, nil).commands() {
		if c.group != "" && !strings.Contains(overview, "\n  "+c.name+" ") {
			t.Errorf("the overview does not list %s", c.name)
		}
		page := must(t, "help", c.name)
		if must(t, c.name, "--help") != page {
			t.Errorf("%s: help and --help differ", c.name)
		}
		if len(readPage(c.name).first) > 0 {
			contains(t, page, "\nCommon flags (\"parsimon "+c.name+" --help-all\" lists all):\n      --lake")
			page = must(t, c.name, "--help-all")
		}
		contains(t, page, "Usage:\n  parsimon "+c.name, "Logs and help:", "--quiet")
	}
	for _, topic := range topics {
		page := must(t, "help", topic)
		if !strings.Contains(page, readPage("topic-"+topic).summary) {
			t.Errorf("topic %s: %s", topic, page)
		}
	}
}

// Without an exact list of the flags, a flag that nobody needs could be added unnoticed. run had 67 flags,
// and now has this many.
func TestFlagsOfRun(t *testing.T) {
	const most = 60
	e := newEnv(nil, nil)
	run, _, err := e.rootCommand().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	run.LocalNonPersistentFlags().VisitAll(func(*pflag.Flag) { n++ })
	if n > most {
		t.Errorf("run has %d flags, at most %d are allowed", n, most)
	}
}

// The shell completes commands, values of flags, and the names of shipped scenarios and of those in a lake.
func TestCompletion(t *testing.T) {
	r := tinyLake(t)
	for want, line := range map[string][]string{
		"what-if\t": {""}, "exact\n": {"run", "--estimator", ""}, "slowdown_by_size\t": {"query", ""},
		"small\n": {"run", ""}, "tiny\t" + r.id: {"what-if", "--lake", r.lake, ""}, "intervals\n": {"stage", ""},
		"events\t": {"help", ""}, "hop_contributions\t": {"schema", ""}, "parking-lot\n": {"topology", ""},
	} {
		contains(t, must(t, append([]string{"__complete"}, line...)...), want)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		contains(t, must(t, "completion", shell), "parsimon")
	}
	// If these succeeded, "source <(parsimon completion tcsh)" would run a help text as commands.
	mustFail(t, failure{exitUsage, "give a shell", []string{"completion"}},
		failure{exitUsage, "parsimon completion: unknown command", []string{"completion", "tcsh"}},
		failure{exitUsage, "parsimon completion bash: ", []string{"completion", "bash", "more"}})
}

// Engines for many machines belong to other programs, which link them.
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

// A wrong command line exits with 2 and a failure with 1. Both report the reason on stderr, and nothing on
// stdout.
func TestExitCodes(t *testing.T) {
	withViews(t)
	lake := t.TempDir()
	mustFail(t, []failure{
		{exitUsage, "Estimate:", nil},
		{exitUsage, `unknown command "fly"`, []string{"fly"}},
		{exitUsage, "--lake is required", []string{"run", "small"}},
		{exitFailed, "lake main_test.go is not a directory", []string{"run", "small", "--lake", "main_test.go"}},
		{exitUsage, "unknown flag", []string{"run", "small", "--lake", lake, "--bogus"}},
		{exitUsage, "--estimator", []string{"run", "small", "--lake", lake, "--estimator", "guess"}},
		{exitUsage, "want a size", []string{"run", "small", "--lake", lake, "--switch-buffer", "much"}},
		{exitUsage, "switches.buffer is 1000 bytes, must hold a packet",
			[]string{"run", "small", "--lake", lake, "--switch-buffer", "1KB"}},
		{exitUsage, "--passes applies to estimator flow", []string{"run", "small", "--lake", lake,
			"--estimator", "exact", "--passes", "2"}},
		{exitUsage, `no estimator "auto"`, []string{"stage", "simulate", "--lake", lake, "--estimator", "auto"}},
		{exitUsage, "--cluster goes with --estimator independent", []string{"run", "small", "--lake", lake,
			"--estimator", "exact", "--cluster"}},
		{exitUsage, "--set switches.retransmit_timeout: has no buffer",
			[]string{"run", "small", "--lake", lake, "--exact", "--set", "switches.retransmit_timeout=1ms"}},
		{exitUsage, "--pfc: has no buffer", []string{"run", "small", "--lake", lake, "--pfc"}},
		{exitUsage, "reserve and PFC headroom",
			[]string{"run", "small", "--lake", filepath.Join(t.TempDir(), "pfc"), "--switch-buffer", "20KB",
				"--pfc", "--duration", "1ms"}},
		{exitUsage, "--wait", []string{"run", "small", "--lake", lake, "--wait", "-1s"}},
		{exitUsage, "--workers", []string{"run", "small", "--lake", lake, "--workers", "-1"}},
		{exitUsage, "--topology and --flows", []string{"run", "--lake", lake}},
		{exitUsage, "--max-rejects", []string{"run", "small", "--lake", lake, "--max-rejects", "110%"}},
		{exitUsage, "--memory-limit", []string{"run", "small", "--lake", lake, "--memory-limit", "lots"}},
		{exitUsage, "--shard", []string{"stage", "simulate", "--lake", lake, "--shard", "4/4"}},
		{exitUsage, "--log-level", []string{"run", "small", "--lake", lake, "--log-level", "loud"}},
		{exitUsage, "one of the two", []string{"query", "--lake", lake}},
		{exitUsage, "slowdown_by_size", []string{"query", "slowdown_by_siz", "--lake", lake}},
		{exitUsage, "--param", []string{"query", "slowdown_by_size", "--lake", lake, "--param", "x"}},
		{exitFailed, "no-such.yaml", []string{"run", "no-such.yaml", "--lake", lake}},
		{exitFailed, "no tables", []string{"query", "slowdown_by_size", "--lake", lake}},
		{exitFailed, "missing", []string{"status", "--lake", filepath.Join(lake, "missing")}},
		{exitFailed, "is no lake", []string{"status", "--lake", t.TempDir()}},
		{exitFailed, "is no lake", []string{"du", "--lake", t.TempDir()}},
		{exitFailed, "is no lake", []string{"rm", "--older-than", "1d", "--lake", t.TempDir()}},
		{exitUsage, `is "0", must be above 0: --fail a:b takes it down`,
			[]string{"what-if", "small", "--lake", lake, "--bandwidth", "a:b=0"}},
		{exitFailed, "holds no scenario", []string{"stage", "route", "--lake", lake}},
		{exitFailed, "f.csv",
			[]string{"run", "--lake", lake, "--topology", "no-topology.json", "--flows", "f.csv"}},
		{exitFailed, "no-topology.json",
			[]string{"run", "--lake", lake, "--topology", "no-topology.json", "--flows", "main_test.go"}},
		{exitFailed, "none", []string{"bench-kernel", "--cases", filepath.Join(lake, "none")}},
	}...)
}
