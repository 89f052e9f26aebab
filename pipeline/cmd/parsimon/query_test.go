package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The resources of a query are limited, and the error names the flag.
func TestQueryLimits(t *testing.T) {
	t.Parallel()
	dir := tinyLake(t).lake
	// one call, little memory
	const endless = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000)) AS n"
	for _, f := range []failure{
		{exitFailed, "the query needs more than 300 MB of memory, and spilling to disk does not suffice: " +
			"raise --memory-limit (Out of Memory",
			[]string{"--memory-limit", "300MB", "--sql", "SELECT len(range(2000000000))"}},
		{exitFailed, "the query took longer than --timeout 500ms",
			[]string{"--timeout", "500ms", "--sql", endless}},
		{exitUsage, "at least 128MiB", []string{"--memory-limit", "1", "--sql", "SELECT 1"}},
		{exitUsage, "at least 128MiB", []string{"--memory-limit=-5", "--sql", "SELECT 1"}},
		{exitUsage, "at least 128MiB", []string{"--memory-limit", "much", "--sql", "SELECT 1"}},
		{exitUsage, "must be above 0", []string{"--timeout", "0s", "--sql", "SELECT 1"}},
		{exitUsage, "--timeout", []string{"--timeout", "soon", "--sql", "SELECT 1"}},
	} {
		f.args = append([]string{"query", "--lake", dir}, f.args...)
		mustFail(t, f)
	}
	// An interrupt ends a query, which would take minutes.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	e := newEnv(&strings.Builder{}, &strings.Builder{})
	code := e.main(ctx, []string{"query", "--lake", dir, "--sql", endless})
	if code == exitOK {
		t.Error("an interrupted query exits 0")
	}
}

// A query that sorts more rows than its memory holds spills to disk. Its temporary files are removed, also
// after a timeout. If the lake cannot be written, the error states that.
func TestQuerySpills(t *testing.T) {
	t.Parallel()
	lake := copiedLake(t).lake
	ask := func(rows string, more ...string) []string {
		return append([]string{"query", "--lake", lake, "--memory-limit", "128MiB", "--format", "csv",
			"--sql",
			"SELECT count(*) AS n FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS r FROM range(" + rows +
				") AS t(i)) WHERE r % 2 = 0"}, more...)
	}
	got := must(t, ask("5000000")...)
	if got != "n\n2500000\n" {
		t.Error(got)
	}
	mustFail(t, failure{exitFailed, "longer than --timeout 1s", ask("5000000000", "--timeout", "1s")})
	temp := filepath.Join(lake, "_tmp")
	if _, err := os.Lstat(temp); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", temp, err)
	}
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, failure{exitFailed, "needs more than 134 MB of memory, and it cannot spill to disk, because " +
		"the lake cannot be written: raise --memory-limit (Out of Memory", ask("5000000")})
}

// A SELECT from a table without rows reports that.
func TestQueryOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	code, _, log := parsimon(t, "query", "--lake", tinyLake(t).lake, "--sql", "SELECT * FROM slowdowns JOIN "+
		"windows_all USING (scenario)")
	if code != exitOK || !strings.Contains(log, "the lake has none of table windows: ") ||
		strings.Contains(log, "slowdowns") {
		t.Errorf("exit %d, %s", code, log)
	}
}

// An unknown scenario or variant is an error that lists those of the lake.
func TestQueryUnknownScenario(t *testing.T) {
	dir := tinyLake(t).lake
	id := tinyLake(t).id
	for param, want := range map[string]string{
		"scenario=TYPO": `no scenario "TYPO" in ` + dir + `; it holds ` + id + ` ("tiny")`,
		"variant=TYPO":  `no variant "TYPO" in the lake; it has flow-`,
	} {
		code, out, log := parsimon(t, "query", "slowdown_by_size", "--lake", dir, "--param", param)
		if code != exitFailed || out != "" || !strings.Contains(log, want) {
			t.Errorf("%s: exit %d, want %q; stdout %q, stderr %s", param, code, want, out, log)
		}
	}
	out := must(t, "query", "slowdown_by_size", "--lake", dir, "--param", "scenario="+id, "--format", "csv")
	if strings.Count(out, id) != 5 {
		t.Errorf("the scenario itself: %s", out)
	}
}

// While another estimate of a scenario is being made, the complete one answers queries.
func TestAnswersBesideAPartialEstimate(t *testing.T) {
	long(t)
	t.Parallel()
	lake := copiedLake(t)
	must(t, "stage", "simulate", "--lake", lake.lake, "--scenario", lake.id, "--estimator", "independent",
		"--shard", "0/2", "--partitions", "4", "-q")
	contains(t, must(t, "status", "--lake", lake.lake), lake.id+"  partial")
	out := must(t, "query", "slowdown_by_size", "--lake", lake.lake, "--param", "scenario="+lake.id,
		"--format", "csv")
	if strings.Count(out, lake.id) != 5 {
		t.Errorf("answer %s", out)
	}
	must(t, "report", lake.id, "--lake", lake.lake, "-o", filepath.Join(t.TempDir(), "report.html"))
}

// Values cannot send control sequences to a terminal, neither in a table nor in an error.
func TestQueryEscapes(t *testing.T) {
	dir := tinyLake(t).lake
	out := must(t, "query", "--lake", dir, "--sql", "SELECT chr(27) || '[2J' || chr(155) AS service")
	if strings.ContainsAny(out, "\x1b\u009b") || !strings.Contains(out, `\x1b[2J\x9b`) {
		t.Errorf("table: %q", out)
	}
	code, _, log := parsimon(t, "query", "--lake", dir, "--sql", "SELECT CAST(chr(27) || '[2J' AS INTEGER)")
	if code != exitFailed || strings.Contains(log, "\x1b") || !strings.Contains(log, `\x1b[2J`) {
		t.Errorf("error: exit %d, %q", code, log)
	}
}
