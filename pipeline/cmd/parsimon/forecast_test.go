package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"parsimon/pipeline/whatif"
	"parsimon/schema/daily"
)

// Without a dry run, the time of a run would be known only afterwards. It writes no lake, and names the
// estimator that the run then uses. Its load is that of the flows without headers, as the requested load is.
func TestDryRunNamesTheEstimator(t *testing.T) {
	scenario := tinyScenario(t, "")
	lake := filepath.Join(t.TempDir(), "lake")
	args := []string{"run", scenario, "--lake", lake, "--format", "json", "-q"}
	var p prediction
	if err := json.Unmarshal([]byte(must(t, append(args, "--dry-run", "--cores", "8")...)), &p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lake); !os.IsNotExist(err) {
		t.Errorf("the dry run made a lake: %v", err)
	}
	if len(p.Estimators) != 3 || p.Flows != 3000 || p.Cores != 8 || p.Reason == "" || p.MaxLoad <= 0 ||
		p.AskedLoad != 0.4 || p.PeakBytes < 200e6 || p.PeakBytes > 300e6 {
		t.Errorf("%+v", p)
	}
	var answer struct{ Variant string }
	if err := json.Unmarshal([]byte(must(t, args...)), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Variant != p.Estimator {
		t.Errorf("the run takes %s, the dry run said %s", answer.Variant, p.Estimator)
	}
	_, load, _ := strings.Cut(must(t, "query", "--lake", lake, "--format", "csv", "--sql",
		"SELECT max(bytes * 8e9 / bandwidth_bps) / (SELECT max(start_ns) - min(start_ns) FROM flows) "+
			"FROM link_stats"), "\n")
	want, err := strconv.ParseFloat(strings.TrimSpace(load), 64)
	if err != nil || math.Abs(p.MaxLoad/want-1) > 1e-9 {
		t.Errorf("load of the most loaded link: %v, want %v (%v)", p.MaxLoad, want, err)
	}
	mustFail(t, failure{exitUsage, "--cores goes with --dry-run", []string{"run", scenario, "--lake", lake,
		"--cores", "3"}}, failure{exitUsage, "--dry-run does not go with --within",
		append(args, "--dry-run", "--within", "5%")})
}

// Flag --set of run changes parts of a scenario file, as that of sweep does. Without this, a setting of one
// service was refused because "the file has no services".
func TestSetChangesPartsOfAFile(t *testing.T) {
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.yaml")
	writeFiles(t, map[string]string{changed: strings.NewReplacer("sigma: 2", "sigma: 1", "host_delay: 1us",
		"host_delay: 2us").Replace(tinyText)})
	id := func(args ...string) string {
		var p prediction
		args = append(args, "--dry-run", "--lake", dir, "--format", "json", "-q")
		if err := json.Unmarshal([]byte(must(t, append([]string{"run"}, args...)...)), &p); err != nil {
			t.Fatal(err)
		}
		return p.ScenarioID
	}
	scenario := tinyScenario(t, "")
	got := id(scenario, "--set", "workload.services[1].sigma=1", "--set", "topology.clos.host_delay=2us")
	want := id(changed)
	if got != want {
		t.Errorf("scenario %s, that of the changed file is %s", got, want)
	}
	mustFail(t,
		failure{exitUsage, "the file has no services[5]", []string{"run", scenario, "--lake", dir, "--set",
			"workload.services[5].sigma=1"}},
		failure{exitUsage, "services has none of the name db", []string{"run", scenario, "--lake", dir, "--set",
			"workload.services.db.sigma=1"}})
}

// A run reports its expected time before it begins. A run that is already complete reports none. The short
// form has one estimator each day.
func TestRunSaysHowLongItTakes(t *testing.T) {
	scenario := tinyScenario(t, "")
	lake := filepath.Join(t.TempDir(), "lake")
	for i, estimator := range []string{"auto", "flow", "independent"} {
		if daily.Skips(i, 3) {
			continue
		}
		args := []string{"run", scenario, "--lake", lake, "--estimator", estimator, "--log-format", "json"}
		for _, want := range []int{1, 0} {
			_, _, log := parsimon(t, args...)
			got := strings.Count(log, `"cpu_seconds":`) - strings.Count(log, `"stage":`)
			if got != want {
				t.Errorf("estimator %s: %d forecasts, want %d:\n%s", estimator, got, want, log)
			}
		}
	}
}

// A workload of the lake is predicted too, and its lake does not change.
func TestDryRunOfAWorkload(t *testing.T) {
	tr := newTrace(t)
	must(t, append(tr.args(tr.lake, tr.first), "--workload", "day", "-q")...)
	before := files(t, tr.lake)
	contains(t, must(t, "run", "--workload", "day", "--lake", tr.lake, "--dry-run", "-q"), "(day)",
		"--estimator auto takes")
	for path := range files(t, tr.lake) {
		if _, known := before[path]; !known && strings.HasSuffix(path, ".parquet") {
			t.Errorf("the dry run left %s", path)
		}
	}
}

// Without a dry run, the time of a sweep would be known only after its first run. The forecast has every
// combination, with the truth if it is asked for, and writes no lake.
func TestDryRunOfASweep(t *testing.T) {
	scenario := tinyScenario(t, "")
	lake := filepath.Join(t.TempDir(), "lake")
	args := []string{"sweep", scenario, "--lake", lake, "-q", "--format", "json", "--dry-run", "--cores", "3",
		"--set", "load.max=20%,40%", "--set", "seed=1,2"}
	forecast := func(more ...string) (f whatif.ParametersForecast) {
		if err := json.Unmarshal([]byte(must(t, append(args, more...)...)), &f); err != nil {
			t.Fatal(err)
		}
		if len(f.Runs) != 4 || f.AtOnce != 3 || f.Cores != 3 || f.DiskBytes == 0 {
			t.Fatalf("%+v", f)
		}
		return f
	}
	flow := forecast("--estimator", "flow")
	both := forecast("--exact")
	exact := forecast("--estimator", "exact")
	sum := 0.0
	for i, r := range flow.Runs {
		asked := []float64{0.2, 0.2, 0.4, 0.4}[i]
		if r.AskedLoad != asked || r.MaxLoad <= 0 || r.Estimator != "flow" || r.Flows != 3000 {
			t.Errorf("run %d: %+v", i, r)
		}
		if both.Runs[i].Estimator != "flow" || both.Runs[i].CPUSeconds <= r.CPUSeconds {
			t.Errorf("run %d with --exact: %+v, without: %+v", i, both.Runs[i], r)
		}
		// Tables that the estimates share count once.
		disk := r.DiskBytes + exact.Runs[i].DiskBytes - both.Runs[i].DiskBytes
		if disk <= 0 || disk >= min(r.DiskBytes, exact.Runs[i].DiskBytes) {
			t.Errorf("run %d: %d bytes are shared, by %+v and %+v", i, disk, r, exact.Runs[i])
		}
		sum += r.Seconds
	}
	if math.Abs(flow.Seconds-sum/3) > 1e-9 {
		t.Errorf("%v s, want a third of %v s", flow.Seconds, sum)
	}
	if _, err := os.Stat(lake); !os.IsNotExist(err) {
		t.Errorf("the dry run made a lake: %v", err)
	}
	var narrow whatif.ParametersForecast // one estimate at a time fits in the memory
	if err := json.Unmarshal([]byte(must(t, append(args, "--memory-limit", "300MiB")...)), &narrow); err != nil {
		t.Fatal(err)
	}
	if narrow.AtOnce != 1 || narrow.MemoryBytes != 300<<20 {
		t.Errorf("with 300 MiB: %+v", narrow)
	}
	mustFail(t, failure{exitUsage, "--dry-run predicts a sweep with --set and without --until",
		[]string{"sweep", scenario, "--lake", lake, "--dry-run", "--fail", "each:tor-fabric"}},
		failure{exitUsage, "--dry-run predicts sweeps of a scenario file",
			[]string{"sweep", "absent", "--lake", lake, "--dry-run", "--set", "seed=1,2"}},
		failure{exitUsage, "--budget does not go with --until", []string{"sweep", scenario, "--lake", lake,
			"--budget", "1m", "--set", "load.max=5%,10%", "--until", "p99_slowdown > 2"}},
		failure{exitFailed, "--budget 1ns is over before the first combination began", []string{"sweep", scenario,
			"--lake", lake, "--budget", "1ns", "--set", "load.max=5%"}})
}
