package stages

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// observationTable returns table hop_observations of one flow of three hops, row 7, over links 4, 2 and 0.
func observationTable(observed ...[]simkernel.Block) *captured {
	return observationTableOf(3, observed)
}

// observationsOf is observationTable for a flow that has only the given hops.
func observationsOf(observed ...[]simkernel.Block) *captured {
	return observationTableOf(len(observed), observed)
}

func observationTableOf(of int, observed [][]simkernel.Block) *captured {
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

// feedbackOf returns the blocks of a feedback table by link.
func feedbackOf(t *testing.T, c *captured) map[int32][]simkernel.Block {
	t.Helper()
	out := map[int32][]simkernel.Block{}
	last := int32(-1)
	for _, r := range c.recs {
		for i, link := range columns.Int32s(r, "link_id") {
			if link < last {
				t.Error("table feedback is not sorted by link")
			}
			last = link
			blocks, err := readBlocks(nil, columns.Bytes(r, "observed").Value(i))
			if err != nil {
				t.Fatal(err)
			}
			out[link] = blocks
		}
	}
	return out
}

func feedbackAfter(t *testing.T, pass int, w Ablation, observed, given *captured) map[int32][]simkernel.Block {
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
	if err := NewFeedbackBuilder(n, dctcpParams(), 1, pass, w).Build(context.Background(), EveryHop, 7, 1, observed.rewound(), before, &out); err != nil {
		t.Fatal(err)
	}
	return feedbackOf(t, &out)
}

// Hand-computed: hop 0 receives the waits of all other hops; the hops behind it receive the mean of zero and
// of the observations, and the marks of the other hops or none, as the random bit says.
func TestFeedbackOfThreeHops(t *testing.T) {
	observed := observationTable(
		[]simkernel.Block{{WaitNS: 100}},                       // hop 0, link 4: NIC wait
		[]simkernel.Block{{WaitNS: 1000, Marks: 1}, {}},        // hop 1, link 2
		[]simkernel.Block{{WaitNS: 60}, {WaitNS: 8, Marks: 2}}) // hop 2, link 0
	got := feedbackAfter(t, 1, 0, observed, nil)
	if want := (simkernel.Block{WaitNS: 1060, Marks: 1}); got[4][0] != want || got[4][1] != (simkernel.Block{WaitNS: 8, Marks: 2}) {
		t.Errorf("hop 0 receives %+v", got[4])
	}
	if b := got[2][0]; b.NICWaitNS != 50 || b.WaitNS != 30 || b.Marks != 0 {
		t.Errorf("link 2 receives %+v", got[2])
	}
	if b := got[0][0]; b.NICWaitNS != 50 || b.UpstreamNS != 500 || b.WaitNS != 0 || b.Marks > 1 {
		t.Errorf("link 0 receives %+v", got[0])
	}
	whole := feedbackAfter(t, 1, AblateDamping, observed, nil)
	if b := whole[0][0]; b != (simkernel.Block{NICWaitNS: 100, UpstreamNS: 1000, Marks: 1}) {
		t.Errorf("undamped, link 0 receives %+v", b)
	}
	none := feedbackAfter(t, 1, AblateNICWaits|AblateWaits|AblateMarks, observed, nil)
	if len(none[0]) != 0 || none[4][0].WaitNS != 1060 {
		t.Errorf("with all feedback left out, link 0 receives %+v, hop 0 %+v", none[0], none[4])
	}
}

// The random bits are fair, and the blocks of one window share one.
func TestDampedMarksKeepHalf(t *testing.T) {
	x := NewFeedbackBuilder(testClos(t), dctcpParams(), 1, 1, 0)
	kept := 0
	for row := range int64(10_000) {
		if x.keepsMarks(row, 3) {
			kept++
		}
		if x.keepsMarks(row, 3) != x.keepsMarks(row, 15) {
			t.Fatal("blocks of one window take marks of different passes")
		}
	}
	if kept < 4800 || kept > 5200 {
		t.Errorf("%d of 10,000 keep the previous marks", kept)
	}
}

// A flow without all of its hops, and bytes that are no blocks, are errors that name the row.
func TestFeedbackErrors(t *testing.T) {
	n := testClos(t)
	missing := observationTable(nil, nil)
	var c captured
	var damaged columns.Arena
	damaged.Add([]byte{0x80})
	if err := columns.Write(&c, schema.HopObservations, 1, columns.Of([]int64{7}), columns.Of([]int16{0}), columns.Of([]int16{1}), columns.Of([]int32{1}),
		new(columns.Binary).Of(&damaged, []int32{0})); err != nil {
		t.Fatal(err)
	}
	for _, observed := range []*captured{missing, &c} {
		err := NewFeedbackBuilder(n, dctcpParams(), 1, 1, 0).Build(context.Background(), EveryHop, 7, 1, observed.rewound(), nil, &captured{recs: []arrow.Record{}})
		if err == nil || !strings.Contains(err.Error(), "flow row 7") {
			t.Errorf("error %v", err)
		}
	}
}

// others computes the feedback of hop h for block b directly from every other hop.
func (x *FeedbackBuilder) others(row int64, hops [][]simkernel.Block, previous []simkernel.Block, h, b int) simkernel.Block {
	var nicWait, before, behind int64
	var marks, hint uint16
	for j := range hops {
		if j == h || b >= len(hops[j]) {
			continue
		}
		m := &hops[j][b]
		switch {
		case j == 0:
			nicWait = int64(m.WaitNS)
		case j < h:
			before += int64(m.WaitNS)
		default:
			behind += int64(m.WaitNS)
		}
		marks |= m.Marks
		if j > 0 {
			hint = x.transport.JoinHints(hint, m.Hint)
		}
	}
	if h > 0 {
		var was simkernel.Block
		if b < len(previous) {
			was = previous[b]
		}
		nicWait, before, behind = (nicWait+int64(was.NICWaitNS)+1)/2, (before+int64(was.UpstreamNS)+1)/2, (behind+int64(was.WaitNS)+1)/2
		if marks != was.Marks && x.keepsMarks(row, b) {
			marks = was.Marks
		}
	}
	return simkernel.Block{NICWaitNS: clampNS(nicWait), UpstreamNS: clampNS(before), WaitNS: clampNS(behind), Marks: marks, Hint: hint}
}

// The sums along a flow's path agree with the direct computation for every hop, whatever the lengths; and hop 0
// receives the same in both scopes.
func TestFeedbackIsItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	blocksOf := func(feedback bool) []simkernel.Block {
		blocks := make([]simkernel.Block, random.IntN(5))
		for i := range blocks {
			b := &blocks[i]
			b.WaitNS, b.Marks, b.Hint = random.Int32N(3)*random.Int32N(1<<uint(random.IntN(31))), uint16(random.IntN(3)*random.IntN(1<<16)), uint16(random.IntN(2)*random.IntN(1<<16))
			if feedback {
				b.UpstreamNS, b.NICWaitNS = random.Int32N(1000), random.Int32N(1000)
			}
		}
		return blocks
	}
	for _, transport := range []simkernel.Transport{simkernel.DCTCP, simkernel.TIMELY} {
		for range 500 {
			p := simkernel.ParamsOf(transport)
			x := NewFeedbackBuilder(testClos(t), &p, 1, 2, 0)
			hops := make([][]simkernel.Block, 1+random.IntN(3))
			before := make([][]simkernel.Block, len(hops))
			for h := range hops {
				hops[h], before[h] = blocksOf(false), blocksOf(true)
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
			found := observationsOf(hops...)
			if err := x.Build(context.Background(), EveryHop, 7, 1, found.rewound(), all.rewound(), &out); err != nil {
				t.Fatal(err)
			}
			got := feedbackOf(t, &out)
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
			if err := x.Build(context.Background(), SenderHop, 7, 1, found.rewound(), nil, &last); err != nil {
				t.Fatal(err)
			}
			if sender := feedbackOf(t, &last); len(sender) != 1 || !slices.Equal(sender[link[0]], got[link[0]]) {
				t.Fatalf("hop 0 receives %v for the replay and %v for the next pass", sender, got[link[0]])
			}
		}
	}
}

func dctcpParams() *simkernel.Params {
	p := simkernel.DefaultParams()
	return &p
}
