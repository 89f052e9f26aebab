package network

import "parsimon/simkernel"

// A port is the sending end of one link, at a switch or at a host (NIC). It is one cache line, all that most packets
// need; ports that are served one after the other lie side by side.
//
// A switch's port has the data to send in one FIFO and the ACKs in the other, or both in data (Transport.AcksQueue).
// A NIC's has in data the ACKs to send.
type port struct {
	freePS    int64 // the wire is free from here on
	leftBytes int64 // wire bytes of the data that has arrived
	*portRest
	data fifo
	link int32  // its number in the input
	bits uint32 // index of Network.kinds << portBits, and flags
}

// A portRest is what fewer packets need.
type portRest struct {
	acks      fifo
	maxQueue  int64 // Counters.MaxQueueBytes
	maxAtPS   int64
	marked    int64
	sentBytes int64 // on the wire so far, for telemetry
	heldBytes int64 // with limited buffers: wire bytes of the data that waits

	dropped    int64
	node       int32
	markKey    uint64       // of random marks
	changeAtPS int64        // with portChanges: when its rate changes next, or a pause begins or ends
	rateAtPS   int64        // when its rate changes next; never: it does not
	classes    *portClasses // nil without classes
}

const (
	portAckWaits = 1 << iota // acks is not empty
	portChanges              // its rate will change (Network.Move), or a pause begin or end (pfc.go)
	portPaused               // a class of it, by PFC
	portFull                 // maxQueue is at least a full packet
	portBits     = 4
)

// A portKind is what the ports of links with one bandwidth and delay to one domain have in common.
type portKind struct {
	sendPS  [2]int64 // time to send a full packet (forward) or an ACK (backward)
	delayPS int64
	far     int32 // domain of the far end
	wire    simkernel.WireTime
	red     simkernel.RedMark
	bps     float64
}

// Counters describe the queue of a switch's port; a NIC's are 0.
type Counters struct {
	PacketsMarked int64
	MaxQueueBytes int64 // maximum of wire bytes of data in the queue at service starts, packet in service included
	MaxQueueAtNS  int64 // first time of the maximum
}

// kind returns the kind of a link's port.
func (n *Network) kind(link Link) portKind {
	p := &n.params
	from, always := p.MarkBytes(link.BandwidthBps, link.DelayNS)
	k := portKind{wire: simkernel.NewWireTime(float64(link.BandwidthBps)), delayPS: link.DelayNS * simkernel.PSPerNS,
		far: n.domainOf[link.DstNode], red: p.RedMark(from, always), bps: float64(link.BandwidthBps)}
	k.sendPS = [2]int64{k.wire.PS(n.fullBytes), k.wire.PS(p.AckBytes)}
	return k
}

// kindOf returns the index of the kind of a link's port.
func (n *Network) kindOf(link Link) uint32 {
	k := n.kind(link)
	i, ok := n.kindIndex[k]
	if !ok {
		i = uint32(len(n.kinds))
		n.kindIndex[k] = i
		n.kinds = append(n.kinds, k)
		n.classReds = append(n.classReds, n.redsOf(link))
	}
	return i
}

func (p *port) kind() uint32 { return p.bits >> portBits }

// idle reports whether nothing waits, nor will the rate change, nor is there a pause.
func (p *port) idle() bool {
	return len(p.data.buf) == 0 && p.bits&(portAckWaits|portChanges|portPaused) == 0
}

// noteQueue notes the bytes of the data at the start of a service.
func (p *port) noteQueue(bytes, nowPS int64) {
	if bytes > p.maxQueue {
		p.maxQueue, p.maxAtPS = bytes, nowPS
	}
}

// noteAcks sets whether ACKs wait.
func (p *port) noteAcks() {
	p.bits &^= portAckWaits
	if !p.acks.empty() {
		p.bits |= portAckWaits
	}
}

