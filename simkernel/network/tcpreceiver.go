package network

import (
	"slices"

	"parsimon/simkernel"
)

// Flows of transports that are clocked by ACKs (simkernel.TCP) hand over to their NIC what their window
// allows, when it does, without pacing. There it waits in order, also when a loss is found meanwhile, as in
// the queueing disciplines of Linux and ns-3. A receiver takes packets in any order and acknowledges what it
// has without a gap (RFC 5681, §4.2): every second packet in order, or one after DelayedAckNS; at once what
// is out of order, fills a gap or was received before, and a flow's first packet (as Linux and ns-3) and
// last.
//
// ACKs are cumulative and selective (RFC 2018). With flagThrough the receiver has all packets up to the
// number of an ACK. Without it the number is that of the packet that caused the ACK, and a packet before it
// is missing. flagNack says that the ACK is also for the first packet that had none. So the sender knows what
// the receiver has, and retransmits what is lost (RFC 6675).

// ackClocking is TCP at the hosts of a domain.
type ackClocking struct{ domain *domain }

// receiveClocked processes a data packet at its destination and sends what ACK it causes, now or later.
func (x *ackClocking) receiveClocked(c *nic, it *item, acks *fifo) {
	d := x.domain
	x.sendDelayed(c, acks, it.atPS)
	slot := d.net.flows.hops[it.hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.bits)
	delayPS := d.net.params.TCP.DelayedAckNS * simkernel.PSPerNS
	wait := number == r.expected && r.beyond <= number && it.bits&flagLast == 0 && number > 0 && delayPS > 0
	r.countOrder(it, number)
	d.recovery.receiveAny(slot, r, number, it.atPS)
	through := r.throughFlag(number)
	answered := number
	if through != 0 { // of a duplicate, and of a packet that fills a gap: more than that packet
		answered = r.expected - 1
	}
	it.bits = uint32(answered)<<d.numberShift | it.bits&(d.tagMask|flagMarked) | flagAck | through
	i := slices.IndexFunc(c.delayed, func(o item) bool { return d.net.flows.hops[o.hop].flow == slot })
	if i >= 0 {
		held := c.delayed[i]
		c.delayed = slices.Delete(c.delayed, i, i+1)
		if (held.bits^it.bits)&flagMarked == 0 { // one ACK is for equal marks (RFC 8257, §3.2)
			d.journal.gone = append(d.journal.gone, slot)
			it.bits |= flagNack
			wait = false
		} else {
			acks.push(item{it.atPS, held.hop, held.bits})
		}
	}
	r.beyond = max(r.beyond, number+1)
	if wait {
		it.atPS += delayPS
		c.delayed = append(c.delayed, *it)
		return
	}
	acks.push(*it)
}

// sendDelayed sends the delayed ACKs that are due by a time.
func (x *ackClocking) sendDelayed(c *nic, acks *fifo, byPS int64) {
	for len(c.delayed) > 0 && c.delayed[0].atPS <= byPS {
		acks.push(c.delayed[0])
		c.delayed = slices.Delete(c.delayed, 0, 1)
	}
}
