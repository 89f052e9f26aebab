package simkernel

// A netPort is the sending end of one link.
//
// A switch's port queues in data and acks what it will send. A host's port, a NIC, has in data
// what reaches it over its cable (packets to deliver, ACKs of its own flows, and the starts of
// flows), and in acks the ACKs it will send; see netNIC.
type netPort struct {
	freePS  int64 // the wire is free from then on
	data    netRing
	acks    netRing
	arrived uint32 // position in data: the items before it are in leftBytes
	domain  int32
	onward  int32 // domain of the node at the far end
	nic     int32 // index of the NIC, -1 at a switch

	leftBytes int64 // wire bytes of the data that has arrived
	markBytes int64
	wire      wireTime
	fullPS    int64 // time to send a full packet, and an ACK
	ackPS     int64
	delayPS   int64
	visit     int64 // the next window in which a visit is noted

	far     netRing // packets on a link that is many windows long
	farLink bool

	counters netCounters
}

// netCounters are what one port has seen of data packets.
type netCounters struct {
	sent, marked   int64
	busyPS, waitPS int64
	maxQueueBytes  int64
}

// netFarWindows: a link longer than this many windows holds its packets itself until the window
// before they arrive. Others put them into the next queue at once; the few that arrive between
// them later are inserted.
const netFarWindows = 4

func (n *Network) initPort(l int32, domainOf []int32) {
	p, link := &n.ports[l], n.links[l]
	p.nic = -1
	if n.host[link.SrcNode] {
		p.nic = int32(len(n.nics))
		n.nics = append(n.nics, netNIC{})
	}
	if domainOf != nil {
		p.domain, p.onward = domainOf[link.SrcNode], domainOf[link.DstNode]
	}
	p.wire = newWireTime(float64(link.BandwidthBps))
	p.fullPS = p.wire.ps(n.params.PayloadBytes + n.params.HeaderBytes)
	p.ackPS = p.wire.ps(n.params.AckBytes)
	p.delayPS = link.DelayNS * psPerNS
	p.markBytes = n.params.MarkBytes(link.BandwidthBps)
	p.visit = netNever
	p.farLink = p.delayPS > netFarWindows*n.windowPS
}

// wirePS is the time to send a data packet with that payload.
func (p *netPort) wirePS(params *Params, payloadBytes int64) int64 {
	if payloadBytes == params.PayloadBytes {
		return p.fullPS
	}
	return p.wire.ps(payloadBytes + params.HeaderBytes)
}

// runPort simulates a switch's port to the end of the window.
func (d *netDomain) runPort(u int32, p *netPort) {
	t := &d.net.flows
	for {
		dataPS, ackPS := int64(netNever), int64(netNever)
		if p.acks.head != p.acks.tail {
			ackPS = max(p.freePS, p.acks.at(p.acks.head).atPS)
		}
		if p.data.head != p.data.tail {
			dataPS = max(p.freePS, p.data.at(p.data.head).atPS)
		}
		if ackPS <= dataPS {
			if ackPS >= d.endPS {
				d.visitPort(u, p, ackPS)
				return
			}
			it := *p.acks.at(p.acks.head)
			p.acks.head++
			p.freePS = ackPS + p.ackPS
			it.atPS = p.freePS + p.delayPS
			to := t.hops[int(it.slot)*t.stride+int(it.hop)].backward
			it.hop--
			d.forward(u, p, to, it)
			continue
		}
		if dataPS >= d.endPS {
			d.visitPort(u, p, dataPS)
			return
		}
		it := *p.data.at(p.data.head)
		p.data.head++
		d.dataLeaves(p, &it, dataPS)
		hop := &t.hops[int(it.slot)*t.stride+int(it.hop)]
		if waitPS := dataPS - it.atPS; waitPS != 0 {
			hop.waitPS += waitPS
			p.counters.waitPS += waitPS
			if it.flags&netLast != 0 {
				t.lastPS[int(it.slot)*t.stride+int(it.hop)] = waitPS
			}
		}
		sendPS := p.wirePS(&d.net.params, it.payloadBytes())
		p.counters.busyPS += sendPS
		p.freePS = dataPS + sendPS
		it.atPS = p.freePS + p.delayPS
		it.hop++
		d.forward(u, p, hop.forward, it)
	}
}

// dataLeaves counts what has arrived by the time a packet starts to be sent, and marks the packet
// if too much of it is left behind. The packet has been taken off the head of the queue.
func (d *netDomain) dataLeaves(p *netPort, it *netItem, nowPS int64) {
	header := d.net.params.HeaderBytes
	own := it.payloadBytes() + header
	if p.arrived-p.data.head >= 1<<31 { // it is the packet itself that was not counted yet
		p.arrived = p.data.head
		p.leftBytes += own
	}
	for p.arrived != p.data.tail {
		next := p.data.at(p.arrived)
		if next.atPS > nowPS {
			break
		}
		p.leftBytes += next.payloadBytes() + header
		p.arrived++
	}
	p.counters.sent++
	p.counters.maxQueueBytes = max(p.counters.maxQueueBytes, p.leftBytes)
	p.leftBytes -= own
	if p.leftBytes > p.markBytes {
		it.flags |= netMarked
		p.counters.marked++
	}
}
