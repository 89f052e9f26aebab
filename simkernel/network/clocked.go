package network

import (
	"slices"

	"parsimon/simkernel"
)

// Flows of transports that are clocked by ACKs (simkernel.TCP) send whenever their window allows it, without pacing. A
// receiver takes packets in any order and acknowledges what it has without a gap (RFC 5681, §4.2): every second packet
// in order, or one after DelayedAckNS; at once what is out of order, fills a gap or was received before, and a flow's
// last packet. ACKs are never lost, as in the rest of the package.
//
// The number in an ACK is that of the last packet without a gap: -1 if the first packet is missing.

// receiveClocked processes a data packet at its destination and sends what ACK it causes, now or later.
func (d *domain) receiveClocked(c *nic, it *item, acks *fifo) {
	d.sendDelayed(c, acks, it.atPS)
	slot := d.net.flows.hops[it.hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.bits)
	inOrder := number == r.expected && r.beyond <= number
	r.countOrder(it, number)
	d.receiveAny(slot, r, number, it.atPS)
	r.beyond = max(r.beyond, number+1)
	waits := slices.IndexFunc(c.delayed, func(o item) bool { return d.net.flows.hops[o.hop].flow == slot })
	if waits >= 0 { // this ACK is for both packets
		c.delayed = slices.Delete(c.delayed, waits, waits+1)
		d.gone = append(d.gone, slot)
	}
	delayPS := d.net.params.TCP.DelayedAckNS * simkernel.PSPerNS
	delay := waits < 0 && inOrder && it.bits&flagLast == 0 && delayPS > 0
	it.bits = uint32(r.expected-1)<<d.numberShift | it.bits&d.tagMask | flagAck
	if delay {
		it.atPS += delayPS
		c.delayed = append(c.delayed, *it)
		return
	}
	acks.push(*it)
}

// sendDelayed sends the delayed ACKs that are due by a time.
func (d *domain) sendDelayed(c *nic, acks *fifo, byPS int64) {
	for len(c.delayed) > 0 && c.delayed[0].atPS <= byPS {
		acks.push(c.delayed[0])
		c.delayed = slices.Delete(c.delayed, 0, 1)
	}
}

// receiveClockedAck processes an ACK at the source.
func (d *domain) receiveClockedAck(c *nic, slot int32, s *sender, it *item) {
	f, p, tcp := &d.net.recovery.flows[slot], &d.net.params, s.external.tcp
	if d.returned(slot, f) {
		return
	}
	una := d.net.nearest(f.una, it.bits) + 1
	if una < f.una { // a later one overtook it
		return
	}
	resend := tcp.OnACK(it.atPS, min(s.sizeBytes, una*p.PayloadBytes), min(s.sizeBytes, f.maxSent*p.PayloadBytes))
	if una > f.una {
		f.una, f.backoff, f.timeoutPS = una, 0, tcp.TimeoutPS()
		f.deadlinePS = it.atPS + f.timeoutPS
		s.ackedBytes = min(s.sizeBytes, una*p.PayloadBytes)
		if f.next < una {
			s.setNext(p, f, max(una, f.resume))
			f.resume = 0
		}
	}
	if d.ended(c, slot, s, f) {
		return
	}
	if resend && f.resume == 0 && f.next > f.una {
		next := f.next
		s.goBack(p, f)
		f.resume = next
	}
	s.setClockedWindow(p)
	d.updateOpen(c, s, f.open(s), it.atPS)
}

// setClockedWindow adopts the window of the flow's TCP, which full packets must fit in.
func (s *sender) setClockedWindow(p *simkernel.Params) {
	s.windowBytes = max(1, s.external.tcp.Window()-p.PayloadBytes+1)
}

// sentClocked follows onSend: after a packet that was sent again alone, the next is the one that would have been.
func (d *domain) sentClocked(slot int32, s *sender, number int64, again bool, nowPS int64) {
	f, p := &d.net.recovery.flows[slot], &d.net.params
	if !again {
		s.external.tcp.OnSend(min(s.sizeBytes, (number+1)*p.PayloadBytes), nowPS)
	}
	if f.resume > 0 {
		s.setNext(p, f, max(f.resume, f.next))
		f.resume = 0
	}
}
