package whatif

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/stages/estimators"
)

func textOf(t *testing.T, a *text.Answer) string {
	t.Helper()
	var out strings.Builder
	if err := a.Write(&out, "text"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A sweep of cables by a simulation of the whole network counts the flows of jobs, not their compute steps.
func TestSweepOfCablesWithComputeSteps(t *testing.T) {
	o := settings(t, estimators.Exact)
	file := filepath.Join(t.TempDir(), "job.yaml")
	err := os.WriteFile(file,
		[]byte(`topology: {clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
  host_bandwidth: 10Gbps, fabric_bandwidth: 10Gbps, host_delay: 1us, fabric_delay: 1us}}
workload: {jobs: [{name: j, ranks: 4, iterations: 2,
  steps: [{collective: all-to-all, size: 40KB}, {compute: 5us}]}]}
transport: {window: 18KB}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	base := estimate(t, mustLoad(t, file), o)
	s, err := RunSweep(t.Context(), base, SweepPlan{Tier: "tor-fabric", Quantile: 0.99, Each: "delay 2us"}, o)
	if err != nil || len(s.Cables) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	want := s.before[AllFlows].Flows
	for _, c := range s.Cables {
		if want == 0 || c.Full[AllFlows].Flows != want {
			t.Errorf("%s - %s: %d flows, the base has %d", c.NameA, c.NameB, c.Full[AllFlows].Flows, want)
		}
	}
}

// A sweep reports the duration of the iterations of each run, and their mean over the seeds.
func TestSweepOfJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	err := os.WriteFile(file,
		[]byte(`topology: {clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 4, planes: 1, spines_per_plane: 1,
  host_bandwidth: 10Gbps, fabric_bandwidth: 10Gbps, host_delay: 1us, fabric_delay: 1us}}
workload: {jobs: [{name: j, ranks: 4, iterations: 2, steps: [{collective: all-to-all, size: 400KB}, {compute: 5us}]}]}
transport: {window: 18KB}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p, err := SweepParameters(t.Context(), ParameterPlan{Scenario: file, MaxRuns: 9, Axes: []Axis{
		{"workload.jobs[0].hosts", []string{"contiguous", "random"}}, {"seed", []string{"1", "2"}}}},
		settings(t, estimators.Exact))
	if err != nil || len(p.Runs) != 4 || len(p.OverSeeds) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	mean := 0.0
	for _, r := range p.Runs[2:] {
		if len(r.Jobs) != 1 || len(r.Jobs[0].Iterations) != 2 {
			t.Fatalf("jobs %+v", r.Jobs)
		}
		mean += r.Jobs[0].MeanNS() / 2
	}
	near := p.OverSeeds[0]
	far := p.OverSeeds[1]
	if near.LoNS != near.HiNS || near.Seeds != 2 || near.Settings != "workload.jobs[0].hosts=contiguous" {
		t.Errorf("in one rack: %+v, want no difference between seeds", near)
	}
	if math.Abs(far.MeanNS/mean-1) > 1e-12 || far.LoNS >= far.MeanNS || far.HiNS <= far.MeanNS ||
		far.MeanNS <= near.MeanNS {
		t.Errorf("at random: %+v, want a mean of %v", far, mean)
	}
	text := textOf(t, p.Text())
	if !strings.Contains(text, "over_best") || !strings.Contains(text, "95% intervals") {
		t.Error(text)
	}
}

// Flows that wait for others start at other times if a cable is slower, but are still compared. Flows of a
// scenario in which they do not wait are different flows.
func TestWhatIfOfClosedLoop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	err := os.WriteFile(file,
		[]byte(`topology: {graph: {hosts: [a, b], switches: [s], bandwidth: 10Gbps, delay: 1us, cables: ["a:s", "b:s"]}}
workload: {jobs: [{name: j, ranks: 2, iterations: 3, steps: [{collective: all-reduce, size: 100KB}, {compute: 5us}]}]}
transport: {window: 30KB}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o := settings(t, estimators.Exact)
	base := estimate(t, mustLoad(t, file), o)
	slower := do(t, "bandwidth=a:s=5G")
	w, err := WhatIf(t.Context(), base, slower, o, CompareOptions{})
	if err != nil || w.Both != 12 || w.BaseFlows != 12 {
		t.Fatalf("%+v, %v: want 12 flows in both", w, err)
	}
	j := w.Jobs
	if len(j) != 1 || len(j[0].Base.Iterations) != 3 || j[0].Change < 0.5 || j[0].Change > 1 {
		t.Errorf("jobs %+v, want iterations that take up to twice as long", w.Jobs)
	}
	text := textOf(t, w.Text())
	if !strings.Contains(text, "Iterations of the jobs") {
		t.Error(text)
	}
	open, err := pipeline.Derive(t.Context(), opened(t, o.Lake, base, o.Variant).Model,
		scenario.Changes{FoundStarts: true}, pipeline.Variant{Estimator: estimators.Flow}, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := open.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	// ACKs of the opposite direction also use the link, although hosts compute in between.
	acks := `SELECT count(*), count(*) FILTER (e.slowdown > 1.03), count(*) FILTER (abs(s.slowdown / e.slowdown - 1) < 0.02)
FROM slowdowns_all AS s JOIN exact_fcts AS e USING (flow_id) WHERE s.variant = 'flow-2' AND e.scenario = '` + base + "'"
	got := estimates.Ask(t, o.Lake, acks)
	if got != "[12 12 12]" {
		t.Errorf("flows, slow ones by exact, and those whose slowdown flow finds: %s", got)
	}
	_, err = Compare(t.Context(), open.Lake, Side{Scenario: base}, Side{Scenario: string(open.ID())},
		CompareOptions{Across: true})
	if err == nil || !strings.Contains(err.Error(), "flows wait for others in one of") {
		t.Errorf("compared with the flows that do not wait: %v", err)
	}
}

// A job that moves to another rack keeps its flows and their dependencies. Two ranks on one host are an
// error.
func TestWhatIfMovesJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	err := os.WriteFile(file,
		[]byte(`topology: {clos: {pods: 1, racks_per_pod: 3, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
  host_bandwidth: 10Gbps, fabric_bandwidth: 10Gbps, host_delay: 1us, fabric_delay: 1us}}
workload:
  jobs:
    - {name: j, hosts: [0, 1], iterations: 2, steps: [{collective: all-reduce, size: 100KB}, {compute: 5us}]}
    - {name: k, hosts: [0, 2], iterations: 2, steps: [{collective: all-reduce, size: 100KB}]}
    - {name: l, hosts: [0, 2, 3], start: 10ms, steps: [{collective: all-reduce, size: 1KB}]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o := settings(t, estimators.Exact)
	base := estimate(t, mustLoad(t, file), o)
	w, err := WhatIf(t.Context(), base, do(t, "move=j=2"), o, CompareOptions{})
	if err != nil || len(w.Jobs) != 3 || w.Jobs[0].Change > -0.3 || len(w.Jobs[0].Other.Iterations) != 2 {
		t.Fatalf("%+v, %v: want iterations of j without those of k on the same host", w, err)
	}
	other := opened(t, o.Lake, w.Other.Scenario, o.Variant)
	got := estimates.Ask(t, other.Lake.Path(),
		`SELECT min(src), max(src), count(*) FROM flows WHERE service = 'j' AND scenario = '`+w.Other.Scenario+"'")
	if got != "[4 5 13]" {
		t.Errorf("hosts and flows of the job: %s", got)
	}
	if _, err := WhatIf(t.Context(), base, do(t, "move=l=2"), o, CompareOptions{}); err == nil ||
		!strings.Contains(err.Error(), `job "l" has 3 hosts, and the racks that it would move to 2`) {
		t.Errorf("more ranks than hosts: %v", err)
	}
}
