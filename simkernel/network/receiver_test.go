package network

import (
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// lossy is two hosts and a switch whose buffer is limited, with a flow of the given number of packets in slot
// 0. It is in one domain.
func lossy(t *testing.T, kind simkernel.Transport, packets int64) (n *Network, d *domain) {
	t.Helper()
	e := overSwitch(kind, 0, 1000, 0)
	n = newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, 1)
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	d = &n.domains[0]
	d.Begin(1, 0)
	f := &newFlow{size: packets * n.params.PayloadBytes, path: []int32{0, 3}, timeoutPS: 70_000, nackPS: 100}
	f.limits = simkernel.Limits{LineBps: 10e9, WindowBytes: 1 << 20}
	d.pool.starting = []*newFlow{f}
	d.pool.needUnits = units(2)
	n.reserve(&d.pool)
	d.admit(f)
	return n, d
}

// A receiver that takes packets in order acknowledges the expected packet. It requests it with a NACK when a
// later one arrives, again only after the time between NACKs, and discards duplicates without an answer.
func TestAnswersOfAReceiver(t *testing.T) {
	const ack = calendar.FlagAck
	const nack = calendar.FlagAck | calendar.FlagNack
	n, d := lossy(t, simkernel.DCTCP, 5)
	for _, c := range []struct {
		name   string
		number uint32
		atPS   int64
		answer uint32 // its flags; 0: none
		losses Losses
	}{
		{"the expected one", 0, 10, ack, Losses{Delivered: 1}},
		{"a later one", 2, 20, nack, Losses{Delivered: 1, Discarded: 1, NACKs: 1}},
		{"another one, too early", 3, 119, 0, Losses{Delivered: 1, Discarded: 2, NACKs: 1}},
		{"another one, after 100 ps", 3, 120, nack, Losses{Delivered: 1, Discarded: 3, NACKs: 2}},
		{"too early after it", 4, 219, 0, Losses{Delivered: 1, Discarded: 4, NACKs: 2}},
		{"the requested one", 1, 221, ack, Losses{Delivered: 2, Discarded: 4, NACKs: 2}},
		{"a later one than another", 3, 222, nack, Losses{Delivered: 2, Discarded: 5, NACKs: 3}},
		{"a duplicate", 1, 223, 0, Losses{Delivered: 2, Discarded: 6, NACKs: 3}},
		{"the requested one again", 2, 224, ack, Losses{Delivered: 3, Discarded: 6, NACKs: 3}},
		{"the next one", 3, 225, ack, Losses{Delivered: 4, Discarded: 6, NACKs: 3}},
		{"the last one", 4, 226, ack | calendar.FlagLast, Losses{Delivered: 5, Discarded: 6, NACKs: 3}},
	} {
		gone := len(d.journal.gone)
		it := &calendar.Item{AtPS: c.atPS, Hop: 2, Bits: c.number << n.numberShift}
		if c.number == 4 && c.atPS == 226 {
			it.Bits |= calendar.FlagLast
		}
		answers := d.recovery.receiveInOrder(it)
		bits := c.number<<n.numberShift | c.answer
		if answers != (c.answer != 0) || answers && it.Bits != bits || d.journal.losses != c.losses {
			t.Errorf("%s: answers %v, bits %b, want %b; %+v", c.name, answers, it.Bits, bits, d.journal.losses)
		}
		if (len(d.journal.gone) > gone) == answers { // what is not answered has left the network
			t.Errorf("%s: %d have left the network, before %d", c.name, len(d.journal.gone), gone)
		}
	}
	if len(d.journal.finished) != 1 || d.journal.finished[0] != (finish{226, 0}) {
		t.Errorf("%+v", d.journal.finished)
	}
}

