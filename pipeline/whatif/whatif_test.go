package whatif

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/stages/estimators"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// "run --fail" in an empty lake and "what-if --fail" produce the same scenario with the same id and the same
// rows, with and without a cache. The short form has one estimator each day.
func TestWhatIfIsTheRun(t *testing.T) {
	t.Parallel()
	file := fixture.Services(t)
	for i, by := range []estimators.Name{estimators.Independent, estimators.Flow} {
		if daily.Skips(i, 2) {
			continue
		}
		t.Run(by.String(), func(t *testing.T) { testWhatIfIsTheRun(t, file, by) })
	}
}

func testWhatIfIsTheRun(t *testing.T, file string, by estimators.Name) {
	failing := mustLoad(t, file)
	failing.Fail = []string{"pod0-fabric0:plane0-spine1", "pod1-tor0:pod1-fabric1"}
	fresh := settings(t, by)
	want := estimate(t, failing, fresh)

	o, base := servicesBase(t, pipeline.Variant{Estimator: by})
	withCache(t, &o)
	changes := do(t, "fail=pod1-fabric1:pod1-tor0", "fail=pod0-fabric0:plane0-spine1")
	w, err := WhatIf(t.Context(), base, changes, o, CompareOptions{By: []string{"service", "size_bin"},
		Links: 3})
	if err != nil {
		t.Fatal(err)
	}
	if w.Other.Scenario != want || w.Both != w.BaseFlows || w.Both != fixture.ServicesFlows {
		t.Fatalf("what-if makes %+v, want %s with all flows in both", w.Other, want)
	}
	derived := opened(t, o.Lake, want, o.Variant)
	run := opened(t, fresh.Lake, want, o.Variant)
	v := derived.Variant().String()
	if v != w.Other.Variant {
		t.Fatalf("variant is %s, want %s", w.Other.Variant, v)
	}
	for _, table := range []schema.Table{
		schema.Nodes, schema.Links, schema.Flows, schema.Hops, schema.Slowdowns, schema.LinkStats,
	} {
		if tableRows(t, derived, table, "cached") != tableRows(t, run, table, "cached") {
			t.Errorf("table %s differs from that of a run from nothing", table.Name)
		}
	}
	cases, err := w.changed.Cases()
	if err != nil || cases.CachedCases == 0 || cases.Cases == 0 {
		t.Errorf("%+v, %v: want some cases cached and some not", cases, err)
	}
	before, err := os.Stat(filepath.Join(o.Lake, lake.Of(lake.ScenarioID(base)).File(schema.Flows, 0)))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(o.Lake, lake.Of(lake.ScenarioID(want)).File(schema.Flows, 0)))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the flows are not shared: %v", err)
	}
	if len(w.Rows) < 16 || len(w.Links) == 0 || len(w.Links) > 3 {
		t.Errorf("%d rows, %d links", len(w.Rows), len(w.Links))
	}
	for _, r := range w.Rows {
		if r.Lo > r.Hi || r.Base < 1 || r.Other < 1 {
			t.Errorf("%+v", r)
		}
	}
	var text bytes.Buffer
	if err := w.Text().Write(&text, "text"); err != nil || !strings.Contains(text.String(), " down)") {
		t.Errorf("%v\n%s", err, text.String())
	}
	_, err = WhatIf(t.Context(), base, scenario.Changes{}, o, CompareOptions{})
	if err == nil || !strings.Contains(err.Error(), "nothing would change") {
		t.Errorf("no change: %v", err)
	}
}

// Flows cross an added cable, and its links have cases, although the base has no task for them. The rows
// equal those of an estimate whose tasks are divided from scratch. The short form has one pass.
func TestAddedCable(t *testing.T) {
	t.Parallel()
	v := pipeline.Variant{Estimator: estimators.Flow}
	if testing.Short() {
		v.Passes = 1
	}
	var made [2]*pipeline.Estimation
	for i, partitions := range []int{0, 7} {
		o, base := servicesBase(t, v)
		o.Partitions = partitions
		changes := do(t, "add-cable=pod0-tor0:pod1-tor0=40G,500ns")
		w, err := WhatIf(t.Context(), base, changes, o, CompareOptions{Links: 1})
		if err != nil {
			t.Fatal(err)
		}
		made[i] = opened(t, o.Lake, w.Other.Scenario, o.Variant)
		got := estimates.Ask(t, o.Lake, "SELECT count(DISTINCT link_id) FROM link_stats WHERE flows > 0 AND "+
			"scenario = '"+
			w.Other.Scenario+"' AND link_id >= (SELECT count(*) FROM links WHERE scenario = '"+base+"')")
		if got != "[2]" {
			t.Errorf("%s added links carry flows", got)
		}
	}
	for _, table := range []schema.Table{schema.Slowdowns, schema.LinkStats} {
		if tableRows(t, made[0], table, "cached") != tableRows(t, made[1], table, "cached") {
			t.Errorf("table %s depends on how the links are cut", table.Name)
		}
	}
}