// runPorts simulates ports of switches to the end of the window. Where nothing waits, the first arrivals are served at
// once, as most packets are: data before the next one arrives, and ACKs, which overtake what comes later. This is send
// and transmit in one piece.
func (d *domain) runPorts(due []int32) {
	t := &d.net.flows
	for _, u := range due {
		p, in, i := &d.ports[u], d.arrivalsOf(u), 0
		if !d.inTurn || !p.idle() {
			d.runQueued(u, p, in)
			continue
		}
		k := &d.kinds[p.kind()]
		for ; i < len(in); i++ {
			a := &in[i]
			nowPS, ack := max(p.freePS, a.atPS), a.bits&flagAck
			if nowPS >= d.endPS || i+1 < len(in) && in[i+1].atPS <= nowPS && ack == 0 {
				break
			}
			sendPS, to := k.sendPS[ack], t.hops[a.hop].to[ack]
			if a.bits&(flagLast|flagAck) == flagLast {
				sendPS = k.wire.PS(t.hops[a.hop].lastWire())
			}
			if p.bits&portFull == 0 && ack == 0 {
				p.noteQueue(d.wireBytes(&a.item), nowPS)
				if a.bits&flagLast == 0 {
					p.bits |= portFull
				}
			}
			if d.recovers && (d.leveled || a.bits&d.lateMask != d.lateNot) {
				d.passes(p, &a.item, nowPS)
			} else if waitPS := nowPS - a.atPS; waitPS != 0 && ack == 0 { // in this order: ACKs are not foreseen
				t.count(&a.item, waitPS)
			}
			p.freePS = nowPS + sendPS
			atPS, hop := p.freePS+k.delayPS, a.hop+1-2*int32(ack)
			if w := d.to[k.far].roomAt(atPS); w != nil {
				*w = append(*w, arrival{item{atPS, hop, a.bits}, to, p.link})
			} else {
				d.forward(k.far, arrival{item{atPS, hop, a.bits}, to, p.link})
			}
		}
		if d.turns {
			d.servedInTurn(p, in[:i])
		}
		if i < len(in) {
			d.runQueued(u, p, in[i:])
		}
	}
}

// runQueued simulates a port where packets wait. What is served in the window that it arrived in never touches the
// port's own queues.
func (d *domain) runQueued(u int32, p *port, arrivals []arrival) {
	if d.limited {
		d.holdAll(&d.net.buffers[p.node], p, arrivals)
	}
	if d.classed {
		for i := range arrivals {
			d.put(p, &arrivals[i])
		}
		d.runQueues(u, p)
		return
	}
	data, acks := &p.data, &p.acks
	if data.empty() {
		data = d.dataScratch.reset()
	}
	if p.bits&portAckWaits == 0 {
		acks = d.ackScratch.reset()
	}
	for i := range arrivals {
		if a := &arrivals[i]; a.bits&flagAck != 0 && !d.shared {
			acks.push(a.item)
		} else {
			data.push(a.item)
		}
	}
	nextPS := d.serve(p, data, acks, d.endPS)
	if data != &p.data && !data.empty() {
		p.data.take(data)
	} else if data == &p.data {
		data.trim()
	}
	if acks != &p.acks && !acks.empty() {
		p.acks.take(acks)
		p.bits |= portAckWaits
	} else if acks == &p.acks {
		acks.trim()
		p.noteAcks()
	}
	if nextPS != never {
		d.schedule(u, nextPS)
	}
}

// change makes the change of a port that is due at p.changeAtPS; portChanges is not set.
func (d *domain) change(p *port) {
	nowPS := p.changeAtPS
	if nowPS == p.rateAtPS {
		d.changeRate(p)
	}
	if d.lossless {
		d.changePauses(p, nowPS)
	}
}

// serve starts the services of a switch's port before untilPS, and returns when the next one will start. Everything
// that arrives before untilPS is in the queues. An ACK among the data counts among the bytes left behind and is not
// marked itself.
func (d *domain) serve(p *port, data, acks *fifo, untilPS int64) (nextPS int64) {
	for p.bits&portChanges != 0 && p.changeAtPS < untilPS {
		p.bits &^= portChanges
		d.serve(p, data, acks, p.changeAtPS)
		d.change(p)
	}
	k := &d.kinds[p.kind()]
	for {
		dataPS, ackPS := int64(never), int64(never)
		if !acks.empty() {
			ackPS = max(p.freePS, acks.buf[acks.head].atPS)
		}
		if !data.empty() {
			dataPS = max(p.freePS, data.buf[data.head].atPS)
		}
		if nowPS := min(ackPS, dataPS); nowPS >= untilPS {
			return nowPS
		}
		if ackPS <= dataPS {
			it := acks.buf[acks.head]
			acks.head++
			if d.telemetry {
				p.sentBytes += d.ackBytes
			}
			d.send(p, k, it, ackPS)
			continue
		}
		it := data.buf[data.head]
		data.head++
		leftBytes := d.leftBehind(p, data, &it, dataPS)
		if it.bits&flagAck != 0 {
			d.send(p, k, it, dataPS)
			continue
		}
		if leftBytes > k.red.MinBytes && (!d.random || d.drawsMark(p, &k.red, &it, leftBytes)) {
			d.mark(p, &it, dataPS)
		}
		if d.telemetry {
			d.writeTelemetry(p, &it, dataPS)
		}
		d.send(p, k, it, dataPS)
	}
}

