package network

import (
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// An externalSender is the sender of a flow that is not embedded in netSender, with what it needs of the flow's
// packets.
type externalSender struct {
	simkernel.Sender
	sentPS      []int64 // ring by packet number: when packets in flight were sent
	sent, acked uint32  // number of packets

	// With telemetry: what switches wrote into the packets in flight, hops entries per packet, in a ring of constant
	// size during a window: a switch writes into the packet that it sends, and the sender reads when the ACK
	// is received, at least one window later.
	telemetry     []simkernel.Telemetry
	telemetryMask uint32
	hops          int
	bps           []float64
}

// makeTelemetry makes space for as many packets as can be in flight.
func (o *externalSender) makeTelemetry(p *simkernel.Params, sizeBytes int64, path []int32, links []Link) {
	o.hops, o.bps = len(path)-1, o.bps[:0]
	for _, l := range path[1:] {
		o.bps = append(o.bps, float64(links[l].BandwidthBps))
	}
	packets := uint(min(p.Packets(sizeBytes), p.Packets(p.WindowBytes)))
	ring := 1 << bits.Len(packets)
	o.telemetryMask = uint32(ring - 1)
	o.telemetry = slices.Grow(o.telemetry, max(0, ring*o.hops-len(o.telemetry)))[:ring*o.hops]
}

func (o *externalSender) start(p *simkernel.Params, lineBps float64, hops int) {
	o.Sender.Start(p, lineBps, hops)
	o.sent, o.acked = 0, 0
}

// onAckExternal passes a received ACK to the sender.
func (s *netSender) onAckExternal(p *simkernel.Params, it *netItem) {
	o := s.external
	sentPS := o.sentPS[o.acked&uint32(len(o.sentPS)-1)]
	packet := int(o.acked & o.telemetryMask)
	o.acked++
	ticked := o.Tick(p, it.atPS)
	h := simkernel.AckInfo{
		NowPS: it.atPS, RTTPS: it.atPS - sentPS,
		AckedBytes: s.ackedBytes, SentBytes: s.sentBytes, Marked: it.flags&netMarked != 0,
	}
	if len(o.telemetry) > 0 {
		h.Links, h.Bps = o.telemetry[packet*o.hops:][:o.hops], o.bps
	}
	if o.OnAck(p, &h) || ticked {
		s.setRate(p)
	}
}

// onSendExternal notifies the sender of a packet that is sent.
func (s *netSender) onSendExternal(p *simkernel.Params, nowPS int64) {
	o := s.external
	if int(o.sent-o.acked) == len(o.sentPS) {
		o.grow()
	}
	o.sentPS[o.sent&uint32(len(o.sentPS)-1)] = nowPS
	o.sent++
	if o.Tick(p, nowPS) {
		s.setRate(p)
	}
}

// setRate adopts the rate of the flow's sender.
func (s *netSender) setRate(p *simkernel.Params) {
	rateBps, lineBps := s.external.Rate()
	s.gap = simkernel.NewWireTime(rateBps)
	s.windowBytes = p.WindowAt(rateBps, lineBps)
}

func (o *externalSender) grow() {
	ring := make([]int64, max(8, 2*len(o.sentPS)))
	for i := o.acked; i != o.sent; i++ {
		ring[i&uint32(len(ring)-1)] = o.sentPS[i&uint32(len(o.sentPS)-1)]
	}
	o.sentPS = ring
}
