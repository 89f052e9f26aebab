package exact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/network"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// simulatedSmall has the tables of a simulation of SmallNetwork.
type simulatedSmall struct {
	fcts  []fctRow
	hops  []hopRow
	links []tables.LinkStat
	slots []slotRow
	stats Stats
}

type fctRow struct {
	FlowID   int64   `col:"flow_id"`
	StartNS  int64   `col:"start_ns"`
	Hops     int16   `col:"hops"`
	IdealNS  int64   `col:"ideal_ns"`
	FCTNS    int64   `col:"fct_ns"`
	Slowdown float64 `col:"slowdown"`
}

// simulateSmall simulates flows on SmallNetwork, where a packet of 1,048 bytes takes 838.4 ns and a cable 1
// µs.
func simulateSmall(t *testing.T, m *step.Model, o Options, flows ...workload.Row) (s simulatedSmall) {
	t.Helper()
	rec := methodtest.FlowRecord(flows...)
	if o.Loads == nil && o.Dependencies == nil {
		_, o.Loads = methodtest.Route(t, m.Network, &m.Params, rec)
	}
	var fcts, hops, links, slots tables.Memory
	out := Tables{FCTs: &fcts, Hops: &hops}
	if m.Moves.Whole() {
		out.Slots = &slots
	}
	if o.Loads != nil {
		out.Links = &links
	}
	var err error
	s.stats, err = Simulate(t.Context(), m, methodtest.Table(rec).Read(), o, out)
	err = errors.Join(err,
		columns.Each(fcts.Read(), func(r *fctRow) error { s.fcts = append(s.fcts, *r); return nil }),
		columns.Each(hops.Read(), func(r *hopRow) error { s.hops = append(s.hops, *r); return nil }),
		columns.Each(links.Read(), func(r *tables.LinkStat) error { s.links = append(s.links, *r); return nil }),
		columns.Each(slots.Read(), func(r *slotRow) error { s.slots = append(s.slots, *r); return nil }))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallFlow goes from a host to host 3.
func smallFlow(id int64, src int32, size, start int64) workload.Row {
	return workload.Row{ID: id, Src: src, Dst: 3, SizeBytes: size, StartNS: start}
}

// Three packets meet at the link to host 3 and wait for none, one and two others. While the link is busy, one
// waits on average (Little's law). The queue is longest while the second is sent and the third waits, because
// the first has left.
func TestThreeFlowsOnOneLink(t *testing.T) {
	var progress int64
	o := Options{Progress: func(hops int64) { progress += hops }}
	const start = 1_000_000
	s := simulateSmall(t, methodtest.DCTCP(t, topologytest.SmallNetwork(t)), o,
		smallFlow(1, 0, 1000, start), smallFlow(2, 1, 1000, start), smallFlow(3, 2, 1000, start))
	var late, waits []int64
	for _, r := range s.fcts {
		late = append(late, r.FCTNS-3677)
		if r.IdealNS != 3677 || r.StartNS != start || r.Slowdown != float64(r.FCTNS)/3677 || r.Hops != 2 {
			t.Errorf("%+v", r)
		}
	}
	for _, h := range s.hops {
		if h.LinkID == 7 && h.Hop == 1 {
			waits = append(waits, h.WaitNS)
		} else if h.WaitNS != 0 || h.Hop != 0 {
			t.Errorf("%+v", h)
		}
	}
	slices.Sort(waits)
	if !slices.Equal(late, []int64{0, 839, 1677}) || !slices.Equal(waits, []int64{0, 838, 1676}) {
		t.Errorf("flows are late by %v ns and wait for %v", late, waits)
	}
	l := s.links[7]
	if l.PacketsSent != 3 || l.BusyNS != 2515 || l.MaxQueueBytes != 2*1048 || l.MaxQueueAtNS != start+2676 ||
		fmt.Sprintf("%.2f %.1f", l.MeanQueuePackets, l.MeanWaitNS) != "1.00 838.0" || l.Drops != 0 {
		t.Errorf("link 7: %+v", l)
	}
	l = s.links[1]
	if l.PacketsSent != 0 || l.MaxQueueAtNS != 0 || len(s.links) != 8 {
		t.Errorf("link 1: %+v", l)
	}
	want := Stats{Flows: 3, PacketHops: 6, LastEndNS: start + 3677 + 1677, DeepestSwitch: 4,
		DeepestSwitchBytes: 3 * 1048}
	got := s.stats
	got.Losses = network.Losses{}
	if got != want || progress != 6 {
		t.Errorf("%+v, want %+v; progress %d", got, want, progress)
	}
}

// A simulation that ends early reports the flows that are left. By 100 µs, ACKs of 113 packets have come
// back: packet k takes 3,676.8 + 838.4 k ns to the receiver, and its ACK 2,096. The step in which the
// simulation ends may go on for a few packets.
func TestFlowsThatAreLeft(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	const start = 5_000_000
	other := workload.Row{ID: 2, Src: 1, Dst: 2, SizeBytes: 1000, StartNS: start}
	background := workload.Row{ID: 3, Src: 2, Dst: 1, SizeBytes: 1000, StartNS: start, Background: true}
	flows := methodtest.FlowRecord(smallFlow(1, 0, 1_000_000, start), other, background)
	left := 0
	_, err := Simulate(t.Context(), m, methodtest.Table(flows).Read(), Options{EndNS: start + 100_000}, Tables{
		Report: func(rows []tables.SlowdownRow) error {
			if len(rows) != 1 || rows[0].FlowID != 2 || rows[0].FCTNS != 3677 {
				t.Errorf("reported: %+v", rows)
			}
			return nil
		},
		Left: func(r LeftFlow) {
			left++
			// 1,000 packets take 2 µs, and 1,001 transmissions of 838.4 ns.
			if r.FlowID != 1 || r.IdealNS != 841_239 || r.StartNS != start || r.WindowNS != 0 ||
				r.SizeBytes != 1_000_000 || r.Connection != 1 || r.Background {
				t.Errorf("left: %+v", r)
			}
			if r.Bytes > 887_000 || r.Bytes < 875_000 {
				t.Errorf("%d bytes are left", r.Bytes)
			}
		},
	})
	if err != nil || left != 1 {
		t.Errorf("%d flows are left, %v", left, err)
	}
}

// dependencies is table dependencies.
func dependencies(t *testing.T, rows ...dependency) func() schema.Batches {
	t.Helper()
	var m tables.Memory
	if err := m.Write(dependencyRecord(rows)); err != nil {
		t.Fatal(err)
	}
	return m.Read
}

// dependencyRecord returns a batch of table dependencies.
func dependencyRecord(rows []dependency) arrow.Record {
	return columns.RecordOf(schema.Dependencies, rows, func(d dependency) columns.Row {
		return columns.Row{"flow_row": d.Row, "flow_id": d.Row, "after_row": d.After, "after_flow_id": d.After,
			"delay_ns": d.Delay}
	})
}

// Each flow gets the rows of its dependencies, from batches that end anywhere. If rows were lost, a flow
// would start before the flows that it waits for.
func TestDependenciesInBatches(t *testing.T) {
	rows := []dependency{{1, 0, 5}, {3, 0, 6}, {3, 2, 7}, {4, 1, 8}, {4, 3, 9}}
	for first := 1; first < len(rows); first++ {
		m := &tables.Memory{Records: []arrow.Record{
			dependencyRecord(rows[:first]), dependencyRecord(rows[first:]),
		}}
		d, err := newDependencies(m.Read, 6)
		if err != nil {
			t.Fatal(err)
		}
		var c network.Flows
		for row := range int64(6) {
			if err := d.add(&c, row); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(c.After, []int64{0, 0, 2, 1, 3}) || !slices.Equal(c.DelayNS, []int64{5, 6, 7, 8, 9}) ||
			!slices.Equal(c.AfterEnds, []int32{0, 1, 1, 3, 5, 5}) || c.KeepRow != 0 || c.HeldBy != 0 {
			t.Errorf("a first batch of %d rows: %+v", first, c)
		}
	}
}

// A flow that waits for others starts when the last of them has finished and its own delay has passed. A
// compute step is a flow without bytes, which takes no time. 5 + 3,677 ns is 3,682, and the step waits for
// 1,000 more.
func TestStartsOfFlowsThatWait(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	flows := []workload.Row{smallFlow(1, 0, 1000, 5), {ID: 2, StartNS: 5}, smallFlow(3, 1, 1000, 5)}
	o := Options{Flows: 3, Dependencies: dependencies(t, dependency{1, 0, 1000}, dependency{2, 0, 10},
		dependency{2, 1, 10})}
	_, o.Loads = methodtest.Route(t, m.Network, &m.Params, methodtest.FlowRecord(flows...))
	s := simulateSmall(t, m, o, flows...)
	var got []string
	for _, r := range s.fcts {
		got = append(got, fmt.Sprintf("%d at %d takes %d", r.FlowID, r.StartNS, r.FCTNS))
	}
	slices.Sort(got)
	want := []string{"1 at 5 takes 3677", "2 at 4682 takes 0", "3 at 4692 takes 3677"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The load is that of the time until the last flow has finished, at 8,369 ns: 2,000 bytes on link 7 from 0
	// on.
	load := s.links[7].Load
	if load < 0.1909 || load > 0.1914 || s.stats.LastEndNS != 8369 {
		t.Errorf("load %v until %d", load, s.stats.LastEndNS)
	}
}

// The engine forgets a flow once no later flow waits for it. What it must keep is computed for blocks of
// 4,096 flows: too little would lose a dependency, too much would need memory for all flows.
func TestBoundsOfDependencies(t *testing.T) {
	rows := []dependency{{5, 3, 0}, {4096, 4095, 1}, {4097, 100, 2}, {4097, 4090, 3}, {4098, 4097, 4},
		{4099, 4000, 5}}
	d, err := newDependencies(dependencies(t, rows...), 4100)
	if err != nil {
		t.Fatal(err)
	}
	want := []dependencyBounds{{3, 0}, {100, 4000}}
	if !slices.Equal(d.bounds[:2], want) || len(d.bounds) != 3 {
		t.Errorf("bounds %v, want %v", d.bounds, want)
	}
	var c network.Flows
	for row := range int64(4100) {
		if row == 4096 {
			c = network.Flows{}
		}
		if err := d.add(&c, row); err != nil {
			t.Fatal(err)
		}
	}
	if c.KeepRow != 100 || c.HeldBy != 4000 || !slices.Equal(c.After, []int64{4095, 100, 4090, 4097, 4000}) ||
		!slices.Equal(c.DelayNS, []int64{1, 2, 3, 4, 5}) || !slices.Equal(c.AfterEnds, []int32{1, 3, 4, 5}) {
		t.Errorf("%+v", c)
	}
	// A flow without dependencies is not held, regardless of its position.
	for _, missing := range []int{1, 4, 5} {
		rest := slices.Delete(slices.Clone(rows), missing, missing+1)
		if d, err = newDependencies(dependencies(t, rest...), 4100); err != nil || d.bounds[1].heldBy != 0 {
			t.Errorf("without row %d: %v, %v", missing, d.bounds, err)
		}
	}
	// Each flow waits for the other: none can start before row 0 or a later one has ended.
	d, err = newDependencies(dependencies(t, dependency{0, 1, 0}, dependency{1, 0, 0}), 2)
	if err != nil || d.bounds[0] != (dependencyBounds{0, 0}) {
		t.Errorf("%v, %v", d.bounds, err)
	}
	// Flow 0 has a dependency, and so have all others.
	d, err = newDependencies(dependencies(t, dependency{0, 1, 0}, dependency{1, 3, 0}, dependency{2, 3, 0},
		dependency{3, 2, 0}), 4)
	if err != nil || d.bounds[0] != (dependencyBounds{1, 1}) {
		t.Errorf("%v, %v", d.bounds, err)
	}
	for _, bad := range [][]dependency{{{5, 3, 0}, {4, 3, 0}}, {{4100, 3, 0}}, {{5, 5, 0}}, {{5, -1, 0}},
		{{5, 4100, 0}}, {{5, 3, -1}}} {
		_, err := newDependencies(dependencies(t, bad...), 4100)
		if err == nil || !strings.Contains(err.Error(), "out of order or of range") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A flow belongs to the class of its service, otherwise of its virtual network, otherwise of its DSCP. An
// unknown DSCP is 0.
func TestClassOfAFlow(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	m.Classes = []step.TrafficClass{
		{Name: "default"}, {Name: "a", Queue: 1, Services: []string{"s"}, DSCP: []int16{8}},
		{Name: "b", Queue: 2, VNets: []string{"v"}, DSCP: []int16{0}},
	}
	_, of, err := newEngine(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		service, vnet string
		dscp          int16
		want          uint8
	}{{"s", "v", 0, 1}, {"x", "v", 8, 2}, {"x", "y", 8, 1}, {"", "", 0, 2}, {"", "", -1, 2}, {"", "", 9, 0}} {
		r := workload.Row{}
		r.Service = c.service
		r.VNet = c.vnet
		r.DSCP = c.dscp
		got := of(&r)
		if got != c.want {
			t.Errorf("%+v is in class %d", c, got)
		}
	}
}

// There is a warning if a port holds no more bytes than can be in flight on its cable. 2 × 80 µs at 10 Gbps
// are 200,000 bytes, the share of a port in a buffer of 400,000. Hosts' links and links without flows cause
// no warning, because no switch drops packets there.
func TestBytesInFlight(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	loads := &route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	for _, c := range []struct {
		delayNS, reserved int64
		want              string
	}{{79_999, 0, ""}, {80_000, 0, "7: 1.00, 5: 1.00"}, {160_000, 0, "7: 2.00, 5: 2.00"},
		{160_000, 200_000, "7: 1.00, 5: 1.00"}} {
		m := methodtest.DCTCP(t, n)
		m.Params.SetWindow(0)
		m.Buffers = network.BufferParams{SwitchBytes: 400_000, Alpha: 1, ReservedBytes: c.reserved}
		for _, id := range []int32{4, 5, 6, 7, 1} {
			n.Links[id].DelayNS = c.delayNS
			loads.Links[id].Flows = 1
		}
		loads.Links[1].Flows = 0
		n.Links[7].DelayNS++
		var got []string
		for _, w := range goBackWarnings(m, loads) {
			got = append(got, fmt.Sprintf("%d: %.2f", w.Link, w.Measure))
		}
		if c.delayNS == 79_999 {
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "7") })
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
