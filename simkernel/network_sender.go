package simkernel

// A netTransport is the sender of a flow whose transport is not DCTCP, and what it must be told of
// the flow's packets.
type netTransport struct {
	sender
	sentPS      []int64 // by packet, in a ring: when it was sent, for those on their way
	sent, acked uint32  // packets
}

func (o *netTransport) start(p *Params, lineBps float64) {
	o.sender.start(p, lineBps)
	o.sent, o.acked = 0, 0
}

// hearOther tells the sender of an ACK that comes home.
func (s *netSender) hearOther(p *Params, it *netItem) {
	o := s.other
	sentPS := o.sentPS[o.acked&uint32(len(o.sentPS)-1)]
	o.acked++
	ticked := o.tick(p, it.atPS)
	h := heard{
		nowPS: it.atPS, rttPS: it.atPS - sentPS,
		ackedBytes: s.ackedBytes, sentBytes: s.sentBytes, marked: it.flags&netMarked != 0,
	}
	if o.hear(p, &h) || ticked {
		s.setRate(p)
	}
}

// sendOther tells the sender of a packet that is sent.
func (s *netSender) sendOther(p *Params, nowPS int64) {
	o := s.other
	if int(o.sent-o.acked) == len(o.sentPS) {
		o.grow()
	}
	o.sentPS[o.sent&uint32(len(o.sentPS)-1)] = nowPS
	o.sent++
	if o.tick(p, nowPS) {
		s.setRate(p)
	}
}

// setRate takes over the rate of the flow's sender.
func (s *netSender) setRate(p *Params) {
	rateBps, lineBps := s.other.rate()
	s.gap = newWireTime(rateBps)
	s.windowBytes = p.windowAt(rateBps, lineBps)
}

func (o *netTransport) grow() {
	ring := make([]int64, max(8, 2*len(o.sentPS)))
	for i := o.acked; i != o.sent; i++ {
		ring[i&uint32(len(ring)-1)] = o.sentPS[i&uint32(len(o.sentPS)-1)]
	}
	o.sentPS = ring
}
