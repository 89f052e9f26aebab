package flow

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// observationTable returns table hop_observations of one flow, row 7, whose path has three hops over links 4,
// 2 and 0. Hops that are nil have no row.
func observationTable(observed ...[]simkernel.Block) *tables.Memory {
	var c tables.Memory
	var rows []tables.Observation
	var all columns.Arena
	var order []int32
	for h, blocks := range observed {
		if blocks == nil {
			continue
		}
		all.Add(linksim.AppendBlocks(nil, blocks))
		order = append(order, int32(len(rows)))
		rows = append(rows, tables.Observation{
			FlowRow: 7, Hop: int16(h), Hops: 3, LinkID: []int32{4, 2, 0}[h],
			Observed: columns.Item(len(rows)),
		})
	}
	if err := tables.HopObservations.WriteOrdered(&c, rows, order, &all); err != nil {
		panic(err)
	}
	return &c
}

// feedbackOf returns the blocks of a feedback table, by link.
func feedbackOf(t *testing.T, c *tables.Memory) map[int32][]simkernel.Block {
	t.Helper()
	out := map[int32][]simkernel.Block{}
	last := int32(-1)
	for _, r := range c.Records {
		for i, link := range columns.Int32s(r, "link_id") {
			if link < last {
				t.Error("table feedback is not sorted by link")
			}
			last = link
			blocks, err := linksim.ReadBlocks(nil, columns.Named(r, "observed").(*array.Binary).Value(i))
			if err != nil {
				t.Fatal(err)
			}
			out[link] = blocks
		}
	}
	return out
}

