package network

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/roundrobin"
)

// A NIC looks at the timers of its flows again when the wire is free, or when the pacing of a flow ends, but
// not before the first timer ticks. Earlier times of flows that have ended or have sent meanwhile do not
// count.
func TestWhenTimersAreLookedAt(t *testing.T) {
	for _, c := range []struct {
		name            string
		freePS          int64
		readyPS         int64 // as noted
		placePS         int64 // of the flow
		row, sent, want int64
	}{
		{"the wire is free", 100, 200, 200, 7, 0, 100},
		{"the wire is free later", 150, 120, 120, 7, 0, 150},
		{"the pacing ends", 99, 120, 120, 7, 0, 120},
		{"the pacing ends when the timer ticks", 99, 100, 100, 7, 0, 100},
		{"the pacing ends before", 99, 99, 99, 7, 0, never},
		{"it has sent", 99, 120, 180, 7, 0, never},
		{"another flow", 99, 120, 120, 8, 0, never},
		{"nothing is left to send", 99, 120, 120, 7, 5000, never},
	} {
		n, d := lossy(t, simkernel.DCQCN, 5)
		s := &n.flows.senders[0]
		nic := &d.nics[n.portOf[0]-d.first]
		nic.Ring = roundrobin.Ring{SendPS: roundrobin.Unknown}
		s.place = nic.Add(0, 0)
		s.sentBytes = c.sent
		nic.Places[s.place].ReadyPS = c.placePS
		n.flows.info[0].row = 7
		nic.ticks.Push(timer{100, 7, 0})
		nic.ready.Push(timer{c.readyPS, c.row, 0})
		got := nic.look(d, &port{freePS: c.freePS}, 50)
		if got != c.want || len(nic.ticks) != 1 {
			t.Errorf("%s: at %d, want %d", c.name, got, c.want)
		}
	}
	n, d := lossy(t, simkernel.DCQCN, 5)
	c := &d.nics[n.portOf[0]-d.first]
	n.flows.info[0].row = 7
	c.ticks.Push(timer{40, 8, 0})
	if c.look(d, &port{}, 40) != never || len(c.ticks) != 0 {
		t.Error("the timer of a flow that has ended stays")
	}
}

// The end of the pacing of a flow is noted if it is later. Ends that have passed are removed.
func TestNotesOfPacing(t *testing.T) {
	n, d := lossy(t, simkernel.DCQCN, 5)
	s := &n.flows.senders[0]
	nic := &d.nics[n.portOf[0]-d.first]
	s.place = nic.Add(0, 0)
	for _, c := range []struct {
		readyPS, nowPS int64
		noted          int
	}{{90, 100, 0}, {100, 100, 0}, {101, 100, 1}, {300, 100, 2}, {300, 101, 2}, {50, 300, 0}} {
		nic.Places[s.place].ReadyPS = c.readyPS
		nic.noteReady(d, s, c.nowPS)
		if len(nic.ready) != c.noted {
			t.Errorf("%+v: %d are noted", c, len(nic.ready))
		}
	}
}

// The first ACK that is not paused is sent when the wire is free and the ACK is there. Only ACKs that share
// the queue of data are paused.
func TestNextACKOfANIC(t *testing.T) {
	n, d, _ := smallPFC(t)
	if err := n.Classify([]Class{{}, {}}); err != nil {
		t.Fatal(err)
	}
	n.flows.hops = []hop{{last: 0}, {last: 1}}
	p := &n.ports[n.portOf[0]]
	acks := &calendar.Fifo{}
	acks.Push(calendar.Item{AtPS: 10, Hop: 0})
	acks.Push(calendar.Item{AtPS: 20, Hop: 0})
	acks.Push(calendar.Item{AtPS: 30, Hop: 1})
	acks.Head = 1
	d.pfc.pauserOf(0, 0).paused = true
	for _, c := range []struct {
		queue  bool // ACKs share it
		bits   uint32
		freePS int64
		at     int
		atPS   int64
	}{
		{true, portPaused, 0, 2, 30}, {true, portPaused, 35, 2, 35}, {true, 0, 0, 1, 20},
		{false, portPaused, 0, 1, 20},
	} {
		d.traits.AcksQueue = c.queue
		p.bits = c.bits
		p.freePS = c.freePS
		at, atPS := p.nextAck(d, acks)
		if at != c.at || atPS != c.atPS {
			t.Errorf("%+v: ACK %d at %d", c, at, atPS)
		}
	}
	d.pfc.pauserOf(0, 1).paused = true
	d.traits.AcksQueue = true
	p.bits = portPaused
	at, atPS := p.nextAck(d, acks)
	if at != 3 || atPS != never {
		t.Errorf("all are paused: ACK %d at %d", at, atPS)
	}
}