// drawsMark draws whether a packet that leaves more than the threshold is marked.
func (d *domain) drawsMark(p *port, red *simkernel.RedMark, it *item, leftBytes int64) bool {
	t := &d.net.flows
	key := simkernel.MixKey(p.markKey, t.info[t.hops[it.hop].flow].key)
	return red.Marks(leftBytes, simkernel.MixKey(key, uint64(it.bits>>d.numberShift)))
}

// leftBehind counts what has arrived before a service starts, and returns how many of the bytes stay behind. The
// packet has been taken off the queue.
func (d *domain) leftBehind(p *port, queue *fifo, it *item, nowPS int64) int64 {
	own := d.wireBytes(it)
	left, arrived := p.leftBytes, queue.arrived
	if queue.head > arrived { // the packet itself has not been counted yet
		arrived++
		left += own
	}
	for int(arrived) != len(queue.buf) && queue.buf[arrived].atPS < nowPS {
		left += d.wireBytes(&queue.buf[arrived])
		arrived++
	}
	p.noteQueue(left, nowPS)
	left -= own
	p.leftBytes, queue.arrived = left, arrived
	return left
}

// wireBytes returns the size of an item on the wire.
func (d *domain) wireBytes(it *item) int64 {
	switch {
	case it.bits&flagAck != 0:
		return d.ackBytes
	case it.bits&flagLast != 0:
		return d.net.flows.hops[it.hop].lastWire()
	}
	return d.fullBytes
}

// mark marks a data packet.
func (d *domain) mark(p *port, it *item, nowPS int64) {
	it.bits |= flagMarked
	p.marked++
	if it.bits&d.lateMask != d.lateNot {
		d.late = append(d.late, lateStat{item: *it, startPS: nowPS, mark: true})
		return
	}
	d.net.flows.stats[it.hop].marks++
}

// send sends an item over a switch's port at nowPS, and counts how long data waited.
func (d *domain) send(p *port, k *portKind, it item, nowPS int64) {
	if it.bits&flagAck == 0 {
		if d.limited {
			d.hold(&d.net.buffers[p.node], p, &it, -d.wireBytes(&it), nowPS)
		}
		if it.bits&d.lateMask != d.lateNot {
			d.countLate(p, &it, nowPS)
		} else if waitPS := nowPS - it.atPS; waitPS != 0 {
			d.net.flows.count(&it, waitPS)
		}
	}
	d.transmit(p, k, it, nowPS)
}

// passes counts the wait of what is served in turn where senders recover, and the room that data takes meanwhile.
func (d *domain) passes(p *port, it *item, nowPS int64) {
	if d.leveled && it.bits&flagAck == 0 {
		bytes := d.wireBytes(it)
		d.levels = append(d.levels, level{it.atPS, bytes}, level{nowPS, -bytes})
	}
	if it.bits&d.lateMask != d.lateNot {
		d.countLate(p, it, nowPS)
	} else if waitPS := nowPS - it.atPS; waitPS != 0 && it.bits&flagAck == 0 {
		d.net.flows.count(it, waitPS)
	}
}

// countLate has the wait of data that leaves a switch's port counted between epochs.
func (d *domain) countLate(p *port, it *item, nowPS int64) {
	if it.bits&flagAck == 0 && (nowPS != it.atPS || it.bits&flagLast != 0) {
		d.late = append(d.late, lateStat{item: *it, startPS: nowPS, link: p.link})
	}
}

// transmit sends an item over a port at nowPS.
func (d *domain) transmit(p *port, k *portKind, it item, nowPS int64) {
	ack, h := it.bits&flagAck, &d.net.flows.hops[it.hop]
	sendPS, to := k.sendPS[ack], h.to[ack]
	if it.bits&(flagLast|flagAck) == flagLast {
		sendPS = k.wire.PS(h.lastWire())
	}
	p.freePS = nowPS + sendPS
	it.atPS = p.freePS + k.delayPS
	it.hop += 1 - 2*int32(ack)
	if d.foresees && ack == 0 && (it.bits&flagLast != 0 || d.recovers) {
		d.foresee(p, &it)
	}
	if w := d.to[k.far].roomAt(it.atPS); w != nil {
		*w = append(*w, arrival{it, to, p.link})
	} else {
		d.forward(k.far, arrival{it, to, p.link})
	}
}

// writeTelemetry writes the port's telemetry into a packet.
func (d *domain) writeTelemetry(p *port, it *item, nowPS int64) {
	t := &d.net.flows
	slot := t.hops[it.hop].flow
	hop := int(it.hop - t.info[slot].firstHop)
	o := t.senders[slot].external
	d.telemetryOf(o, it.bits)[hop-1] = simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes,
		LeftBytes: p.leftBytes, Bps: d.kinds[p.kind()].bps, Link: p.link}
	p.sentBytes += d.wireBytes(it)
}