// A testFlow is a row of table flows.
type testFlow struct {
	src, dst    int32
	size, start int64
	service     string
}

// readFlows reads the flows of a scenario by id, and the last start time. It fails the test unless ids are
// unique, start times ascend, and no flow has the same source and destination.
func readFlows(t *testing.T, o Settings, id string) (flows map[int64]testFlow, last int64) {
	t.Helper()
	in, err := opened(t, o.Lake, id, o.Variant).Read(schema.Flows)
	if err != nil {
		t.Fatal(err)
	}
	flows = map[int64]testFlow{}
	err = columns.ForEach(in, func(rec arrow.Record) error {
		src := columns.Int32s(rec, "src")
		dst := columns.Int32s(rec, "dst")
		service := columns.Named(rec, "service").(*array.String)
		size := columns.Int64s(rec, "size_bytes")
		start := columns.Int64s(rec, "start_ns")
		for i, id := range columns.Int64s(rec, "flow_id") {
			f := testFlow{src[i], dst[i], size[i], start[i], strings.Clone(service.Value(i))}
			if _, twice := flows[id]; twice || f.start < last || f.src == f.dst {
				t.Fatalf("flow %d: %+v after a start of %d", id, f, last)
			}
			flows[id] = f
			last = f.start
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return flows, last
}

// Scaling a service by a factor multiplies its number of flows by about this factor. If the factor is at
// least 1, all flows of the base are included. Flows of a service that moves keep their sizes and start
// times, and are between hosts of the new racks. Other services do not change.
func TestChangedFlows(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Independent})
	before, lastBefore := readFlows(t, o, base)
	count := func(flows map[int64]testFlow, service string) (n int) {
		for _, f := range flows {
			if f.service == service {
				n++
			}
		}
		return n
	}
	derive := func(c scenario.Changes) (string, error) {
		e, err := pipeline.Derive(t.Context(), opened(t, o.Lake, base, o.Variant).Model, c, o.Variant, o.Settings)
		if err != nil {
			return "", err
		}
		defer e.Close()
		return string(e.ID()), e.Generate(t.Context())
	}
	changed := func(c string) map[int64]testFlow {
		t.Helper()
		id, err := derive(do(t, c))
		if err != nil {
			t.Fatal(err)
		}
		flows, last := readFlows(t, o, id)
		if last > lastBefore {
			t.Errorf("%s: a flow starts at %d, after all of the base's", c, last)
		}
		return flows
	}
	for _, factor := range []float64{0, 0.5, 2.5} {
		flows := changed(fmt.Sprintf("scale=web=%v", factor))
		for id, f := range before {
			if g, ok := flows[id]; f.service == "batch" && g != f || factor >= 1 && !ok {
				t.Errorf("× %v: flow %d is %+v, was %+v", factor, id, g, f)
			}
		}
		want := factor * float64(count(before, "web"))
		got := float64(count(flows, "web"))
		if got < want-0.15*want || got > want+0.15*want {
			t.Errorf("× %v: %v flows, want about %v", factor, got, want)
		}
	}
	inside := map[int32]bool{}
	for _, h := range opened(t, o.Lake, base, o.Variant).Network.Racks()[6] {
		inside[h] = true
	}
	for id, f := range changed("move=web=6") {
		was := before[id]
		stays := f.service == "web" || f == was
		if f.size != was.size || f.start != was.start || !stays ||
			f.service == "web" && !(inside[f.src] && inside[f.dst]) {
			t.Fatalf("moved: flow %d is %+v, was %+v", id, f, was)
		}
	}
	w, err := WhatIf(t.Context(), base, do(t, "scale=batch=50%"), o, CompareOptions{})
	if err != nil || w.BaseFlows != fixture.ServicesFlows || w.Flows >= w.BaseFlows || w.Both != w.Flows {
		t.Errorf("half of a service: %+v, %v", w, err)
	}
	for _, bad := range []scenario.Changes{
		do(t, "scale=none=2"), do(t, "move=web=99"), do(t, "fail=pod0-tor0:pod1-tor0"),
		do(t, "bandwidth=no-tier=1G"),
		{Do: do(t, "fail=random:99").Do, FailTier: "fabric-spine"}, do(t, "fail=random:1"),
		{Do: do(t, "fail=pod0-tor0:pod0-fabric1").Do, FailTier: "fabric-spine"},
		do(t, "scale=web=2", "scale=web=3"),
	} {
		if _, err := derive(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Estimates that were made with different variants are compared only if this is requested. An estimate is not
// compared with itself.
func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Independent})
	slower := do(t, "bandwidth=fabric-spine=20G")
	v := pipeline.Variant{Estimator: estimators.Flow, Passes: 1}
	other, err := pipeline.Derive(t.Context(), opened(t, o.Lake, base, v).Model, slower, v, o.Settings)
	if err != nil {
		t.Fatal(err)
	}
	err = other.Estimate(t.Context())
	other.Close()
	if err != nil {
		t.Fatal(err)
	}
	l := estimates.Open(t, o.Lake)
	a := Side{Scenario: base}
	b := Side{Scenario: string(other.ID())}
	if _, err := Compare(t.Context(), l, a, b, CompareOptions{}); !errors.Is(err, ErrDifferentWays) {
		t.Errorf("different ways: %v", err)
	}
	c, err := Compare(t.Context(), l, a, b, CompareOptions{Across: true})
	if err != nil || c.Rows[len(c.Rows)-1].Flows != fixture.ServicesFlows {
		t.Errorf("across: %+v, %v", c, err)
	}
	for _, bad := range [][2]Side{{a, a}, {a, {Scenario: "nothing"}}, {a, {Scenario: base, Variant: "flow-9"}},
		{{}, b}} {
		if _, err := Compare(t.Context(), l, bad[0], bad[1], CompareOptions{Across: true}); err == nil {
			t.Errorf("%+v are compared", bad)
		}
	}
	if _, err := Compare(t.Context(), l, a, b,
		CompareOptions{Across: true, By: []string{"colour"}}); err == nil {
		t.Error("grouped by colour")
	}
}

// If the whole network of the base was simulated, that of the changed scenario is simulated, too. If this is
// not possible, both sides use link cases. The short form has one of the two each day.
func TestWhatIfOfWholeNetwork(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow, Auto: true})
	for i, c := range [][2]string{
		{"exact", "fail=pod0-tor0:pod0-fabric1"},
		{"flow", "add-cable=pod0-tor0:pod1-tor0=10G,0ns"},
	} {
		if daily.Skips(i, 2) {
			continue
		}
		want := c[0]
		change := c[1]
		w, err := WhatIf(t.Context(), base, do(t, change), o, CompareOptions{Links: 1})
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if !strings.Contains(w.Other.Variant, want) || w.Base.Variant != w.Other.Variant {
			t.Errorf("%s: compares %s and %s", want, w.Base.Variant, w.Other.Variant)
		}
	}
}

