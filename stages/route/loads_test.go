package route

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// smallLoads are 10 flows of 100,000 bytes in all, in 100 packets, on link 0 within 100 µs.
func smallLoads(n *topology.Network) *Loads {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: 50, LastStartNS: 100_050}
	l.Links[0] = LinkLoad{Flows: 10, Bytes: 100_000, Packets: 100, FirstStartNS: 50, LastStartNS: 100_050}
	return l
}

// The load of a link is that of its payload: 100,000 bytes in 100 µs are 80% of 10 Gbps. If all flows start
// at once, it refers to the time that the busiest link takes, with headers: 104,800 bytes in 83,840 ns.
func TestLoadOfALink(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	l := smallLoads(n)
	got := l.Load(n.Links[0])
	if got != 0.8 || l.ReportedLoad(&p, n.Links[0]) != 0.8 || l.Load(n.Links[1]) != 0 {
		t.Errorf("load %v, reported %v", got, l.ReportedLoad(&p, n.Links[0]))
	}
	l.Links[4] = LinkLoad{Flows: 1, Bytes: 1000, Packets: 1}
	got = l.Load(n.Links[4])
	if got != 0.008 {
		t.Errorf("a flow of one packet: load %v", got)
	}
	l.Links[4] = LinkLoad{}
	l.LastStartNS = l.FirstStartNS + 1
	got = l.Load(n.Links[0])
	if got != 80_000 {
		t.Errorf("load within 1 ns: %v", got)
	}
	l.LastStartNS = l.FirstStartNS
	l.busiest = l.Links[0]
	l.busiestBps = 1e10
	l.Links[2] = LinkLoad{Flows: 1, Bytes: 10_480, Packets: 11}
	l.Links[6] = LinkLoad{Flows: 1, Bytes: 1048, Packets: 1}
	for link, want := range map[int]float64{0: 100_000.0 / 104_800, 2: 0.1, 4: 0, 6: 0.01} {
		got := l.ReportedLoad(&p, n.Links[link])
		if math.Abs(got-want) > 1e-9 || l.Load(n.Links[link]) != 0 {
			t.Errorf("link %d: a burst is reported as %v, want %v, and is %v", link, got, want, l.Load(n.Links[link]))
		}
	}
	got = l.Links[0].BusyNS(1e10, &p)
	if got != 83_840 {
		t.Errorf("busy for %v ns", got)
	}
}

// ACKs of 100 packets are 6,000 bytes in 100 µs, or 480 Mbps. They are not sent faster than the packets.
// With the times in which both directions send, they count for that part. Each link keeps a tenth of its
// bandwidth for data.
func TestBandwidthThatAcksLeave(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	for _, c := range []struct {
		name    string
		reverse LinkLoad
		spanNS  int64
		want    float64
	}{
		{"spread", LinkLoad{Flows: 1, Packets: 100, Bytes: 100_000}, 100_000, 1e10 - 480e6},
		{"a burst", LinkLoad{Flows: 1, Packets: 100, Bytes: 100_000}, 0, 1e10 - 1e10*60.0/1048},
		{"as fast as they are sent", LinkLoad{Flows: 1, Packets: 100, Bytes: 100_000}, 83_000,
			1e10 - 1e10*60.0/1048},
		{"packets of a byte", LinkLoad{Flows: 1, Packets: 100, Bytes: 100}, 0, 1e9},
		{"none", LinkLoad{}, 0, 1e10},
	} {
		l := &Loads{Links: make([]LinkLoad, len(n.Links))}
		l.Links[1] = c.reverse
		l.Links[1].FirstStartNS = 7
		l.Links[1].LastStartNS = 7 + c.spanNS
		got := l.AvailableBps(&p, n.Links[0])
		if math.Abs(float64(got)-c.want) > 1 {
			t.Errorf("%s: %d bps, want %v", c.name, got, c.want)
		}
	}
	// A packet of a byte takes less than 1 ns of 400 Gbps, and its ACK more than the link has.
	fast := n.Links[0]
	fast.BandwidthBps = 4e11
	one := &Loads{Links: make([]LinkLoad, len(n.Links))}
	one.Links[1] = LinkLoad{Flows: 1, Packets: 1, Bytes: 1}
	if one.AvailableBps(&p, fast) != 4e10 {
		t.Errorf("ACKs of a packet of a byte leave %d bps of 400 Gbps", one.AvailableBps(&p, fast))
	}
	// Both directions send for 40 µs of the link's 83,840 ns: ACKs of 60 bytes for 1,108.
	l := smallLoads(n)
	l.Links[1] = LinkLoad{Flows: 1, Packets: 100, Bytes: 100_000, BothNS: 40_000}
	l.Simultaneous = true
	got := l.AvailableBps(&p, n.Links[0])
	want := 1e10 * (1 - 60.0/1108*40_000/83_840)
	if math.Abs(float64(got)-want) > 1 {
		t.Errorf("%d bps, want %v", got, want)
	}
	s := l.Stat(&p, n.Links[0], tables.LinkCounters{PacketsSent: 5})
	if s.LinkID != 0 || s.SrcNode != 0 || s.DstNode != 4 || s.BandwidthBps != 1e10 ||
		s.AvailableBps != l.AvailableBps(&p, n.Links[0]) ||
		s.Flows != 10 || s.Bytes != 100_000 || s.Packets != 100 || s.Load != 0.8 || s.PacketsSent != 5 {
		t.Errorf("%+v", s)
	}
}

