package network

import "parsimon/simkernel"

// A port is the sending end of one link, at a switch or at a host (NIC). It is one cache line, all that most packets
// need; ports that are served one after the other lie side by side.
//
// A switch's port has the data to send in one FIFO and the ACKs in the other, or both in data (Transport.AcksQueue).
// A NIC's has in data the ACKs to send.
type port struct {
	freePS int64 // the wire is free from here on
	kind   *portKind
	*portRest
	data fifo
	link int32  // its number in the input
	bits uint32 // flags
}

// A portRest is what fewer packets need.
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
	rateAtPS   int64        // when its rate changes next; never: it does not
	classes    *portClasses // nil without classes
}

const (
	portFull    = 1 << iota // maxQueue is at least a full packet; the bit of flagAck
	portWaits               // data or acks is not empty
	portChanges             // its rate will change (Network.Move), or a pause begin or end (pfc.go)
	portPaused              // a class of it, by PFC
	portQueues              // what finds it idle is not served at once (runPorts)
)

// A portKind is what the ports of links with one bandwidth and delay to one domain have in common.
type portKind struct {
	sendPS  [2]int64 // time to send a full packet (forward) or an ACK (backward)
	delayPS int64
	far     int32 // domain of the far end
	wire    simkernel.WireTime
	rule    simkernel.MarkRule
	bps     float64

	classRules *[MaxClasses]simkernel.MarkRule // with classes
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
		far: n.domainOf[link.DstNode], rule: p.MarkRule(from, always), bps: float64(link.BandwidthBps)}
	k.sendPS = [2]int64{k.wire.PS(n.fullBytes), k.wire.PS(p.AckBytes)}
	return k
}

// kindOf returns the kind of a link's port.
func (n *Network) kindOf(link Link) *portKind {
	k := n.kind(link)
	if n.kinds[k] == nil {
		of, rules := k, n.rulesOf(link)
		of.classRules = &rules
		n.kinds[k] = &of
	}
	return n.kinds[k]
}

// idle reports whether nothing waits, nor will the rate change, nor is there a pause.
func (p *port) idle() bool {
	return p.bits&(portWaits|portChanges|portPaused|portQueues) == 0
}

// noteQueue notes the bytes of the data at the start of a service.
func (p *port) noteQueue(bytes, nowPS int64) {
	if bytes > p.maxQueue {
		p.maxQueue, p.maxAtPS = bytes, nowPS
	}
}

// noteWaits sets whether something waits.
func (p *port) noteWaits() {
	p.bits &^= portWaits
	if !p.data.empty() || !p.acks.empty() {
		p.bits |= portWaits
	}
}

// runPorts simulates ports of switches to the end of the window. Where nothing waits, the first arrivals are served at
// once, as most packets are: data before the next one arrives, and ACKs, which overtake what comes later. This is send
// and transmit in one piece.
func (d *domain) runPorts(due []duePort) {
	t := &d.net.flows
	for _, o := range due {
		p, i, end := &d.ports[o.port], int(o.from), int(d.ends[o.port])
		d.ends[o.port] = 0
		for ; i < end; i++ {
			a, k := &d.sorted[i], p.kind
			nowPS, ack := max(p.freePS, a.atPS), a.bits&flagAck
			// The last condition, without a branch: data, and more arrives before it can be served.
			if p.bits|ack != portFull && !p.idle() || nowPS >= d.endPS ||
				(int64(ack)-1)&int64(i+1-end)&(d.sorted[i+1].atPS-nowPS-1) < 0 {
				break
			}
			h := &t.hops[a.hop]
			sendPS, to := k.sendPS[ack], h.to[ack]
			if a.bits&(flagLast|flagAck) == flagLast {
				sendPS = k.wire.PS(h.lastWire())
			}
			if p.bits&portFull|ack == 0 {
				p.noteFirst(d, &a.item, nowPS)
			}
			if a.bits&d.passMask != d.passNot {
				d.passes(p, &a.item, nowPS)
			} else if waitPS := (int64(ack) - 1) & (nowPS - a.atPS); waitPS != 0 {
				t.count(&a.item, waitPS)
			}
			p.freePS = nowPS + sendPS
			atPS := p.freePS + k.delayPS
			if w := d.to[k.far].roomAt(atPS); w != nil {
				*w = append(*w, arrival{item{atPS, a.hop + 1 - 2*int32(ack), a.bits}, to, p.link})
			} else {
				d.forward(k.far, arrival{item{atPS, a.hop + 1 - 2*int32(ack), a.bits}, to, p.link})
			}
		}
		if i < end || !p.idle() {
			d.runQueued(o.port, p, d.sorted[i:end])
		}
	}
}

// noteFirst notes the queue of a packet that finds none.
func (p *port) noteFirst(d *domain, it *item, nowPS int64) {
	bytes := d.wireBytes(it)
	p.noteQueue(bytes, nowPS)
	if bytes == d.fullBytes {
		p.bits |= portFull
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
	if p.bits&portWaits == 0 {
		data, acks = d.dataScratch.reset(), d.ackScratch.reset()
	}
	for i := range arrivals {
		if a := &arrivals[i]; a.bits&flagAck != 0 && !d.shared {
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
	k := p.kind
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
		if leftBytes > k.rule.MinBytes && (!d.random || d.drawsMark(p, &k.rule, &it, leftBytes)) {
			d.mark(p, &it, dataPS)
		}
		if d.telemetry {
			d.writeTelemetry(p, &it, dataPS)
		}
		d.send(p, k, it, dataPS)
	}
}

// drawsMark draws whether a packet that leaves more than the threshold is marked.
func (d *domain) drawsMark(p *port, rule *simkernel.MarkRule, it *item, leftBytes int64) bool {
	t := &d.net.flows
	key := simkernel.MixKey(p.markKey, t.info[t.hops[it.hop].flow].key)
	return rule.Marks(leftBytes, simkernel.MixKey(key, uint64(it.bits>>d.numberShift)))
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
	if d.turns && it.bits&flagAck == 0 {
		d.servedInTurn(p, it)
	}
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
		d.foresee(p, it)
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
	s := &t.senders[t.hops[it.hop].flow]
	hop := int(it.hop - s.firstHop)
	d.telemetryOf(s.external, it.bits)[hop-1] = simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes,
		LeftBytes: p.leftBytes, Bps: p.kind.bps, Link: p.link}
	p.sentBytes += d.wireBytes(it)
}
