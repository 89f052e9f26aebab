package pipeline

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/rs/zerolog"

	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/workload"
)

const whatIfScenario = `topology:
  clos: {pods: 2, racks_per_pod: 4, hosts_per_rack: 2, planes: 2, spines_per_plane: 2, host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload:
  max_load: 50%
  flows_count: 3000
  services:
    - {name: web, sizes: webserver, sigma: 1, share: 3}
    - {name: batch, sizes: hadoop, sigma: 2}
`

func whatIfFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.yaml")
	if err := os.WriteFile(path, []byte(whatIfScenario), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// estimated runs a scenario file, some cables failed, and answers its id.
func estimated(t *testing.T, file string, o Options, fail ...string) string {
	t.Helper()
	s := mustLoad(t, file)
	s.Fail = fail
	run, err := Begin(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Estimate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return run.ScenarioID()
}

// tableRows is every row of a table of a scenario as text, file by file.
func tableRows(t *testing.T, lake string, table schema.Table, id, variant string, ablation ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(lake, filepath.FromSlash(place{id, variant}.dir(table)), "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s of %s: %v", table.Name, id, err)
	}
	var b strings.Builder
	in := openTable(table, files, nil, nil)
	for {
		rec, err := in.Next()
		if err != nil {
			break
		}
		for row := range int(rec.NumRows()) {
			for c := range int(rec.NumCols()) {
				if !slices.Contains(ablation, rec.ColumnName(c)) {
					b.WriteString(rec.Column(c).ValueStr(row))
					b.WriteByte(' ')
				}
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// "run --fail" in an empty lake and "what-if --fail" make the same scenario, row by row, under the
// same id, whatever is in the cache.
func TestWhatIfIsTheRun(t *testing.T) {
	file := whatIfFile(t)
	for _, by := range []stages.Estimator{stages.Independent, stages.Flow} {
		fresh := Options{Lake: t.TempDir(), Estimator: by, Log: zerolog.Nop()}
		want := estimated(t, file, fresh, "pod0-fabric0:plane0-spine1", "pod1-tor0:pod1-fabric1")

		o := Options{Lake: t.TempDir(), Estimator: by, Log: zerolog.Nop()}
		o.Cache = LakeCache(o.Lake)
		base := estimated(t, file, o)
		w, err := WhatIf(context.Background(), base, Changes{Fail: []string{"pod1-fabric1:pod1-tor0", "pod0-fabric0:plane0-spine1"}}, o, CompareOptions{By: []string{"service", "size_bin"}, Links: 3})
		if err != nil {
			t.Fatal(err)
		}
		if w.Other.Scenario != want || w.Both != w.BaseFlows || w.Both != 3000 {
			t.Fatalf("%s: what-if makes %+v, want %s with all flows in both", by, w.Other, want)
		}
		for _, table := range []schema.Table{schema.Nodes, schema.Links, schema.Flows, schema.Hops, schema.Slowdowns, schema.LinkStats} {
			if tableRows(t, o.Lake, table, want, w.Other.Variant, "cached") != tableRows(t, fresh.Lake, table, want, w.Other.Variant, "cached") {
				t.Errorf("%s: table %s differs from that of a run from nothing", by, table.Name)
			}
		}
		if s := casesOf(t, w.run); s.CachedCases == 0 || s.Cases == 0 {
			t.Errorf("%s: %+v: want some cases remembered and some not", by, s)
		}
		before, err := os.Stat(filepath.Join(o.Lake, place{scenario: base}.file(schema.Flows, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(filepath.Join(o.Lake, place{scenario: want}.file(schema.Flows, 0))); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the flows are not shared: %v", by, err)
		}
		if len(w.Rows) < 16 || len(w.Links) == 0 || len(w.Links) > 3 {
			t.Errorf("%s: %d rows, %d links", by, len(w.Rows), len(w.Links))
		}
		for _, r := range w.Rows {
			if r.Lo > r.Hi || r.Base < 1 || r.Other < 1 {
				t.Errorf("%s: %+v", by, r)
			}
		}
		var text bytes.Buffer
		if err := w.Write(&text); err != nil || !strings.Contains(text.String(), "fail ") {
			t.Errorf("%v\n%s", err, text.String())
		}
		if _, err := WhatIf(context.Background(), base, Changes{}, o, CompareOptions{}); err == nil || !strings.Contains(err.Error(), "nothing would change") {
			t.Errorf("no change: %v", err)
		}
	}
}

// Flows that are scaled and moved: others stay, ids are unique, starts ascend, hosts are of the new
// racks; half of a service is about half of it, and two and a half times about that.
func TestChangedFlows(t *testing.T) {
	file := whatIfFile(t)
	o := Options{Lake: t.TempDir(), Estimator: stages.Independent, Log: zerolog.Nop()}
	base := estimated(t, file, o)
	type flow struct {
		src, dst    int32
		size, start int64
		service     string
	}
	read := func(id string) (map[int64]flow, int64) {
		run, err := Resume(id, o)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		parts, err := run.flowParts()
		if err != nil {
			t.Fatal(err)
		}
		flows := map[int64]flow{}
		last := int64(0)
		in := run.lake.read(schema.Flows, parts, nil, nil)
		defer closeQuietly(in)
		for {
			rec, err := in.Next()
			if err != nil {
				return flows, last
			}
			for i := range int(rec.NumRows()) {
				f := flow{int32(value(rec, "src", i)), int32(value(rec, "dst", i)), value(rec, "size_bytes", i), value(rec, "start_ns", i), rec.Column(schema.Flows.Index("service")).ValueStr(i)}
				id := value(rec, "flow_id", i)
				if _, twice := flows[id]; twice || f.start < last || f.src == f.dst {
					t.Fatalf("flow %d: %+v after a start of %d", id, f, last)
				}
				flows[id], last = f, f.start
			}
		}
	}
	before, lastBefore := read(base)
	count := func(flows map[int64]flow, service string) (n int) {
		for _, f := range flows {
			if f.service == service {
				n++
			}
		}
		return n
	}
	derive := func(c Changes) map[int64]flow {
		t.Helper()
		w, err := WhatIf(context.Background(), base, c, o, CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		flows, last := read(w.Other.Scenario)
		if last > lastBefore {
			t.Errorf("%+v: a flow starts at %d, after all of the base's", c, last)
		}
		return flows
	}
	for _, factor := range []float64{0, 0.5, 2.5} {
		flows := derive(Changes{FlowChanges: workload.FlowChanges{Scale: map[string]float64{"batch": factor}}})
		for id, f := range before {
			if g, ok := flows[id]; f.service == "web" && g != f || factor >= 1 && !ok {
				t.Errorf("× %v: flow %d is %+v, was %+v", factor, id, g, f)
			}
		}
		want, got := factor*float64(count(before, "batch")), float64(count(flows, "batch"))
		if got < want-0.15*want || got > want+0.15*want {
			t.Errorf("× %v: %v flows, want about %v", factor, got, want)
		}
	}
	run, err := Resume(base, o)
	if err != nil {
		t.Fatal(err)
	}
	racks := run.net.Racks()
	run.Close()
	inside := map[int32]bool{}
	for _, h := range racks[6] {
		inside[h] = true
	}
	for id, f := range derive(Changes{FlowChanges: workload.FlowChanges{Move: map[string][]int{"web": {6}}}}) {
		was := before[id]
		if f.size != was.size || f.start != was.start || f.service == "batch" && f != was || f.service == "web" && !(inside[f.src] && inside[f.dst]) {
			t.Fatalf("moved: flow %d is %+v, was %+v", id, f, was)
		}
	}
	for _, bad := range []Changes{
		{FlowChanges: workload.FlowChanges{Scale: map[string]float64{"none": 2}}},
		{FlowChanges: workload.FlowChanges{Move: map[string][]int{"web": {99}}}},
		{Fail: []string{"pod0-tor0:pod1-tor0"}},
		{FailRandom: 99, FailTier: "fabric-spine"},
		{Bandwidth: []BandwidthChange{{"no-tier", 1e9}}},
	} {
		if _, err := WhatIf(context.Background(), base, bad, o, CompareOptions{}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Estimates made in different ways are refused unless told, and one with itself.
func TestCompareRefuses(t *testing.T) {
	file := whatIfFile(t)
	o := Options{Lake: t.TempDir(), Estimator: stages.Independent, Log: zerolog.Nop()}
	base := estimated(t, file, o)
	ctx := context.Background()
	o.Estimator = stages.Flow
	other, err := Derive(base, Changes{Bandwidth: []BandwidthChange{{"fabric-spine", 20e9}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Estimate(ctx); err != nil {
		t.Fatal(err)
	}
	other.Close()
	a, b := Side{Scenario: base}, Side{Scenario: other.ScenarioID()}
	if _, err := Compare(ctx, o.Lake, a, b, CompareOptions{}); !errors.Is(err, ErrDifferentWays) {
		t.Errorf("different ways: %v", err)
	}
	c, err := Compare(ctx, o.Lake, a, b, CompareOptions{Across: true})
	if err != nil || c.Rows[0].Flows != 3000 {
		t.Errorf("across: %+v, %v", c, err)
	}
	for _, bad := range [][2]Side{{a, a}, {a, {Scenario: "nothing"}}, {a, {Scenario: base, Variant: "flow-9"}}, {{}, b}} {
		if _, err := Compare(ctx, o.Lake, bad[0], bad[1], CompareOptions{Across: true}); err == nil {
			t.Errorf("%+v are compared", bad)
		}
	}
	if _, err := Compare(ctx, o.Lake, a, b, CompareOptions{Across: true, By: []string{"colour"}}); err == nil {
		t.Error("grouped by colour")
	}
}

// value is a whole number of a batch of table flows.
func value(rec arrow.Record, column string, row int) int64 {
	switch a := rec.Column(schema.Flows.Index(column)).(type) {
	case *array.Int32:
		return int64(a.Value(row))
	case *array.Int64:
		return a.Value(row)
	}
	panic("no whole number in " + column)
}
