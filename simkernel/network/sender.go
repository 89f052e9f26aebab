package network

import (
	"math"
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// An externalSender is the sender of a flow that is not embedded in sender, with what it needs of the flow's packets.
type externalSender struct {
	simkernel.Sender
	tcp     *simkernel.TCP // the same, if it is clocked by ACKs
	limits  simkernel.Limits
	sentPS  []int64 // when packets in flight were sent: rings by packet number, one for each attempt that there was
	ring    uint32  // length of one of them, a power of two
	acked   uint32  // number of the first packet that is not acknowledged
	sent    uint32  // one more than the highest that was sent
	ticking bool    // its NIC waits for its timers (nic.ticks)

	// Clocked by ACKs: packets that wait in the NIC, and how many were given to it at least once.
	handed   []int64
	handedTo int64

	// With telemetry: what switches wrote into the packets in flight, in rings of constant size by packet number, with
	// hops entries per packet; one ring for each attempt. A switch writes into the packet that it sends, and the sender
	// reads when the ACK is received.
	telemetryRing uint32
	hops          int
	telemetry     [1 << attemptBits][]simkernel.Telemetry
}

// startTelemetry makes space for as many packets as can be in flight.
func (o *externalSender) startTelemetry(p *simkernel.Params, sizeBytes int64, path []int32) {
	o.hops = len(path) - 1
	o.telemetryRing = 1 << bits.Len(uint(min(p.Packets(sizeBytes), p.Packets(o.limits.WindowBytes))))
	for a := range o.telemetry {
		o.telemetry[a] = o.telemetry[a][:0]
	}
	o.makeTelemetry(0)
}

// makeTelemetry makes the ring of an attempt, unless there is one.
func (o *externalSender) makeTelemetry(attempt uint32) {
	if t := &o.telemetry[attempt]; len(*t) == 0 {
		size := int(o.telemetryRing) * o.hops
		*t = slices.Grow(*t, size)[:size]
	}
}

// telemetryOf returns the telemetry of a packet.
func (d *domain) telemetryOf(o *externalSender, itemBits uint32) []simkernel.Telemetry {
	attempt := itemBits & d.againMask >> flagBits
	place := itemBits >> d.numberShift & (o.telemetryRing - 1)
	return o.telemetry[attempt][int(place)*o.hops:][:o.hops]
}

func (o *externalSender) start(p *simkernel.Params, l simkernel.Limits) {
	o.Start(p, l)
	o.limits, o.sent, o.acked, o.handed, o.handedTo, o.ticking = l, 0, 0, o.handed[:0], 0, false
}

// onAck passes a received ACK or NACK to the sender. number and attempt are those of the packet that it answers.
func (s *sender) onAck(d *domain, it *item, number, attempt uint32) {
	o, p := s.external, &d.net.params
	sentPS := o.sentPS[attempt*o.ring+number&(o.ring-1)]
	ticked := o.Tick(p, it.atPS)
	h := &d.ackInfo
	h.NowPS, h.RTTPS = it.atPS, it.atPS-sentPS
	h.AckedBytes, h.SentBytes, h.Marked = s.ackedBytes, s.sentBytes, it.bits&flagMarked != 0
	if d.telemetry {
		h.Links = d.telemetryOf(o, it.bits)
	}
	if o.OnAck(p, h) || ticked {
		s.setRate()
	}
}

// onSend notifies the sender of a packet that is sent.
func (s *sender) onSend(p *simkernel.Params, number, attempt uint32, nowPS int64) {
	o := s.external
	if number-o.acked >= o.ring || int((attempt+1)*o.ring) > len(o.sentPS) {
		o.grow(number, attempt)
	}
	o.sentPS[attempt*o.ring+number&(o.ring-1)] = nowPS
	o.sent = max(o.sent, number+1)
	if o.Tick(p, nowPS) {
		s.setRate()
	}
}

// setRate adopts the rate of the flow's sender.
func (s *sender) setRate() {
	rateBps, _ := s.external.Rate()
	s.gap = simkernel.NewWireTime(rateBps)
	s.windowBytes = s.external.limits.WindowAt(rateBps)
}

// grow makes space for a packet.
func (o *externalSender) grow(number, attempt uint32) {
	ring := max(8, o.ring)
	for number-o.acked >= ring {
		ring *= 2
	}
	old := o.sentPS
	attempts := max(attempt+1, uint32(len(old))/max(1, o.ring))
	o.sentPS = make([]int64, attempts*ring)
	for a := range uint32(len(old)) / max(1, o.ring) {
		for i := o.acked; i != o.sent; i++ {
			o.sentPS[a*ring+i&(ring-1)] = old[a*o.ring+i&(o.ring-1)]
		}
	}
	o.ring = ring
}

// Flows of transports that are clocked by ACKs (simkernel.TCP) hand over to their NIC what their window allows, when it
// does, without pacing. There it waits in order, also when a loss is found meanwhile, as in the queueing disciplines of
// Linux and ns-3. A receiver takes packets in any order and acknowledges what it has without a gap (RFC 5681, §4.2):
// every second packet in order, or one after DelayedAckNS; at once what is out of order, fills a gap or was received
// before, and a flow's first packet (as Linux and ns-3) and last.
//
// ACKs are cumulative and selective (RFC 2018). With flagThrough the receiver has all packets up to the number of an ACK.
// Without it the number is that of the packet that caused the ACK, and a packet before it is missing. flagNack says that
// the ACK is also for the first packet that had none. So the sender knows what the receiver has, and retransmits what is
// lost (RFC 6675).

// receiveClocked processes a data packet at its destination and sends what ACK it causes, now or later.
func (d *domain) receiveClocked(c *nic, it *item, acks *fifo) {
	d.sendDelayed(c, acks, it.atPS)
	slot := d.net.flows.hops[it.hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.bits)
	delayPS := d.net.params.TCP.DelayedAckNS * simkernel.PSPerNS
	wait := number == r.expected && r.beyond <= number && it.bits&flagLast == 0 && number > 0 && delayPS > 0
	r.countOrder(it, number)
	d.receiveAny(slot, r, number, it.atPS)
	through := r.throughFlag(number)
	answered := number
	if through != 0 { // of a duplicate, and of a packet that fills a gap: more than that packet
		answered = r.expected - 1
	}
	it.bits = uint32(answered)<<d.numberShift | it.bits&(d.tagMask|flagMarked) | flagAck | through
	if i := slices.IndexFunc(c.delayed, func(o item) bool { return d.net.flows.hops[o.hop].flow == slot }); i >= 0 {
		held := c.delayed[i]
		c.delayed = slices.Delete(c.delayed, i, i+1)
		if (held.bits^it.bits)&flagMarked == 0 { // one ACK is for equal marks (RFC 8257, §3.2)
			d.gone = append(d.gone, slot)
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
	before, lostTo, number := f.received, f.lostTo, d.net.nearest(f.una, it.bits)
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
	if d.ended(c, slot, s, f) {
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

// pipe returns how many packets are in the network or wait for it: those that were not received, once if they are not
// lost and once if they were sent again (RFC 6675, §4, SetPipe).
func (s *sender) pipe(f *recoveryFlow) int64 {
	una := f.acked.base
	return f.acked.missing(max(una, f.lostTo), s.external.handedTo) + f.acked.missing(una, f.sentAgain)
}

// handOver gives the NIC what the window of the flow's TCP allows, which full packets must fit in: lost packets, new
// ones, and those that may be lost (RFC 6675, §4, NextSeg, rules 1 to 3).
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

// takeHanded chooses the next packet of those that were handed over, and closes the flow where there is none.
func (s *sender) takeHanded(p *simkernel.Params, f *recoveryFlow) {
	next := f.maxSent
	s.windowBytes = 0
	if len(s.external.handed) > 0 {
		next, s.windowBytes = s.external.handed[0], math.MaxInt64
	}
	s.setNext(p, f, next)
}
