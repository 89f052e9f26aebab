package exact

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/methodtest"
	"parsimon/stages/moves"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// moving returns a model of a network with an event.
func moving(t *testing.T, n *topology.Network, text moves.Text) *step.Model {
	t.Helper()
	m := methodtest.DCTCP(t, n)
	var err error
	m.Moves, err = text.Apply(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// distantEvent changes a cable of SmallNetwork long after all flows.
var distantEvent = moves.Text{Events: []string{"2:4 rate 1G 9s.."}}

// Table link_slots has the bytes, with headers, that each link sends in slots of equal length. Link 2 sends
// at 300 µs, which is beyond 128 slots of 1 or 2 µs, so all slots have 4 µs. A packet of 1,048 bytes in 4 µs
// is 20.96% of 10 Gbps.
func TestSlotsOfLinks(t *testing.T) {
	const start = 5_000_000
	m := moving(t, topologytest.SmallNetwork(t), distantEvent)
	s := simulateSmall(t, m, Options{}, smallFlow(1, 0, 1000, start), smallFlow(2, 0, 1000, start+100_000),
		workload.Row{ID: 3, Src: 1, Dst: 2, SizeBytes: 1000, StartNS: start + 300_000})
	var got []string
	for _, r := range s.slots {
		got = append(got, fmt.Sprintf("%d: %d in %d to %d", r.LinkID, r.Bytes, r.FromNS-start, r.ToNS-start))
		if math.Abs(r.Load-0.2096) > 1e-9 {
			t.Errorf("%+v", r)
		}
	}
	want := []string{
		"0: 1048 in 0 to 4000", "0: 1048 in 100000 to 104000",
		"2: 1048 in 300000 to 304000",
		"5: 1048 in 300000 to 304000",
		"7: 1048 in 0 to 4000", "7: 1048 in 100000 to 104000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An event long after the last flow changes no row. With events, the engine counts what links carry. Without
// them, it follows from the paths.
func TestDistantEventChangesNothing(t *testing.T) {
	const start = 5_000_000
	var flows []workload.Row
	for i := range int64(30) {
		flows = append(flows, smallFlow(i, int32(i%3), 1+i*977, start+i*900))
	}
	want := simulateSmall(t, methodtest.DCTCP(t, topologytest.SmallNetwork(t)), Options{}, flows...)
	got := simulateSmall(t, moving(t, topologytest.SmallNetwork(t), distantEvent), Options{}, flows...)
	byRow := func(a, b fctRow) int { return int(a.FlowID - b.FlowID) }
	slices.SortFunc(want.fcts, byRow)
	slices.SortFunc(got.fcts, byRow)
	if !slices.Equal(got.fcts, want.fcts) {
		t.Errorf("FCTs %+v, want %+v", got.fcts[:3], want.fcts[:3])
	}
	for i, w := range want.links {
		g := got.links[i]
		// The engine rounds the time to send each packet.
		if math.Abs(float64(g.BusyNS-w.BusyNS)) > float64(w.PacketsSent) ||
			math.Abs(g.MeanWaitNS-w.MeanWaitNS) > 1 ||
			math.Abs(g.MeanQueuePackets-w.MeanQueuePackets) > 0.01*w.MeanQueuePackets {
			t.Errorf("link %d: %+v, want %+v", i, g, w)
		}
		g.BusyNS = w.BusyNS
		g.MeanWaitNS = w.MeanWaitNS
		g.MeanQueuePackets = w.MeanQueuePackets
		if !reflect.DeepEqual(g, w) {
			t.Errorf("link %d: %+v, want %+v", i, g, w)
		}
	}
}

// Bytes count at the link that sends them. A flow of 1,000 packets leaves its path after 100 µs, when the
// cable goes down. The other path has no flows in table hops, but carries the remaining packets.
func TestBytesOfAPathThatMoves(t *testing.T) {
	// Links 4 and 6 are the path through switch 4. Links 8 and 10 are the path through switch 5.
	n := topologytest.Wire(t, 6, 2, [2]int32{0, 2}, [2]int32{1, 3}, [2]int32{2, 4}, [2]int32{4, 3},
		[2]int32{2, 5}, [2]int32{5, 3})
	flow := workload.Row{ID: 1, Src: 0, Dst: 1, SizeBytes: 1_000_000}
	path, err := methodtest.DCTCP(t, n).Router.Path(1, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	down := 4
	other := 8
	event := "2:4 down 100us.."
	if path[1] == 8 {
		down = 8
		other = 4
		event = "2:5 down 100us.."
	}
	m := moving(t, n, moves.Text{Events: []string{event}, Converge: "50us"})
	s := simulateSmall(t, m, Options{}, flow)
	before := s.links[down]
	after := s.links[other]
	if before.PacketsSent < 100 || after.PacketsSent < 500 || before.Flows != 1 || after.Flows != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for _, l := range []tables.LinkStat{before, after, s.links[0]} {
		sent := int64(0)
		for _, r := range s.slots {
			if r.LinkID == l.LinkID {
				sent += r.Bytes
			}
		}
		if sent != l.Bytes+48*l.Packets || l.Packets != l.PacketsSent || l.Bytes != 1000*l.Packets {
			t.Errorf("%d bytes in slots, %+v", sent, l)
		}
	}
	// The ACKs return while the flow runs. The flows of a trace that start at the same time have a load
	// relative to the busiest link.
	back := s.links[other^1]
	if back.AvailableBps >= back.BandwidthBps || back.AvailableBps < 9e9 {
		t.Errorf("the way back: %+v", back)
	}
}

// Flows without a path are counted, or are an error that names the first. If flows wait for others, they are
// an error in either case. A batch with only such flows does not end the workload.
func TestFlowsWithoutAPath(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	if err := n.Fail(2, 4); err != nil {
		t.Fatal(err)
	}
	simulate := func(count step.Unreachable, o Options) (Stats, error) {
		m := methodtest.DCTCP(t, n)
		m.Unreachable = count
		cut := methodtest.FlowRecord(smallFlow(1, 2, 1000, 5))
		alsoCut := workload.Row{ID: 3, Src: 1, Dst: 2, SizeBytes: 1, StartNS: 7}
		rest := methodtest.FlowRecord(smallFlow(2, 0, 1000, 6), alsoCut)
		flows := methodtest.Table(cut)
		flows.Records = append(flows.Records, rest)
		return Simulate(t.Context(), m, flows.Read(), o, Tables{FCTs: &tables.Memory{}})
	}
	stats, err := simulate(step.CountUnreachable, Options{})
	if err != nil || stats.Unreachable != 2 || stats.Flows != 1 || stats.LastEndNS != 6+3677 {
		t.Errorf("%+v, %v", stats, err)
	}
	waits := Options{Flows: 3, Dependencies: dependencies(t, dependency{2, 1, 0})}
	for _, o := range []Options{{}, waits} {
		for _, count := range []step.Unreachable{step.RefuseUnreachable, step.CountUnreachable} {
			if o.Dependencies == nil && count == step.CountUnreachable {
				continue
			}
			_, err := simulate(count, o)
			if err == nil || !strings.Contains(err.Error(), "flow 1: ") {
				t.Errorf("%v: %v", count, err)
			}
		}
	}
}

// The latest end counts from the first flow that has a path. After 10 µs, 100 packets have not arrived.
func TestEndAfterFlowsWithoutAPath(t *testing.T) {
	const start = 1_000_000
	n := topologytest.SmallNetwork(t)
	if err := n.Fail(2, 4); err != nil {
		t.Fatal(err)
	}
	m := methodtest.DCTCP(t, n)
	m.Unreachable = step.CountUnreachable
	flows := methodtest.Table(methodtest.FlowRecord(smallFlow(1, 2, 1000, 5)))
	flows.Records = append(flows.Records, methodtest.FlowRecord(smallFlow(2, 0, 100_000, start)))
	left := 0
	_, err := Simulate(t.Context(), m, flows.Read(), Options{EndNS: start + 10_000}, Tables{
		FCTs: &tables.Memory{}, Left: func(f LeftFlow) { left += int(f.FlowID) },
	})
	if err != nil || left != 2 {
		t.Errorf("flow %d is left, %v", left, err)
	}
}

// The simulation ends when the flows that count have finished. Results are passed on in batches of 4,096
// flows. The flow of 10 MB does not count: its remaining packets would take milliseconds.
func TestEndsWithTheFlowsThatCount(t *testing.T) {
	const start = 1_000_000
	var progress int64
	o := Options{
		Counts: func(startNS int64) bool { return startNS > start },
		Progress: func(hops int64) {
			if hops < 1 {
				t.Errorf("progress of %d", hops)
			}
			progress += hops
		},
	}
	flows := []workload.Row{{ID: 1, Src: 1, Dst: 2, SizeBytes: 10_000_000, StartNS: start}}
	for i := range int64(4096) {
		flows = append(flows, smallFlow(2+i, 0, 1, start+100*(i+1)))
	}
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	s := simulateSmall(t, m, o, flows...)
	if len(s.fcts) != 4096 || s.stats.Flows != 4096 || s.stats.PacketHops != 28_192 {
		t.Errorf("%d flows, %+v", len(s.fcts), s.stats)
	}
	if progress < 8192 || progress > 14_000 {
		t.Errorf("%d of 28,192 packet-hops were simulated", progress)
	}
}

// Of switches with equally long queues, the result names the one with the lowest id, so that it does not
// depend on an order in memory.
func TestDeepestOfEqualSwitches(t *testing.T) {
	n := topologytest.Wire(t, 8, 6, [2]int32{3, 7}, [2]int32{4, 7}, [2]int32{5, 7}, [2]int32{0, 6},
		[2]int32{1, 6}, [2]int32{2, 6})
	var flows []workload.Row
	for i, ends := range [][2]int32{{3, 5}, {4, 5}, {0, 2}, {1, 2}} {
		flows = append(flows, workload.Row{ID: int64(i), Src: ends[0], Dst: ends[1], SizeBytes: 1000, StartNS: 5})
	}
	s := simulateSmall(t, methodtest.DCTCP(t, n), Options{}, flows...)
	if s.stats.DeepestSwitch != 6 || s.stats.DeepestSwitchBytes != 2*1048 {
		t.Errorf("switch %d with %d bytes", s.stats.DeepestSwitch, s.stats.DeepestSwitchBytes)
	}
}

// If two links dropped equally many packets, the first one is named. Another one would depend on their order
// in the engine.
func TestMostDroppedOfEqualLinks(t *testing.T) {
	n := topologytest.Wire(t, 8, 6, [2]int32{3, 7}, [2]int32{4, 7}, [2]int32{5, 7}, [2]int32{0, 6},
		[2]int32{1, 6}, [2]int32{2, 6})
	var flows []workload.Row
	for i, ends := range [][2]int32{{3, 5}, {4, 5}, {0, 2}, {1, 2}} {
		flows = append(flows, workload.Row{ID: int64(i), Src: ends[0], Dst: ends[1], SizeBytes: 40_000, StartNS: 5})
	}
	m := methodtest.DCTCP(t, n)
	m.Buffers = network.BufferParams{SwitchBytes: 3000, Alpha: 1}
	s := simulateSmall(t, m, Options{}, flows...)
	// Link 5 leads to host 5, and link 11 to host 2.
	most := s.stats.MostDropped
	if most == 0 || 2*most != s.stats.Losses.Dropped || s.stats.MostDroppedLink != 5 {
		t.Errorf("link %d dropped %d of %d packets", s.stats.MostDroppedLink, most, s.stats.Losses.Dropped)
	}
}

// A buffer that holds exactly the headroom of its longest cable is accepted. With a byte less, the error
// names the cable.
func TestLeastBufferOfPFC(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	n.Links[6].DelayNS = 100_000
	n.Links[7].DelayNS = 100_000
	m := methodtest.DCTCP(t, n)
	m.Buffers = network.BufferParams{SwitchBytes: 1 << 30, Alpha: 1, PFC: true}
	engine, err := withoutClasses(m)
	if err != nil {
		t.Fatal(err)
	}
	links, _ := engineTopology(m.Network)
	need := int64(0)
	for _, l := range links {
		need = max(need, engine.Headroom(l))
	}
	for spare, want := range map[int64]string{0: "", -1: "PFC needs that headroom"} {
		m.Buffers.SwitchBytes = need + spare
		err := Check(m, &route.Loads{Links: make([]route.LinkLoad, len(m.Network.Links))})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a buffer of %d bytes for a headroom of %d: %v", m.Buffers.SwitchBytes, need, err)
		}
	}
}

// A compute step needs no path, even if paths change.
func TestComputeStepsWithEvents(t *testing.T) {
	m := moving(t, topologytest.SmallNetwork(t), distantEvent)
	o := Options{Flows: 2, Dependencies: dependencies(t, dependency{1, 0, 1000})}
	flows := []workload.Row{{ID: 1, StartNS: 5}, smallFlow(2, 0, 1000, 5)}
	_, o.Loads = methodtest.Route(t, m.Network, &m.Params, methodtest.FlowRecord(flows...))
	s := simulateSmall(t, m, o, flows...)
	if len(s.fcts) != 2 || s.fcts[1].StartNS != 1005 || s.fcts[1].FCTNS != 3677 {
		t.Errorf("%+v", s.fcts)
	}
}

// Only flows with bytes have rows in table slowdowns. A path can be a single cable between two hosts.
func TestSampleOfStepsAndShortPaths(t *testing.T) {
	n := topologytest.Wire(t, 2, 2, [2]int32{0, 1})
	m := methodtest.DCTCP(t, n)
	flows := []workload.Row{{ID: 1, StartNS: 5}, {ID: 2, Src: 0, Dst: 1, SizeBytes: 1000, StartNS: 5}}
	fct := tables.SlowdownRow{FlowRow: 1, StartNS: 5, Hops: 1, IdealNS: 1839, FCTNS: 2000}
	for _, c := range []struct {
		link int32
		want string
	}{{0, ""}, {2, "link 2 is not in the topology"}} {
		var fcts, hops, slow, parts tables.Memory
		if err := fctTable.Write(&fcts, []tables.SlowdownRow{{FlowRow: 0, StartNS: 5}, fct}); err != nil {
			t.Fatal(err)
		}
		if err := hopTable.Write(&hops, []hopRow{{FlowRow: 1, LinkID: c.link, LastWaitNS: 161}}); err != nil {
			t.Fatal(err)
		}
		err := NewSampler(m).Sample(t.Context(),
			slowdown.Chunk{Rows: 2, Flows: methodtest.Table(methodtest.FlowRecord(flows...)).Read()},
			Simulated{FCTs: fcts.Read(), Hops: hops.Read()}, slowdown.Sink{Slowdowns: &slow, Contributions: &parts})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		var rows []tables.SlowdownRow
		err = columns.Each(slow.Read(), func(r *tables.SlowdownRow) error { rows = append(rows, *r); return nil })
		if err != nil || len(rows) != 1 || rows[0].FlowID != 2 || rows[0].FCTNS != 2000 || rows[0].IdealNS != 1839 {
			t.Errorf("%+v, %v", rows, err)
		}
	}
}
