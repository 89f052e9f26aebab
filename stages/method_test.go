package stages

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// replays runs estimator Flow in memory, in the given number of partitions of the links and of passes.
func replays(t *testing.T, n *topology.Network, p simkernel.Params, flows arrow.Record,
	partitions, passes int) (stats, contributions, slowdowns *captured) {
	t.Helper()
	ctx := context.Background()
	hops, loads := routed(t, n, &p, flows)
	links, rows := len(n.Links), flows.NumRows()
	first := func(i int) int32 { return int32(i * links / partitions) }
	options := SimulatorOptions{Network: n, Params: p, Loads: loads, Estimator: Flow}
	sim, err := NewSimulator(options)
	if err != nil {
		t.Fatal(err)
	}
	var given, observed *captured
	for pass := range passes {
		observed, stats = &captured{}, &captured{}
		for i := range partitions {
			var feedback schema.Batches
			if given != nil {
				feedback = given.rewound()
			}
			if _, err := sim.Simulate(ctx, first(i), first(i+1), hops.rewound(), feedback, observed, stats, nil); err != nil {
				t.Fatal(err)
			}
		}
		senders := false
		if pass == passes-1 {
			senders = true
		}
		given = &captured{}
		if err := NewFeedbackBuilder(n, &p, 1, nil).Build(ctx, senders, 0, rows, observed.rewound(), given); err != nil {
			t.Fatal(err)
		}
	}
	senders := &captured{}
	for i := range partitions {
		if _, err := sim.Replay(ctx, first(i), first(i+1), hops.rewound(), given.rewound(), senders, nil); err != nil {
			t.Fatal(err)
		}
	}
	contributions, slowdowns = &captured{}, &captured{}
	var cases captured
	err = NewSampler(n, p).SampleReplays(ctx, 0, rows, &captured{recs: []arrow.Record{flows}}, observed.rewound(),
		senders, slowdowns, contributions, &cases)
	if err != nil {
		t.Fatal(err)
	}
	counted := int64(0)
	for _, flows := range ints64(&cases, "flows") {
		counted += flows
	}
	if sampled := int64(len(ints64(slowdowns, "flow_id"))); sampled != rows || counted != rows {
		t.Fatalf("%d flows sampled, %d in case_slowdowns, want %d", sampled, counted, rows)
	}
	return stats, contributions, slowdowns
}

// method runs estimator Independent in memory, in the given number of partitions of the links.
func method(t *testing.T, n *topology.Network, flows arrow.Record,
	partitions int) (delays, stats, slowdowns *captured) {
	t.Helper()
	ctx, p := context.Background(), simkernel.DefaultParams()
	var contributions captured
	delays, stats, slowdowns = &captured{}, &captured{}, &captured{}
	hops, loads := routed(t, n, &p, flows)
	sim, err := NewSimulator(SimulatorOptions{Network: n, Params: p, Loads: loads, Estimator: Independent})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBucketer(p, 1)
	links := len(n.Links)
	for i := range partitions {
		var d, buckets captured
		if _, err := sim.Simulate(ctx, int32(i*links/partitions), int32((i+1)*links/partitions), hops.rewound(), nil,
			&d, stats, nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Bucket(ctx, d.rewound(), &buckets, &contributions); err != nil {
			t.Fatal(err)
		}
		delays.recs = append(delays.recs, d.recs...)
	}
	err = NewSampler(n, p).Sample(ctx, 0, flows.NumRows(), &captured{recs: []arrow.Record{flows}}, &contributions,
		slowdowns)
	if err != nil {
		t.Fatal(err)
	}
	if sampled := int64(len(ints64(slowdowns, "flow_id"))); sampled != flows.NumRows() {
		t.Fatalf("%d flows sampled, want %d", sampled, flows.NumRows())
	}
	return delays, stats, slowdowns
}

// The laws of the whole method, in memory: one row per flow, slowdown at least 1, every flow at every hop once,
// and the same bits for any partitions.
func TestMethodLaws(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(2, 3)), 6000)
	delays, stats, slowdowns := method(t, n, flows, 1)

	var hops int64
	for _, r := range slowdowns.recs {
		for i, x := range columns.Float64s(r, "slowdown") {
			if x < 1 || columns.Int64s(r, "fct_ns")[i] < columns.Int64s(r, "ideal_ns")[i] {
				t.Fatalf("flow %d: slowdown %v", columns.Int64s(r, "flow_id")[i], x)
			}
			hops += int64(columns.Named(r, "hops").(*array.Int16).Value(i))
		}
	}
	if !slices.Equal(ints64(slowdowns, "flow_id"), columns.Int64s(flows, "flow_id")) {
		t.Error("slowdowns are not the flows, in order")
	}
	if got := int64(len(ints64(delays, "flow_id"))); got != hops {
		t.Errorf("%d hop delays for %d hops", got, hops)
	}
	var sent, packets int64
	for _, r := range stats.recs {
		for i := range columns.Int32s(r, "link_id") {
			sent += columns.Int64s(r, "packets_sent")[i]
			packets += columns.Int64s(r, "packets")[i]
			if avail, bw := columns.Int64s(r, "available_bps")[i],
				columns.Int64s(r, "bandwidth_bps")[i]; avail > bw || avail < bw/10 {
				t.Errorf("link %d: %d of %d bps available", columns.Int32s(r, "link_id")[i], avail, bw)
			}
		}
	}
	if sent < packets {
		t.Errorf("%d packets sent of %d", sent, packets)
	}
	if len(ints64(stats, "flows")) != len(n.Links) {
		t.Errorf("link_stats has %d rows for %d links", len(ints64(stats, "flows")), len(n.Links))
	}
	for _, partitions := range []int{2, 7, 64} {
		d, s, w := method(t, n, flows, partitions)
		if !slices.Equal(floats64(w, "slowdown"), floats64(slowdowns, "slowdown")) {
			t.Errorf("%d partitions: other slowdowns", partitions)
		}
		if !slices.Equal(ints64(d, "fct_ns"), ints64(delays, "fct_ns")) ||
			!slices.Equal(ints64(s, "busy_ns"), ints64(stats, "busy_ns")) {
			t.Errorf("%d partitions: other hop delays", partitions)
		}
	}
}

