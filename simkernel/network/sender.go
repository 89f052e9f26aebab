package network

import (
	"math/bits"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// A sender is the sending end of a flow. It is owned by the domain of its host.
type sender struct {
	sizeBytes   int64
	sentBytes   int64 // with recovery: before the next packet to send
	ackedBytes  int64
	windowBytes int64              // at the current rate
	gap         simkernel.WireTime // pacing time per byte at the current rate
	external    *externalSender    // nil if dctcp is used
	next        uint32             // number of the next packet
	place       int32              // index of ring.places
	class       int32
	firstHop    int32 // that of flowInfo
	dctcp       simkernel.DCTCPSender
}

// setRate applies the rate of the flow's sender.
func (s *sender) setRate() {
	rateBps, _ := s.external.Rate()
	s.gap = simkernel.NewWireTime(rateBps)
	s.windowBytes = s.external.limits.WindowAt(rateBps)
}

// onAck passes a received ACK or NACK to the sender. number and attempt are those of the packet that caused
// it.
func (s *sender) onAck(d *domain, it *calendar.Item, number, attempt uint32) {
	o := s.external
	p := &d.net.params
	sentPS := o.sentPS[attempt*o.ring+number&(o.ring-1)]
	ticked := o.Tick(p, it.AtPS)
	h := &d.ackInfo
	h.NowPS = it.AtPS
	h.RTTPS = it.AtPS - sentPS
	h.AckedBytes = s.ackedBytes
	h.SentBytes = s.sentBytes
	h.Marked = it.Bits&calendar.FlagMarked != 0
	if d.traits.Telemetry {
		h.Links = o.telemetryOf(&d.rules, it.Bits)
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

// updateDCTCP passes an ACK to the embedded sender.
func (s *sender) updateDCTCP(p *simkernel.Params, it *calendar.Item) {
	if it.Bits&calendar.FlagMarked == 0 && !s.dctcp.WindowEnds(s.ackedBytes) {
		return
	}
	if s.dctcp.Update(p, s.ackedBytes, s.sentBytes, it.Bits&calendar.FlagMarked != 0) {
		s.gap = simkernel.NewWireTime(s.dctcp.RateBps)
		s.windowBytes = s.dctcp.Window()
	}
}

// An externalSender is a sender that is not embedded in sender, with the data about the flow's packets that
// it needs.
type externalSender struct {
	simkernel.Sender
	tcp     *simkernel.TCP // the same sender, if it is a TCP
	limits  simkernel.Limits
	sentPS  []int64 // when packets in flight were sent: for each attempt, a ring by packet number
	ring    uint32  // length of a ring, a power of two
	acked   uint32  // number of the first packet that is not acknowledged
	sent    uint32  // one more than the highest that was sent
	ticking bool    // its NIC waits for its timers (nic.ticks)

	// With TCP: the packets that wait in the NIC, and the number of those that were handed to it at least
	// once.
	handed   []int64
	handedTo int64

	// With telemetry: the data that switches wrote into the packets in flight. Each attempt has a ring of
	// constant size by packet number, with an entry for each hop of a packet. A switch writes when it sends
	// the packet, and the sender reads when the ACK arrives.
	telemetryRing uint32
	hops          int
	telemetry     [1 << calendar.AttemptBits][]simkernel.Telemetry
}

func (o *externalSender) start(p *simkernel.Params, l simkernel.Limits) {
	o.Start(p, l)
	o.limits = l
	o.sent = 0
	o.acked = 0
	o.handed = o.handed[:0]
	o.handedTo = 0
	o.ticking = false
}

// grow enlarges the rings so that they have room for a packet.
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

// startTelemetry allocates memory for as many packets as can be in flight.
func (o *externalSender) startTelemetry(p *simkernel.Params, sizeBytes int64, path []int32) {
	o.hops = len(path) - 1
	o.telemetryRing = 1 << bits.Len(uint(min(p.Packets(sizeBytes), p.Packets(o.limits.WindowBytes))))
	for a := range o.telemetry {
		o.telemetry[a] = o.telemetry[a][:0]
	}
	o.makeTelemetry(0)
}

// makeTelemetry creates the ring of an attempt, unless it exists.
func (o *externalSender) makeTelemetry(attempt uint32) {
	t := &o.telemetry[attempt]
	if len(*t) == 0 {
		size := int(o.telemetryRing) * o.hops
		*t = slices.Grow(*t, size)[:size]
	}
}

// telemetryOf returns the telemetry of a packet.
func (o *externalSender) telemetryOf(d *rules, itemBits uint32) []simkernel.Telemetry {
	attempt := itemBits & d.againMask >> calendar.FlagBits
	place := itemBits >> d.numberShift & (o.telemetryRing - 1)
	return o.telemetry[attempt][int(place)*o.hops:][:o.hops]
}

// writeTelemetry writes the port's telemetry into a packet.
func (p *port) writeTelemetry(d *domain, it *calendar.Item, nowPS int64) {
	t := &d.net.flows
	s := &t.senders[t.hops[it.Hop].flow]
	hop := int(it.Hop - s.firstHop)
	s.external.telemetryOf(&d.rules, it.Bits)[hop-1] = simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes,
		LeftBytes: p.leftBytes, Bps: p.kind.bps, Link: p.link}
	p.sentBytes += d.wireBytes(it)
}