// A packet is reordered if one with a higher number has arrived before, of those that were sent once
// (RFC 4737). Duplicates and retransmitted packets do not count.
func TestReorderedPackets(t *testing.T) {
	var r receiver
	for _, c := range []struct {
		number    int64
		bits      uint32
		expected  int64 // by the receiver
		reordered int32
		highest   int64
	}{
		{0, 0, 0, 0, 0}, {3, 0, 1, 0, 3}, {3, 0, 1, 0, 3}, {1, 0, 1, 1, 3}, {2, 1 << calendar.FlagBits, 2, 1, 3},
		{9, 1 << calendar.FlagBits, 2, 1, 3}, {4, 0, 2, 1, 4}, {1, 0, 2, 1, 4}, {2, 0, 2, 2, 4},
	} {
		r.expected = c.expected
		r.countOrder(&calendar.Item{Bits: c.bits}, c.number)
		if r.reordered != c.reordered || r.highest != c.highest {
			t.Errorf("%+v: %d, the highest is %d", c, r.reordered, r.highest)
		}
	}
	r.got.Add(6)
	r.countOrder(&calendar.Item{}, 6)
	if r.highest != 4 {
		t.Errorf("a duplicate counts as the highest: %d", r.highest)
	}
}

// A sender that receives a NACK goes back to the first packet that is not acknowledged. An ACK tells that all
// packets before its own have arrived, also if the sender has gone back meanwhile.
func TestSendersGoBack(t *testing.T) {
	const nack = calendar.FlagAck | calendar.FlagNack
	for _, c := range []struct {
		name      string
		number    uint32
		bits      uint32
		before    int64 // the next packet to send, before it
		una, next int64 // after it
		again     bool  // another attempt begins
		ackedB    int64
	}{
		{"the next ACK", 2, calendar.FlagAck, 6, 3, 6, false, 3000},
		{"a later ACK", 4, calendar.FlagAck, 6, 5, 6, false, 5000},
		{"an old ACK", 1, calendar.FlagAck, 6, 2, 6, false, 2000},
		{"a NACK", 4, nack, 6, 2, 2, true, 2000}, {"a second NACK", 5, nack, 2, 2, 2, false, 2000},
		{"an ACK after going back", 4, calendar.FlagAck, 3, 5, 5, false, 5000},
		{"an ACK after going back, of a packet before", 2, calendar.FlagAck, 4, 3, 4, false, 3000},
	} {
		n, d := lossy(t, simkernel.DCTCP, 9)
		s := &n.flows.senders[0]
		f := &n.recovery.flows[0]
		f.una = 2
		f.maxSent = 6
		f.inNetwork = 5
		s.setNext(&n.params, f, c.before)
		s.ackedBytes = 2000
		c0 := &d.nics[n.portOf[0]-d.first]
		s.place = c0.Add(0, 0)
		f.backoff = 3
		d.recovery.receiveAck(c0, 0, s, &calendar.Item{AtPS: 500, Bits: c.number<<n.numberShift | c.bits})
		if f.una != c.una || f.next != c.next || (f.attempt == 1) != c.again || s.ackedBytes != c.ackedB ||
			s.sentBytes != 1000*c.next || f.inNetwork != 4 {
			t.Errorf("%s: %+v, acknowledged %d, sent %d", c.name, f, s.ackedBytes, s.sentBytes)
		}
		progress := c.una > 2
		if progress != (f.backoff == 0) || progress && f.deadlinePS != 70_500 {
			t.Errorf("%s: %d timeouts, the next at %d", c.name, f.backoff, f.deadlinePS)
		}
	}
}

// Senders with PLB count the marks of ACKs.
func TestMarksOfACKsCountForPLB(t *testing.T) {
	n := fanOut(t, Balancing{Balance: PLB})
	d := &n.domains[0]
	oneFlow(n)
	n.recovery.flows[0] = recoveryFlow{packets: 9, next: 6, maxSent: 6, inNetwork: 6}
	f := &n.recovery.flows[0]
	f.plb.untilPackets = 5
	s := &n.flows.senders[0]
	s.sizeBytes = 9000
	c := &d.nics[n.portOf[0]-d.first]
	s.place = c.Add(0, 0)
	for number, bits := range []uint32{calendar.FlagMarked, 0, 0} {
		bits |= uint32(number)<<n.numberShift | calendar.FlagAck
		d.recovery.receiveAck(c, 0, s, &calendar.Item{Bits: bits})
	}
	if f.plb.acks != 3 || f.plb.marks != 1 {
		t.Errorf("%+v", f.plb)
	}
}