// Flows so far apart in time that none delays another finish in their ideal time, at every hop and end to end.
func TestSeparateFlowsAreIdeal(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(9, 9)), 500)
	start := slices.Clone(columns.Int64s(flows, "start_ns"))
	for i := range start {
		start[i] = int64(i) * 10_000_000
	}
	cols := flows.Columns()
	cols[schema.Flows.Index("start_ns")] = columns.Of(start)
	separate := array.NewRecord(flows.Schema(), cols, flows.NumRows())
	_, _, independent := method(t, n, separate, 3)
	_, _, replayed := replays(t, n, simkernel.DefaultParams(), separate, 3, 2)
	for _, slowdowns := range []*captured{independent, replayed} {
		for i, x := range floats64(slowdowns, "slowdown") {
			if x != 1 {
				t.Fatalf("flow %d alone has slowdown %v", i, x)
			}
		}
	}
}

// The laws of estimator Flow: slowdown is at least 1; the contributions of the hops add up to the delay; a wait
// is part of what its hop contributes; the result does not depend on partitions; and the second pass changes it.
func TestReplayLaws(t *testing.T) {
	n, p := testClos(t), simkernel.DefaultParams()
	flows := randomFlows(n, rand.New(rand.NewPCG(2, 3)), 6000)
	stats, contributions, slowdowns := replays(t, n, p, flows, 1, 2)
	if !slices.Equal(ints64(slowdowns, "flow_id"), columns.Int64s(flows, "flow_id")) {
		t.Error("slowdowns are not the flows, in order")
	}
	sum := map[int64]float64{}
	for _, r := range contributions.recs {
		for i, row := range columns.Int64s(r, "flow_row") {
			delay, wait := columns.Float64s(r, "delay_ns")[i], columns.Float64s(r, "wait_ns")[i]
			if wait < 0 || delay < wait {
				t.Fatalf("flow row %d: a hop contributes %v ns, of which %v are wait", row, delay, wait)
			}
			sum[row] += delay
		}
	}
	slowed := 0
	for _, r := range slowdowns.recs {
		fct, ideal := columns.Int64s(r, "fct_ns"), columns.Int64s(r, "ideal_ns")
		for i, row := range columns.Int64s(r, "flow_row") {
			if math.Abs(sum[row]-float64(fct[i]-ideal[i])) > 0.5 || fct[i] < ideal[i] {
				t.Fatalf("flow row %d: FCT %d, ideal %d, but its hops contribute %v", row, fct[i], ideal[i], sum[row])
			}
			if fct[i] > ideal[i] {
				slowed++
			}
		}
	}
	if slowed < 1000 {
		t.Fatalf("only %d flows are delayed: the test is too weak", slowed)
	}
	for _, partitions := range []int{2, 7, 64} {
		s, c, w := replays(t, n, p, flows, partitions, 2)
		if !slices.Equal(floats64(w, "slowdown"), floats64(slowdowns, "slowdown")) ||
			!slices.Equal(floats64(c, "delay_ns"), floats64(contributions, "delay_ns")) {
			t.Errorf("%d partitions: other slowdowns", partitions)
		}
		if !slices.Equal(ints64(s, "busy_ns"), ints64(stats, "busy_ns")) {
			t.Errorf("%d partitions: other link stats", partitions)
		}
	}
	if _, _, w := replays(t, n, p, flows, 1, 1); slices.Equal(floats64(w, "slowdown"),
		floats64(slowdowns, "slowdown")) {
		t.Error("the second pass changes nothing")
	}
}

