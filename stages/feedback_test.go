package stages

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// waitsTable makes rows of hop_observations of one flow of three hops, row 7, over links 4, 2 and 0.
func waitsTable(observed ...[]simkernel.Block) *captured { return waitsTableOf(3, observed) }

// waitsOf is the same of a flow that has no more hops than are given.
func waitsOf(observed ...[]simkernel.Block) *captured { return waitsTableOf(len(observed), observed) }

func waitsTableOf(of int, observed [][]simkernel.Block) *captured {
	var c captured
	n := len(observed)
	rows, hop, hops, link := make([]int64, n), make([]int16, n), make([]int16, n), []int32{4, 2, 0}
	for h := range n {
		rows[h], hop[h], hops[h] = 7, int16(h), int16(of)
	}
	var all columns.Arena
	order := make([]int32, n)
	for h, blocks := range observed {
		all.Add(appendBlocks(nil, blocks))
		order[h] = int32(h)
	}
	if err := columns.Write(&c, schema.HopObservations, n, columns.Of(rows), columns.Of(hop), columns.Of(hops), columns.Of(link[:n]), new(columns.Binary).Of(&all, order)); err != nil {
		panic(err)
	}
	return &c
}

// toldOf reads table elsewhere by link.
func toldOf(t *testing.T, c *captured) map[int32][]simkernel.Block {
	t.Helper()
	out := map[int32][]simkernel.Block{}
	last := int32(-1)
	for _, r := range c.recs {
		for i, link := range columns.Int32s(r, "link_id") {
			if link < last {
				t.Error("table elsewhere is not sorted by link")
			}
			last = link
			blocks, err := readBlocks(nil, columns.Named(r, "observed").(*array.Binary).Value(i))
			if err != nil {
				t.Fatal(err)
			}
			out[link] = blocks
		}
	}
	return out
}