// Compare uses the committed files, even if another process repeats a stage of one side in the meantime.
func TestCompareCommitted(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow, Passes: 1})
	how := CompareOptions{Links: 1}
	want, err := WhatIf(t.Context(), base, do(t, "fail=pod0-tor0:pod0-fabric1"), o, how)
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(o.Lake, "_state", "scenario="+base, "variant=flow-1", "simulate",
		"task-*.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("%v, %v", records, err)
	}
	if err := os.Remove(records[0]); err != nil { // like a run with more passes that repeats the first one
		t.Fatal(err)
	}
	l, err := lake.Open(o.Lake, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Compare(t.Context(), l, want.Base, want.Other, how)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Rows, want.Rows) || !reflect.DeepEqual(got.Links, want.Links) ||
		len(got.Links) != 1 {
		t.Errorf("%+v, %+v; want %+v, %+v", got.Rows, got.Links, want.Rows, want.Links)
	}
}

// Changing settings of the transport, the switches and the paths produces the same scenario as a file with
// these settings, also if they are changed one after the other. Changes that do not apply to scenarios of the
// lake are rejected.
func TestWhatIfSettings(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow, Auto: true})
	at := base
	var all []scenario.Setting
	for _, s := range []scenario.Setting{{Key: "switches.buffer", Value: "400KB"},
		{Key: "switches.pfc", Value: "true"},
		{Key: "transport.kind", Value: "dcqcn"}, {Key: "window", Value: "18KB"}} {
		all = append(all, s)
		file, err := scenario.LoadWith(fixture.Services(t), all)
		if err != nil {
			t.Fatal(err)
		}
		form, err := file.Settle()
		if err != nil {
			t.Fatal(err)
		}
		want := scenario.IDOf(form.Canonical)
		step, err := pipeline.Derive(t.Context(), opened(t, o.Lake, at, o.Variant).Model,
			scenario.Changes{Settings: []scenario.Setting{s}}, o.Variant, o.Settings)
		if err != nil {
			t.Fatal(err)
		}
		err = step.Generate(t.Context())
		step.Close()
		if err != nil {
			t.Fatal(err)
		}
		once, err := pipeline.Derive(t.Context(), opened(t, o.Lake, base, o.Variant).Model,
			scenario.Changes{Settings: all}, o.Variant, o.Settings)
		if err != nil {
			t.Fatal(err)
		}
		once.Close()
		at = string(step.ID())
		if at != want || string(once.ID()) != want {
			t.Errorf("%v: %s, at once %s, of a file %s", all, at, once.ID(), want)
		}
	}
	if w, err := WhatIf(t.Context(), base, scenario.Changes{Settings: all}, o, CompareOptions{}); err != nil ||
		w.Other.Scenario != at || w.Other.Variant != "exact" {
		t.Errorf("%+v, %v", w, err)
	}
	for want, s := range map[string]scenario.Setting{
		"has no buffer":      {Key: "switches.pfc", Value: "true"},
		"no configurations":  {Key: "switches.buffer", Value: "topology"},
		"transport.kind: is": {Key: "transport.kind", Value: "fast"},
		"must hold a packet": {Key: "switches.buffer", Value: "10"},
		"transport.gain: is": {Key: "transport.gain", Value: "7"},
		"no balance":         {Key: "balance", Value: "best"},
	} {
		_, err := WhatIf(t.Context(), base, scenario.Changes{Settings: []scenario.Setting{s}}, o, CompareOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
	}
}

