package network

import (
	"math"

	"parsimon/simkernel"
)

// receiveClockedAck processes an ACK at the source.
func (x *ackClocking) receiveClockedAck(c *nic, slot int32, s *sender, it *item) {
	d := x.domain
	f := &d.net.recovery.flows[slot]
	p := &d.net.params
	tcp := s.external.tcp
	if d.recovery.returned(slot, f) {
		return
	}
	before := f.received
	lostTo := f.lostTo
	number := d.net.nearest(f.una, it.bits)
	if it.bits&flagNack != 0 {
		f.receive(f.una)
	}
	for it.bits&flagThrough != 0 && f.acked.base < number { // ACKs before this one may have been lost
		f.receive(f.acked.base)
	}
	f.receive(number)
	una := f.acked.base
	a := simkernel.TCPAck{NowPS: it.atPS, AckedBytes: min(s.sizeBytes, una*p.PayloadBytes),
		DeliveredBytes: (f.received - before) * p.PayloadBytes,
		SentBytes:      min(s.sizeBytes, s.external.handedTo*p.PayloadBytes),
		Lost:           f.received-una >= p.TCP.DuplicateAckMax, Marked: it.bits&flagMarked != 0,
		Duplicate: number >= una}
	if a.Lost && tcp.MayRecover(a.AckedBytes) {
		f.lostTo = max(f.lostTo, f.acked.highest(p.TCP.DuplicateAckMax))
	}
	partial := tcp.Partial(a.AckedBytes) && una >= f.lostTo
	if partial {
		f.lostTo = una + 1
	}
	a.NewLoss, a.PipeBytes = f.acked.missing(lostTo, f.lostTo) > 0, s.pipe(f)*p.PayloadBytes
	begins := tcp.OnACK(&a)
	if una > f.una {
		f.una, f.backoff, f.timeoutPS = una, 0, tcp.TimeoutPS()
		if tcp.RestartsTimer(partial) {
			f.deadlinePS = it.atPS + f.timeoutPS
		}
		s.ackedBytes = a.AckedBytes
	}
	if d.recovery.ended(c, slot, s, f) {
		return
	}
	if begins {
		s.begin(f)
	}
	s.handOver(p, f, it.atPS)
	d.updateOpen(c, s, f.open(s), it.atPS)
}

// receive notes that the receiver has a packet.
func (f *recoveryFlow) receive(number int64) {
	if !f.acked.has(number) {
		f.received++
		f.acked.add(number)
	}
}

// pipe returns how many packets are in the network or wait for it: those that were not received, once if they
// are not lost and once if they were retransmitted (RFC 6675, §4, SetPipe).
func (s *sender) pipe(f *recoveryFlow) int64 {
	una := f.acked.base
	return f.acked.missing(max(una, f.lostTo), s.external.handedTo) + f.acked.missing(una, f.sentAgain)
}

// handOver gives the NIC what the window of the flow's TCP allows, which full packets must fit in: lost
// packets, new ones, and those that may be lost (RFC 6675, §4, NextSeg, rules 1 to 3).
func (s *sender) handOver(p *simkernel.Params, f *recoveryFlow, nowPS int64) {
	o := s.external
	for {
		next := f.acked.next(max(f.una, f.sentAgain))
		if next >= f.lostTo && (o.handedTo < f.packets || !o.tcp.Recovers() || next >= f.acked.highest(1)) {
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

// sent notes that a NIC has sent the next packet of a flow.
func (x *ackClocking) sent(slot int32, s *sender) {
	n := x.domain.net
	s.external.handed = s.external.handed[1:]
	s.takeHanded(&n.params, &n.recovery.flows[slot])
}

// takeHanded chooses the next packet of those that were handed over, and closes the flow where there is none.
func (s *sender) takeHanded(p *simkernel.Params, f *recoveryFlow) {
	next := f.maxSent
	s.windowBytes = 0
	if len(s.external.handed) > 0 {
		next = s.external.handed[0]
		s.windowBytes = math.MaxInt64
	}
	s.setNext(p, f, next)
}
