package network

import "parsimon/simkernel"

// A bufferedPort is the sending end of one link.
type bufferedPort struct {
	isHost   bool
	node     int32
	wire     simkernel.WireTime
	freePS   int64 // the wire is free from here on
	sendAtPS int64 // time of its scheduled send; netNever if none

	acks, data bufferedQueue
	queueBytes int64  // wire bytes of the items in data
	dataBytes  int64  // wire bytes of the data packets among them, which take buffer
	nic        netNIC // at a host

	markBytes int64
	red       simkernel.RedMark
	markKey   uint64
	sentBytes int64 // wire bytes so far, for telemetry
	counters  Counters
	dropped   int64
}

// A bufferedQueue is a FIFO.
type bufferedQueue struct {
	items []*bufferedPacket
	head  int
}

func (q *bufferedQueue) empty() bool { return q.head == len(q.items) }

func (q *bufferedQueue) put(k *bufferedPacket) { q.items = append(q.items, k) }

func (q *bufferedQueue) take() *bufferedPacket {
	k := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 64 && q.head*2 > len(q.items) {
		kept := copy(q.items, q.items[q.head:])
		clear(q.items[kept:])
		q.items, q.head = q.items[:kept], 0
	}
	return k
}

// A bufferedPacket is a data packet in flight, and then the ACK or NACK that answers it.
type bufferedPacket struct {
	id     int32
	flow   *bufferedFlow
	number int64 // data: its number in the flow, from 0; ACK: of the next expected packet
	hop    int   // the hop that it waits for or has come over; of an ACK on the reverse path
	ack    bool
	nack   bool
	marked bool
	atPS   int64 // arrival at the port
	sentPS int64 // when the data packet left its host
	wire   int64 // bytes
	links  []simkernel.Telemetry
	bps    []float64
}

func (n *Buffered) newPacket() *bufferedPacket {
	if k := len(n.freePackets); k > 0 {
		p := n.freePackets[k-1]
		n.freePackets = n.freePackets[:k-1]
		*p = bufferedPacket{id: p.id, links: p.links[:0], bps: p.bps[:0]}
		return p
	}
	p := &bufferedPacket{id: int32(len(n.packets))}
	n.packets = append(n.packets, p)
	return p
}

func (n *Buffered) release(k *bufferedPacket) {
	k.flow = nil
	n.freePackets = append(n.freePackets, k)
}

// arrive processes a packet that arrives at a port's node.
func (n *Buffered) arrive(port int32, k *bufferedPacket, nowPS int64) {
	p := &n.ports[port]
	k.atPS = nowPS
	if k.ack && k.hop < 0 {
		n.receiveAck(port, p, k, nowPS)
		return
	}
	if !k.ack && k.hop == len(k.flow.path) {
		if !n.receiveData(k, nowPS) {
			n.release(k)
			return
		}
	}
	switch {
	case k.ack && (p.isHost || !n.sharesQueue()):
		p.acks.put(k)
	case k.ack:
		p.data.put(k)
		p.queueBytes += k.wire
	default:
		if !n.admits(p, k.wire) {
			p.dropped++
			n.Losses.Dropped++
			n.release(k)
			return
		}
		p.data.put(k)
		p.queueBytes += k.wire
		p.dataBytes += k.wire
		n.used[p.node] += k.wire
		n.peak[p.node] = max(n.peak[p.node], n.used[p.node])
	}
	n.scheduleSend(port, max(nowPS, p.freePS))
}

// send sends what a port has to send now, if anything.
func (n *Buffered) send(port int32, p *bufferedPort, nowPS int64) {
	switch {
	case p.freePS > nowPS:
		n.scheduleSend(port, p.freePS)
	case !p.acks.empty():
		n.passACK(port, p, p.acks.take(), nowPS)
	case p.isHost:
		n.sendNext(port, p, nowPS)
	case !p.data.empty():
		k := p.data.take()
		left := n.bytesBehind(p, k, nowPS)
		if k.ack {
			n.passACK(port, p, k, nowPS)
			return
		}
		p.dataBytes -= k.wire
		n.used[p.node] -= k.wire
		if n.marks(p, k, left) {
			k.marked = true
			k.flow.marks[k.hop]++
			p.counters.PacketsMarked++
		}
		if n.params.Transport.HasTelemetry() {
			k.links = append(k.links, simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes, LeftBytes: left})
			k.bps = append(k.bps, float64(n.links[port].BandwidthBps))
		}
		f := k.flow
		waitPS := nowPS - k.atPS
		f.waitPS[k.hop] += waitPS
		if k.number == f.packets-1 {
			f.lastPS[k.hop] = waitPS
		}
		n.passData(port, p, k, nowPS)
	}
}

// bytesBehind returns how many bytes a packet that has just been taken off the queue leaves behind: those of
// packets that arrived before now.
func (n *Buffered) bytesBehind(p *bufferedPort, k *bufferedPacket, nowPS int64) int64 {
	p.queueBytes -= k.wire
	left := p.queueBytes
	for i := len(p.data.items) - 1; i >= p.data.head && p.data.items[i].atPS == nowPS; i-- {
		left -= p.data.items[i].wire
	}
	p.counters.queued(left+k.wire, nowPS)
	return left
}

func (n *Buffered) marks(p *bufferedPort, k *bufferedPacket, left int64) bool {
	if n.params.Transport.RandomMarks() {
		key := simkernel.MixKey(simkernel.MixKey(p.markKey, k.flow.key), uint64(k.number))
		return left > p.red.MinBytes && p.red.Marks(left, key)
	}
	return left > p.markBytes
}

// passData sends a data packet over its hop.
func (n *Buffered) passData(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	k.hop++
	to := port ^ 1
	if k.hop < len(k.flow.path) {
		to = k.flow.path[k.hop]
	}
	n.transmit(port, to, p, k, k.wire, nowPS)
}

// passACK sends an ACK over its hop.
func (n *Buffered) passACK(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	k.hop--
	to := k.flow.path[0]
	if k.hop >= 0 {
		to = k.flow.path[k.hop] ^ 1
	}
	n.transmit(port, to, p, k, n.params.AckBytes, nowPS)
}

func (n *Buffered) transmit(port, to int32, p *bufferedPort, k *bufferedPacket, wireBytes, nowPS int64) {
	p.sentBytes += wireBytes
	p.freePS = nowPS + p.wire.PS(wireBytes)
	if !p.acks.empty() || !p.data.empty() || p.isHost {
		n.scheduleSend(port, p.freePS)
	}
	n.push(event{atPS: p.freePS + n.links[port].DelayNS*simkernel.PSPerNS, rank: uint64(port), port: to, item: k.id})
}
