package stages

import (
	"math"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// linkTable returns table link_stats of a network with the given loads and waits by link.
func linkTable(t *testing.T, n *topology.Network, load, waitNS func(link int32) float64) *captured {
	t.Helper()
	var link, src, dst []int32
	var count, bandwidth, bytes []int64
	var tier []string
	var loads, waits []float64
	for _, l := range n.Links {
		link, src, dst, tier = append(link, l.ID), append(src, l.Src), append(dst, l.Dst), append(tier, l.Tier)
		count, bytes = append(count, 100), append(bytes, 100_000)
		bandwidth = append(bandwidth, l.BandwidthBps)
		loads, waits = append(loads, load(l.ID)), append(waits, waitNS(l.ID))
	}
	var out captured
	c, bps := columns.Of(count), columns.Of(bandwidth)
	err := columns.Write(&out, schema.LinkStats, len(link), columns.Of(link), columns.Of(src), columns.Of(dst),
		columns.Strings(tier), bps, bps, c, columns.Of(bytes), c, columns.Of(loads),
		c, c, c, c, c, columns.Of(waits), columns.Of(waits), columns.Of(waits), columns.Bools(make([]bool, len(link))))
	if err != nil {
		t.Fatal(err)
	}
	return &out
}

func zero(int32) float64 { return 0 }

// watched returns a finder that has read, in two chunks, 200 flows of two hops over SmallNetwork: host 0 → tor → host 1
// if first says so, else host 2 → tor → host 3, with the given delays at the two hops.
func watched(t *testing.T, e Estimator, load func(int32) float64, first func(i int) bool,
	delays func(i int) [2]float64) *WeaknessFinder {
	t.Helper()
	n := topologytest.SmallNetwork(t)
	w, err := NewWeaknessFinder(n, simkernel.DefaultParams(), e, Tails{All: 5}, linkTable(t, n, load, zero))
	if err != nil {
		t.Fatal(err)
	}
	var hops captured
	var out []contributionRow
	for i := range 200 {
		path := [2]int32{4, 7}
		if first(i) {
			path = [2]int32{0, 3}
		}
		for h, d := range delays(i) {
			out = append(out, contributionRow{int64(i), int16(h), 2, path[h], d, 0})
		}
	}
	if err := contributionTable.Write(&hops, out); err != nil {
		t.Fatal(err)
	}
	slow := made(t, func(i int) float64 {
		d := delays(i)
		return 1 + d[0] + d[1]
	}, 200)
	for _, chunk := range [][2]int64{{0, 120}, {120, 80}} {
		if err := w.Watch(chunk[0], chunk[1], slow.rewound(), hops.rewound()); err != nil {
			t.Fatal(err)
		}
	}
	if w.flows != 200 {
		t.Fatalf("%d flows watched", w.flows)
	}
	return w
}

// Each condition is reported where it holds, and only there.
func TestWeaknesses(t *testing.T) {
	every := func(n int) func(int) bool { return func(i int) bool { return i%n == 0 } }
	even := func(int) [2]float64 { return [2]float64{3, 3} }
	hot := func(links ...int32) func(int32) float64 {
		return func(l int32) float64 {
			for _, h := range links {
				if l == h {
					return 0.65
				}
			}
			return 0.55
		}
	}
	for _, c := range []struct {
		name   string
		by     Estimator
		load   func(int32) float64
		first  func(int) bool
		delays func(int) [2]float64
		moved  float64
		want   []string
	}{
		{"nothing", Flow, hot(), every(2), even, 0.1, nil},
		{"both hops of one flow in four", Flow, hot(0, 3), every(4), even, 0,
			nil},
		{"one hop of them", Flow, hot(0), every(2), even, 0, nil},
		{"both hops by the paper's method", Independent, hot(0, 3), every(10), even, 0.9, []string{"loaded twice: 10%"}},
		{"one hop by the paper's method", Independent, hot(0), every(2), even, 0.9, nil},
		{"unsettled", Flow, hot(), every(2), even, 0.3,
			[]string{"unsettled: the second pass moved the waits in the switches by 30%"}},
		{"one pass", Flow, hot(), every(2), even, -1, []string{"unsettled: one pass only"}},
		{"no tail", Flow, hot(), every(4), func(int) [2]float64 { return [2]float64{} }, 0, nil},
	} {
		finder := watched(t, c.by, c.load, c.first, c.delays)
		var moved *Movement
		if c.moved >= 0 {
			moved = &Movement{Share: c.moved, Links: make([]float64, len(finder.net.Links))}
		}
		found := finder.Weaknesses(moved, nil)
		ok := len(found) == len(c.want)
		for i := range found {
			ok = ok && strings.HasPrefix(found[i].Kind+": "+found[i].Warning, c.want[i])
		}
		if !ok {
			t.Errorf("%s: %+v, want %q", c.name, found, c.want)
		}
		rec := WeaknessRecord(found)
		if rec.NumRows() != int64(len(found)) {
			t.Errorf("%s: %d rows of %d", c.name, rec.NumRows(), len(found))
		}
		rec.Release()
	}
}

// Slow flows that wait at three links on average are named; NIC waits do not count.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		delays       []float64
		ofAll, ofBin bool
		want         string
	}{
		{[]float64{90, 50, 50, 50}, true, false, "spread: the slowest 1% of flows wait at 3.0 links"},
		{[]float64{90, 50, 50, 50}, false, true, "spread: the slowest 1% of flows of 10-100 KB wait at 3.0 links"},
		{[]float64{90, 50, 50, 50}, false, false, ""},
		{[]float64{90, 50, 50}, true, true, ""},
		{[]float64{90, 0, 70, 1, 1}, true, true, ""},
		{[]float64{90}, true, true, ""},
		{nil, true, true, ""},
	} {
		w := &WeaknessFinder{}
		for range 5 {
			w.addSpread(c.ofAll, c.ofBin, 50_000, c.delays)
		}
		got := ""
		for _, x := range w.spreadOut() {
			got = x.Kind + ": " + x.Warning
		}
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.delays, got, c.want)
		}
	}
}