// Chunks add up, times are the first and the last, and the busiest link is the one that takes longest.
func TestLoadsOfChunks(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	n.Links[2].BandwidthBps = 1e9
	write := func(rows ...linkLoad) *tables.Memory {
		var m tables.Memory
		if err := loadTable.Write(&m, rows); err != nil {
			t.Fatal(err)
		}
		return &m
	}
	l, err := ReadLoads(n, write(
		linkLoad{0, 0, LinkLoad{1, 5000, 5, 70, 90, 0}}, linkLoad{2, 0, LinkLoad{1, 1000, 1, 80, 85, 0}},
		linkLoad{0, 1, LinkLoad{2, 300, 3, 60, 80, 0}}, linkLoad{7, 1, LinkLoad{3, 2000, 2, 65, 95, 0}}).Read())
	if err != nil || l.Links[0] != (LinkLoad{3, 5300, 8, 60, 90, 0}) || l.FirstStartNS != 60 ||
		l.LastStartNS != 95 ||
		l.Simultaneous || l.busiestBps != 1e9 || l.busiest.Bytes != 1000 {
		t.Errorf("%+v, %v", l, err)
	}
	// Of links that take the same time, the first one counts.
	same, err := ReadLoads(n, write(
		linkLoad{4, 0, LinkLoad{1, 2000, 9, 1, 1, 0}}, linkLoad{6, 0, LinkLoad{1, 2000, 2, 1, 1, 0}},
		linkLoad{2, 0, LinkLoad{1, 200, 5, 1, 1, 0}}).Read())
	if err != nil || same.busiest.Packets != 5 || same.busiestBps != 1e9 {
		t.Errorf("the busiest of links that take the same time is %+v, %v", same.busiest, err)
	}
	// Flows have a path if they leave a host: links 0, 2, 4 and 6 do. Packets count at each link.
	flows, hops := l.Totals(n)
	if flows != 4 || hops != 11 {
		t.Errorf("%d flows and %d packet-hops", flows, hops)
	}
	if l, err = ReadLoads(n, write(linkLoad{0, 0, LinkLoad{1, 5, 1, 7, 7, 2}}).Read()); err != nil ||
		!l.Simultaneous {
		t.Errorf("%+v, %v", l, err)
	}
	for _, rows := range [][]linkLoad{
		{{2, 1, LinkLoad{Flows: -1}}}, {{2, 0, LinkLoad{Flows: 5}}, {2, 1, LinkLoad{Flows: -1}}},
		{{2, 0, LinkLoad{Flows: 5}}, {2, 1, LinkLoad{Flows: math.MaxInt64}}},
	} {
		_, err := ReadLoads(n, write(rows...).Read())
		if err == nil || !strings.Contains(err.Error(), "link_loads: link 2, chunk 1: ") {
			t.Errorf("%v: %v", rows, err)
		}
	}
	for _, id := range []int32{-1, 8} {
		_, err := ReadLoads(n, write(linkLoad{LinkID: id}).Read())
		if err == nil || !strings.Contains(err.Error(), "which has 8 links") {
			t.Errorf("link %d: %v", id, err)
		}
	}
}

