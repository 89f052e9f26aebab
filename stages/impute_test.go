package stages

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// The blocks of a flow of equally many packets are unchanged. In longer and shorter flows the first packet, the
// last one and the marks in between keep their places.
func TestResample(t *testing.T) {
	params := simkernel.DefaultParams()
	params.WindowBytes = 8_000 // 16 single packets
	layout := params.Layout()
	made := func(packets int64) []simkernel.Block {
		var blocks []simkernel.Block
		at := int64(0)
		for b := range layout.Blocks(packets) {
			x := simkernel.Block{WaitNS: int32(100 * (b + 1)), Hint: uint16(b)}
			for range layout.Packets(packets, b) {
				if at%3 == 0 {
					x.Marks |= 1 << simkernel.MarkBit(at)
				}
				at++
			}
			blocks = append(blocks, x)
		}
		return blocks
	}
	for _, packets := range []int64{1, 2, 15, 16, 17, 40, 1000} {
		whole := made(packets)
		for p := range packets {
			if b := layout.Of(p); b >= int64(len(whole)) || p == packets-1 && b != int64(len(whole))-1 {
				t.Fatalf("packet %d of %d is in block %d of %d", p, packets, b, len(whole))
			}
		}
		if got := resample(layout, nil, whole, packets, packets); !slices.Equal(got, whole) {
			t.Errorf("%d packets become %v, want %v", packets, got, whole)
		}
		for _, to := range []int64{1, 2, 3, 16, 33, 500} {
			got := resample(layout, nil, whole, packets, to)
			if int64(len(got)) != layout.Blocks(to) {
				t.Fatalf("%d blocks of %d packets", len(got), to)
			}
			if got[0].WaitNS != whole[0].WaitNS || got[0].Marks != 1 {
				t.Errorf("%d packets to %d: the first observed %+v, its donor %+v", packets, to, got[0], whole[0])
			}
			last := got[len(got)-1].WaitNS
			if least := whole[0].WaitNS; last < least || last > whole[len(whole)-1].WaitNS {
				t.Errorf("%d packets to %d: the last waited %d", packets, to, last)
			}
			first := int64(0)
			for b, x := range got { // no marks of packets that the flow does not have
				for bit := range 16 {
					p := first&^15 + int64(bit)
					there := p >= first && p < first+layout.Packets(to, int64(b))
					if x.Marks>>bit&1 == 1 && !there {
						t.Errorf("%d packets to %d: block %d marks packet %d", packets, to, b, p)
					}
				}
				first += layout.Packets(to, int64(b))
			}
		}
	}
}

// On an idle link a flow takes as long as alone. Of two that start together the second finds the first, and each
// takes twice as long. A host slower than the link limits its flows to its own rate.
func TestContention(t *testing.T) {
	p := simkernel.DefaultParams()
	var x contention
	x.reset(&p, 10e9)
	x.add(1_000_000, 0, 10e9)
	x.add(1_000_000, 50_000_000, 10e9)
	x.add(1_000_000, 50_000_000, 40e9)
	x.add(1_000_000, 100_000_000, 5e9)
	x.add(1_000_000, 100_000_000, 5e9)
	want := []struct{ stretch, ahead float64 }{{1, 0}, {2, 0}, {2, 1}, {1, 0}, {1, 0.5}}
	for i, c := range x.done() {
		if math.Abs(c.stretchFactor()-want[i].stretch) > 1e-9 || math.Abs(c.ahead-want[i].ahead) > 1e-9 {
			t.Errorf("flow %d: %.4f times as long, %.2f ahead; want %+v", i, c.stretchFactor(), c.ahead, want[i])
		}
		if e := c.expectedSlowdown(&x, 1000); e < 1-1e-9 || (e > 1.01) != (want[i].stretch > 1) {
			t.Errorf("flow %d expects a slowdown of %v", i, e)
		}
	}
	// Work is conserved: the link ends when it would if it served one flow after the other.
	rng := rand.New(rand.NewPCG(1, 2))
	x.reset(&p, 10e9)
	var at, last, free float64
	for range 2000 {
		at += float64(rng.Int64N(40_000))
		size := 1 + rng.Int64N(50_000)
		x.add(size, int64(at), 10e9)
		free = max(free, at) + float64(size+p.Packets(size)*p.HeaderBytes)*0.8
	}
	for _, c := range x.done() {
		last = max(last, c.endNS)
		if c.stretchFactor() < 1-1e-9 {
			t.Fatalf("served in %v of the time it needs", c.stretchFactor())
		}
	}
	if math.Abs(last-free) > 1 {
		t.Errorf("done at %v, want %v", last, free)
	}
}

