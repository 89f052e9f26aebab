package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeSteadyTrace writes flows of 1 to 10 KB of two services among the 32 hosts of the first racks of
// topology small, over a number of ms.
func writeSteadyTrace(t *testing.T, flows int, ms int64) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	text := []byte("src,dst,size_bytes,start_ns,service\n")
	for range flows {
		src := random.IntN(32)
		text = fmt.Appendf(text, "%d,%d,%d,%d,%s\n", src, (src+1+random.IntN(31))%32, 1000+random.IntN(9000),
			random.Int64N(ms*1e6), []string{"web", "storage"}[random.IntN(2)])
	}
	path := filepath.Join(t.TempDir(), "flows.csv")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Tables of an estimate from exact windows stay, and the same command finds them.
func TestWithinExactStays(t *testing.T) {
	dir := t.TempDir()
	flows := writeSteadyTrace(t, 20_000, 200)
	args := []string{"run", "--topology", "small-2to1", "--flows", flows, "--lake", dir, "--estimator", "exact",
		"--within", "50%", "--of", "p50"}
	if info, err := os.Stat(flows); err != nil || os.Truncate(flows, info.Size()-1) != nil { // the last line end
		t.Fatal(err)
	}
	for range 2 {
		code, out, log := parsimon(t, args...)
		if code != exitOK || strings.Contains(log, "damaged") {
			t.Fatalf("exit %d, %s", code, log)
		}
		contains(t, out, "warning: flows: "+flows+" does not end with a line end")
		contains(t, must(t, "query", "sampled_percentiles", "--lake", dir), "exact-sampled-")
		contains(t, must(t, "status", "--lake", dir), "complete", "combine (exact-sampled-")
	}
}

// Scripts read the interval of every entry of percentiles, sampled_share and windows of an estimate from
// windows.
func TestWithinJSON(t *testing.T) {
	long(t)
	dir := t.TempDir()
	flows := writeSteadyTrace(t, 60_000, 600)
	var out struct {
		Percentiles []struct {
			SizeBin string   `json:"size_bin"`
			Flows   int64    `json:"flows"`
			P99     float64  `json:"p99"`
			P99Lo   *float64 `json:"p99_lo"`
			P99Hi   *float64 `json:"p99_hi"`
		} `json:"percentiles"`
		Stopped      string   `json:"stopped"`
		SampledShare *float64 `json:"sampled_share"`
		Simulated    float64  `json:"simulated_share"`
		Windows      *int     `json:"windows"`
		Goals        []struct {
			Group     string  `json:"group"`
			HalfWidth float64 `json:"half_width"`
			Reached   bool    `json:"reached"`
		} `json:"goals"`
	}
	args := []string{"run", "--topology", "small-2to1", "--flows", flows, "--lake", dir,
		"--within", "20%", "--of", "p99", "--by", "service", "--confidence", "95%", "--budget", "5m"}
	if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), &out); err != nil {
		t.Fatal(err)
	}
	if out.SampledShare == nil || out.Windows == nil || !(*out.SampledShare > 0 && *out.SampledShare < 0.6) ||
		*out.Windows < 16 {
		t.Fatalf("stopped %s, sampled_share %v, windows %v", out.Stopped, *out.SampledShare, *out.Windows)
	}
	if out.Simulated <= *out.SampledShare {
		t.Errorf("simulated_share is %v, of it sampled %v", out.Simulated, *out.SampledShare)
	}
	for _, p := range out.Percentiles {
		if p.P99Lo == nil || p.P99Hi == nil || !(1 <= *p.P99Lo && *p.P99Lo <= p.P99 && p.P99 <= *p.P99Hi &&
			*p.P99Lo < *p.P99Hi) {
			t.Errorf("size %s: p99 %v, p99_lo %v, p99_hi %v", p.SizeBin, p.P99, p.P99Lo, p.P99Hi)
		}
	}
	last := out.Percentiles[len(out.Percentiles)-1]
	if last.SizeBin != "all" || last.Flows != 60_000 {
		t.Errorf("last entry %+v, want that of all 60,000 flows", last)
	}
	if len(out.Goals) != 2 {
		t.Fatalf("goals %+v, want one for each service", out.Goals)
	}
	for _, g := range out.Goals {
		if g.Reached != (g.HalfWidth <= 0.2) || !g.Reached {
			t.Errorf("goal %+v", g)
		}
	}
	text := must(t, args...)
	contains(t, text, fmt.Sprintf("sampled, %d windows, ", *out.Windows), "service storage", "reached",
		"all 2 asked intervals are within ±20%")
	contains(t, must(t, "query", "sampled_percentiles", "--lake", dir),
		fmt.Sprintf("sampled, %d windows, ", *out.Windows), "storage")
	contains(t, must(t, "query", "--lake", dir, "--sql", "SELECT count(*) AS n FROM windows"),
		fmt.Sprint(*out.Windows))
	_, _, hint := parsimon(t, "query", "slowdown_by_service", "--lake", dir)
	contains(t, hint, "is estimated from windows of time", "question sampled_percentiles")
	gated := must(t, append(args, "--format", "json", "--fail-if", "service=storage p99_slowdown > 1000")...)
	contains(t, gated, `"gate": "service=storage p99_slowdown > 1000"`, `"lo": `, `"failed": false`)
	failsGate(t, "--fail-if 'service=storage p99_slowdown > 1': the value is",
		append(args, "--fail-if", "service=storage p99_slowdown > 1")...)
	mustFail(t, failure{exitFailed, "no flow in windows is of service nosuch",
		append(args, "--fail-if", "service=nosuch p99_slowdown > 1")},
		failure{exitFailed, "virtual networks of all services and sizes only",
			append(args, "--fail-if", "vnet=v service=storage p99_slowdown > 1")})
	mustFail(t, failure{exitUsage, "--by goes with --within", append(args[:7:7], "--by", "service")},
		failure{exitFailed, "no flow belongs to service=nosuch", append(args, "--by", "service=nosuch")},
		failure{exitUsage, "--within simulates windows packet by packet", append(args, "--estimator", "flow")})

	// Both the estimate of the whole workload and that from windows are in the lake. Questions about one of
	// them name the other.
	must(t, append(args[:7:7], "--estimator", "exact", "--quiet")...)
	_, _, hint = parsimon(t, "query", "--lake", dir, "--sql", "SELECT * FROM windows")
	contains(t, hint, "the last run estimated the whole (exact)", "views windows_all", "@exact-sampled-")
	contains(t, must(t, args...), "the estimate of the whole is in the lake, too: ", "@exact\n")
	_, _, hint = parsimon(t, "query", "slowdown_by_service", "--lake", dir)
	contains(t, hint, "the estimate of the whole is in the lake", "@exact,")
}