// Ranges of links have about the same number of packets on the links that count. Without a given number,
// ranges have 500,000 flows. There are at least 16 ranges, and at most 64, which then have more flows.
func TestRangesOfLinks(t *testing.T) {
	loads := func(links int, flows, packets int64) *Loads {
		return &Loads{Links: slices.Repeat([]LinkLoad{{Flows: flows, Packets: packets}}, links)}
	}
	ofPackets := func(packets ...int64) *Loads {
		l := &Loads{}
		for _, p := range packets {
			l.Links = append(l.Links, LinkLoad{Flows: 1, Packets: p})
		}
		return l
	}
	text := func(all []LinkRange) string {
		var s []string
		for _, r := range all {
			s = append(s, fmt.Sprintf("%d-%d: %d, %d", r.Lo, r.Hi, r.Flows, r.Packets))
		}
		return strings.Join(s, "; ")
	}
	even := func(link int32) bool { return link%2 == 0 }
	uneven := loads(6, 1, 10)
	uneven.Links[2].Packets = 100
	for _, c := range []struct {
		loads  *Loads
		wants  func(int32) bool
		ranges int
		want   string
	}{
		{loads(6, 1, 10), EveryLink, 3, "0-2: 2, 20; 2-4: 2, 20; 4-6: 2, 20"},
		{loads(6, 1, 10), even, 3, "0-2: 2, 10; 2-4: 2, 10; 4-6: 2, 10"},
		{loads(6, 1, 10), EveryLink, 1, "0-6: 6, 60"},
		{loads(2, 1, 10), EveryLink, 5, "0-1: 1, 10; 1-2: 1, 10"},
		{uneven, EveryLink, 3, "0-2: 2, 20; 2-3: 1, 100; 3-6: 3, 30"},
		{loads(3, 0, 0), EveryLink, 2, "0-3: 0, 0"},
		// The second link would be 1 above the share of 9 with half of its packets.
		{ofPackets(6, 8, 4), EveryLink, 2, "0-1: 1, 6; 1-3: 2, 12"},
		{ofPackets(6, 6, 6), EveryLink, 2, "0-2: 2, 12; 2-3: 1, 6"},
		{ofPackets(1, 100, 1), EveryLink, 3, "0-1: 1, 1; 1-2: 1, 100; 2-3: 1, 1"},
	} {
		got := text(c.loads.Cut(c.wants, c.ranges))
		if got != c.want {
			t.Errorf("%d ranges: %s, want %s", c.ranges, got, c.want)
		}
	}
	for _, c := range []struct {
		flows int64
		want  int
	}{{1, 16}, {8_000, 16}, {8_001, 17}, {32_000, 64}, {100_000, 64}, {200_000, 100}} {
		l := loads(1000, c.flows, c.flows)
		got := len(l.Cut(EveryLink, 0))
		if got != c.want {
			t.Errorf("%d flows: %d ranges, want %d", 1000*c.flows, got, c.want)
		}
	}
	// An estimate that no other run continues has as few ranges as their sizes allow.
	for flows, want := range map[int64]int{0: 1, 1: 1, 500: 1, 501: 2, 8_001: 17, 200_000: 100} {
		got := loads(1000, flows, flows).FewestRanges(EveryLink)
		if got != want {
			t.Errorf("%d flows: at least %d ranges, want %d", 1000*flows, got, want)
		}
	}
}

// A round trip is that of a full packet and its ACK: 2 × (1,000 + 838 + 48) ns for one link and its reverse.
func TestRoundTripOfAPath(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	n.Links[7].BandwidthBps = 4e10
	n.Links[6].DelayNS = 1500
	for want, path := range map[int64][]int32{0: nil, 2886: {0}, 2886 + 2500 + 210 + 48: {0, 7}} {
		got := NewRoundTrips(n, &p).PathNS(path)
		if got != want {
			t.Errorf("%v: %d ns, want %d", path, got, want)
		}
	}
}

