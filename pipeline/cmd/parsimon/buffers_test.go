package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A bufferCase is a network with limited buffers, and its traffic: Poisson between random hosts, and incasts.
type bufferCase struct {
	name     string
	topology string // of a scenario file
	hosts    int32
	gbps     float64 // of a host
	load     float64
	sizes    func(rng *rand.Rand) float64
	incast   int // this many hosts send incastKB each to one host, twice
	incastKB int64
	switches string
	kind     string // of the transport
	long     bool
}

const (
	twoRacks = "graph: {hosts: [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7], switches: [a, " +
		"b], bandwidth: 25Gbps, delay: 2us, cables: [\"a0:a\", \"a1:a\", \"a2:a\", \"a3:a\", \"a4:a\", \"a5:a\", " +
		"\"a6:a\", \"a7:a\", \"b0:b\", \"b1:b\", \"b2:b\", \"b3:b\", \"b4:b\", \"b5:b\", \"b6:b\", \"b7:b\", " +
		"{ends: \"a:b\", bandwidth: 100Gbps}]}"
	threeTiers = "clos: {pods: 2, racks_per_pod: 4, hosts_per_rack: 8, planes: 2, spines_per_plane: 2, " +
		"host_bandwidth: 25Gbps, fabric_bandwidth: 100Gbps, host_delay: 1us, fabric_delay: 2us}"
)

func small(rng *rand.Rand) float64 { return math.Exp(9.2 + 1.6*rng.NormFloat64()) }

// hadoop draws from the shipped distribution.
func hadoop(rng *rand.Rand) float64 {
	at := 100 * rng.Float64()
	bytes := 0.0
	percent := 0.0
	for line := range strings.Lines(hadoopSizes()) {
		var toBytes, toPercent float64
		n, _ := fmt.Sscan(line, &toBytes, &toPercent)
		if n == 2 {
			if toPercent > at {
				return bytes + (toBytes-bytes)*(at-percent)/(toPercent-percent)
			}
			bytes = toBytes
			percent = toPercent
		}
	}
	return bytes
}

var hadoopSizes = sync.OnceValue(func() string {
	text, err := os.ReadFile(filepath.FromSlash("../../../datasets/sizes/hadoop.txt"))
	if err != nil {
		panic(err)
	}
	return string(text)
})

func bufferCases() []bufferCase {
	var all []bufferCase
	add := func(name, topology string, hosts int32, gbps, load float64, sizes func(*rand.Rand) float64,
		incast int, kb int64, switches, kind string, long bool) {
		all = append(all, bufferCase{name, topology, hosts, gbps, load, sizes, incast, kb, switches, kind, long})
	}
	add("two racks, 12 to 1", twoRacks, 16, 25, 0.1, small, 12, 64, "buffer: 150KB", "dctcp", false)
	add("two racks, 12 to 1, large", twoRacks, 16, 25, 0.1, small, 12, 64, "buffer: 4MB", "dctcp", false)
	add("two racks, 12 to 1, PFC", twoRacks, 16, 25, 0.1, small, 12, 64, "buffer: 300KB, pfc: true", "dctcp",
		true)
	add("two racks, DCQCN", twoRacks, 16, 25, 0.2, small, 6, 200, "buffer: 250KB", "dcqcn", true)
	add("two racks, no incast", twoRacks, 16, 25, 0.4, small, 0, 0, "buffer: 500KB", "dctcp", true)
	add("two racks, Hadoop", twoRacks, 16, 25, 0.3, hadoop, 0, 0, "buffer: 200KB", "dctcp", true)
	add("three tiers, 40 to 1", threeTiers, 64, 25, 0.1, small, 40, 64, "buffer: 400KB", "dctcp", true)
	add("three tiers, 40 to 1, large", threeTiers, 64, 25, 0.1, small, 40, 64, "buffer: 8MB", "dctcp", true)
	add("three tiers, 40 to 1, PFC", threeTiers, 64, 25, 0.1, small, 40, 64, "buffer: 1MB, pfc: true", "dctcp",
		true)
	add("three tiers, Hadoop", threeTiers, 64, 25, 0.3, hadoop, 0, 0, "buffer: 300KB", "dctcp", true)
	add("three tiers, Hadoop, Swift, 20 to 1", threeTiers, 64, 25, 0.2, hadoop, 20, 64, "buffer: 400KB", "swift",
		true)
	add("three tiers, reserved, alpha 4", threeTiers, 64, 25, 0.15, small, 30, 30,
		"buffer: 600KB, alpha: 4, reserved: 2KB", "dctcp", true)
	return all
}

// write writes the scenario file and its flows.
func (c *bufferCase) write(t *testing.T, dir string, switches bool) (file string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(len(c.name)), 41))
	var mean float64
	for range 10_000 {
		mean += max(100, min(1e6, c.sizes(rng))) / 10_000
	}
	lines := []string{"src,dst,size_bytes,start_ns"}
	const lengthNS = 4e6
	gap := mean * 8 / c.gbps / c.load / float64(c.hosts)
	for at := rng.ExpFloat64() * gap; at < lengthNS; at += rng.ExpFloat64() * gap {
		src := rng.Int32N(c.hosts)
		dst := rng.Int32N(c.hosts - 1)
		if dst >= src {
			dst++
		}
		lines = append(lines, fmt.Sprintf("%d,%d,%d,%d", src, dst, int64(max(100, min(1e6, c.sizes(rng)))),
			int64(at)))
	}
	for burst := range int64(2) {
		for _, src := range rng.Perm(int(c.hosts) - 1)[:c.incast] {
			lines = append(lines, fmt.Sprintf("%d,0,%d,%d", src+1, c.incastKB*1000,
				1_000_000*(1+burst)+rng.Int64N(5000)))
		}
	}
	flows := filepath.Join(dir, "flows.csv")
	text := "topology: {" + c.topology + "}\nworkload: {flows: flows.csv}\ntransport: {kind: " + c.kind + "}\n"
	file = filepath.Join(dir, "free.yaml")
	if switches {
		file = filepath.Join(dir, "limited.yaml")
		text = text + "switches: {" + c.switches + "}\n"
	}
	writeFiles(t, map[string]string{flows: strings.Join(lines, "\n") + "\n", file: text})
	return file
}

