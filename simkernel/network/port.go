package network

import (
	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// A port is the sending end of one link, at a switch or at a host (NIC). It fits into one cache line and has
// everything that most packets need. Ports that are served one after the other are adjacent in memory.
//
// A port of a switch has data in one FIFO and ACKs in the other. With Traits.AcksQueue it has both in data. A
// NIC has the ACKs that it must send in data.
type port struct {
	freePS int64 // the wire is free from here on
	kind   *portKind
	*portRest
	data calendar.Fifo
	link int32  // its number in the input
	bits uint32 // flags
}

// A portRest is the part of a port that few packets need.
type portRest struct {
	acks      calendar.Fifo
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
	portFull    = 1 << iota // maxQueue is at least a full packet; the bit of calendar.FlagAck
	portWaits               // data or acks is not empty
	portChanges             // its rate will change (Failures.Rates), or a pause will begin or end (pfc.go)
	portPaused              // PFC has paused one of its classes
	portQueues              // runPorts does not serve packets that find it idle
)

// Counters describe the queue of a port. That of a NIC holds only the packet that the NIC sends.
type Counters struct {
	PacketsMarked int64
	MaxQueueBytes int64 // maximum of wire bytes of data in the queue at service starts, own packet included
	MaxQueueAtNS  int64 // first time of the maximum
}

// idle reports whether nothing waits, the rate will not change, and no class is paused.
func (p *port) idle() bool {
	return p.bits&(portWaits|portChanges|portPaused|portQueues) == 0
}

// noteQueue records the bytes of data in the queue at the start of a service.
func (p *port) noteQueue(bytes, nowPS int64) {
	if bytes > p.maxQueue {
		p.maxQueue = bytes
		p.maxAtPS = nowPS
	}
}

// noteWaits records whether something waits.
func (p *port) noteWaits() {
	p.bits &^= portWaits
	if !p.data.Empty() || !p.acks.Empty() {
		p.bits |= portWaits
	}
}

// runPorts simulates ports of switches to the end of the window. If nothing waits at a port, its first
// arrivals are served immediately, as most packets are: data if it can be served before the next arrival, and
// ACKs, because they overtake later arrivals. The loop combines send and transmit.
func (d *domain) runPorts(due []calendar.DuePort) {
	t := &d.net.flows
	for _, o := range due {
		p := &d.ports[o.Port]
		i := int(o.From)
		end := int(d.sorter.Ends[o.Port])
		d.sorter.Ends[o.Port] = 0
		for ; i < end; i++ {
			a := &d.sorter.Sorted[i]
			k := p.kind
			nowPS := max(p.freePS, a.AtPS)
			ack := a.Bits & calendar.FlagAck
			// The last condition, without a branch: the item is data, and more arrives before it can be
			// served.
			if p.bits|ack != portFull && !p.idle() || nowPS >= d.EndPS ||
				(int64(ack)-1)&int64(i+1-end)&(d.sorter.Sorted[i+1].AtPS-nowPS-1) < 0 {
				break
			}
			h := &t.hops[a.Hop]
			sendPS := k.sendPS[ack]
			to := h.to[ack]
			if a.Bits&(calendar.FlagLast|calendar.FlagAck) == calendar.FlagLast {
				sendPS = k.wire.PS(h.lastWire())
			}
			if p.bits&portFull|ack == 0 {
				p.noteFirst(d, &a.Item, nowPS)
			}
			waitPS := (int64(ack) - 1) & (nowPS - a.AtPS) // 0 for an ACK
			if a.Bits&d.passMask != d.passNot {
				p.passes(d, &a.Item, nowPS)
			} else if waitPS != 0 {
				t.count(&a.Item, waitPS)
			}
			p.freePS = nowPS + sendPS
			atPS := p.freePS + k.delayPS
			w := d.mail.to[k.far].RoomAt(atPS)
			if w != nil {
				*w = append(*w, calendar.Arrival{
					Item: calendar.Item{AtPS: atPS, Hop: a.Hop + 1 - 2*int32(ack), Bits: a.Bits},
					Port: to, Link: p.link,
				})
			} else {
				d.forward(k.far, calendar.Arrival{
					Item: calendar.Item{AtPS: atPS, Hop: a.Hop + 1 - 2*int32(ack), Bits: a.Bits},
					Port: to, Link: p.link,
				})
			}
		}
		if i < end || !p.idle() {
			d.runQueued(o.Port, p, d.sorter.Sorted[i:end])
		}
	}
}

// noteFirst records the queue for a packet that finds the queue empty, or that a NIC sends.
func (p *port) noteFirst(d *domain, it *calendar.Item, nowPS int64) {
	bytes := d.wireBytes(it)
	p.noteQueue(bytes, nowPS)
	if bytes == d.fullBytes {
		p.bits |= portFull
	}
}

// runQueued simulates a port at which packets wait. Packets that are served in the window of their arrival
// never enter the queues of the port.
func (d *domain) runQueued(u int32, p *port, arrivals []calendar.Arrival) {
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
		data = d.dataScratch.Reset()
		acks = d.ackScratch.Reset()
	}
	for i := range arrivals {
		a := &arrivals[i]
		if a.Bits&calendar.FlagAck != 0 && !d.traits.AcksQueue {
			acks.Push(a.Item)
		} else {
			data.Push(a.Item)
		}
	}
	nextPS := d.serve(p, data, acks, d.EndPS)
	if data == &p.data {
		data.Trim()
		acks.Trim()
		p.noteWaits()
	} else if nextPS != never {
		p.data.Take(data)
		p.acks.Take(acks)
		p.bits |= portWaits
	}
	if nextPS != never {
		d.Schedule(u, nextPS)
	}
}

