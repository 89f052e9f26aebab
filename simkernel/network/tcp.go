package network

import (
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// Flows of transports that are clocked by ACKs (simkernel.TCP) hand the packets that their window allows to
// their NIC immediately, without pacing. The packets wait there in order, even if a loss is found in the
// meantime, as in the queueing disciplines of Linux and ns-3. A receiver accepts packets in any order and
// acknowledges what it has without a gap (RFC 5681, §4.2): every second packet in order, or one after
// DelayedAckNS. It immediately acknowledges packets that are out of order, fill a gap or were received
// before, and a flow's first packet (as in Linux and ns-3) and last packet.
//
// ACKs are cumulative and selective (RFC 2018). With calendar.FlagThrough the receiver has all packets up to
// the number of an ACK. Without it the number is that of the packet that caused the ACK, and a packet before
// it is missing. calendar.FlagNack says that the ACK is also for the first packet that had none. The sender
// thus knows which packets the receiver has, and retransmits lost ones (RFC 6675).

// ackClocking is the state of TCP at the hosts of a domain.
type ackClocking struct{ domain *domain }

// receiveClocked processes a data packet at its destination and sends the ACK that it causes, immediately or
// later.
func (x *ackClocking) receiveClocked(c *nic, it *calendar.Item, acks *calendar.Fifo) {
	d := x.domain
	x.sendDelayed(c, acks, it.AtPS)
	slot := d.net.flows.hops[it.Hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.Bits)
	delayPS := d.net.params.TCP.DelayedAckNS * simkernel.PSPerNS
	wait := number == r.expected && r.beyond <= number && it.Bits&calendar.FlagLast == 0 && number > 0 &&
		delayPS > 0
	r.countOrder(it, number)
	d.recovery.receiveAny(slot, r, number, it.AtPS)
	through := r.throughFlag(number)
	answered := number
	if through != 0 { // of a duplicate, and of a packet that fills a gap: more than that packet
		answered = r.expected - 1
	}
	it.Bits = uint32(answered)<<d.numberShift | it.Bits&(d.tagMask|calendar.FlagMarked) | calendar.FlagAck | through
	i := slices.IndexFunc(c.delayed, func(o calendar.Item) bool { return d.net.flows.hops[o.Hop].flow == slot })
	if i >= 0 {
		held := c.delayed[i]
		c.delayed = slices.Delete(c.delayed, i, i+1)
		if (held.Bits^it.Bits)&calendar.FlagMarked == 0 { // one ACK is for equal marks (RFC 8257, §3.2)
			d.journal.gone = append(d.journal.gone, slot)
			it.Bits |= calendar.FlagNack
			wait = false
		} else {
			acks.Push(calendar.Item{AtPS: it.AtPS, Hop: held.Hop, Bits: held.Bits})
		}
	}
	r.beyond = max(r.beyond, number+1)
	if wait {
		it.AtPS += delayPS
		c.delayed = append(c.delayed, *it)
		return
	}
	acks.Push(*it)
}

// sendDelayed sends the delayed ACKs that are due by a time.
func (x *ackClocking) sendDelayed(c *nic, acks *calendar.Fifo, byPS int64) {
	for len(c.delayed) > 0 && c.delayed[0].AtPS <= byPS {
		acks.Push(c.delayed[0])
		c.delayed = slices.Delete(c.delayed, 0, 1)
	}
}

// receiveClockedAck processes an ACK at the source.
func (x *ackClocking) receiveClockedAck(c *nic, slot int32, s *sender, it *calendar.Item) {
	d := x.domain
	f := &d.net.recovery.flows[slot]
	p := &d.net.params
	tcp := s.external.tcp
	if d.recovery.returned(slot, f) {
		return
	}
	before := f.received
	lostTo := f.lostTo
	number := d.net.nearest(f.una, it.Bits)
	if it.Bits&calendar.FlagNack != 0 {
		f.receive(f.una)
	}
	for it.Bits&calendar.FlagThrough != 0 && f.acked.Base < number { // ACKs before this one may have been lost
		f.receive(f.acked.Base)
	}
	f.receive(number)
	una := f.acked.Base
	a := simkernel.TCPAck{NowPS: it.AtPS, AckedBytes: min(s.sizeBytes, una*p.PayloadBytes),
		DeliveredBytes: (f.received - before) * p.PayloadBytes,
		SentBytes:      min(s.sizeBytes, s.external.handedTo*p.PayloadBytes),
		Lost:           f.received-una >= p.TCP.DuplicateAckMax, Marked: it.Bits&calendar.FlagMarked != 0,
		Duplicate: number >= una}
	if a.Lost && tcp.MayRecover(a.AckedBytes) {
		f.lostTo = max(f.lostTo, f.acked.Highest(p.TCP.DuplicateAckMax))
	}
	partial := tcp.Partial(a.AckedBytes) && una >= f.lostTo
	if partial {
		f.lostTo = una + 1
	}
	a.NewLoss, a.PipeBytes = f.acked.Missing(lostTo, f.lostTo) > 0, s.pipe(f)*p.PayloadBytes
	begins := tcp.OnACK(&a)
	if una > f.una {
		f.una, f.backoff, f.timeoutPS = una, 0, tcp.TimeoutPS()
		if tcp.RestartsTimer(partial) {
			f.deadlinePS = it.AtPS + f.timeoutPS
		}
		s.ackedBytes = a.AckedBytes
	}
	if d.recovery.ended(c, slot, s, f) {
		return
	}
	if begins {
		s.begin(f)
	}
	s.handOver(p, f, it.AtPS)
	d.updateOpen(c, s, f.open(s), it.AtPS)
}

// receive records that the receiver has a packet.
func (f *recoveryFlow) receive(number int64) {
	if !f.acked.Has(number) {
		f.received++
		f.acked.Add(number)
	}
}

// pipe returns the number of packets in the network or on their way to it. A packet that was not received
// counts once if it is not lost, and once if it was retransmitted (RFC 6675, §4, SetPipe).
func (s *sender) pipe(f *recoveryFlow) int64 {
	una := f.acked.Base
	return f.acked.Missing(max(una, f.lostTo), s.external.handedTo) + f.acked.Missing(una, f.sentAgain)
}

// handOver hands to the NIC the packets that the window of the flow's TCP allows, in full packets: lost
// packets, new ones, and those that may be lost (RFC 6675, §4, NextSeg, rules 1 to 3).
func (s *sender) handOver(p *simkernel.Params, f *recoveryFlow, nowPS int64) {
	o := s.external
	for {
		next := f.acked.Next(max(f.una, f.sentAgain))
		if next >= f.lostTo && (o.handedTo < f.packets || !o.tcp.Recovers() || next >= f.acked.Highest(1)) {
			next = o.handedTo
		}
		if next >= f.packets || (s.pipe(f)+1)*p.PayloadBytes > o.tcp.Window() {
			break
		}
		again := next < o.handedTo
		if again {
			f.sentAgain = next + 1
		} else {
			o.handedTo++
		}
		o.handed = append(o.handed, next)
		o.tcp.OnSend(min(s.sizeBytes, (next+1)*p.PayloadBytes), p.PayloadBytes, nowPS, again)
	}
	s.takeHanded(p, f)
}

// sent records that a NIC has sent the next packet of a flow.
func (x *ackClocking) sent(slot int32, s *sender) {
	n := x.domain.net
	s.external.handed = s.external.handed[1:]
	s.takeHanded(&n.params, &n.recovery.flows[slot])
}

// takeHanded chooses the next packet among those that were handed over, and closes the flow if there is none.
func (s *sender) takeHanded(p *simkernel.Params, f *recoveryFlow) {
	next := f.maxSent
	s.windowBytes = 0
	if len(s.external.handed) > 0 {
		next = s.external.handed[0]
		s.windowBytes = math.MaxInt64
	}
	s.setNext(p, f, next)
}