// failsGate runs a command that answers, and fails by a gate.
func failsGate(t *testing.T, want string, args ...string) {
	t.Helper()
	code, out, log := parsimon(t, args...)
	if code != exitGate || out == "" || !strings.Contains(log, want) {
		t.Errorf("exit %d, %s", code, log)
	}
}

// A what-if by windows compares the same windows of both scenarios, and so does compare.
func TestWhatIfWithin(t *testing.T) {
	long(t)
	dir := t.TempDir()
	flows := writeSteadyTrace(t, 20_000, 600)
	var out struct {
		Windows int    `json:"windows"`
		Stopped string `json:"stopped"`
		Changes []struct {
			Group    string  `json:"group"`
			Quantile float64 `json:"quantile"`
			Change   float64 `json:"change"`
			Lo       float64 `json:"change_lo"`
			Hi       float64 `json:"change_hi"`
		} `json:"percentiles"`
		Other struct {
			ScenarioID string `json:"scenario_id"`
		} `json:"other"`
	}
	must(t, "stage", "generate", "--topology", "small-2to1", "--flows", flows, "--lake", dir)
	how := []string{"--lake", dir, "--within", "20%", "--format", "json"}
	text := must(t, append([]string{"what-if", "flows", "--bandwidth", "tor-fabric=20Gbps"}, how...)...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	if out.Windows < 16 || out.Stopped != "precise" {
		t.Fatalf("%d windows, %s", out.Windows, out.Stopped)
	}
	for _, x := range out.Changes {
		if x.Lo > x.Change || x.Hi < x.Change {
			t.Errorf("%+v: the interval leaves out the change", x)
		}
	}
	failsGate(t, "--fail-if 'p99_change > -99%': the value is",
		append([]string{"compare", "flows", out.Other.ScenarioID, "--fail-if", "p99_change > -99%"}, how...)...)
	again := must(t, append([]string{"compare", "flows", out.Other.ScenarioID}, how...)...)
	var same struct {
		Windows int `json:"windows"`
	}
	if err := json.Unmarshal([]byte(again), &same); err != nil || same.Windows != out.Windows {
		t.Errorf("compare: %d windows (%v), want %d", same.Windows, err, out.Windows)
	}
}

// A trace that arrives in hourly files is queried after every hour. Each answer covers all hours so far, from
// windows.
func TestHourlyIngest(t *testing.T) {
	if os.Getenv("PARSIMON_LONG") == "" {
		t.Skip("takes half a minute: make sampling-test")
	}
	const hours, hourMS, flows = 3, 300, 30_000
	dir := t.TempDir()
	lake := filepath.Join(t.TempDir(), "lake")
	shares := []float64{}
	for hour := range hours {
		random := rand.New(rand.NewPCG(1, uint64(hour)))
		text := []byte("src,dst,size_bytes,start_ns,service\n")
		for range flows {
			src := random.IntN(32)
			text = fmt.Appendf(text, "%d,%d,%d,%d,web\n", src, (src+1+random.IntN(31))%32, 1000+random.IntN(9000),
				1e9+int64(hour)*hourMS*1e6+random.Int64N(hourMS*1e6))
		}
		file := filepath.Join(dir, fmt.Sprintf("hour%d.csv", hour))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, "ingest", file, "--topology", "small-2to1", "--workload", "trace", "--lake", lake, "-q")
		var out struct {
			Flows        int64   `json:"flows"`
			Stopped      string  `json:"stopped"`
			SampledShare float64 `json:"sampled_share"`
		}
		answer := must(t, "run", "--workload", "trace", "--topology", "small-2to1", "--lake", lake,
			"--within", "30%", "--of", "p90", "--format", "json", "-q")
		if err := json.Unmarshal([]byte(answer), &out); err != nil {
			t.Fatal(err)
		}
		want := int64(flows * (hour + 1))
		if out.Flows != want {
			t.Errorf("after %d hours the answer is of %d flows, want %d", hour+1, out.Flows, want)
		}
		shares = append(shares, out.SampledShare)
	}
	last := shares[hours-1]
	if !(last < shares[0]) || last > 0.3 {
		t.Errorf("shares %v of the flows were sampled, want a lower one with every hour", shares)
	}
}
