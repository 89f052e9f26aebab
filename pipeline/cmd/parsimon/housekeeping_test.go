package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/summary"
	"parsimon/schema"
)

// parseJSON runs a command line that has to print JSON.
func parseJSON[T any](t *testing.T, args ...string) (answer T) {
	t.Helper()
	out := must(t, args...)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return answer
}

type usage struct {
	Bytes     int64 `json:"bytes"`
	Scenarios []struct {
		ID     string           `json:"id"`
		Own    int64            `json:"own_bytes"`
		Tables map[string]int64 `json:"tables"`
	} `json:"scenarios"`
}

// du counts the contents of the lake, rm removes it, and --dry-run removes nothing.
func TestUsageAndRemove(t *testing.T) {
	everyThirdDay(t, 0)
	withViews(t)
	t.Parallel()
	r := copiedLake(t)
	u := parseJSON[usage](t, "du", "--lake", r.lake, "--format", "json")
	if len(u.Scenarios) != 1 || u.Scenarios[0].ID != r.id || u.Scenarios[0].Tables["slowdowns"] <= 0 ||
		u.Scenarios[0].Own > u.Bytes {
		t.Fatalf("du %+v", u)
	}
	contains(t, must(t, "du", "--lake", r.lake), r.id, "tiny", "tables and state")
	before := files(t, r.lake)
	contains(t, must(t, "rm", "tiny", "--lake", r.lake, "--dry-run"), "would remove "+r.id, "would remove 1,")
	after := files(t, r.lake)
	if len(after) != len(before) {
		t.Errorf("--dry-run: %d files, %d before", len(after), len(before))
	}
	removed := parseJSON[[]struct {
		ID  string `json:"id"`
		Own int64  `json:"own_bytes"`
	}](t, "rm", r.id, "--lake", r.lake, "--format", "json")
	if len(removed) != 1 || removed[0].ID != r.id || removed[0].Own != u.Scenarios[0].Own {
		t.Errorf("removed %+v, du said %+v", removed, u)
	}
	for path := range files(t, r.lake) {
		if strings.HasSuffix(path, ".parquet") {
			t.Errorf("%s is left", path)
		}
	}
	u = parseJSON[usage](t, "du", "--lake", r.lake, "--format", "json")
	if len(u.Scenarios) != 0 {
		t.Errorf("du after rm: %+v", u)
	}
	mustFail(t, failure{exitFailed, "holds no scenario", []string{"rm", "tiny", "--lake", r.lake}})
}

// A scenario that shares its base's files keeps them when the base is removed.
func TestRemoveBase(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	r := copiedLake(t)
	must(t, "what-if", "tiny", "--scale", "web=0.5", "--name", "half", "--passes", "1", "--lake", r.lake, "-q")
	must(t, "rm", "tiny", "--lake", r.lake)
	contains(t, must(t, "status", "--lake", r.lake), "complete  half")
	sql := "SELECT count(*) > 0 AS some FROM slowdowns"
	got := ask(t, r.lake, sql)
	if got != "some\ntrue\n" {
		t.Errorf("slowdowns of the other scenario: %s", got)
	}
}

func TestVersion(t *testing.T) {
	v := parseJSON[map[string]any](t, "version", "--format", "json")
	if v["schema_version"] != float64(schema.Version) || v["method_version"] != float64(pipeline.MethodVersion) {
		t.Errorf("%v", v)
	}
	for _, key := range []string{"version", "commit", "commit_time", "go"} {
		if text, ok := v[key].(string); !ok || text == "" {
			t.Errorf("no %s in %v", key, v)
		}
	}
	contains(t, must(t, "version"), "parsimon ", "lake schema ", "method ")
	mustFail(t, failure{exitUsage, "--format", []string{"version", "--format", "xml"}})
}