// A pass that reduces all waits in switches by a quarter has moved them by a third of their new sum. Hosts' uplinks do
// not count.
func TestMoved(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	before := linkTable(t, n, zero, func(l int32) float64 { return 400 + float64(l) })
	after := linkTable(t, n, zero, func(l int32) float64 {
		if n.FromHost(l) {
			return 1e6
		}
		return 0.75 * (400 + float64(l))
	})
	moved, err := Moved(n, before.rewound(), after.rewound())
	if err != nil || moved.Share < 0.333 || moved.Share > 0.334 {
		t.Errorf("moved by %+v, %v", moved, err)
	} else {
		for link, by := range moved.Links {
			if n.FromHost(int32(link)) != (by == 0) || by != 0 && math.Abs(by+1.0/3) > 1e-9 {
				t.Errorf("the waits of link %d moved by %g", link, by)
			}
		}
	}
	idle := linkTable(t, n, zero, zero)
	if moved, err := Moved(n, idle.rewound(), idle.rewound()); err != nil || moved.Share != 0 {
		t.Errorf("a network without waits moved by %+v, %v", moved, err)
	}
}

// Flows that their link cannot send beside each other by their estimated ends are named, with how many and by how much.
func TestRefutedEstimates(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for _, c := range []struct {
		name, want string
		fct        int64
	}{
		{"all in time", "", 100 * 9000 * 2},
		{"half the time that the link needs", "too early: 47 of 100 flows are estimated to end earlier than the links", 100 * 9000 / 2},
	} {
		w, err := NewWeaknessFinder(n, simkernel.DefaultParams(), Flow, Tails{All: 5}, linkTable(t, n, zero, zero))
		if err != nil {
			t.Fatal(err)
		}
		var slow, hops captured
		var out []contributionRow
		var row, start, size, ideal, fct []int64
		var host []int32
		var count []int16
		var slowdown []float64
		for i := range 100 { // of 10 KB each, at once
			row, start, size, host = append(row, int64(i)), append(start, 0), append(size, 10_000), append(host, 0)
			ideal, fct = append(ideal, 10_000), append(fct, c.fct+int64(i))
			count, slowdown = append(count, 2), append(slowdown, float64(c.fct)/10_000)
			out = append(out, contributionRow{int64(i), 0, 2, 0, 0, 0}, contributionRow{int64(i), 1, 2, 3, 0, 0})
		}
		text := columns.Strings(make([]string, 100))
		text.Retain()
		err = columns.Write(&slow, schema.Slowdowns, 100, columns.Of(row), columns.Of(row), columns.Of(host), columns.Of(host), text, text,
			columns.Of(size), columns.Of(start), columns.Of(count), columns.Of(ideal), columns.Of(fct), columns.Of(make([]int64, 100)), columns.Of(slowdown))
		if err != nil {
			t.Fatal(err)
		}
		if err := contributionTable.Write(&hops, out); err != nil {
			t.Fatal(err)
		}
		if err := w.Watch(0, 100, slow.rewound(), hops.rewound()); err != nil {
			t.Fatal(err)
		}
		got := w.refuted()
		if len(got) != min(1, len(c.want)) || len(got) == 1 && !strings.HasPrefix(got[0].Kind+": "+got[0].Warning, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
