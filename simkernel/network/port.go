package network

import "parsimon/simkernel"

// A port is the sending end of one link, at a switch or at a host (NIC). It is one cache line and has all
// that most packets need. Ports that are served one after the other lie side by side.
//
// A port of a switch holds data in one FIFO and ACKs in the other, or both in data (Traits.AcksQueue). A NIC
// holds the ACKs that it is to send in data.
type port struct {
	freePS int64 // the wire is free from here on
	kind   *portKind
	*portRest
	data fifo
	link int32  // its number in the input
	bits uint32 // flags
}

// A portRest is the part of a port that fewer packets need.
type portRest struct {
	acks      fifo
	leftBytes int64 // wire bytes of the data that has arrived
	maxQueue  int64 // Counters.MaxQueueBytes
	maxAtPS   int64
	marked    int64
	sentBytes int64 // on the wire so far, for telemetry
	heldBytes int64 // with limited buffers: wire bytes of the data that waits

	dropped    int64
	node       int32
	markKey    uint64       // of random marks
	changeAtPS int64        // with portChanges: when its rate changes next, or a pause begins or ends
	rateAtPS   int64        // when its rate changes next, or never
	classes    *portClasses // nil without classes
}

const (
	portFull    = 1 << iota // maxQueue is at least a full packet; the bit of flagAck
	portWaits               // data or acks is not empty
	portChanges             // its rate will change (Failures.Rates), or a pause will begin or end (pfc.go)
	portPaused              // PFC has paused one of its classes
	portQueues              // runPorts does not serve what finds it idle
)

// Counters describe the queue of a switch's port. Those of a NIC are 0.
type Counters struct {
	PacketsMarked int64
	MaxQueueBytes int64 // maximum of wire bytes of data in the queue at service starts, packet in service included
	MaxQueueAtNS  int64 // first time of the maximum
}

// idle reports whether nothing waits, the rate will not change, and no class is paused.
func (p *port) idle() bool {
	return p.bits&(portWaits|portChanges|portPaused|portQueues) == 0
}

// noteQueue notes the bytes of the data at the start of a service.
func (p *port) noteQueue(bytes, nowPS int64) {
	if bytes > p.maxQueue {
		p.maxQueue = bytes
		p.maxAtPS = nowPS
	}
}

// noteWaits sets whether something waits.
func (p *port) noteWaits() {
	p.bits &^= portWaits
	if !p.data.empty() || !p.acks.empty() {
		p.bits |= portWaits
	}
}

// runPorts simulates ports of switches to the end of the window. If nothing waits at a port, its first
// arrivals are served at once, as most packets are: data if it can be served before the next arrival, and
// ACKs, because they overtake what arrives later. The loop is send and transmit in one piece.
func (d *domain) runPorts(due []duePort) {
	t := &d.net.flows
	for _, o := range due {
		p := &d.ports[o.port]
		i := int(o.from)
		end := int(d.sorter.ends[o.port])
		d.sorter.ends[o.port] = 0
		for ; i < end; i++ {
			a := &d.sorter.sorted[i]
			k := p.kind
			nowPS := max(p.freePS, a.atPS)
			ack := a.bits & flagAck
			// The last condition, without a branch: data, and more arrives before it can be served.
			if p.bits|ack != portFull && !p.idle() || nowPS >= d.endPS ||
				(int64(ack)-1)&int64(i+1-end)&(d.sorter.sorted[i+1].atPS-nowPS-1) < 0 {
				break
			}
			h := &t.hops[a.hop]
			sendPS := k.sendPS[ack]
			to := h.to[ack]
			if a.bits&(flagLast|flagAck) == flagLast {
				sendPS = k.wire.PS(h.lastWire())
			}
			if p.bits&portFull|ack == 0 {
				p.noteFirst(d, &a.item, nowPS)
			}
			waitPS := (int64(ack) - 1) & (nowPS - a.atPS) // 0 for an ACK
			if a.bits&d.passMask != d.passNot {
				p.passes(d, &a.item, nowPS)
			} else if waitPS != 0 {
				t.count(&a.item, waitPS)
			}
			p.freePS = nowPS + sendPS
			atPS := p.freePS + k.delayPS
			w := d.mail.to[k.far].roomAt(atPS)
			if w != nil {
				*w = append(*w, arrival{item{atPS, a.hop + 1 - 2*int32(ack), a.bits}, to, p.link})
			} else {
				d.forward(k.far, arrival{item{atPS, a.hop + 1 - 2*int32(ack), a.bits}, to, p.link})
			}
		}
		if i < end || !p.idle() {
			d.runQueued(o.port, p, d.sorter.sorted[i:end])
		}
	}
}

