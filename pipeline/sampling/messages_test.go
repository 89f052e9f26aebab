package sampling

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/stages/estimators"
	"parsimon/stages/ingest"
	"parsimon/stages/traffic"
)

// loggedScenario ingests a flow log, and opens the scenario of eight seconds of it. Four connections of two
// services send 60 Mbps each to a host of 1 Gbps.
func loggedScenario(t *testing.T) *pipeline.Estimation {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var log strings.Builder
	log.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
		"start end action log-status\n")
	for minute := range 3 {
		from := 1769817600 + 60*minute
		for c := range 4 {
			fmt.Fprintf(&log, "2 1 e 10.0.0.%d 10.0.0.9 %d %d 6 400000 450000000 %d %d ACCEPT OK\n", 1+c, 40000+c,
				[]int{5432, 9092}[c%2], from, from+59)
		}
	}
	mapping, err := ingest.FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	cables := "device_a,port_a,device_b,port_b,speed\n"
	hosts := "address,node\n10.0.0.9,db\n"
	for c := range 4 {
		cables += fmt.Sprintf("client%d,eth0,leaf1,E%d,1G\n", c, c)
		hosts += fmt.Sprintf("10.0.0.%d,client%d\n", 1+c, c)
	}
	trace := workloads.Trace{
		Sources: []string{write("a.log", log.String())}, Workload: "log", Mappings: []*ingest.Mapping{mapping},
		Topology: write("cables.csv", cables+"db,eth0,leaf1,E9,1G\n"),
		Options: ingest.Options{
			Hosts: write("hosts.csv", hosts), Seed: 1,
			Labels: write("labels.csv", "cidr,port,service\n10.0.0.9,5432,db\n10.0.0.9,9092,queue\n"),
		},
	}
	lakeDir := filepath.Join(dir, "lake")
	if _, err := workloads.Ingest(t.Context(), trace, workloads.Settings{Lake: lakeDir}); err != nil {
		t.Fatal(err)
	}
	l, err := lake.Open(lakeDir, false)
	if err != nil {
		t.Fatal(err)
	}
	state, err := workloads.Resolve(l, "log")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.FromWorkload(state.Topology.Path, state.Ingested())
	if err == nil {
		err = s.SetWindow("00:01:00", "00:01:08")
	}
	if err != nil {
		t.Fatal(err)
	}
	v := pipeline.Variant{Estimator: estimators.Exact}
	o := pipeline.Settings{Settings: engine.Settings{Workers: 1}}
	e, err := pipeline.Begin(context.Background(), lakeDir, s, v, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// variedChanges returns the changes of p99 by group and variation, and the share of the flows that windows
// have.
func variedChanges(
	t *testing.T, e *pipeline.Estimation, smallBytes int64,
) (map[string]quantileChange, float64) {
	t.Helper()
	s, err := newSizeSampler(t.Context(), e, smallBytes)
	if err != nil {
		t.Fatal(err)
	}
	s.index.longestBytes = 48_000
	simulate := func(v traffic.Variation) map[int]histograms {
		found, err := s.with(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	base := simulate(traffic.Variation{SizeFactor: 1})
	changes := map[string]quantileChange{}
	for _, v := range testedVariations() {
		found := simulate(v)
		s.eachGroup(func(k Key) {
			change, ok := s.change(s.sampleFrom(k, base), s.sampleFrom(k, found))
			if !ok {
				t.Fatalf("%v: no change of %v", v, k)
			}
			changes[fmt.Sprintf("%v, factor %.2g, burst %d", k, v.SizeFactor, v.Burst)] = change
		})
	}
	return changes, s.sampledShare(base)
}

// testedVariations returns the variations of the traffic that tests simulate, in short tests the first one.
func testedVariations() []traffic.Variation {
	all := []traffic.Variation{{SizeFactor: 1. / 3}, {SizeFactor: 3}, {Burst: variedBurst}}
	if testing.Short() {
		return all[:1]
	}
	return all
}

// nearInterval reports whether a value is in an interval of three times the width: some of twelve 95%
// intervals miss their values.
func nearInterval(value, lo, hi float64) bool { return value > 2*lo-hi && value < 2*hi-lo }

// Windows find the effects of message sizes and bursts that a simulation of the whole log has. Logs of more
// than smallSizeBytes have only windows. If these were biased, users would trust a wrong range.
func TestMessageSizesInWindows(t *testing.T) {
	e := loggedScenario(t)
	if err := e.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole, share := variedChanges(t, e, math.MaxInt64)
	if share != 1 || len(whole) != 3*len(testedVariations()) { // all flows and two services
		t.Fatalf("%.3f of the flows, %d changes", share, len(whole))
	}
	windows, share := variedChanges(t, e, 0)
	if share < 0.03 || share > 0.3 || len(windows) != len(whole) {
		t.Fatalf("windows with %.3f of the flows, %d changes", share, len(windows))
	}
	for name, want := range whole {
		got := windows[name]
		if want.Lo != want.Change || !nearInterval(want.Change, got.Lo, got.Hi) {
			t.Errorf("%s: %.3f (%.3f to %.3f), want %.3f", name, got.Change, got.Lo, got.Hi, want.Change)
		}
	}

	r, err := Run(t.Context(), e, Ask{Within: 0.9, Of: []float64{0.5}, Confidence: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	if r.Stopped != Precise || len(r.Sizes) != 3 || r.Sizes[0].Share > 0.5 || r.Sizes[0].Burst != variedBurst {
		t.Fatalf("%s: %+v", r.Stopped, r.Sizes)
	}
	for _, x := range r.Sizes {
		if x.Service != nil {
			continue
		}
		third := whole["all flows, factor 0.33, burst 0"].Change
		if !nearInterval(x.P99*(1+third), x.ThirdLo, x.ThirdHi) {
			t.Errorf("p99 %.3f, with a third of the sizes %.3f to %.3f, want %.3f", x.P99, x.ThirdLo, x.ThirdHi,
				x.P99*(1+third))
		}
	}
}