// lineNetwork is a path of three links, 4, 2 and 0, from host 1 to host 0. Link 2 is the slowest.
func lineNetwork(t *testing.T) *topology.Network {
	t.Helper()
	n, err := topology.NewNetwork([]topology.Node{{ID: 0, Kind: topology.KindHost},
		{ID: 1, Kind: topology.KindHost}, {ID: 2, Kind: topology.KindTor}, {ID: 3, Kind: topology.KindTor}},
		[]topology.Cable{{A: 2, B: 0, BandwidthBps: 4e10, DelayNS: 1},
			{A: 3, B: 2, BandwidthBps: 1e10, DelayNS: 1}, {A: 1, B: 3, BandwidthBps: 4e10, DelayNS: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lineFlow is a chunk of one flow, in row 7, from host 1 to host 0 of lineNetwork.
func lineFlow() slowdown.Chunk {
	flow := methodtest.FlowRecord(workload.Row{ID: 70, Src: 1, SizeBytes: 1000})
	return slowdown.Chunk{FirstRow: 7, Rows: 1, Flows: methodtest.Table(flow).Read()}
}

// lineRouted is what route writes about flows from host 1 to host 0 of lineNetwork, by default about that of
// lineFlow. It writes table hops to hops.
func lineRouted(t *testing.T, m *step.Model, hops *tables.Memory, sizes ...int64) slowdown.Routed {
	t.Helper()
	if len(sizes) == 0 {
		sizes = []int64{1000}
	}
	var rows []workload.Row
	for _, size := range sizes {
		rows = append(rows, workload.Row{Src: 1, SizeBytes: size})
	}
	var paths, loads tables.Memory
	flows := methodtest.Table(methodtest.FlowRecord(rows...))
	out := route.Sink{Hops: hops, Paths: &paths, Loads: &loads}
	if _, err := route.Flows(t.Context(), m, route.Chunk{FirstRow: 7, Flows: flows.Read()}, out); err != nil {
		t.Fatal(err)
	}
	return slowdown.Routed{Paths: paths.Read(), Loads: loads.Read()}
}

// lineModel is a model of lineNetwork.
func lineModel(t *testing.T) *step.Model {
	t.Helper()
	return methodtest.DCTCP(t, lineNetwork(t))
}

// built runs a builder on the flow in row 7 and returns the feedback by link.
func built(t *testing.T, x *FeedbackBuilder, senders bool,
	observed *tables.Memory) map[int32][]simkernel.Block {
	t.Helper()
	var out tables.Memory
	var err error
	if senders {
		err = x.ForSenders(t.Context(), lineFlow(), lineRouted(t, x.model, &tables.Memory{}), observed.Read(), &out)
	} else {
		err = x.ForPass(t.Context(), lineFlow(), observed.Read(), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return feedbackOf(t, &out)
}

// Computed by hand: of a wait w, a hop sends w (w + r) / (2 w + r), where r is the round trip. NIC waits are
// not damped, and neither is the feedback of the replay. Hop 0 receives the waits from the slowest link on
// separately from those before it.
func TestFeedbackOfThreeHops(t *testing.T) {
	m := lineModel(t)
	observed := observationTable(
		[]simkernel.Block{{WaitNS: 100}},           // hop 0, link 4: NIC wait
		[]simkernel.Block{{WaitNS: 1_000_000}, {}}, // hop 1, link 2
		[]simkernel.Block{{WaitNS: 60}, {WaitNS: 8, Marks: 2}})
	got := built(t, NewFeedbackBuilder(m, nil), false, observed)
	// The round trip is 6 ns of propagation, 838 + 2 × 210 ns for the packet, and 48 + 2 × 12 ns for its ACK.
	const trip = 6 + 838 + 2*210 + 48 + 2*12
	long := int32(1_000_000 * (1_000_000 + trip) / (2_000_000 + trip))
	short := int32(60 * (60 + trip) / (120 + trip))
	b := got[2][0]
	if b != (simkernel.Block{NICWaitNS: 100, WaitNS: short}) {
		t.Errorf("link 2 receives %+v", b)
	}
	b = got[0][0]
	if b != (simkernel.Block{NICWaitNS: 100, UpstreamNS: long}) || len(got) != 2 {
		t.Errorf("link 0 receives %+v, of %d links", b, len(got))
	}
	got = built(t, NewFeedbackBuilder(m, linksim.Omitted{2: {}}), false, observed)
	if len(got) != 1 || len(got[0]) == 0 {
		t.Errorf("where the case of link 2 is omitted, links receive %+v", got)
	}
	last := built(t, NewFeedbackBuilder(m, nil), true, observed)
	if len(last) != 1 || last[4][0] != (simkernel.Block{WaitNS: 1_000_060}) ||
		last[4][1] != (simkernel.Block{WaitNS: 8, Marks: 2}) {
		t.Errorf("for the replay link 4 receives %+v", last)
	}
}

// If a hop has two rows, the first is used.
func TestFeedbackTakesTheFirstRow(t *testing.T) {
	newer := observationTable(nil, []simkernel.Block{{WaitNS: 5}})
	older := observationTable([]simkernel.Block{{}}, []simkernel.Block{{WaitNS: 9}},
		[]simkernel.Block{{WaitNS: 70}})
	var both tables.Memory
	for _, c := range []*tables.Memory{newer, older} {
		both.Records = append(both.Records, c.Records...)
	}
	got := built(t, NewFeedbackBuilder(lineModel(t), nil), true, &both)
	b := got[4][0]
	if b != (simkernel.Block{WaitNS: 75}) {
		t.Errorf("link 4 receives %+v", b)
	}
}

// Marks are kept with the given probability, and all blocks of a window share the choice.
func TestMarksAreTakenByWeight(t *testing.T) {
	x := NewFeedbackBuilder(methodtest.DCTCP(t, methodtest.Clos(t)), nil)
	for _, probability := range []float64{0, 0.5, 0.75, 1} {
		taken := 0
		for row := range int64(10_000) {
			if x.keepsMarks(row, 3, probability) {
				taken++
			}
			if x.keepsMarks(row, 3, probability) != x.keepsMarks(row, 15, probability) {
				t.Fatal("blocks of one window take marks of different passes")
			}
		}
		off := float64(taken)/10_000 - probability
		if off < -0.02 || off > 0.02 {
			t.Errorf("%d of 10,000 take the marks of this pass, want %v", taken, probability)
		}
	}
}

// A hop sends the same share of its marks as of its wait: two thirds for a wait of a round trip. Marks
// without a wait are all sent, and a wait without marks gets none.
func TestMarksAreDampedLikeWaits(t *testing.T) {
	x := NewFeedbackBuilder(methodtest.DCTCP(t, methodtest.Clos(t)), nil)
	kept := 0
	for row := range int64(10_000) {
		blocks := []simkernel.Block{{WaitNS: 3000, Marks: 5}, {Marks: 5}, {WaitNS: 1}}
		x.damp(blocks, row, 3000)
		if blocks[0].Marks == 5 {
			kept++
		}
		if blocks[0].WaitNS != 2000 || blocks[1] != (simkernel.Block{Marks: 5}) ||
			blocks[2] != (simkernel.Block{}) {
			t.Fatalf("sent: %+v", blocks)
		}
	}
	if kept < 6467 || kept > 6867 {
		t.Errorf("marks are kept in %d of 10,000 cases", kept)
	}
}

// A run that is stopped must not write a part of the feedback.
func TestFeedbackStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	observed := observationTable([]simkernel.Block{{WaitNS: 1}}, nil, []simkernel.Block{{WaitNS: 1}})
	var out tables.Memory
	err := NewFeedbackBuilder(lineModel(t), nil).ForPass(ctx, lineFlow(), observed.Read(), &out)
	if !errors.Is(err, context.Canceled) || len(out.Records) > 0 {
		t.Errorf("%v, %d batches", err, len(out.Records))
	}
}

// Hops that are not on a flow's path, and bytes that cannot be decoded, are errors that name the row. For the
// replay, only the first link of a path is known.
func TestFeedbackErrors(t *testing.T) {
	m := lineModel(t)
	for _, c := range []struct {
		row   tables.Observation
		bytes []byte
		want  string
	}{
		{tables.Observation{FlowRow: 7, Hop: 0, LinkID: 2}, nil, " has hop 0 on link 2, which is not"},
		{tables.Observation{FlowRow: 7, Hop: 3, LinkID: 0}, nil, " has hop 3 on link 0, which is not"},
		{tables.Observation{FlowRow: 7, Hop: -1, LinkID: 4}, nil, " has hop -1 on link 4, which is not"},
		{tables.Observation{FlowRow: 7, Hop: 1, LinkID: 6}, nil, " has hop 1 on link 6, which is not"},
		{tables.Observation{FlowRow: 7, Hop: 1, LinkID: -1}, nil, " has hop 1 on link -1, which is not"},
		{tables.Observation{FlowRow: 7, Hop: 1, LinkID: 0}, nil, " has hop 1 on link 0, which is not"},
		{tables.Observation{FlowRow: 7, Hop: 1, LinkID: 2}, []byte{0x80}, ", hop 1: damaged"},
	} {
		var observed tables.Memory
		var blocks columns.Arena
		blocks.Add(c.bytes)
		err := tables.HopObservations.WriteOrdered(&observed, []tables.Observation{c.row}, []int32{0}, &blocks)
		if err != nil {
			t.Fatal(err)
		}
		x := NewFeedbackBuilder(m, nil)
		out := &tables.Memory{}
		for i, err := range []error{
			x.ForPass(t.Context(), lineFlow(), observed.Read(), out),
			x.ForSenders(t.Context(), lineFlow(), lineRouted(t, m, &tables.Memory{}), observed.Read(), out),
		} {
			if i == 1 && c.row.Hop == 1 && c.row.LinkID == 0 {
				if err != nil {
					t.Errorf("%+v: error %v", c.row, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "flow row 7"+c.want) {
				t.Errorf("%+v: error %v, want %q", c.row, err, c.want)
			}
		}
	}
}

// If the chunk had other flows than those that were routed, the feedback of a flow would be that of another.
func TestFeedbackOfAnotherChunk(t *testing.T) {
	chunk := lineFlow()
	chunk.Rows = 2
	none := &tables.Memory{}
	err := NewFeedbackBuilder(lineModel(t), nil).ForPass(t.Context(), chunk, none.Read(), &tables.Memory{})
	if err == nil || err.Error() != "flows: the chunk at row 7 has 1 flows, 2 were routed" {
		t.Errorf("error %v", err)
	}
	m := lineModel(t)
	routed := lineRouted(t, m, &tables.Memory{}, 1, 1) // of rows 7 and 8
	err = NewFeedbackBuilder(m, nil).ForSenders(t.Context(), lineFlow(), routed, none.Read(), none)
	if err == nil || err.Error() != "flow_paths: flow row 8 is not in the chunk of 1 flows at row 7" {
		t.Errorf("error %v", err)
	}
}

// Flows between hosts that no path joins, and steps of computation, have no path and no feedback.
func TestFeedbackOfFlowsWithoutAPath(t *testing.T) {
	n := lineNetwork(t)
	if err := n.Fail(2, 3); err != nil {
		t.Fatal(err)
	}
	m := methodtest.DCTCP(t, n)
	m.Unreachable = step.CountUnreachable
	x := NewFeedbackBuilder(m, nil)
	for name, flow := range map[string]routedFlow{"unreachable": {Src: 1, SizeBytes: 1}, "computation": {}} {
		if err := x.setPath(&flow); err != nil || len(x.path) > 0 {
			t.Errorf("%s: %d hops, %v", name, len(x.path), err)
		}
	}
	m.Unreachable = step.RefuseUnreachable
	if err := x.setPath(&routedFlow{Src: 1, SizeBytes: 1}); !route.IsUnreachable(err) {
		t.Errorf("error %v", err)
	}
}

// others computes the feedback of hop h for block b directly from what every other hop observed.
func others(hops [][]simkernel.Block, h, b, slowest int) (out simkernel.Block) {
	for j := range hops {
		if j == h || b >= len(hops[j]) {
			continue
		}
		m := &hops[j][b]
		switch {
		case j == 0:
			out.NICWaitNS = m.WaitNS
		case j < h || h == 0 && j < slowest:
			out.UpstreamNS = clampNS(int64(out.UpstreamNS) + int64(m.WaitNS))
		default:
			out.WaitNS = clampNS(int64(out.WaitNS) + int64(m.WaitNS))
		}
		out.Marks |= m.Marks
		if j > 0 {
			out.Denied = max(out.Denied, m.Denied)
		}
	}
	return out
}

// The sums along a flow's path equal the direct computation for every hop and any number of blocks.
func TestFeedbackIsItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		m := lineModel(t)
		x := NewFeedbackBuilder(m, nil)
		trip := route.NewRoundTrips(m.Network, &m.Params).PathNS([]int32{4, 2, 0})
		hops := make([][]simkernel.Block, 3)
		for h := range hops {
			if random.IntN(3) == 0 {
				continue // no row
			}
			hops[h] = make([]simkernel.Block, random.IntN(5))
			for i := range hops[h] {
				b := &hops[h][i]
				b.WaitNS = random.Int32N(3) * random.Int32N(1<<uint(random.IntN(28)))
				b.Marks = uint16(random.IntN(3) * random.IntN(1<<16))
				b.Denied = uint16(random.IntN(2) * random.IntN(1<<16))
			}
		}
		sender := built(t, x, true, observationTable(hops...))
		got := built(t, x, false, observationTable(hops...))
		sent := slices.Clone(hops)
		for h := 1; h < len(hops); h++ {
			sent[h] = slices.Clone(hops[h])
			x.damp(sent[h], 7, trip)
		}
		for h := range hops {
			given := got[[]int32{4, 2, 0}[h]]
			from := sent
			if h == 0 {
				given = sender[4]
				from = hops
			}
			for b := range 6 {
				var have simkernel.Block
				if b < len(given) {
					have = given[b]
				}
				want := others(from, h, b, 1)
				if have != want {
					t.Fatalf("hop %d, block %d: %+v, want %+v", h, b, have, want)
				}
			}
		}
	}
}
