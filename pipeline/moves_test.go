package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/moves"
	"parsimon/stages/topology"
)

func movingScenario(t *testing.T, text moves.Text) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("small")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetAll([]scenario.Setting{{Key: "workload.duration", Value: "2ms"}}); err != nil {
		t.Fatal(err)
	}
	s.Seed = 1 // its 553 flows cross the cables of the events below
	s.PathMoves = text
	return s
}

// If paths move, the whole network is simulated. The rows are the same for any number of workers and for
// other ids. In the short form, one of the texts that move paths runs each day.
func TestMoves(t *testing.T) {
	const cable = "pod0-fabric0:plane0-spine0"
	const sent = "SELECT sum(retransmissions) > 0, sum(reordered) > 0, count(*), min(slowdown) >= 1, " +
		"string_agg(fct_ns, ' ' ORDER BY flow_id) FROM slowdowns"
	seen := map[string]string{}
	for i, c := range []struct {
		text moves.Text
		want string
	}{
		{moves.Text{}, "false false 553 true"},
		{moves.Text{Balance: "flowlet", Gap: "10s"}, "false false 553 true"},
		{moves.Text{Balance: "flowlet", Gap: "100ns"}, "false true 553 true"},
		{moves.Text{Balance: "spray"}, "false true 553 true"},
		{moves.Text{Balance: "adaptive"}, "false true 553 true"},
		{moves.Text{Balance: "tor=spray,spine=adaptive"}, "false true 553 true"},
		{moves.Text{Events: []string{cable + " down 1ms..1500us", "pod1-fabric0:plane0-spine0 loss 0.01"},
			Converge: "100us"}, "true false 553 true"},
	} {
		comparedWith := i == 0 && daily.Runs(1, 7)
		if daily.Skips(i, 7) && !comparedWith {
			continue
		}
		digests := map[string]bool{}
		var ids, rowsOf string
		for workers := 1; workers <= 2; workers++ {
			dir := t.TempDir()
			e := estimates.Of(t, dir, movingScenario(t, c.text), pipeline.Variant{Auto: true},
				pipeline.Settings{Settings: engine.Settings{Workers: workers}})
			digests[pipeline.RowDigest(
				t, dir, schema.ExactFCTs, schema.ExactHops, schema.Slowdowns, schema.LinkStats, schema.LinkSlots)] = true
			got := estimates.Ask(t, dir, sent)
			if !strings.HasPrefix(got, "["+c.want+" ") || e.Variant().Estimator != estimators.Exact {
				t.Errorf("%+v: %s, want %s (%s)", c.text, got, c.want, e.Variant())
			}
			ids = string(e.ID())
			rowsOf = got
		}
		if len(digests) != 1 {
			t.Errorf("%+v: tables differ by workers", c.text)
		}
		if _, twice := seen[ids]; twice {
			t.Errorf("%+v has the id of another", c.text)
		}
		seen[ids] = rowsOf
		infinite := c.text.Gap == "10s"
		if infinite && seen[mustID(t, movingScenario(t, moves.Text{}))] != rowsOf {
			t.Error("flowlets that never end are not ECMP")
		}
	}
}

