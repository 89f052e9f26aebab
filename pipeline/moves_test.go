package pipeline_test

import (
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/moves"
)

func movingScenario(t *testing.T, text moves.Text) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("small")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set("workload.duration", "2ms"); err != nil {
		t.Fatal(err)
	}
	s.PathMoves = text
	return s
}

// Where paths move the whole network is simulated: the same rows for any number of workers, in other ids.
func TestMoves(t *testing.T) {
	const cable = "pod0-fabric0:plane0-spine0"
	sent := "SELECT sum(retransmissions) > 0, sum(reordered) > 0, count(*), min(slowdown) >= 1 FROM slowdowns"
	seen := map[string]string{}
	for _, c := range []struct {
		text moves.Text
		want string
	}{
		{moves.Text{}, "[false false 553 true]"},
		{moves.Text{Balance: "flowlet", Gap: "10s"}, "[false false 553 true]"},
		{moves.Text{Balance: "flowlet", Gap: "100ns"}, "[false true 553 true]"},
		{moves.Text{Balance: "spray"}, "[false true 553 true]"},
		{moves.Text{Balance: "adaptive"}, "[false true 553 true]"},
		{moves.Text{Events: []string{cable + " down 1ms..1500us", "pod1-fabric0:plane0-spine0 loss 0.01"},
			Converge: "100us"}, "[true false 553 true]"},
	} {
		digests := map[string]bool{}
		var ids, rowsOf string
		for workers := 1; workers <= 2; workers++ {
			dir := t.TempDir()
			e := estimates.Of(t, dir, movingScenario(t, c.text), pipeline.Variant{Auto: true},
				pipeline.Settings{Settings: engine.Settings{Workers: workers}})
			digests[pipeline.RowDigest(t, dir, schema.ExactFCTs, schema.ExactHops, schema.Slowdowns, schema.LinkStats)] = true
			if got := rows.Ask(t, dir, sent); got != c.want || e.Variant().Estimator != stages.WholeNetwork {
				t.Errorf("%+v: %s, want %s (%s)", c.text, got, c.want, e.Variant())
			}
			ids, rowsOf = string(e.ID()), rows.Ask(t, dir, "SELECT string_agg(fct_ns, ' ' ORDER BY flow_id) FROM slowdowns")
		}
		if len(digests) != 1 {
			t.Errorf("%+v: tables differ by workers", c.text)
		}
		if _, twice := seen[ids]; twice {
			t.Errorf("%+v has the id of another", c.text)
		}
		seen[ids] = rowsOf
		if infinite := c.text.Gap == "10s"; infinite && seen[mustID(t, movingScenario(t, moves.Text{}))] != rowsOf {
			t.Error("flowlets that never end are not ECMP")
		}
	}
}

// The flows of jobs, and of TCP, move as well.
func TestMovesOfJobsAndTCP(t *testing.T) {
	jobs, err := scenario.Load("two-jobs")
	if err != nil {
		t.Fatal(err)
	}
	jobs.PathMoves.Balance = "spray"
	tcp := movingScenario(t, moves.Text{Balance: "flowlet", Gap: "100ns", Events: []string{"pod0-fabric0 down 1ms..1500us"},
		Converge: "200us", Repair: "10us"})
	if err := tcp.Set("transport.kind", simkernel.CUBIC.String()); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*scenario.Scenario]string{jobs: "[3552 true false]", tcp: "[553 true true]"} {
		dir := t.TempDir()
		estimates.Of(t, dir, s, pipeline.Variant{Auto: true}, pipeline.Settings{})
		got := rows.Ask(t, dir, "SELECT count(*), sum(reordered) > 0, sum(retransmissions) > 0 FROM slowdowns")
		if got != want {
			t.Errorf("%s: %s, want %s", s.Name, got, want)
		}
	}
}

func mustID(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	id, err := s.ID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Errors say which moves cannot be simulated, and by whom.
func TestMovesAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lake")
	spray, flow := moves.Text{Balance: "spray"}, pipeline.Variant{Estimator: stages.Flow, Passes: 2}
	hpcc := movingScenario(t, spray)
	if err := hpcc.Set("transport.kind", simkernel.HPCC.String()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    *scenario.Scenario
		v    pipeline.Variant
		want string
	}{
		{movingScenario(t, spray), flow, "balance spray"},
		{movingScenario(t, moves.Text{Balance: "wcmp", Hash: "polarized"}), flow, ""},
		{hpcc, pipeline.Variant{Auto: true}, "hpcc"},
		{movingScenario(t, moves.Text{Events: []string{"pod0-fabric0:plane0-spine0 down 3ms.."}}),
			pipeline.Variant{Auto: true}, "outside the trace"},
		{movingScenario(t, moves.Text{Events: []string{"pod0-tor0:pod0-fabric0 down 1us..",
			"pod0-tor0:pod0-fabric1 down 1us.."}}), pipeline.Variant{Auto: true}, "would never end"},
	} {
		e, err := pipeline.Begin(t.Context(), dir, c.s, c.v, pipeline.Settings{})
		if err == nil {
			err = e.Estimate(t.Context())
			e.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %s", c.v, err, c.want)
		}
	}
}
