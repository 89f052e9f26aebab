package network

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// Counts of retransmitted packets are added between epochs. Only events until the delivery of the flow count.
// The wait of the last packet is that of its latest transmission, and at equal times of the larger link.
func TestCountsOfRetransmissions(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
	n := newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, 1)
	n.setRules()
	n.layOut([]int32{0, 1, 0})
	for i := range n.domains {
		d := &n.domains[i]
		d.pool.starting = []*newFlow{{}}
		d.pool.needUnits = units(2)
		n.reserve(&d.pool)
	}
	t0 := &n.flows
	t0.info[0] = flowInfo{row: 4, hops: 2, startPS: 100}
	n.recovery.flows[0].deliverPS = never
	wait := func(hop int32, fromPS, toPS int64, link int32, bits uint32) lateStat {
		return lateStat{Item: calendar.Item{Hop: hop, AtPS: fromPS, Bits: bits}, startPS: toPS, link: link}
	}
	event := func(atPS int64, mark, again bool) lateStat {
		return lateStat{Item: calendar.Item{Hop: 1}, startPS: atPS, mark: mark, again: again}
	}
	n.domains[0].journal.late = []lateStat{
		wait(1, 100, 700, 2, 0), wait(1, 4500, 5000, 2, calendar.FlagLast), wait(1, 2000, 5001, 2, 0),
		event(5000, true, false), event(5001, true, false), event(4000, false, true), event(5000, false, true),
		event(5001, false, true),
	}
	n.domains[1].journal.late = []lateStat{
		wait(1, 4600, 5000, 3, calendar.FlagLast), wait(1, 4000, 4900, 9, calendar.FlagLast),
	}
	n.domains[1].journal.finished = []finish{{5000, 0}}
	n.recovery.receivers[0].reordered = 6
	n.recovery.settle()
	row := n.domains[1].journal.results.rows[0]
	if row.atPS != 5000 || row.row != 4 || row.again != 2 || row.reordered != 6 {
		t.Errorf("%+v", row)
	}
	want := hopStat{waitPS: 600 + 500 + 400 + 900, marks: 1}
	if t0.stats[1] != want {
		t.Errorf("%+v", t0.stats[1])
	}
	if t0.lastPS[1] != 400 {
		t.Errorf("the last packet waits for %d ps", t0.lastPS[1])
	}
	n.recovery.settle()
	if len(n.domains[1].journal.results.rows) != 1 || n.recovery.flows[0].again != 2 {
		t.Error("events count twice")
	}
}

// The slot of a flow that has ended is free once none of its packets and ACKs is left in the network.
func TestSlotsAreFreeWhenNothingIsLeft(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
	n := newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, 1)
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	d := &n.domains[0]
	n.flows.info = make([]flowInfo, 1)
	n.recovery.flows = []recoveryFlow{{inNetwork: 3}}
	d.pool.live = 1
	f := &n.recovery.flows[0]
	for i, c := range []struct {
		done bool
		live int64
	}{{false, 1}, {true, 1}, {true, 0}} {
		f.done = c.done
		ended := d.recovery.returned(0, f)
		if ended != c.done || d.pool.live != c.live || len(d.pool.slots) != int(1-c.live) {
			t.Errorf("packet %d: the flow had ended %v, %d live flows", i, ended, d.pool.live)
		}
	}
}

// All counts of losses are sums over domains.
func TestSumsOfLosses(t *testing.T) {
	n := &Network{layout: layout{domains: make([]domain, 2)}}
	n.domains[0].journal.losses = Losses{1, 2, 3, 4, 5, 6, 7, 8}
	n.domains[1].journal.losses = Losses{10, 20, 30, 40, 50, 60, 70, 80}
	got := n.Losses()
	if got != (Losses{11, 22, 33, 44, 55, 66, 77, 88}) {
		t.Errorf("%+v", got)
	}
}