// Each flow of an imputed link has the observations of a donor, most of them one of equally many packets. Other
// links have no rows, and the result does not depend on how links are partitioned.
func TestImpute(t *testing.T) {
	n, err := topology.Clos(topologytest.MustResolve(t))
	if err != nil {
		t.Fatal(err)
	}
	p := simkernel.DefaultParams()
	hops, loads := routed(t, n, &p, randomFlows(n, rand.New(rand.NewPCG(5, 6)), 4000))
	sim, err := NewSimulator(n, p, loads, Flow, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, links := context.Background(), int32(len(n.Links))
	var observed, stats captured
	if _, err := sim.Simulate(ctx, 0, links, hops.rewound(), nil, &observed, &stats, nil, nil); err != nil {
		t.Fatal(err)
	}
	of := make([]int32, links)
	var hosts []int32
	for id := range of {
		of[id] = int32(id)
		if n.FromHost(int32(id)) && loads.Links[id].Flows > 0 {
			hosts = append(hosts, int32(id))
		}
	}
	imputed := hosts[1]
	of[imputed] = hosts[0]
	donors := map[string]bool{}
	for _, r := range observed.recs {
		for i, id := range columns.Int32s(r, "link_id") {
			if id == hosts[0] {
				donors[string(columns.Bytes(r, "observed").Value(i))] = true
			}
		}
	}
	whole := impute(t, n, p, loads, of, 0, links, hops, &observed)
	parts := impute(t, n, p, loads, of, imputed, imputed+1, hops, &observed)
	if len(whole) != int(loads.Links[imputed].Flows) || !slices.Equal(whole, parts) {
		t.Fatalf("%d rows, in parts %d, want %d", len(whole), len(parts), loads.Links[imputed].Flows)
	}
	same := 0
	for _, m := range whole {
		if donors[m] {
			same++
		}
	}
	if same*2 < len(whole) {
		t.Errorf("%d of %d flows have the observations of a donor", same, len(whole))
	}
	bad := slices.Clone(of)
	for id := range of {
		if loads.Links[id].Flows == 0 {
			bad[imputed] = int32(id)
			l := NewImputer(n, p, loads, bad)
			if err := l.Impute(ctx, 0, links, hops.rewound(), hops.rewound(), observed.rewound(),
				&captured{}); err == nil || !strings.Contains(err.Error(), "carries no flows") {
				t.Errorf("represented by an idle link: %v", err)
			}
			break
		}
	}
	l := NewImputer(n, p, loads, of)
	if err := l.Impute(ctx, 0, links, hops.rewound(), hops.rewound(), &captured{}, &captured{}); err == nil ||
		!strings.Contains(err.Error(), "hop_observations") {
		t.Errorf("without hop_observations: %v", err)
	}
	l.Settle(Settled{hosts[0]: {}})
	var none captured
	if err := l.Impute(ctx, 0, links, hops.rewound(), hops.rewound(), &captured{}, &none); err != nil {
		t.Errorf("its representative has settled: %v", err)
	}
	for _, r := range none.recs {
		if r.NumRows() > 0 {
			t.Errorf("its representative has settled: %d rows", r.NumRows())
		}
	}
}

// impute returns column observed of the rows that Impute writes.
func impute(t *testing.T, n *topology.Network, p simkernel.Params, loads *Loads, of []int32, lo, hi int32,
	hops, observed *captured) []string {
	t.Helper()
	var out captured
	if err := NewImputer(n, p, loads, of).Impute(context.Background(), lo, hi, hops.rewound(), hops.rewound(),
		observed.rewound(), &out); err != nil {
		t.Fatal(err)
	}
	var rows []string
	last := int64(-1)
	for _, r := range out.recs {
		for i, row := range columns.Int64s(r, "flow_row") {
			if row < last {
				t.Error("rows are not sorted by flow")
			}
			last = row
			rows = append(rows, string(columns.Bytes(r, "observed").Value(i)))
		}
	}
	return rows
}