// noteFirst notes the queue of a packet that finds no other.
func (p *port) noteFirst(d *domain, it *item, nowPS int64) {
	bytes := d.wireBytes(it)
	p.noteQueue(bytes, nowPS)
	if bytes == d.fullBytes {
		p.bits |= portFull
	}
}

// runQueued simulates a port where packets wait. Packets that are served in the window of their arrival never
// enter the queues of the port.
func (d *domain) runQueued(u int32, p *port, arrivals []arrival) {
	if d.buffers != nil {
		d.buffers.holdAll(&d.net.buffers[p.node], p, arrivals)
	}
	if d.classes != nil {
		for i := range arrivals {
			p.put(d, &arrivals[i])
		}
		d.classes.runQueues(u, p)
		return
	}
	data := &p.data
	acks := &p.acks
	if p.bits&portWaits == 0 {
		data = d.dataScratch.reset()
		acks = d.ackScratch.reset()
	}
	for i := range arrivals {
		a := &arrivals[i]
		if a.bits&flagAck != 0 && !d.traits.AcksQueue {
			acks.push(a.item)
		} else {
			data.push(a.item)
		}
	}
	nextPS := d.serve(p, data, acks, d.endPS)
	if data == &p.data {
		data.trim()
		acks.trim()
		p.noteWaits()
	} else if nextPS != never {
		p.data.take(data)
		p.acks.take(acks)
		p.bits |= portWaits
	}
	if nextPS != never {
		d.schedule(u, nextPS)
	}
}

// change makes the change of a port that is due at p.changeAtPS. The caller has cleared portChanges.
func (d *domain) change(p *port) {
	nowPS := p.changeAtPS
	if nowPS == p.rateAtPS {
		d.paths.changeRate(p)
	}
	if d.pfc != nil {
		d.pfc.changePauses(p, nowPS)
	}
}

// serve starts the services of a switch's port before untilPS, and returns when the next one will start.
// Everything that arrives before untilPS is in the queues. An ACK in the queue of data counts as left behind,
// but is never marked.
func (d *domain) serve(p *port, data, acks *fifo, untilPS int64) (nextPS int64) {
	for p.bits&portChanges != 0 && p.changeAtPS < untilPS {
		p.bits &^= portChanges
		d.serve(p, data, acks, p.changeAtPS)
		d.change(p)
	}
	k := p.kind
	for {
		dataPS := int64(never)
		ackPS := int64(never)
		if !acks.empty() {
			ackPS = max(p.freePS, acks.buf[acks.head].atPS)
		}
		if !data.empty() {
			dataPS = max(p.freePS, data.buf[data.head].atPS)
		}
		nowPS := min(ackPS, dataPS)
		if nowPS >= untilPS {
			return nowPS
		}
		if ackPS <= dataPS {
			it := acks.buf[acks.head]
			acks.head++
			if d.traits.Telemetry {
				p.sentBytes += d.ackBytes
			}
			d.send(p, k, it, ackPS)
			continue
		}
		it := data.buf[data.head]
		data.head++
		leftBytes := p.leftBehind(d, data, &it, dataPS)
		if it.bits&flagAck != 0 {
			d.send(p, k, it, dataPS)
			continue
		}
		if leftBytes > k.rule.MinBytes && (!d.traits.RandomMarks || p.drawsMark(d, &k.rule, &it, leftBytes)) {
			p.mark(d, &it, dataPS)
		}
		if d.traits.Telemetry {
			p.writeTelemetry(d, &it, dataPS)
		}
		d.send(p, k, it, dataPS)
	}
}