// change applies the change of a port that is due at p.changeAtPS. The caller has cleared portChanges.
func (d *domain) change(p *port) {
	nowPS := p.changeAtPS
	if nowPS == p.rateAtPS {
		d.paths.changeRate(p)
	}
	if d.pfc != nil {
		d.pfc.changePauses(p, nowPS)
	}
}

// serve starts the services of a switch's port that begin before untilPS, and returns when the next one will
// start. Everything that arrives before untilPS is in the queues. An ACK in the queue of data counts as left
// behind, but is never marked.
func (d *domain) serve(p *port, data, acks *calendar.Fifo, untilPS int64) (nextPS int64) {
	for p.bits&portChanges != 0 && p.changeAtPS < untilPS {
		p.bits &^= portChanges
		d.serve(p, data, acks, p.changeAtPS)
		d.change(p)
	}
	k := p.kind
	for {
		dataPS := int64(never)
		ackPS := int64(never)
		if !acks.Empty() {
			ackPS = max(p.freePS, acks.Buf[acks.Head].AtPS)
		}
		if !data.Empty() {
			dataPS = max(p.freePS, data.Buf[data.Head].AtPS)
		}
		nowPS := min(ackPS, dataPS)
		if nowPS >= untilPS {
			return nowPS
		}
		if ackPS <= dataPS {
			it := acks.Buf[acks.Head]
			acks.Head++
			if d.traits.Telemetry {
				p.sentBytes += d.ackBytes
			}
			d.send(p, k, it, ackPS)
			continue
		}
		it := data.Buf[data.Head]
		data.Head++
		leftBytes := p.leftBehind(d, data, &it, dataPS)
		if it.Bits&calendar.FlagAck != 0 {
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

// drawsMark draws whether a packet is marked that leaves more bytes behind than the threshold.
func (p *port) drawsMark(d *domain, rule *simkernel.MarkRule, it *calendar.Item, leftBytes int64) bool {
	t := &d.net.flows
	key := simkernel.MixKey(p.markKey, t.info[t.hops[it.Hop].flow].key)
	return rule.Marks(leftBytes, simkernel.MixKey(key, uint64(it.Bits>>d.numberShift)))
}

// leftBehind counts the arrivals before the service of a packet starts, and returns the number of bytes that
// remain behind the packet. The packet has been removed from the queue.
func (p *port) leftBehind(d *domain, queue *calendar.Fifo, it *calendar.Item, nowPS int64) int64 {
	own := d.wireBytes(it)
	left := p.leftBytes
	arrived := queue.Arrived
	if queue.Head > arrived { // the packet itself has not been counted yet
		arrived++
		left += own
	}
	for int(arrived) != len(queue.Buf) && queue.Buf[arrived].AtPS < nowPS {
		left += d.wireBytes(&queue.Buf[arrived])
		arrived++
	}
	p.noteQueue(left, nowPS)
	left -= own
	p.leftBytes = left
	queue.Arrived = arrived
	return left
}

// wireBytes returns the size of an item on the wire.
func (d *domain) wireBytes(it *calendar.Item) int64 {
	switch {
	case it.Bits&calendar.FlagAck != 0:
		return d.ackBytes
	case it.Bits&calendar.FlagLast != 0:
		return d.net.flows.hops[it.Hop].lastWire()
	}
	return d.fullBytes
}

// mark marks a data packet.
func (p *port) mark(d *domain, it *calendar.Item, nowPS int64) {
	it.Bits |= calendar.FlagMarked
	p.marked++
	if it.Bits&d.lateMask != d.lateNot {
		d.journal.late = append(d.journal.late, lateStat{Item: *it, startPS: nowPS, mark: true})
		return
	}
	d.net.flows.stats[it.Hop].marks++
}

// send sends an item over a switch's port at nowPS, and counts the wait of data.
func (d *domain) send(p *port, k *portKind, it calendar.Item, nowPS int64) {
	if it.Bits&calendar.FlagAck == 0 {
		if d.buffers != nil {
			d.buffers.hold(&d.net.buffers[p.node], p, &it, -d.wireBytes(&it), nowPS)
		}
		if it.Bits&d.lateMask != d.lateNot {
			p.countLate(d, &it, nowPS)
		} else if nowPS != it.AtPS {
			d.net.flows.count(&it, nowPS-it.AtPS)
		}
	}
	d.transmit(p, k, it, nowPS)
}

// passes informs parts about an item that runPorts serves.
func (p *port) passes(d *domain, it *calendar.Item, nowPS int64) {
	if it.Bits&calendar.FlagAck == 0 {
		if d.classes != nil && d.classes.turns {
			d.classes.servedInTurn(p, it)
		}
		if d.buffers != nil && d.buffers.leveled {
			d.buffers.passes(d.wireBytes(it), it.AtPS, nowPS)
		}
	}
	if it.Bits&d.lateMask != d.lateNot {
		p.countLate(d, it, nowPS)
	} else if nowPS != it.AtPS && it.Bits&calendar.FlagAck == 0 {
		d.net.flows.count(it, nowPS-it.AtPS)
	}
}

// countLate records the wait of data that leaves a switch's port, to be counted between epochs.
func (p *port) countLate(d *domain, it *calendar.Item, nowPS int64) {
	if it.Bits&calendar.FlagAck == 0 && (nowPS != it.AtPS || it.Bits&calendar.FlagLast != 0) {
		d.journal.late = append(d.journal.late, lateStat{Item: *it, startPS: nowPS, link: p.link})
	}
}

// transmit sends an item over a port at nowPS.
func (d *domain) transmit(p *port, k *portKind, it calendar.Item, nowPS int64) {
	ack := it.Bits & calendar.FlagAck
	h := &d.net.flows.hops[it.Hop]
	sendPS := k.sendPS[ack]
	to := h.to[ack]
	if it.Bits&(calendar.FlagLast|calendar.FlagAck) == calendar.FlagLast {
		sendPS = k.wire.PS(h.lastWire())
	}
	p.freePS = nowPS + sendPS
	it.AtPS = p.freePS + k.delayPS
	it.Hop += 1 - 2*int32(ack)
	if d.deliveries != nil && ack == 0 && (it.Bits&calendar.FlagLast != 0 || d.recovery != nil) {
		d.deliveries.foresee(p, it)
	}
	w := d.mail.to[k.far].RoomAt(it.AtPS)
	if w != nil {
		*w = append(*w, calendar.Arrival{Item: it, Port: to, Link: p.link})
	} else {
		d.forward(k.far, calendar.Arrival{Item: it, Port: to, Link: p.link})
	}
}
