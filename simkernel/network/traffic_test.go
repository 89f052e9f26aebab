package network

import (
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/faults"
)

// The bytes of a link are counted in 128 slots of 1 µs. Slots are doubled when a packet leaves after the last
// one. The sums over all slots do not change.
func TestSlotsOfTraffic(t *testing.T) {
	m := LinkTraffic{SlotNS: 1000}
	check := func(slotNS int64, want map[int]int64) {
		t.Helper()
		for slot, bytes := range m.SentBytes {
			if bytes != want[slot] {
				t.Errorf("%d packets: slot %d of %d ns has %d bytes, want %d", m.Sent, slot, m.SlotNS, bytes, want[slot])
			}
		}
		if m.SlotNS != slotNS {
			t.Errorf("%d packets: slots of %d ns, want %d", m.Sent, m.SlotNS, slotNS)
		}
	}
	m.send(999_999, 1, 5)
	m.send(1_000_000, 2, 5)
	m.send(127_999_999, 10, 5)
	check(1000, map[int]int64{0: 1, 1: 2, 127: 10})
	m.send(128_000_000, 20, 6)
	check(2000, map[int]int64{0: 3, 63: 10, 64: 20})
	m.send(1_000_000_000, 40, 7) // slot 500 of 2 µs is slot 125 of 8 µs
	check(8000, map[int]int64{0: 3, 15: 10, 16: 20, 125: 40})
	if m.Sent != 5 || m.BusyNS != 28 {
		t.Errorf("%d packets in %d ps", m.Sent, m.BusyNS)
	}
}

// changing is two hosts and a switch. Link 0 has 2 Gbps from 10 µs on, a delay of 9 µs from 20 µs on, and 5
// Gbps from 30 µs on.
func changing(t *testing.T) *Network {
	t.Helper()
	e := overSwitch(simkernel.DCTCP, 0, 0, 0)
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.Forward(Forwarding{Routes: routesOf(e.links, e.hosts, []int64{0}, nil), Failures: faults.Failures{
		Rates: []faults.Rate{{Link: 0, FromNS: 20_000, DelayNS: 9000}, {Link: 0, FromNS: 10_000, BandwidthBps: 2e9},
			{Link: 0, FromNS: 30_000, BandwidthBps: 5e9}}}})
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	return n
}

// A change of a link applies from its time on, and to what it changes only. A port has its present kind, and
// the time of the next change.
func TestChangesOfALink(t *testing.T) {
	n := changing(t)
	w := n.domains[0].paths
	for _, c := range []struct {
		atPS    int64
		bps     float64
		delayPS int64
	}{
		{9_999_999, 10e9, 1_000_000}, {10_000_000, 2e9, 1_000_000}, {19_999_999, 2e9, 1_000_000},
		{20_000_000, 2e9, 9_000_000}, {30_000_000, 5e9, 9_000_000}, {1 << 50, 5e9, 9_000_000},
	} {
		k := w.kindAt(0, c.atPS)
		if k.bps != c.bps || k.delayPS != c.delayPS {
			t.Errorf("at %d ps: %v bps, %d ps", c.atPS, k.bps, k.delayPS)
		}
	}
	p := &n.ports[n.portOf[0]]
	for i, next := range []int64{10_000_000, 20_000_000, 30_000_000, never} {
		if i > 0 {
			p.bits &^= portChanges
			w.changeRate(p)
		}
		changes := p.bits&portChanges != 0
		if p.rateAtPS != next || changes != (next != never) || changes && p.changeAtPS != next {
			t.Errorf("after %d changes: the next is at %d and %d ps, want %d", i, p.rateAtPS, p.changeAtPS, next)
		}
	}
	if p.kind.bps != 5e9 {
		t.Errorf("after all changes: %+v", p.kind)
	}
	other := &n.ports[n.portOf[1]]
	if other.bits&portChanges != 0 || other.rateAtPS != never {
		t.Error("the other direction changes, too")
	}
	worst := n.worst(0)
	if worst.BandwidthBps != 2e9 || worst.DelayNS != 9000 {
		t.Errorf("the slowest and longest that the link is: %+v", worst)
	}
	worst = n.worst(1)
	if worst != n.links[1] {
		t.Errorf("a link without changes: %+v", worst)
	}
}

// Waits and the time in which a link is busy are counted in ps, and reported in ns.
func TestUnitsOfTraffic(t *testing.T) {
	n := changing(t)
	n.paths.waits[2].Add(5500)
	n.paths.traffic[2].send(1, 1048, 7999)
	got := n.Traffic(2)
	if got.WaitNS != 5 || got.BusyNS != 7 || got.Sent != 1 || got.SentBytes[0] != 1048 || got.SlotNS != 1000 {
		t.Errorf("waits of %v ns, busy for %d ns, %d packets", got.WaitNS, got.BusyNS, got.Sent)
	}
}

// Tags are in the 7 bits of items from bit 10 on: behind the 5 bits of flags, and the 5 of attempts. Numbers
// of packets begin behind them.
func TestBitsOfTags(t *testing.T) {
	for balance, want := range map[Balance]uint32{ECMP: 0, Flowlet: 0, Spray: 0, Adaptive: 0, Random: 0,
		PLB: 0x1fc00, CONGA: 0x1fc00} {
		e := overSwitch(simkernel.DCTCP, 0, 0, 0)
		n := newExampleNetwork(t, &e, BufferParams{}, 1)
		n.Forward(Forwarding{Routes: routesOf(e.links, e.hosts, []int64{0}, nil), Balancing: Balancing{
			Balance: balance}})
		n.setRules()
		shift := uint8(10)
		if want != 0 {
			shift = 17
		}
		if n.tagMask != want || n.numberShift != shift {
			t.Errorf("balance %d: tags in %#x, numbers from bit %d on", balance, n.tagMask, n.numberShift)
		}
		all := slices.Repeat([]Balance{balance}, len(e.hosts))
		if !slices.Equal(n.paths.At, all) || n.paths.selective() != (balance != ECMP) {
			t.Errorf("balance %d: %v, receivers take packets in any order: %v", balance, n.paths.At,
				n.paths.selective())
		}
	}
	if (*paths)(nil).selective() {
		t.Error("without Forwarding, receivers take packets in any order")
	}
	in := &paths{Forwarding: Forwarding{Balancing: Balancing{At: []Balance{Spray}, InOrder: true}}}
	if in.selective() {
		t.Error("receivers that take packets in order take them in any order")
	}
}