func relaxed(t *testing.T, pass int, w Ablation, observed, given *captured) map[int32][]simkernel.Block {
	t.Helper()
	n, err := topology.NewNetwork([]topology.Node{{ID: 0, Kind: topology.KindHost}, {ID: 1, Kind: topology.KindHost}, {ID: 2, Kind: topology.KindTor}, {ID: 3, Kind: topology.KindTor}},
		[]topology.Cable{{A: 0, B: 2, BandwidthBps: 1e10, DelayNS: 1}, {A: 2, B: 3, BandwidthBps: 1e10, DelayNS: 1}, {A: 3, B: 1, BandwidthBps: 1e10, DelayNS: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var out captured
	var before schema.Batches
	if given != nil {
		before = given.rewound()
	}
	if err := NewFeedbackBuilder(n, simkernel.DCTCP, 1, pass, w).HopFeedback(context.Background(), 7, 1, observed.rewound(), before, &out); err != nil {
		t.Fatal(err)
	}
	return toldOf(t, &out)
}

// By hand: the host's own case is told all waits of the other hops, those in the network the mean of
// nothing and what was found; marks of other hops count at every hop, or at none, as the coin falls.
func TestRelaxTellsTheOtherHops(t *testing.T) {
	observed := waitsTable(
		[]simkernel.Block{{WaitNS: 100}},                       // hop 0, link 4: held at the host
		[]simkernel.Block{{WaitNS: 1000, Marks: 1}, {}},        // hop 1, link 2
		[]simkernel.Block{{WaitNS: 60}, {WaitNS: 8, Marks: 2}}) // hop 2, link 0
	got := relaxed(t, 1, 0, observed, nil)
	if want := (simkernel.Block{WaitNS: 1060, Marks: 1}); got[4][0] != want || got[4][1] != (simkernel.Block{WaitNS: 8, Marks: 2}) {
		t.Errorf("the host is told %+v", got[4])
	}
	if b := got[2][0]; b.NICWaitNS != 50 || b.WaitNS != 30 || b.Marks != 0 {
		t.Errorf("link 2 is told %+v", got[2])
	}
	if b := got[0][0]; b.NICWaitNS != 50 || b.UpstreamNS != 500 || b.WaitNS != 0 || b.Marks > 1 {
		t.Errorf("link 0 is told %+v", got[0])
	}
	whole := relaxed(t, 1, AblateDamping, observed, nil)
	if b := whole[0][0]; b != (simkernel.Block{NICWaitNS: 100, UpstreamNS: 1000, Marks: 1}) {
		t.Errorf("undamped, link 0 is told %+v", b)
	}
	none := relaxed(t, 1, AblateNICWaits|AblateWaits|AblateMarks, observed, nil)
	if len(none[0]) != 0 || none[4][0].WaitNS != 1060 {
		t.Errorf("without anything, link 0 is told %+v, the host %+v", none[0], none[4])
	}
}

// Coins fall evenly, and hops of a flow hear of the same pass.
func TestRelaxedMarksAreTheMean(t *testing.T) {
	x := NewFeedbackBuilder(testClos(t), simkernel.DCTCP, 1, 1, 0)
	kept := 0
	for row := range int64(10_000) {
		if x.keeps(row, 3) {
			kept++
		}
		if x.keeps(row, 3) != x.keeps(row, 15) {
			t.Fatal("packets of one window hear of different passes")
		}
	}
	if kept < 4800 || kept > 5200 {
		t.Errorf("%d of 10,000 keep what they were told", kept)
	}
}

// A flow that lacks a hop, and bytes that are no waits, are refused by row.
func TestRelaxRefuses(t *testing.T) {
	n := testClos(t)
	missing := waitsTable(nil, nil)
	var c captured
	var damaged columns.Arena
	damaged.Add([]byte{0x80})
	if err := columns.Write(&c, schema.HopObservations, 1, columns.Of([]int64{7}), columns.Of([]int16{0}), columns.Of([]int16{1}), columns.Of([]int32{1}),
		new(columns.Binary).Of(&damaged, []int32{0})); err != nil {
		t.Fatal(err)
	}
	for _, observed := range []*captured{missing, &c} {
		err := NewFeedbackBuilder(n, simkernel.DCTCP, 1, 1, 0).HopFeedback(context.Background(), 7, 1, observed.rewound(), nil, &captured{recs: []arrow.Record{}})
		if err == nil || !strings.Contains(err.Error(), "flow row 7") {
			t.Errorf("error %v", err)
		}
	}
}

// others is the obvious way to what hop h is told of block b: a look at every other hop.
func (x *FeedbackBuilder) others(row int64, hops [][]simkernel.Block, before []simkernel.Block, h, b int) simkernel.Block {
	var hold, late, wait int64
	var marks, hint uint16
	for j := range hops {
		if j == h || b >= len(hops[j]) {
			continue
		}
		m := &hops[j][b]
		switch {
		case j == 0:
			hold = int64(m.WaitNS)
		case j < h:
			late += int64(m.WaitNS)
		default:
			wait += int64(m.WaitNS)
		}
		marks |= m.Marks
		if j > 0 {
			hint = x.transport.JoinHints(hint, m.Hint)
		}
	}
	if h > 0 {
		var was simkernel.Block
		if b < len(before) {
			was = before[b]
		}
		hold, late, wait = (hold+int64(was.NICWaitNS)+1)/2, (late+int64(was.UpstreamNS)+1)/2, (wait+int64(was.WaitNS)+1)/2
		if marks != was.Marks && x.keeps(row, b) {
			marks = was.Marks
		}
	}
	return simkernel.Block{NICWaitNS: short(hold), UpstreamNS: short(late), WaitNS: short(wait), Marks: marks, Hint: hint}
}

// Summed up once along a flow's path, every hop is told what a look at every other hop for each of them
// says, whatever the lengths; and after the last pass the host's own link what it would be told before another.
func TestRelaxIsItsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	random := func(late bool) []simkernel.Block {
		blocks := make([]simkernel.Block, rng.IntN(5))
		for i := range blocks {
			b := &blocks[i]
			b.WaitNS, b.Marks, b.Hint = rng.Int32N(3)*rng.Int32N(1<<uint(rng.IntN(31))), uint16(rng.IntN(3)*rng.IntN(1<<16)), uint16(rng.IntN(2)*rng.IntN(1<<16))
			if late {
				b.UpstreamNS, b.NICWaitNS = rng.Int32N(1000), rng.Int32N(1000)
			}
		}
		return blocks
	}
	for _, transport := range []simkernel.Transport{simkernel.DCTCP, simkernel.TIMELY} {
		for range 500 {
			x := NewFeedbackBuilder(testClos(t), transport, 1, 2, 0)
			hops := make([][]simkernel.Block, 1+rng.IntN(3))
			before := make([][]simkernel.Block, len(hops))
			for h := range hops {
				hops[h], before[h] = random(false), random(true)
			}
			var all, out, last captured
			var observed columns.Arena
			n := len(hops)
			rows, hop, link, order := make([]int64, n), make([]int16, n), []int32{4, 2, 0}, []int32{0, 1, 2}
			for h := range n {
				observed.Add(appendBlocks(nil, before[h]))
				rows[h], hop[h] = 7, int16(h)
			}
			if err := columns.Write(&all, schema.Feedback, n, columns.Of(link[:n]), columns.Of(rows), columns.Of(hop), new(columns.Binary).Of(&observed, order[:n])); err != nil {
				t.Fatal(err)
			}
			found := waitsOf(hops...)
			if err := x.HopFeedback(context.Background(), 7, 1, found.rewound(), all.rewound(), &out); err != nil {
				t.Fatal(err)
			}
			got := toldOf(t, &out)
			for h := range n {
				given := got[link[h]]
				for b := range 6 {
					want := x.others(7, hops, before[h], h, b)
					var have simkernel.Block
					if b < len(given) {
						have = given[b]
					}
					if have != want {
						t.Fatalf("hop %d of %d, block %d: %+v, want %+v", h, n, b, have, want)
					}
				}
			}
			if err := x.SenderFeedbackOf(context.Background(), 7, 1, found.rewound(), &last); err != nil {
				t.Fatal(err)
			}
			if tells := toldOf(t, &last); len(tells) != 1 || !slices.Equal(tells[link[0]], got[link[0]]) {
				t.Fatalf("after the last pass the host is told %v, before another %v", tells, got[link[0]])
			}
		}
	}
}