// Windows use the balancing of the scenario and its cables that lose packets. One window over all flows has
// the same rows as the whole.
func TestWindowsOfMoves(t *testing.T) {
	dir := t.TempDir()
	s := movingScenario(t, moves.Text{Balance: "spray", Events: []string{"pod0-tor0:pod0-fabric0 loss 0.01"}})
	v := pipeline.Variant{Estimator: estimators.Exact}
	base := estimates.Of(t, dir, s, v, pipeline.Settings{})
	base, err := pipeline.Resume(t.Context(), dir, string(base.ID()), v, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	inWindows, err := pipeline.DeriveWindows(t.Context(), base,
		windows.Selection{Spans: [][2]int64{{0, 1e9}}, LongestBytes: 1e6}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer inWindows.Close()
	if err := inWindows.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, e := range []*pipeline.Estimation{base, inWindows} {
		in, err := e.Read(schema.Slowdowns)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		again := int64(0)
		reordered := int64(0)
		err = columns.ForEach(in, func(rec arrow.Record) error {
			for i, ns := range columns.Int64s(rec, "fct_ns") {
				sum += ns
				again += int64(columns.Int32s(rec, "retransmissions")[i])
				reordered += int64(columns.Int32s(rec, "reordered")[i])
			}
			return nil
		})
		if err != nil || again == 0 || reordered == 0 {
			t.Errorf("%d retransmitted, %d reordered: %v", again, reordered, err)
		}
		sums = append(sums, fmt.Sprint(sum, again, reordered))
	}
	if sums[0] != sums[1] {
		t.Errorf("windows have %s, the whole %s", sums[1], sums[0])
	}
}

// The flows of jobs, and TCP flows, can move, too. The short form has one of them each day.
func TestMovesOfJobsAndTCP(t *testing.T) {
	jobs, err := scenario.Load("two-jobs")
	if err != nil {
		t.Fatal(err)
	}
	jobs.PathMoves.Balance = "spray"
	tcp := movingScenario(t, moves.Text{Balance: "flowlet", Gap: "100ns",
		Events: []string{"pod0-fabric0 down 1ms..1500us"}, Converge: "200us", Repair: "10us"})
	if err := tcp.SetAll([]scenario.Setting{
		{Key: "transport.kind", Value: simkernel.CUBIC.String()}}); err != nil {
		t.Fatal(err)
	}
	wants := map[*scenario.Scenario]string{jobs: "[3552 true false]", tcp: "[553 true true]"}
	for i, s := range []*scenario.Scenario{jobs, tcp} {
		if daily.Skips(i, 2) {
			continue
		}
		want := wants[s]
		dir := t.TempDir()
		estimates.Of(t, dir, s, pipeline.Variant{Auto: true}, pipeline.Settings{})
		got := estimates.Ask(t, dir, "SELECT count(*), sum(reordered) > 0, sum(retransmissions) > 0 FROM slowdowns")
		if got != want {
			t.Errorf("%s: %s, want %s", s.Name, got, want)
		}
	}
}

// Routes from files determine the paths of flows for all estimators, also when the scenario is opened from
// the lake. A what-if can undo them.
func TestRoutesOfFiles(t *testing.T) {
	dir := t.TempDir()
	routes := t.TempDir()
	n, err := movingScenario(t, moves.Text{}).Network()
	if err != nil {
		t.Fatal(err)
	}
	hosts := "address,node\n"
	for _, v := range n.Nodes {
		hosts += fmt.Sprintf("10.0.%d.%d,%d\n", v.ID/200, v.ID%200, v.ID)
	}
	tables := map[int32][]string{}
	for _, l := range n.Links { // the first fabric switch of each pod and the first spine of each plane
		to, _ := n.Node(l.Dst)
		hop := fmt.Sprintf(`{"fib":true,"ip":"10.0.%d.%d"}`, l.Dst/200, l.Dst%200)
		for _, h := range n.Hosts() {
			host, _ := n.Node(h)
			src, _ := n.Node(l.Src)
			down := to.ID == h || to.Kind == topology.KindTor && to.Rack == host.Rack ||
				to.Kind == topology.KindFabric && src.Kind == topology.KindSpine && to.Pod == host.Pod
			up := src.Kind == topology.KindTor && to.Kind == topology.KindFabric && src.Rack != host.Rack &&
				strings.HasSuffix(to.Name, "fabric0") ||
				src.Kind == topology.KindFabric && to.Kind == topology.KindSpine && src.Pod != host.Pod &&
					to.Name == fmt.Sprintf("plane%s-spine0", src.Name[len(src.Name)-1:])
			if src.Kind != topology.KindHost && (down || up) {
				tables[l.Src] = append(tables[l.Src], fmt.Sprintf(`"10.0.%d.%d/32":[{"selected":true,"nexthops":[%s]}]`,
					h/200, h%200, hop))
			}
		}
	}
	files := map[string]string{"hosts.csv": hosts}
	for id, table := range tables {
		files[n.Name(id)+".json"] = "{" + strings.Join(table, ",") + "}"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(routes, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const at1 = "SELECT count(*), count(DISTINCT flow_row), " +
		"(SELECT count(*) FROM slowdowns WHERE variant = '%s') FROM hops AS h JOIN links AS l USING (scenario, " +
		"link_id) JOIN nodes AS n ON n.scenario = h.scenario AND n.node_id = l.dst_node WHERE n.name LIKE " +
		"'%%fabric1'"
	for _, v := range []pipeline.Variant{{Estimator: estimators.Independent, Passes: 1},
		{Estimator: estimators.Exact}} {
		e := estimates.Of(t, dir, movingScenario(t, moves.Text{Routes: routes}), v, pipeline.Settings{})
		got := estimates.Ask(t, dir, fmt.Sprintf(at1, e.Variant()))
		if got != "[0 0 553]" {
			t.Errorf("%s: hops and flows over the other plane, and all flows: %s", v, got)
		}
	}
	back := scenario.Changes{PathMoves: moves.Text{Routes: "none"}}
	model, err := pipeline.OpenModelIn(t.Context(), dir, "small")
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.Derive(t.Context(), model, back, pipeline.Variant{Estimator: estimators.Independent,
		Passes: 1}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	plain := mustID(t, movingScenario(t, moves.Text{}))
	if string(e.ID()) != plain {
		t.Errorf("without its routes the scenario is %s, want %s", e.ID(), plain)
	}
}

func mustID(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	c, err := s.Settle()
	if err != nil {
		t.Fatal(err)
	}
	return scenario.IDOf(c.Canonical)
}

// Errors say which moves cannot be simulated, and which estimators do not support them. The short form has
// three of the scenarios each day.
func TestMovesAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lake")
	spray := moves.Text{Balance: "spray"}
	flow := pipeline.Variant{Estimator: estimators.Flow, Passes: 2}
	hpcc := movingScenario(t, spray)
	if err := hpcc.SetAll([]scenario.Setting{
		{Key: "transport.kind", Value: simkernel.HPCC.String()}}); err != nil {
		t.Fatal(err)
	}
	pfc := movingScenario(t, spray)
	flowlets := movingScenario(t, moves.Text{Balance: "flowlet"})
	if err := errors.Join(pfc.SetAll([]scenario.Setting{{Key: "switches.buffer", Value: "4MB"},
		{Key: "switches.pfc", Value: "true"}}),
		flowlets.SetAll([]scenario.Setting{{Key: "transport.kind", Value: simkernel.HPCC.String()}})); err != nil {
		t.Fatal(err)
	}
	inOrder := moves.Text{Balance: "spray", Receivers: moves.InOrder}
	ordered := movingScenario(t, inOrder)
	tcp := movingScenario(t, inOrder)
	if err := tcp.SetAll([]scenario.Setting{
		{Key: "transport.kind", Value: simkernel.NewReno.String()}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		s    *scenario.Scenario
		v    pipeline.Variant
		want string
	}{
		{ordered, pipeline.Variant{Auto: true}, ""}, {tcp, pipeline.Variant{Auto: true}, "in order only"},
		{movingScenario(t, spray), flow, "balance spray"}, {pfc, pipeline.Variant{Auto: true}, ""},
		{flowlets, pipeline.Variant{Auto: true}, ""},
		{movingScenario(t, moves.Text{Balance: "wcmp", Hash: "polarized"}), flow, ""},
		{hpcc, pipeline.Variant{Auto: true}, "hpcc"},
		{movingScenario(t, moves.Text{Events: []string{"pod0-fabric0:plane0-spine0 down 3s.."}}),
			pipeline.Variant{Auto: true}, "outside the trace"},
		{movingScenario(t, moves.Text{Events: []string{"pod0-tor0:pod0-fabric0 down 1us..",
			"pod0-tor0:pod0-fabric1 down 1us.."}}), pipeline.Variant{Auto: true}, "would never end"},
	} {
		if daily.Skips(i, 3) {
			continue
		}
		e, err := pipeline.Begin(t.Context(), dir, c.s, c.v, pipeline.Settings{})
		if err == nil {
			err = e.Estimate(t.Context())
			e.Close()
		}
		left, _ := os.ReadDir(filepath.Join(dir, "_state", "scenario="+mustID(t, c.s)))
		if c.want == "outside the trace" && len(left) > 0 {
			t.Errorf("%v: %v, and %v is left", c.v, err, left)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %s", c.v, err, c.want)
		}
	}
}