// The JSON of run contains the percentiles. If a condition of --fail-if is true, the command prints the
// answer and exits with 3.
func TestGates(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	r := tinyLake(t)
	run := []string{"run", r.scenario, "--lake", r.lake, "--passes", "2", "-q", "--format", "json"}
	result := parseJSON[summary.Result](t, append(run, "--fail-if", "p99_slowdown < 1")...)
	if result.ScenarioID != r.id || result.Flows != 3000 || len(result.Percentiles) == 0 {
		t.Errorf("result %+v", result)
	}
	if len(result.Gates) != 1 || result.Gates[0].Failed {
		t.Errorf("gates %+v", result.Gates)
	}
	gated := append(run, "--fail-if", "service=web p50_slowdown >= 1", "--fail-if", "tier=host-tor load > 0%")
	code, out, log := parsimon(t, append(gated, "--fail-if", "p99_slowdown < 1")...)
	if code != exitGate || !strings.Contains(log, "'tier=host-tor load > 0%': the value is ") ||
		!strings.Contains(log, "--fail-if 'service=web p50_slowdown >= 1': the value is") {
		t.Errorf("exit %d, %s", code, log)
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Gates) != 3 ||
		!result.Gates[0].Failed {
		t.Errorf("gates %+v, %v", result.Gates, err)
	}
	mustFail(t,
		failure{exitUsage, "not a condition", append(run, "--fail-if", "slow")},
		failure{exitUsage, "selects by service twice",
			append(run, "--fail-if", "service=web service=db p99_slowdown > 1")},
		failure{exitUsage, "needs a base", append(run, "--fail-if", "p99_change > 1%")},
		failure{exitFailed, `no links have link "a:b"; there are `, append(run, "--fail-if", "link=a:b load > 1")},
		failure{exitFailed, "nobody", append(run, "--fail-if", "service=nobody p99_slowdown > 1")},
		failure{exitFailed, "is compared with itself (SCENARIO@VARIANT names another: ",
			[]string{"compare", r.id, r.id + "@flow", "--lake", r.lake}})
}