// The limit of the window counts once, not at every hop: a single flow whose window is below the bandwidth-delay
// product takes as long as packets and ACKs on the whole path allow.
func TestWindowIsChargedOnce(t *testing.T) {
	n, p := testClos(t), simkernel.DefaultParams()
	p.SetWindow(5000)
	hosts := n.Hosts()
	flows := flowRecord(workload.Row{ID: 1, Src: hosts[0], Dst: hosts[len(hosts)-1], SizeBytes: 200_000})
	_, _, slowdowns := replays(t, n, p, flows, 1, 2)
	r := slowdowns.recs[0]
	// Six hops of 1,000 ns each way; a full packet takes 838.4 ns at 10 Gbps (twice) and 209.6 at 40
	// (four times), its ACK 48 and 12. Five packets go every round trip, 200 in all.
	roundTrip := 12*1000 + 2*838.4 + 4*209.6 + 2*48 + 4*12
	want := 39*roundTrip + float64(columns.Int64s(r, "ideal_ns")[0]) - 195*838.4
	if got := float64(columns.Int64s(r, "fct_ns")[0]); math.Abs(got/want-1) > 0.01 {
		t.Errorf("FCT %v ns, want about %v", got, want)
	}
}

// ACK correction, by hand: 1,000 packets of 1,048 bytes on the wire keep a link busy for 838,400 ns.
func TestAvailableBandwidth(t *testing.T) {
	n, p := topologytest.SmallNetwork(t), simkernel.DefaultParams()
	l := &Loads{Links: make([]LinkLoad, len(n.Links))}
	available := func() float64 { return float64(l.AvailableBps(&p, n.Links[0])) }
	if got := available(); got != 1e10 {
		t.Errorf("no reverse flows, yet %v bps available", got)
	}
	for _, c := range []struct {
		spanNS int64
		want   float64
	}{
		{1e6, 1e10 - 1000*60*8*1000}, // the mean
		{0, 1e10 * (1 - 60.0/1048)},  // a burst is not acknowledged faster than it is sent
	} {
		l.Links[1] = LinkLoad{Flows: 10, Packets: 1000, Bytes: 1_000_000, FirstStartNS: 5, LastStartNS: 5 + c.spanNS}
		if got := available(); math.Abs(got-c.want) > 1 {
			t.Errorf("span %d ns: available %v bps, want %v", c.spanNS, got, c.want)
		}
	}
	// With the times in which both directions send: ACKs come in a quarter of the link's own time.
	l.Simultaneous = true
	l.Links[0] = LinkLoad{Flows: 1, Packets: 2000, Bytes: 2_000_000}
	l.Links[1] = LinkLoad{Flows: 10, Packets: 1000, Bytes: 1_000_000, LastStartNS: 1e9, BothNS: 2 * 838_400 / 4}
	if got, want := available(), 1e10*(1-60.0/1108/4); math.Abs(got-want) > 1 {
		t.Errorf("available %v bps, want %v", got, want)
	}
	l.Simultaneous = false
	// One-byte packets: their ACKs outweigh them.
	l.Links[1] = LinkLoad{Flows: 1, Packets: 1000, Bytes: 1000}
	if got := available(); got != 1e9 {
		t.Errorf("available %v bps, want the floor", got)
	}
}