// What a flow meets alone depends on the transport. A what-if of another window therefore computes it again,
// and has the rows of a run from nothing. If it used those of its base, its slowdowns would be wrong.
func TestWhatIfOfAnotherWindow(t *testing.T) {
	t.Parallel()
	small := []scenario.Setting{{Key: "window", Value: "3KB"}}
	file, err := scenario.LoadWith(fixture.Services(t), small)
	if err != nil {
		t.Fatal(err)
	}
	fresh := settings(t, estimators.Independent)
	run := opened(t, fresh.Lake, estimate(t, file, fresh), fresh.Variant)
	o, base := servicesBase(t, fresh.Variant)
	w, err := WhatIf(t.Context(), base, scenario.Changes{Settings: small}, o, CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed := opened(t, o.Lake, w.Other.Scenario, o.Variant)
	before := opened(t, o.Lake, base, o.Variant)
	for _, table := range []schema.Table{schema.FlowPaths, schema.Slowdowns} {
		rows := tableRows(t, changed, table)
		if rows != tableRows(t, run, table) {
			t.Errorf("table %s differs from that of a run from nothing", table.Name)
		}
		if rows == tableRows(t, before, table) {
			t.Errorf("table %s is that of the base", table.Name)
		}
	}
}

// A search reports each value that it tested and the result. The runs of a scenario with jobs choose exact
// automatically.
func TestSweepUntil(t *testing.T) {
	t.Parallel()
	o, base := servicesBase(t, pipeline.Variant{Estimator: estimators.Flow, Auto: true})
	until, err := gate.Parse("p99_slowdown > 1")
	if err != nil {
		t.Fatal(err)
	}
	plan := ParameterPlan{Scenario: base, Until: &until, MaxRuns: 9,
		Axes: []Axis{{"switches.buffer", []string{"100KB", "200KB", "400KB"}}},
		Change: func(settings []scenario.Setting) (scenario.Changes, error) {
			return scenario.Changes{Settings: settings}, nil
		}}
	p, err := SweepParameters(t.Context(), plan, o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	err = p.Text().Write(&text, "text")
	if err != nil || len(p.Runs) != 2 || p.Found == nil || p.Found.Settings["switches.buffer"] != "100KB" ||
		!strings.Contains(text.String(), "tested") || strings.Contains(text.String(), "variant") {
		t.Errorf("%v %+v\n%s", err, p, text.String())
	}
	for _, r := range p.Runs {
		if r.Until == nil || *r.Until.Value != r.P99 || !r.Until.Failed || r.Variant != "exact" {
			t.Errorf("%+v", r)
		}
	}
}

// If no flow is in both estimates, the delays of each side are averages over its own tail, regardless of
// which side is the base.
func TestLinksOfUnpairedFlows(t *testing.T) {
	t.Parallel()
	o, id := servicesBase(t, pipeline.Variant{Estimator: estimators.Independent})
	s, err := scenario.LoadWith(fixture.Services(t),
		[]scenario.Setting{{Key: "seed", Value: "2"}, {Key: "workload.flows_count", Value: "700"}})
	if err != nil {
		t.Fatal(err)
	}
	base := Side{Scenario: id}
	other := Side{Scenario: estimate(t, s, o)}
	l := estimates.Open(t, o.Lake)
	forth, err := Compare(t.Context(), l, base, other, CompareOptions{Links: 1000})
	back, failed := Compare(t.Context(), l, other, base, CompareOptions{Links: 1000})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if forth.Both != 0 || forth.TailFlows != 17 || len(forth.Links) < 20 || len(back.Links) != len(forth.Links) {
		t.Fatalf("%d flows in both, %d of the tails, %d and %d links", forth.Both, forth.TailFlows,
			len(forth.Links), len(back.Links))
	}
	reversed := map[string]LinkDifference{}
	for _, d := range back.Links {
		reversed[d.Name] = d
	}
	for _, d := range forth.Links {
		r := reversed[d.Name]
		if r.BaseDelayNS != d.DelayNS || r.DelayNS != d.BaseDelayNS || r.BaseLoad != d.Load {
			t.Errorf("%+v, reversed %+v", d, r)
		}
	}
	var sum float64
	for _, d := range forth.Links {
		sum += d.BaseDelayNS
	}
	want := estimates.Ask(t, o.Lake,
		fmt.Sprintf(`SELECT CAST(round(sum(h.delay_ns) / 10) AS BIGINT) FROM hop_contributions h JOIN slowdowns s USING (scenario, flow_row)
		WHERE scenario = '%s' AND s.slowdown > (SELECT quantile_cont(slowdown, 0.99) FROM slowdowns WHERE scenario = '%[1]s')`, base.Scenario))
	got := fmt.Sprintf("[%.0f]", sum)
	if got != want {
		t.Errorf("mean delay of the base's tail %s, want %s", got, want)
	}
}

// If the ids of links differ between two networks, links whose ends have the same names are the same.
func TestSameLinks(t *testing.T) {
	base := topologytest.Wire(t, 4, 2, [2]int32{0, 2}, [2]int32{1, 2}, [2]int32{2, 3})
	other := topologytest.Wire(t, 4, 2, [2]int32{1, 2}, [2]int32{0, 3}, [2]int32{2, 3})
	id := func(p *int32) int32 {
		if p == nil {
			return -1
		}
		return *p
	}
	inBoth := 0
	onlyBase := 0
	onlyOther := 0
	for _, d := range sameLinks(base, other) {
		b := id(d.BaseLink)
		o := id(d.Link)
		switch {
		case b >= 0 && o >= 0:
			inBoth++
			if base.LinkName(b) != d.Name || other.LinkName(o) != d.Name {
				t.Errorf("%s is %s in the base and %s in the other", d.Name, base.LinkName(b), other.LinkName(o))
			}
		case b >= 0:
			onlyBase++
			if base.LinkName(b) != d.Name {
				t.Errorf("%s is %s in the base", d.Name, base.LinkName(b))
			}
		default:
			onlyOther++
			if other.LinkName(o) != d.Name {
				t.Errorf("%s is %s in the other", d.Name, other.LinkName(o))
			}
		}
	}
	if inBoth != 4 || onlyBase != 2 || onlyOther != 2 {
		t.Errorf("%d links in both, %d in the base, %d in the other; want 4, 2, 2", inBoth, onlyBase, onlyOther)
	}
}

// A cable that becomes a member of a LAG is still the same cable, and members have different names. Otherwise
// a comparison would report that the cable disappeared, and list two links that read alike.
func TestSameLinksOfALAG(t *testing.T) {
	base := topologytest.Wire(t, 4, 2, [2]int32{0, 2}, [2]int32{1, 3}, [2]int32{2, 3})
	other := base.Clone()
	second := topology.Cable{A: 2, B: 3, BandwidthBps: 10e9, DelayNS: 1000, Parallel: true}
	if err := other.AddCable(second); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range sameLinks(base, other) {
		if strings.HasSuffix(d.Name, ")") {
			got = append(got, fmt.Sprintf("%s in base: %t", d.Name, d.BaseLink != nil && *d.BaseLink == *d.Link))
		}
	}
	want := []string{
		"switch 2 → switch 3 (member 1) in base: true", "switch 3 → switch 2 (member 1) in base: true",
		"switch 2 → switch 3 (member 2) in base: false", "switch 3 → switch 2 (member 2) in base: false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