type bufferAnswer struct {
	ID          string   `json:"scenario_id"`
	Variant     string   `json:"variant"`
	Flows       int64    `json:"flows"`
	Drops       int64    `json:"drops"`
	PausedNS    int64    `json:"paused_ns"`
	Warnings    []string `json:"warnings"`
	Percentiles []struct {
		SizeBin string  `json:"size_bin"`
		P50     float64 `json:"p50"`
		P90     float64 `json:"p90"`
		P99     float64 `json:"p99"`
		P999    float64 `json:"p999"`
	} `json:"percentiles"`
}

// Warning buffers names estimates that are off by more than 10% at p50, p90, p99 or p99.9 of all flows
// because of limited buffers, and not those where buffers never fill. With PARSIMON_LONG it logs all cases as
// the table of datasets/results/buffers.md.
func TestBuffersWarning(t *testing.T) {
	long(t)
	cases := bufferCases()
	long := os.Getenv("PARSIMON_LONG") != ""
	if !long {
		cases = slices.DeleteFunc(cases, func(c bufferCase) bool { return c.long })
	}
	for _, c := range cases {
		dir := t.TempDir()
		run := func(file, estimator string) (a bufferAnswer) {
			out := must(t, "run", file, "--lake", filepath.Join(dir, "lake"), "--quiet", "--format", "json",
				"--estimator", estimator)
			if err := json.Unmarshal([]byte(out), &a); err != nil || len(a.Percentiles) == 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			return a
		}
		limited := c.write(t, dir, true)
		free := c.write(t, dir, false)
		exact := run(limited, "exact")
		flow := run(limited, "flow")
		own := exact
		if long {
			own = run(free, "exact")
		}
		named := slices.ContainsFunc(flow.Warnings, func(w string) bool { return strings.HasPrefix(w, "buffers") })
		errors, most := flow.errors(t, exact)
		ownErrors, _ := flow.errors(t, own)
		t.Logf("| %s, %d flows | %s | %s | %s | %d | %.1f | %v |", c.name, flow.Flows, c.switches, errors,
			ownErrors, exact.Drops, float64(exact.PausedNS)/1e6, named)
		met := exact.Drops > 0 || exact.PausedNS > 0
		noise := c.name == "three tiers, Hadoop" // p99.9 is of four flows, none of which is hit
		if most > 10 && met && !named && !noise {
			t.Errorf("%s: off by %.1f%%, and warnings %v", c.name, most, flow.Warnings)
		}
		if named && !met {
			t.Errorf("%s: nothing is dropped or paused, and there is a warning: %v", c.name, flow.Warnings)
		}
	}
}

// errors are those of the percentiles of all flows, in %, and the largest.
func (a bufferAnswer) errors(t *testing.T, truth bufferAnswer) (text string, most float64) {
	t.Helper()
	x := a.Percentiles[len(a.Percentiles)-1]
	y := truth.Percentiles[len(truth.Percentiles)-1]
	if x.SizeBin != "all" || y.SizeBin != "all" {
		t.Fatalf("the last percentiles are of %q and %q", x.SizeBin, y.SizeBin)
	}
	var each []string
	for _, e := range []float64{x.P50 / y.P50, x.P90 / y.P90, x.P99 / y.P99, x.P999 / y.P999} {
		each, most = append(each, fmt.Sprintf("%+.1f%%", 100*(e-1))), max(most, 100*math.Abs(e-1))
	}
	return strings.Join(each, " / "), most
}

// A mistake in the switches of a scenario names its source (the file, flags or --set), and leaves no lake
// behind. Flags that require a buffer also apply to a buffer of the file.
func TestSwitchMistakes(t *testing.T) {
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	file := bufferCases()[0].write(t, dir, true)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(dir, "small.yaml")
	writeFiles(t, map[string]string{
		small: strings.Replace(string(text), "buffer: 150KB", "buffer: 20KB, pfc: true", 1)})
	mustFail(t, []failure{
		{exitUsage, small + ": switches: buffer is 20000 bytes", []string{"run", small, "--lake", lake}},
		{exitUsage, small + " with --set switches.alpha: switches: buffer",
			[]string{"run", small, "--lake", lake, "--set", "switches.alpha=0.5"}},
		{exitUsage, "leave no packet (switch a)",
			[]string{"sweep", file, "--lake", t.TempDir(), "--estimator", "exact", "--set", "switches.pfc=true,false",
				"--set", "switches.buffer=20KB"}},
		{exitUsage, "--set switches.alpha: is", []string{"run", file, "--lake", lake,
			"--set", "switches.alpha=NaN"}},
	}...)
	if _, err := os.Stat(lake); !os.IsNotExist(err) {
		t.Errorf("there is a lake: %v", err)
	}
	must(t, "run", file, "--lake", lake, "--quiet", "--set", "switches.alpha=0.5")
}
