package network

import "parsimon/simkernel"

// A netPort is the sending end of one link, at a switch or at a host (NIC).
//
// A switch's port has the data to send in ring 0 and the ACKs in ring 1. A NIC has in ring 0 the data that arrives
// over its cable; after its arrival an item stays there as the ACK to be sent. Ring 1 has the ACKs and the
// starts of the host's own flows.
type netPort struct {
	rings [2]netRing // first: the 64 bytes that a delivery needs

	freePS    int64 // the wire is free from here on
	fullPS    int64 // time to send a full packet, and an ACK
	ackPS     int64
	delayPS   int64
	leftBytes int64 // wire bytes of the data that has arrived
	markBytes int64
	arrived   uint32 // position in ring 0: the items before it have arrived
	nic       int32  // index of the NIC, -1 at a switch
	farDomain int32  // domain of the node at the far end
	near      bool   // farDomain is this domain, and the link is not far

	farLink   bool
	domain    int32
	wire      simkernel.WireTime
	transit   netRing // packets on a far link
	red       simkernel.RedMark
	markKey   uint64 // of random marks
	sentBytes int64  // on the wire so far: with telemetry, ACKs included, otherwise ACKs only
	counters  Counters
}

// netFarWindows: a link longer than this many windows keeps its packets itself until the window before they
// arrive. Other links put them into the next queue at once; the few packets that arrive before them and
// come later are inserted.
const netFarWindows = 4

func (n *Network) initPort(l int32, domainOf []int32) {
	p, link := &n.ports[l], n.links[l]
	p.nic = -1
	if n.host[link.SrcNode] {
		p.nic = int32(len(n.nics))
		n.nics = append(n.nics, netNIC{})
	}
	if domainOf != nil {
		p.domain, p.farDomain = domainOf[link.SrcNode], domainOf[link.DstNode]
	}
	p.wire = simkernel.NewWireTime(float64(link.BandwidthBps))
	p.fullPS = p.wire.PS(n.params.PayloadBytes + n.params.HeaderBytes)
	p.ackPS = p.wire.PS(n.params.AckBytes)
	p.delayPS = link.DelayNS * simkernel.PSPerNS
	p.markBytes = n.params.MarkBytes(link.BandwidthBps)
	p.red = simkernel.RedMark{MinBytes: p.markBytes, MaxBytes: n.params.MaxMarkBytes(link.BandwidthBps),
		Share: n.params.DCQCN.MaxMarking}
	p.markKey = simkernel.MarkKey(n.params.Seed, l)
	p.farLink = p.delayPS > netFarWindows*n.windowPS
	p.near = p.domain == p.farDomain && !p.farLink
}

// wirePS returns the time to send a data packet with that payload.
func (p *netPort) wirePS(params *simkernel.Params, payloadBytes int64) int64 {
	if payloadBytes == params.PayloadBytes {
		return p.fullPS
	}
	return p.wire.PS(payloadBytes + params.HeaderBytes)
}

// runPort simulates a switch's port to the end of the window.
func (d *netDomain) runPort(u int32, p *netPort) {
	t, params := &d.net.flows, &d.net.params
	data, acks := &p.rings[0], &p.rings[1]
	for {
		dataPS, ackPS := int64(netNever), int64(netNever)
		if acks.head != acks.tail {
			ackPS = max(p.freePS, acks.at(acks.head).atPS)
		}
		if data.head != data.tail {
			dataPS = max(p.freePS, data.at(data.head).atPS)
		}
		if nowPS := min(ackPS, dataPS); nowPS >= d.endPS {
			if nowPS != netNever {
				d.schedule(u, nowPS)
			}
			if data.head == data.tail {
				data.head, data.tail, p.arrived = 0, 0, 0
			}
			if acks.head == acks.tail {
				acks.head, acks.tail = 0, 0
			}
			return
		}
		if ackPS <= dataPS {
			it := *acks.at(acks.head)
			acks.head++
			p.freePS = ackPS + p.ackPS
			p.sentBytes += params.AckBytes
			it.atPS = p.freePS + p.delayPS
			to := t.hops[it.hop].backward
			it.hop--
			d.forward(u, p, to, it)
			continue
		}
		it := *data.at(data.head)
		data.head++
		d.startData(p, &it, dataPS)
		if d.telemetry {
			d.writeTelemetry(p, &it, dataPS)
		}
		hop := &t.hops[it.hop]
		if waitPS := dataPS - it.atPS; waitPS != 0 {
			hop.waitPS += waitPS
			if it.flags&netLast != 0 {
				t.lastPS[it.hop] = waitPS
			}
		}
		p.freePS = dataPS + p.wirePS(params, it.payloadBytes())
		it.atPS = p.freePS + p.delayPS
		it.hop++
		d.forward(u, p, hop.forward, it)
	}
}

// startData counts what has arrived before a packet's service starts, and marks the packet if too much is left
// behind. The packet has been taken off the queue.
func (d *netDomain) startData(p *netPort, it *netItem, nowPS int64) {
	header := d.net.params.HeaderBytes
	own := it.payloadBytes() + header
	data := &p.rings[0]
	leftBytes, arrived := p.leftBytes, p.arrived
	if data.head-arrived == 1 { // the packet itself has not been counted yet
		arrived++
		leftBytes += own
	}
	for arrived != data.tail {
		next := data.at(arrived)
		if next.atPS >= nowPS {
			break
		}
		leftBytes += next.payloadBytes() + header
		arrived++
	}
	p.counters.queued(leftBytes, nowPS)
	leftBytes -= own
	p.leftBytes, p.arrived = leftBytes, arrived
	if leftBytes > p.markBytes {
		it.flags |= netMarked
		d.net.flows.marks[it.hop]++
		p.counters.PacketsMarked++
	}
}

// queued counts the bytes in the queue when a service starts.
func (c *Counters) queued(bytes, nowPS int64) {
	if bytes > c.MaxQueueBytes {
		c.MaxQueueBytes, c.MaxQueueAtNS = bytes, nowPS/simkernel.PSPerNS
	}
}

// writeTelemetry writes the port's telemetry into a packet.
func (d *netDomain) writeTelemetry(p *netPort, it *netItem, nowPS int64) {
	t := &d.net.flows
	slot, hop := it.hop>>t.shift, int(it.hop)&(1<<t.shift-1)
	packet := t.crossed[it.hop]
	t.crossed[it.hop]++
	o := t.senders[slot].external
	o.telemetry[int(packet&o.telemetryMask)*o.hops+hop-1] = simkernel.Telemetry{
		AtPS: nowPS, SentBytes: p.sentBytes, LeftBytes: p.leftBytes}
	p.sentBytes += it.payloadBytes() + d.net.params.HeaderBytes
}
