package network

import (
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
	telemetry     [1 << attemptBits][]simkernel.Telemetry
	telemetryRing uint32
	hops          int
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
	h := simkernel.AckInfo{
		NowPS: it.atPS, RTTPS: it.atPS - sentPS,
		AckedBytes: s.ackedBytes, SentBytes: s.sentBytes, Marked: it.bits&flagMarked != 0,
	}
	if d.telemetry {
		h.Links = d.telemetryOf(o, it.bits)
	}
	if o.OnAck(p, &h) || ticked {
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