// drawsMark draws whether a packet that leaves more bytes behind than the threshold is marked.
func (p *port) drawsMark(d *domain, rule *simkernel.MarkRule, it *item, leftBytes int64) bool {
	t := &d.net.flows
	key := simkernel.MixKey(p.markKey, t.info[t.hops[it.hop].flow].key)
	return rule.Marks(leftBytes, simkernel.MixKey(key, uint64(it.bits>>d.numberShift)))
}

// leftBehind counts what has arrived before the service of a packet starts, and returns how many bytes stay
// behind it. The packet has been taken off the queue.
func (p *port) leftBehind(d *domain, queue *fifo, it *item, nowPS int64) int64 {
	own := d.wireBytes(it)
	left := p.leftBytes
	arrived := queue.arrived
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
	p.leftBytes = left
	queue.arrived = arrived
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
func (p *port) mark(d *domain, it *item, nowPS int64) {
	it.bits |= flagMarked
	p.marked++
	if it.bits&d.lateMask != d.lateNot {
		d.journal.late = append(d.journal.late, lateStat{item: *it, startPS: nowPS, mark: true})
		return
	}
	d.net.flows.stats[it.hop].marks++
}

// send sends an item over a switch's port at nowPS, and counts how long data waited.
func (d *domain) send(p *port, k *portKind, it item, nowPS int64) {
	if it.bits&flagAck == 0 {
		if d.buffers != nil {
			d.buffers.hold(&d.net.buffers[p.node], p, &it, -d.wireBytes(&it), nowPS)
		}
		if it.bits&d.lateMask != d.lateNot {
			p.countLate(d, &it, nowPS)
		} else if nowPS != it.atPS {
			d.net.flows.count(&it, nowPS-it.atPS)
		}
	}
	d.transmit(p, k, it, nowPS)
}

// passes counts an item that runPorts serves and that a part must know of.
func (p *port) passes(d *domain, it *item, nowPS int64) {
	if it.bits&flagAck == 0 {
		if d.classes != nil && d.classes.turns {
			d.classes.servedInTurn(p, it)
		}
		if d.buffers != nil && d.buffers.leveled {
			d.buffers.passes(d.wireBytes(it), it.atPS, nowPS)
		}
	}
	if it.bits&d.lateMask != d.lateNot {
		p.countLate(d, it, nowPS)
	} else if nowPS != it.atPS && it.bits&flagAck == 0 {
		d.net.flows.count(it, nowPS-it.atPS)
	}
}

// countLate notes the wait of data that leaves a switch's port, so that it is counted between epochs.
func (p *port) countLate(d *domain, it *item, nowPS int64) {
	if it.bits&flagAck == 0 && (nowPS != it.atPS || it.bits&flagLast != 0) {
		d.journal.late = append(d.journal.late, lateStat{item: *it, startPS: nowPS, link: p.link})
	}
}

// transmit sends an item over a port at nowPS.
func (d *domain) transmit(p *port, k *portKind, it item, nowPS int64) {
	ack := it.bits & flagAck
	h := &d.net.flows.hops[it.hop]
	sendPS := k.sendPS[ack]
	to := h.to[ack]
	if it.bits&(flagLast|flagAck) == flagLast {
		sendPS = k.wire.PS(h.lastWire())
	}
	p.freePS = nowPS + sendPS
	it.atPS = p.freePS + k.delayPS
	it.hop += 1 - 2*int32(ack)
	if d.deliveries != nil && ack == 0 && (it.bits&flagLast != 0 || d.recovery != nil) {
		d.deliveries.foresee(p, it)
	}
	w := d.mail.to[k.far].roomAt(it.atPS)
	if w != nil {
		*w = append(*w, arrival{it, to, p.link})
	} else {
		d.forward(k.far, arrival{it, to, p.link})
	}
}