// Scripts depend on the JSON answer of a sweep of parameters, which has one run for every combination. A
// sweep whose rows hide that a link was overloaded, or that flows missed the load they were drawn for, leads
// to wrong conclusions. Each row has the load and the warnings that a run of its scenario states.
func TestSweepJSON(t *testing.T) {
	everyThirdDay(t, 2)
	t.Parallel()
	lake := filepath.Join(t.TempDir(), "lake")
	scenario := tinyScenario(t, "")
	args := []string{"sweep", scenario, "--set", "load.max=20%,90%", "--set",
		"workload.flows_count=600,3000", "--estimator", "independent", "--lake", lake, "-q"}
	metrics := filepath.Join(t.TempDir(), "sweep.prom")
	sweep := parseJSON[struct {
		Runs []map[string]any `json:"runs"`
	}](t, append(args, "--format", "json", "--metrics-file", metrics)...)
	if len(sweep.Runs) != 4 {
		t.Fatalf("%d runs, want 4", len(sweep.Runs))
	}
	ids := map[any]bool{}
	for i, r := range sweep.Runs {
		ids[r["scenario_id"]] = true
		want := map[string]any{"load.max": []string{"20%", "90%"}[i/2], "workload.flows_count": []string{
			"600", "3000"}[i%2]}
		if !reflect.DeepEqual(r["settings"], want) {
			t.Errorf("run %d has settings %v, want %v", i, r["settings"], want)
		}
		before := 1.0
		for _, key := range []string{"p50", "p90", "p99", "p999"} {
			x, ok := r[key].(float64)
			if !ok || x < before {
				t.Errorf("run %d: %s is %v, and the percentile below it %v", i, key, r[key], before)
			}
			before = x
		}
	}
	if len(ids) != 4 {
		t.Errorf("scenarios %v", ids)
	}
	warnings := ""
	for i, load := range []string{"20%", "90%"} {
		run := parseJSON[map[string]any](t, "run", scenario, "--lake", lake, "-q", "--estimator", "independent",
			"--set", "load.max="+load, "--format", "json")
		row := sweep.Runs[2*i+1]
		reached, _ := run["load"].(map[string]any)["reached"].(float64)
		if reached <= 0 || !reflect.DeepEqual(row["load"], run["load"]) ||
			!reflect.DeepEqual(row["warnings"], run["warnings"]) {
			t.Errorf("load %s: the sweep has %v and %v, the run %v and %v", load, row["load"], row["warnings"],
				run["load"], run["warnings"])
		}
		warnings += fmt.Sprint(run["warnings"])
	}
	id := sweep.Runs[0]["scenario_id"].(string)
	mustFail(t, failure{exitUsage, "balance, add-cable, fail, bandwidth.CABLES",
		[]string{"sweep", id, "--set", "workload.max_load=20%", "--lake", lake}})
	type search struct {
		Runs  []map[string]any `json:"runs"`
		Found *struct {
			Settings map[string]string `json:"settings"`
		} `json:"found"`
	}
	find := []string{"sweep", id, "--set", "scale.web=2,1.5,1", "--estimator", "independent", "--lake", lake,
		"-q", "--format", "json", "--until"}
	first := parseJSON[search](t, append(find, "p99_slowdown < 1000")...)
	if first.Found == nil ||
		first.Found.Settings["scale.web"] != "2" || len(first.Runs) != 2 {
		t.Errorf("the first of three values has the condition: %+v", first)
	}
	none := parseJSON[search](t, append(find, "service=web p99_slowdown < 1")...)
	if none.Found != nil || len(none.Runs) != 2 {
		t.Errorf("no value has the condition: %+v", none)
	}
	text, err := os.ReadFile(metrics)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(text), `parsimon_exit_code{job="sweep",command="sweep"} 0`)
	// The table of the same sweep, whose runs are complete, names the report of its slowest run.
	table := must(t, args...)
	_, next, found := strings.Cut(table, "Next:\n  parsimon report ")
	id, _, _ = strings.Cut(next, " ")
	if !found || !ids[id] || !strings.HasPrefix(table, "load.max  workload.flows_count  ") {
		t.Errorf("the table is\n%s", table)
	}
	contains(t, table, "load_asked", "0.2000", "0.9000")
	if !strings.Contains(warnings, "overload: ") || !strings.Contains(table, "overload") {
		t.Errorf("no link is overloaded:\n%s\n%s", table, warnings)
	}
	mustFail(t, failure{exitFailed, "--max-runs allows 3", append(args, "--max-runs", "3")})
}

// Every command that takes a scenario of the lake exits 1 for an unknown one, and names it.
func TestUnknownScenario(t *testing.T) {
	r := tinyLake(t)
	const name = "nowhere"
	for _, args := range [][]string{
		{"what-if", name, "--scale", "web=2"}, {"compare", "tiny", name},
		{"sweep", name, "--fail", "each:fabric-spine"},
		{"report", name, "--output", filepath.Join(t.TempDir(), "r.html")}, {"rm", name},
		{"validate", "--scenario", name}, {"stage", "route", "--scenario", name},
		{"query", "slowdown_by_size", "--param", "scenario=" + name},
	} {
		mustFail(t, failure{exitFailed, name, append(args, "--lake", r.lake)})
	}
}

// A flipped byte in a committed file exits 5 from status, which names the file.
func TestFlippedByte(t *testing.T) {
	everyThirdDay(t, 0)
	t.Parallel()
	r := copiedLake(t)
	parts, err := filepath.Glob(filepath.Join(r.lake, "link_stats", "*", "*", "part-*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("no files: %v", err)
	}
	data, err := os.ReadFile(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	writeFiles(t, map[string]string{parts[0]: string(data)})
	code, out, log := parsimon(t, "status", "--lake", r.lake)
	if code != exitDamaged || !strings.Contains(log, "scenario "+r.id+" is damaged") {
		t.Errorf("exit %d, %s", code, log)
	}
	contains(t, out, parts[0]+": its bytes are not those that were committed")
}
