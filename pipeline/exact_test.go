package pipeline

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/stages/estimators"
)

var (
	whole  = Variant{Estimator: estimators.Exact}
	choose = Variant{Estimator: estimators.Flow, Auto: true}
)

// An estimate of the whole network has the same FCTs as the reference of --exact, for any number of workers
// and shards. It counts as an estimate only when all of its stages are complete.
func TestWholeNetwork(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	want := ""
	tables := []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats, schema.Intervals,
		schema.Warnings}
	for _, o := range []options{{Workers: 1, Partitions: 1}, {Workers: 4, Partitions: 7}} {
		o.Lake = t.TempDir()
		o.Variant = whole
		run := estimate(t, topology, flows, o)
		got := RowDigest(t, o.Lake, tables...)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%d workers: %s, want %s", o.Workers, got, want)
		}
		cases := casesOf(t, run)
		if cases.PacketHops != 0 {
			t.Errorf("%d packet-hops of link cases", cases.PacketHops)
		}
		state, status := stateOf(t, o.Lake)
		if state != StateComplete || !slices.Equal(status.Scenarios[0].Variants, []string{"exact"}) {
			t.Errorf("state %s, variants %v", state, status.Scenarios[0].Variants)
		}
	}
	o := options{Lake: t.TempDir(), Variant: flowOf(2), Partitions: 4}
	estimate(t, topology, flows, o)
	run := resume(t, o)
	if err := run.Exact(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Close()
	state, status := stateOf(t, o.Lake)
	if state != StateComplete || !slices.Equal(status.Scenarios[0].Variants, []string{"flow-2"}) {
		t.Errorf("only simulated: state %s, variants %v", state, status.Scenarios[0].Variants)
	}
	o.Variant = whole
	last := estimate(t, topology, flows, o)
	for _, r := range last.Executor().Reports {
		reused := r.Reused == r.Tasks
		if reused != (r.Stage == "generate" || r.Stage == "route" || r.Stage == "exact") {
			t.Errorf("stage %s: %d of %d tasks are reused", r.Stage, r.Reused, r.Tasks)
		}
	}
}

// An automatic estimate simulates the whole network if it is small, and opens that estimate again later. If
// the whole network cannot be simulated, link cases are used.
func TestAutoChooses(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	o := options{Lake: t.TempDir(), Variant: choose, Partitions: 4}
	got := estimate(t, topology, flows, o).Variant()
	if got.String() != "exact" || got.Auto {
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
	without := strings.ReplaceAll(string(text), `delay: 1us`, `delay: 0ns`)
	if without == string(text) {
		t.Fatal("the topology has no delay of 1us")
	}
	if err := os.WriteFile(topology, []byte(without), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Lake = t.TempDir()
	run := estimate(t, topology, flows, o)
	if got := run.Variant(); got.Estimator != estimators.Flow || got.Passes < 2 || got.Auto {
		t.Errorf("links without delay: %+v", got)
	}
	again = resume(t, o)
	defer again.Close()
	if got := again.Variant(); got != run.Variant() {
		t.Errorf("opened again: %+v, want %+v", got, run.Variant())
	}
}

// If two passes turn out not to be accurate enough, the whole network is simulated instead. The tables of the
// passes are removed unless temporary tables are kept, and the passes are not repeated.
func TestWholeNetworkInsteadOfPasses(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	for _, keep := range []bool{false, true} {
		o := options{Lake: t.TempDir(), Variant: choose, Partitions: 4, Keep: keep}
		run := begin(t, topology, flows, o)
		run.variant = flowOf(1) // one pass always has a warning
		if err := errors.Join(run.throughPasses(t.Context(), true), run.MakeAnswer()); err != nil {
			t.Fatal(err)
		}
		run.Close()
		got := run.Variant().String()
		if got != "exact" {
			t.Fatalf("variant %s", got)
		}
		estimates := []string{"exact"}
		if keep {
			estimates = append(estimates, "flow-1")
		}
		state, status := stateOf(t, o.Lake)
		if got := status.Scenarios[0].Variants; state != StateComplete || !slices.Equal(got, estimates) {
			t.Errorf("keep %v: state %s, estimates %v", keep, state, got)
		}
		names, err := run.Lake.Variants(run.ID())
		if err != nil || !keep && len(names) != 1 || dataFiles(t, o.Lake, schema.HopObservations) > 0 != keep {
			t.Errorf("keep %v: variants %v, %v", keep, names, err)
		}
		again := begin(t, topology, flows, o)
		first, err := look(t.Context(), again)
		again.Close()
		if err != nil || !first.insufficient ||
			!run.Lake.Answer(run.ID()).WholeNetwork() || run.Lake.Exists(run.base().StatePath(stepState)) {
			t.Errorf("keep %v: %+v, %v", keep, first, err)
		}
	}
}

// An estimate that the user requested is not an intermediate step of another estimate and is not removed.
func TestAnswer(t *testing.T) {
	topology, flows := fixture.Trace(t, 600)
	o := options{Lake: t.TempDir(), Partitions: 4}
	for _, v := range []Variant{flowOf(2), choose} {
		o.Variant = v
		run := begin(t, topology, flows, o)
		if err := errors.Join(run.Estimate(t.Context()), run.MakeAnswer()); err != nil {
			t.Fatal(err)
		}
		run.Close()
		got := run.Lake.Answer(run.ID())
		if got != run.Variant().Stored() {
			t.Errorf("the answer is %q, want %q", got, run.Variant())
		}
	}
	_, status := stateOf(t, o.Lake)
	if !slices.Equal(status.Scenarios[0].Variants, []string{"exact", "flow-2"}) {
		t.Errorf("estimates %v", status.Scenarios[0].Variants)
	}
}
