package simkernel

import "math/bits"

// An externalSender is the sender of a flow that is not embedded in netSender, with what it needs of the flow's
// packets.
type externalSender struct {
	sender
	sentPS      []int64 // ring by packet number: when packets in flight were sent
	sent, acked uint32  // number of packets

	// With telemetry: what switches wrote into the packets in flight, hops entries per packet, in a ring of constant
	// size during a window: a switch writes into the packet that it sends, and the sender reads when the ACK
	// is received, at least one window later.
	telemetry     []telemetry
	telemetryMask uint32
	hops          int
	bps           []float64
}

// makeTelemetry makes space for as many packets as can be in flight.
func (o *externalSender) makeTelemetry(p *Params, sizeBytes int64, path []int32, links []NetLink) {
	o.hops, o.bps = len(path)-1, o.bps[:0]
	for _, l := range path[1:] {
		o.bps = append(o.bps, float64(links[l].BandwidthBps))
	}
	packets := uint(min(p.Packets(sizeBytes), p.Packets(p.WindowBytes)))
	ring := 1 << bits.Len(packets)
	o.telemetryMask = uint32(ring - 1)
	o.telemetry = resize(o.telemetry, ring*o.hops)
}

func (o *externalSender) start(p *Params, lineBps float64, hops int) {
	o.sender.start(p, lineBps, hops)
	o.sent, o.acked = 0, 0
}

// onAckExternal passes a received ACK to the sender.
func (s *netSender) onAckExternal(p *Params, it *netItem) {
	o := s.external
	sentPS := o.sentPS[o.acked&uint32(len(o.sentPS)-1)]
	packet := int(o.acked & o.telemetryMask)
	o.acked++
	ticked := o.tick(p, it.atPS)
	h := ackInfo{
		nowPS: it.atPS, rttPS: it.atPS - sentPS,
		ackedBytes: s.ackedBytes, sentBytes: s.sentBytes, marked: it.flags&netMarked != 0,
	}
	if len(o.telemetry) > 0 {
		h.links, h.bps = o.telemetry[packet*o.hops:][:o.hops], o.bps
	}
	if o.onAck(p, &h) || ticked {
		s.setRate(p)
	}
}

// onSendExternal notifies the sender of a packet that is sent.
func (s *netSender) onSendExternal(p *Params, nowPS int64) {
	o := s.external
	if int(o.sent-o.acked) == len(o.sentPS) {
		o.grow()
	}
	o.sentPS[o.sent&uint32(len(o.sentPS)-1)] = nowPS
	o.sent++
	if o.tick(p, nowPS) {
		s.setRate(p)
	}
}

// setRate adopts the rate of the flow's sender.
func (s *netSender) setRate(p *Params) {
	rateBps, lineBps := s.external.rate()
	s.gap = newWireTime(rateBps)
	s.windowBytes = p.windowAt(rateBps, lineBps)
}

func (o *externalSender) grow() {
	ring := make([]int64, max(8, 2*len(o.sentPS)))
	for i := o.acked; i != o.sent; i++ {
		ring[i&uint32(len(ring)-1)] = o.sentPS[i&uint32(len(o.sentPS)-1)]
	}
	o.sentPS = ring
}