// A flow of more packets than a simulation can number is refused, but its load is known.
func TestLargestFlow(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := model(topologytest.MustRouter(t, n, 1))
	for packets, want := range map[int64]bool{1 << 28: true, 1<<28 + 1: false} {
		var hops, loads tables.Memory
		in := func() Chunk {
			b := &flowBatches{each: 1}
			b.rows = append(b.rows, smallRow(1, 1000*packets))
			return Chunk{Flows: b}
		}
		_, err := Flows(t.Context(), m, in(), Sink{&hops, nil, &loads})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(),
			"at most 2^28 (268435456000 bytes)") {
			t.Errorf("%d packets: %v", packets, err)
		}
		stats, err := Flows(t.Context(), m, in(), Sink{nil, nil, &loads})
		if err != nil || stats.PacketHops != 2*packets {
			t.Errorf("loads of %d packets: %+v, %v", packets, stats, err)
		}
	}
}

// A path can be one cable between two hosts. Its only link is then its first one.
func TestPathOfOneLink(t *testing.T) {
	n := topologytest.Wire(t, 2, 2, [2]int32{0, 1})
	hops := newKept(t, schema.Hops)
	paths := newKept(t, schema.FlowPaths)
	loads := newKept(t, schema.LinkLoads)
	b := &flowBatches{each: 1}
	b.rows = append(b.rows, workload.Row{ID: 1, Src: 1, Dst: 0, SizeBytes: 1})
	_, err := Flows(t.Context(), model(topologytest.MustRouter(t, n, 1)), Chunk{Flows: b},
		Sink{hops, paths, loads})
	for column, want := range map[string]int64{"first_link": 1, "link_id": 1, "hops": 1, "path_delay_ns": 1000} {
		got := hops.ints[column]
		if err != nil || !slices.Equal(got, []int64{want}) {
			t.Errorf("%s: %v, want %d; %v", column, got, want, err)
		}
	}
	// Its packet of 49 bytes takes 39.2 ns, a full packet and its ACK 838 and 48.
	for column, want := range map[string]int64{
		"flow_row": 0, "first_link": 1, "hops": 1, "slowest_hop": 0, "ideal_ns": 1040, "window_ns": 0,
		"round_trip_ns": 2886,
	} {
		got := paths.ints[column]
		if !slices.Equal(got, []int64{want}) {
			t.Errorf("%s: %v, want %d", column, got, want)
		}
	}
}

// A compute step has no hops. A flow of no bytes to another host is an error, even if compute steps are
// allowed.
func TestComputeSteps(t *testing.T) {
	for _, c := range []struct {
		src, dst int32
		size     int64
		want     bool
	}{{1, 1, 0, true}, {1, 1, 1, false}, {1, 2, 0, false}} {
		if ComputeStep(c.src, c.dst, c.size) != c.want {
			t.Errorf("%+v", c)
		}
	}
	n := topologytest.SmallNetwork(t)
	m := model(topologytest.MustRouter(t, n, 1))
	var hops, paths, loads tables.Memory
	b := &flowBatches{each: 10}
	wait := smallRow(1, 0)
	wait.Dst = wait.Src
	b.rows = append(b.rows, wait, smallRow(2, 1000))
	stats, err := Flows(t.Context(), m, Chunk{FirstRow: 5, Flows: b}, Sink{&hops, &paths, &loads})
	if err != nil || stats != (Stats{PacketHops: 2}) || !slices.Equal(rowsOf(&hops), []int64{6, 6}) ||
		!slices.Equal(rowsOf(&paths), []int64{6}) {
		t.Errorf("%+v, rows %v and %v, %v", stats, rowsOf(&hops), rowsOf(&paths), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.rows = append(b.rows, smallRow(3, 1000))
	_, err = Flows(ctx, m, Chunk{Flows: b}, Sink{nil, nil, &loads})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("loads of a run that was stopped: %v", err)
	}
	s := Step(m, &step.Step{})
	if s.Sharing != step.ByScenario || s.Cut.By != step.ByFlows {
		t.Errorf("%+v", s)
	}
	if !IsUnreachable(fmt.Errorf("flow 1: %w", &topology.UnreachableError{})) ||
		IsUnreachable(errors.New("no path")) {
		t.Error("errors of unreachable flows")
	}
}
