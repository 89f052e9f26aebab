package network

import "parsimon/simkernel"

// runSharedPort is runPort for transports with random marks: ACKs share one queue with data. An ACK counts among
// the bytes left behind and is not marked itself.
func (d *netDomain) runSharedPort(u int32, p *netPort) {
	t, params := &d.net.flows, &d.net.params
	queue := &p.rings[0]
	for {
		if queue.head == queue.tail {
			queue.head, queue.tail, p.arrived = 0, 0, 0
			return
		}
		it := *queue.at(queue.head)
		nowPS := max(p.freePS, it.atPS)
		if nowPS >= d.endPS {
			d.schedule(u, nowPS)
			return
		}
		queue.head++
		left := d.leftBehind(p, &it, nowPS)
		hop := &t.hops[it.hop]
		if it.flags&netAck != 0 {
			p.freePS = nowPS + p.ackPS
			it.atPS = p.freePS + p.delayPS
			it.hop--
			d.forward(u, p, hop.backward, it)
			continue
		}
		packet := t.crossed[it.hop]
		t.crossed[it.hop]++
		key := simkernel.MixKey(p.markKey, t.keys[it.hop>>t.shift])
		if left > p.red.MinBytes && p.red.Marks(left, simkernel.MixKey(key, uint64(packet))) {
			it.flags |= netMarked
			t.marks[it.hop]++
			p.counters.PacketsMarked++
		}
		if waitPS := nowPS - it.atPS; waitPS != 0 {
			hop.waitPS += waitPS
			if it.flags&netLast != 0 {
				t.lastPS[it.hop] = waitPS
			}
		}
		p.freePS = nowPS + p.wirePS(params, it.payloadBytes())
		it.atPS = p.freePS + p.delayPS
		it.hop++
		d.forward(u, p, hop.forward, it)
	}
}

// leftBehind counts the bytes that have arrived before a packet's service starts, and returns how many of them stay
// behind it. The packet has been taken off the queue.
func (d *netDomain) leftBehind(p *netPort, it *netItem, nowPS int64) int64 {
	own := d.wireBytes(it)
	queue := &p.rings[0]
	if queue.head-p.arrived == 1 { // the packet itself has not been counted yet
		p.arrived++
		p.leftBytes += own
	}
	for p.arrived != queue.tail {
		next := queue.at(p.arrived)
		if next.atPS >= nowPS {
			break
		}
		p.leftBytes += d.wireBytes(next)
		p.arrived++
	}
	p.counters.queued(p.leftBytes, nowPS)
	p.leftBytes -= own
	return p.leftBytes
}

// wireBytes returns the size of a packet or an ACK on the wire.
func (d *netDomain) wireBytes(it *netItem) int64 {
	if it.flags&netAck != 0 {
		return d.net.params.AckBytes
	}
	return it.payloadBytes() + d.net.params.HeaderBytes
}
