package stages

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// ownDelays runs all link cases and returns the delay of each flow on each link of its path.
func ownDelays(t *testing.T, n *topology.Network, p *simkernel.Params, hops *captured,
	loads *Loads) map[[2]int64]int64 {
	t.Helper()
	sim, err := NewSimulator(n, *p, loads, Independent, 0)
	if err != nil {
		t.Fatal(err)
	}
	var delays, stats captured
	if _, err := sim.Simulate(context.Background(), 0, int32(len(n.Links)), hops.rewound(), nil, &delays, &stats,
		nil, nil); err != nil {
		t.Fatal(err)
	}
	own := map[[2]int64]int64{}
	for _, rec := range delays.recs {
		link, row, fct, ideal := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row"),
			columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns")
		for i := range link {
			own[[2]int64{int64(link[i]), row[i]}] = fct[i] - ideal[i]
		}
	}
	return own
}

// The differences of a failure are those of the delays in a scenario without the cable, routed and simulated anew,
// on the links whose flows change. They do not depend on ranges of links or chunks of flows.
func TestDifferencesAreThoseOfTheFailure(t *testing.T) {
	n, err := topology.Clos(topologytest.MustResolve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := simkernel.DefaultParams()
	flows := randomFlows(n, rand.New(rand.NewPCG(5, 6)), 3000)
	hops, loads := routed(t, n, &p, flows)
	before := ownDelays(t, n, &p, hops, loads)
	r, err := topology.NewRouter(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	cables, err := n.Select("fabric-spine")
	if err != nil {
		t.Fatal(err)
	}
	tors, err := n.Select("tor-fabric")
	if err != nil {
		t.Fatal(err)
	}
	failures := [][][2]int32{{cables[0]}, {cables[1]}, {tors[0]}, {cables[0], tors[0]}}
	d, err := NewDetours(n, &p, r, 1, failures)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var chunks []*DetourChunk
	for at := int64(0); at < flows.NumRows(); at += 1000 {
		c, err := d.Route(ctx, at, &captured{recs: []arrow.Record{flows.NewSlice(at, at+1000)}})
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	d.Gather(chunks)
	all := func(step int32, e Estimator) []Difference {
		sim, err := NewSimulator(n, p, loads, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		stats := make([]SimulateStats, len(failures))
		var out []Difference
		for lo := int32(0); lo < int32(len(n.Links)); lo += step {
			if out, err = sim.Differences(ctx, lo, min(lo+step, int32(len(n.Links))), hops.rewound(), d, stats,
				out); err != nil {
				t.Fatal(err)
			}
		}
		for c := range failures {
			if stats[c].Cases == 0 || stats[c].PacketHops == 0 {
				t.Errorf("failure %d: %+v", c, stats[c])
			}
		}
		return d.Differences(out)
	}
	got := all(int32(len(n.Links)), Independent)
	if !slices.Equal(got, all(7, Independent)) {
		t.Error("differences depend on the ranges of links")
	}
	if slices.Equal(got, all(7, Flow)) {
		t.Error("estimator flow's link cases have no feeders")
	}
	found := map[[2]int64]Difference{}
	for _, x := range got {
		found[[2]int64{int64(x.Failure), x.Row}] = x
	}
	for c, cables := range failures {
		failed, err := topology.Clos(topologytest.MustResolve(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, ends := range cables {
			if err := failed.Fail(ends[0], ends[1]); err != nil {
				t.Fatal(err)
			}
		}
		hops2, loads2 := routed(t, failed, &p, flows)
		changed := map[int64]bool{}
		paths, paths2 := linksOf(hops), linksOf(hops2)
		moved := 0
		for row := range paths {
			if !slices.Equal(paths[row], paths2[row]) {
				moved++
				for _, l := range slices.Concat(paths[row], paths2[row]) {
					if slices.Contains(paths[row], l) != slices.Contains(paths2[row], l) {
						changed[l] = true
					}
				}
			}
		}
		loads2.BothBusy = make([]float64, len(n.Links)) // see availableAfter
		for l, link := range failed.Links {
			was, is := loads.Links[topology.Reverse(int32(l))], loads2.Links[topology.Reverse(int32(l))]
			switch busy := is.busyNS(link.BandwidthBps, &p); {
			case was.Flows > 0 && loads.Links[l].Flows > 0:
				loads2.BothBusy[l] = min(1, loads.bothBusy(&p, link)*busy/was.busyNS(link.BandwidthBps, &p))
			default:
				loads2.BothBusy[l] = min(1, busy/float64(loads.LastStartNS-loads.FirstStartNS))
			}
		}
		after := ownDelays(t, failed, &p, hops2, loads2)
		want := map[int64]int64{}
		for k, v := range before {
			if changed[k[0]] {
				want[k[1]] -= v
			}
		}
		for k, v := range after {
			if changed[k[0]] {
				want[k[1]] += v
			}
		}
		for row, ns := range want {
			if x := found[[2]int64{int64(c), row}]; x.NS != ns || x.Lost ||
				x.IdealNS > 0 == slices.Equal(paths[row], paths2[row]) {
				t.Fatalf("cables %v, flow row %d: %+v, want %d ns", cables, row, x, ns)
			}
		}
		if moved < 50 || d.Lost()[c] != 0 {
			t.Errorf("cables %v: %d flows moved, %d lost", cables, moved, d.Lost()[c])
		}
	}
}

// linksOf returns the path of each flow, by flow row.
func linksOf(hops *captured) map[int64][]int64 {
	paths := map[int64][]int64{}
	for _, rec := range hops.recs {
		link, row := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row")
		for i := range link {
			paths[row[i]] = append(paths[row[i]], int64(link[i]))
		}
	}
	return paths
}

// A host whose cable fails loses its flows, which are nowhere then.
func TestDifferencesOfALostHost(t *testing.T) {
	n, err := topology.Clos(topologytest.MustResolve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := simkernel.DefaultParams()
	flows := randomFlows(n, rand.New(rand.NewPCG(7, 8)), 500)
	hops, loads := routed(t, n, &p, flows)
	r, err := topology.NewRouter(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	cables, err := n.Select("host-tor")
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDetours(n, &p, r, 1, [][][2]int32{cables[:1]})
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Route(context.Background(), 0, &captured{recs: []arrow.Record{flows}})
	if err != nil {
		t.Fatal(err)
	}
	d.Gather([]*DetourChunk{c})
	sim, err := NewSimulator(n, p, loads, Flow, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Differences(context.Background(), 0, int32(len(n.Links)), hops.rewound(), d,
		make([]SimulateStats, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	for _, x := range d.Differences(out) {
		if x.Lost {
			lost++
		}
	}
	host := min(cables[0][0], cables[0][1])
	want := int64(0)
	src, dst := columns.Int32s(flows, "src"), columns.Int32s(flows, "dst")
	for i := range src {
		if src[i] == host || dst[i] == host {
			want++
		}
	}
	if want == 0 || lost != want || d.Lost()[0] != want {
		t.Errorf("%d flows lost, counted %d, want %d", lost, d.Lost()[0], want)
	}
}

// Bandwidth after a failure, by hand. Without it the reverse link carries ten flows of 100 full packets, and sends in half
// of the time in which the link does; ACKs then take 60 of 1,048 bytes. Flows are gained and lost.
func TestAvailableAfter(t *testing.T) {
	n, p := topologytest.SmallNetwork(t), simkernel.DefaultParams()
	link, reverse := n.Links[0], topology.Reverse(0)
	for _, c := range []struct {
		name     string
		flows    int64 // of the reverse link, without the failure
		bothBusy float64
		hops     []int16 // of the flows that come and go
		share    float64 // of the link's time in which ACKs come
	}{
		{"nothing moves", 10, 0.5, nil, 0.5},
		{"two of ten leave", 10, 0.5, []int16{leaves, leaves}, 0.4},
		{"five come", 10, 0.5, []int16{1, 2, 1, 1, 1}, 0.75},
		{"at most all of the time", 10, 0.8, []int16{1, 1, 1, 1, 1}, 1},
		{"all leave", 10, 0.5, []int16{leaves, leaves, leaves, leaves, leaves, leaves, leaves, leaves, leaves, leaves}, 0},
		// 100 packets of 838.4 ns in 200,000 ns
		{"one comes where there was none", 0, 0, []int16{1}, 0.4192},
	} {
		loads := &Loads{Links: make([]LinkLoad, len(n.Links)), LastStartNS: 200_000, BothBusy: make([]float64, len(n.Links))}
		loads.Links[0] = LinkLoad{Flows: 1, Bytes: 1000, Packets: 1}
		loads.Links[reverse] = LinkLoad{Flows: c.flows, Bytes: c.flows * 100_000, Packets: c.flows * 100}
		loads.BothBusy[0] = c.bothBusy
		d := &Detours{params: &p, flows: []detour{{size: 100_000}}, moveAt: make([]int32, len(n.Links)+1)}
		for _, hop := range c.hops {
			d.moves = append(d.moves, move{link: reverse, hop: hop})
		}
		for id := reverse + 1; int(id) < len(d.moveAt); id++ {
			d.moveAt[id] = int32(len(d.moves))
		}
		want := 1e10 * (1 - c.share*60/1048)
		if got := float64(d.availableAfter(link, 0, loads)); math.Abs(got-want) > 1 {
			t.Errorf("%s: %v bps available, want %v", c.name, got, want)
		}
	}
}
