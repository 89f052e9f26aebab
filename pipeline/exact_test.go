package pipeline

import (
	"os"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages"
)

var (
	whole  = Variant{Estimator: stages.WholeNetwork}
	choose = Variant{Estimator: stages.Flow, Passes: AutoPasses, Auto: true}
)

// The estimate of the whole network has the FCTs that --exact compares with, whatever works on it, and is an estimate
// only when all of its stages are complete.
func TestWholeNetwork(t *testing.T) {
	topology, flows := fixture.Trace(t, 4000)
	want := ""
	tables := []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats, schema.Intervals, schema.Warnings}
	for _, o := range []options{{Workers: 1, Partitions: 1}, {Workers: 4, Partitions: 7}, {}} {
		o.Lake, o.Variant = t.TempDir(), whole
		run := estimate(t, topology, flows, o)
		got := rows.Digest(t, o.Lake, tables...)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d workers: %s, want %s", o.Workers, got, want)
		}
		if cases := casesOf(t, run); cases.PacketHops != 0 {
			t.Errorf("%d packet-hops of link cases", cases.PacketHops)
		}
		if state, status := stateOf(t, o.Lake); state != StateComplete || !slices.Equal(status.Scenarios[0].Variants, []string{"exact"}) {
			t.Errorf("state %s, variants %v", state, status.Scenarios[0].Variants)
		}
	}
	o := options{Lake: t.TempDir(), Variant: flowOf(2)}
	estimate(t, topology, flows, o)
	run := resume(t, o)
	if err := run.Exact(t.Context(), Exact{Workers: 2}); err != nil {
		t.Fatal(err)
	}
	run.Close()
	if state, status := stateOf(t, o.Lake); state != StateComplete || !slices.Equal(status.Scenarios[0].Variants, []string{"flow-2"}) {
		t.Errorf("only simulated: state %s, variants %v", state, status.Scenarios[0].Variants)
	}
	o.Variant = whole
	for _, r := range estimate(t, topology, flows, o).Executor().Reports {
		if reused := r.Reused == r.Tasks; reused != (r.Stage == "generate" || r.Stage == "route" || r.Stage == "exact") {
			t.Errorf("stage %s: %d of %d tasks are reused", r.Stage, r.Reused, r.Tasks)
		}
	}
	best, err := BestVariant(run.Model)
	if err != nil || best.String() != "exact" {
		t.Errorf("the best estimate is %s, %v", best, err)
	}
}

// An estimate that may choose simulates a small network whole, and opens such an estimate again. A network that cannot be
// simulated whole is estimated by link cases.
func TestAutoChooses(t *testing.T) {
	topology, flows := fixture.Trace(t, 4000)
	o := options{Lake: t.TempDir(), Variant: choose}
	if got := estimate(t, topology, flows, o).Variant(); got.String() != "exact" || got.Auto {
		t.Errorf("a small network: %+v", got)
	}
	again := resume(t, o)
	if got := again.Variant(); got.String() != "exact" {
		t.Errorf("opened again: %s", got)
	}
	again.Close()

	text, err := os.ReadFile(topology)
	if err != nil {
		t.Fatal(err)
	}
	without := strings.ReplaceAll(string(text), `"delay":1000`, `"delay":0`)
	if without == string(text) {
		t.Fatal("the topology has no delay of 1000 ns")
	}
	if err := os.WriteFile(topology, []byte(without), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Lake = t.TempDir()
	run := estimate(t, topology, flows, o)
	if got := run.Variant(); got.Estimator != stages.Flow || got.Passes < 2 || got.Auto {
		t.Errorf("links without delay: %+v", got)
	}
	again = resume(t, o)
	defer again.Close()
	if got := again.Variant(); got != run.Variant() {
		t.Errorf("opened again: %s, want %s", got, run.Variant())
	}
}

// Where two passes ask for more, the whole network takes their place: passes stay complete, without temporary tables.
func TestWholeNetworkInsteadOfPasses(t *testing.T) {
	topology, flows := fixture.Trace(t, 4000)
	s, err := scenario.FromFiles(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTransport("swift"); err != nil { // two passes never suffice
		t.Fatal(err)
	}
	o := options{Lake: t.TempDir(), Variant: flowOf(AutoPasses)}
	run, err := Begin(t.Context(), o.Lake, s, o.Variant, o.must(t))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := estimateUntilSettled(t.Context(), run, o.Variant, &whole); err != nil {
		t.Fatal(err)
	}
	if got := run.Variant().String(); got != "exact" {
		t.Errorf("variant %s", got)
	}
	state, status := stateOf(t, o.Lake)
	if got := status.Scenarios[0].Variants; state != StateComplete || !slices.Equal(got, []string{"exact", "flow-2"}) {
		t.Errorf("state %s, estimates %v", state, got)
	}
	for _, table := range temporaryTables {
		if n := rows.Files(t, o.Lake, table); n > 0 {
			t.Errorf("%d files of %s are left", n, table.Name)
		}
	}
}
