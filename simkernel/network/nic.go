package network

import (
	"math/bits"

	"parsimon/simkernel"
)

// A nic is the sending half of a host port.
type nic struct {
	ring
	timerPS int64          // no timer goes off before
	lookPS  int64          // when a look at them is scheduled
	classes []ring         // with classes, in place of ring
	delayed []item         // clocked by ACKs: ACKs and when they are sent at the latest, by time
	timers  minHeap[timer] // of retransmissions

	// With timers of transports, by time; what has become invalid is removed when it is first.
	ticks minHeap[timer] // no timer of a flow with bytes to send ticks before
	ready minHeap[timer] // when the pacing of a flow with bytes to send ends: nicPlace.readyPS
}

// A ring is the flows of a NIC, or of one of its classes, that have bytes to send, in start order, which is the order
// of the round robin.
type ring struct {
	sendPS    int64 // when the next data packet can be sent, or never; not known if that is before the wire is free
	sendAt    int   // and the place of its flow
	nextPlace int   // the place after the one served last
	vacated   int   // number of places whose flows have sent everything
	places    []nicPlace
	open      []uint64 // bit per place: the flow has bytes to send and its window is open
}

// unknown, of ring.sendPS, is before any wire is free.
const unknown = -1

// ringOf returns the ring that a flow is in.
func (d *domain) ringOf(c *nic, s *sender) *ring {
	if c.classes == nil {
		return &c.ring
	}
	return &c.classes[s.class]
}

// A nicPlace is one flow of a NIC.
type nicPlace struct {
	readyPS int64 // earliest time by pacing and by the ACK that opened the window
	slot    int32
}

// add appends a flow to the round robin.
func (c *ring) add(slot int32, nowPS int64) (place int32) {
	k := len(c.places)
	c.places = append(c.places, nicPlace{nowPS, slot})
	if k%64 == 0 {
		c.open = append(c.open, 0)
	}
	c.open[k/64] |= 1 << (k % 64)
	c.sendPS = unknown
	return int32(k)
}

func (c *ring) isOpen(place int32) bool { return c.open[place/64]>>(place%64)&1 != 0 }

func (c *ring) close(place int32) {
	c.open[place/64] &^= 1 << (place % 64)
	c.sendPS = unknown
}

func (c *ring) reopen(place int32, nowPS int64) {
	c.open[place/64] |= 1 << (place % 64)
	c.places[place].readyPS = max(c.places[place].readyPS, nowPS)
	c.sendPS = unknown
}

// choose selects the flow that sends next, and when, if the wire is free from freePS on: of the flows that are
// ready first (all that are ready by freePS count as equal) the first after the one served last.
func (c *ring) choose(freePS int64) {
	c.sendPS = never
	words, k := len(c.open), c.nextPlace/64
	if words == 1 { // as most have: its places in their order
		switch word := c.open[0]; {
		case word == 0:
		case word&(word-1) == 0:
			c.sendAt = bits.TrailingZeros64(word)
			c.sendPS = max(freePS, c.places[c.sendAt].readyPS)
		default:
			c.chooseIn(bits.RotateLeft64(word, -c.nextPlace), c.nextPlace, 0, freePS)
		}
		return
	}
	rest := uint64(1)<<(c.nextPlace%64) - 1 // places before the one served last, in its word
	for i := 0; i <= words && words > 0; i++ {
		if k >= words {
			k = 0
		}
		word := c.open[k]
		switch i {
		case 0:
			word &^= rest
		case words:
			word &= rest
		}
		if c.chooseIn(word, 0, k*64, freePS) {
			return
		}
		k++
	}
}

// chooseIn chooses among the open places of a word, which has been rotated. It reports whether one is ready by freePS.
func (c *ring) chooseIn(word uint64, rotated, first int, freePS int64) bool {
	for ; word != 0; word &= word - 1 {
		place := first + (bits.TrailingZeros64(word)+rotated)%64
		readyPS := max(freePS, c.places[place].readyPS)
		if readyPS < c.sendPS {
			if c.sendPS, c.sendAt = readyPS, place; readyPS == freePS {
				return true
			}
		}
	}
	return false
}

// compact removes the places of flows that have sent everything and keeps the order of the others. It calls moved
// with the new place of each remaining slot.
func (c *ring) compact(moved func(slot, place int32)) {
	kept, after := 0, -1
	for i, p := range c.places {
		if i == c.nextPlace {
			after = kept
		}
		if p.slot < 0 {
			continue
		}
		if open := c.isOpen(int32(i)); open {
			c.open[kept/64] |= 1 << (kept % 64)
		} else {
			c.open[kept/64] &^= 1 << (kept % 64)
		}
		moved(p.slot, int32(kept))
		c.places[kept] = p
		kept++
	}
	if after < 0 {
		after = kept
	}
	c.nextPlace, c.vacated = after, 0
	c.places = c.places[:kept]
	c.open = c.open[:(kept+63)/64]
	if kept%64 != 0 {
		c.open[kept/64] &= 1<<(kept%64) - 1
	}
	c.sendPS = unknown
}

// runNIC simulates a host's NIC to the end of the window. arrivals have reached it in the window, in order. At equal
// times ACKs and data arrive first, flows start then, timers go off then, and what is sent follows.
//
// A timer of a transport changes the rate of a flow when it ticks. The window follows, as in ns-3, when the NIC looks
// at its flows: after an ACK, a start or a timeout of any, when the wire is free, and when the pacing of any ends.
func (d *domain) runNIC(u int32, p *port, c *nic, arrivals []arrival) {
	acks := &p.data
	in, sawPS := d.receiveAll(c, acks, arrivals), int64(-1)
	for {
		inPS, timerPS, tickedPS := int64(never), int64(never), int64(never)
		if len(in) > 0 {
			inPS = in[0].atPS
		}
		ackAt, ackPS := d.nextAck(p, acks)
		if len(c.ticks) > 0 {
			tickedPS = d.look(p, c, sawPS)
		}
		if d.recovers {
			timerPS = c.timerPS
		}
		if c.classes != nil {
			d.chooseClasses(p, c)
		} else if c.sendPS < p.freePS {
			c.choose(p.freePS)
		}
		outPS := min(ackPS, c.sendPS)
		next := min(inPS, timerPS, tickedPS, outPS)
		if p.bits&portChanges != 0 && p.changeAtPS <= min(next, d.endPS-1) {
			p.bits &^= portChanges
			c.sendPS = unknown
			d.change(p)
			continue
		}
		if next >= d.endPS {
			d.scheduleNIC(u, c, next, min(timerPS, tickedPS))
			acks.trim()
			return
		}
		switch {
		case inPS == next:
			d.receive(c, &in[0].item)
			in, sawPS = in[1:], inPS
		case timerPS == next:
			if c.timerPS = d.nextTimer(c, timerPS); c.timerPS == timerPS {
				d.timeout(c)
				sawPS = timerPS
			}
		case tickedPS == next:
			sawPS = tickedPS
		case ackPS <= outPS:
			it := acks.buf[ackAt]
			if ackAt != int(acks.head) {
				copy(acks.buf[acks.head+1:], acks.buf[acks.head:ackAt])
			}
			acks.head++
			d.transmit(p, p.kind, it, ackPS)
		default:
			d.sendNext(p, c)
		}
	}
}

// runNICs simulates NICs to the end of the window. It is runNIC for those without classes, delayed ACKs, changes of the
// rate and ticks in the window. Their ACKs go before data, and nothing that happens before the wire is free changes
// that. So data is answered when it is received, unless the wire is free in a later window only.
func (d *domain) runNICs(due []duePort) {
	for _, o := range due {
		p, c, in := &d.ports[o.port], &d.nics[o.port-d.first], d.arrivalsOf(o)
		if !d.plain || p.bits&portChanges != 0 || d.ticks &&
			(d.lengthPS > d.leastTickPS || len(c.ticks) > 0 && c.ticks[0].atPS < d.endPS) {
			d.runNIC(o.port, p, c, in)
			continue
		}
		acks := &p.data
		for !acks.empty() && p.freePS < d.endPS {
			acks.head++
			d.transmit(p, p.kind, acks.buf[acks.head-1], p.freePS)
		}
		acks.trim()
		next := int64(0)
		for i := 0; ; {
			if c.sendPS < p.freePS {
				c.choose(p.freePS)
			}
			if next = min(c.sendPS, c.timerPS); i < len(in) && in[i].atPS <= next {
				a := &in[i]
				i++
				switch nowPS := max(p.freePS, a.atPS); {
				case a.bits&flagAck != 0 && a.link >= 0:
					d.receive(c, &a.item)
				case a.link >= 0 && !d.receiveData(&a.item): // it is not answered
				case nowPS < d.endPS:
					d.transmit(p, p.kind, a.item, nowPS)
				default:
					acks.push(a.item)
				}
				continue
			}
			if next >= d.endPS {
				break
			}
			if c.timerPS > next {
				d.sendNext(p, c)
			} else if c.timerPS = d.nextTimer(c, next); c.timerPS == next {
				d.timeout(c)
			}
		}
		if !acks.empty() {
			next = min(next, p.freePS)
		}
		timerPS := c.timerPS
		if len(c.ticks) > 0 {
			timerPS = min(timerPS, d.look(p, c, d.endPS-1))
		}
		d.scheduleNIC(o.port, c, min(next, timerPS), timerPS)
	}
}

// nextAck returns the place of the first ACK of a NIC that no pause holds back, and when it can be sent, or never.
func (d *domain) nextAck(p *port, acks *fifo) (at int, atPS int64) {
	for at = int(acks.head); at < len(acks.buf); at++ {
		if p.bits&portPaused == 0 || !d.shared || !d.paused(p, int(d.classOf(&acks.buf[at]))) {
			return at, max(p.freePS, acks.buf[at].atPS)
		}
	}
	return at, never
}

// look opens and closes the windows of flows whose timers have ticked by sawPS, when their NIC looked at them last. It
// returns when the NIC looks at them next, if that can be after a tick and nothing comes.
func (d *domain) look(p *port, c *nic, sawPS int64) (nextPS int64) {
	for len(c.ticks) > 0 && c.ticks[0].atPS <= sawPS {
		t := c.ticks[0]
		s := &d.net.flows.senders[t.slot]
		if d.net.flows.info[t.slot].row != t.row || s.ackedBytes == s.sizeBytes {
			c.ticks.pop()
			continue
		}
		if s.external.Tick(&d.net.params, sawPS) {
			s.setRate()
		}
		if s.sentBytes < s.sizeBytes {
			d.updateOpen(c, s, s.sentBytes-s.ackedBytes < s.windowBytes, sawPS)
		}
		t.atPS = s.external.NextTick()
		c.ticks.replace(t)
	}
	if len(c.ticks) == 0 {
		return never
	}
	fromPS := max(sawPS+1, c.ticks[0].atPS)
	if p.freePS >= fromPS {
		return p.freePS
	}
	for ; len(c.ready) > 0; c.ready.pop() {
		t := c.ready[0]
		s := &d.net.flows.senders[t.slot]
		if t.atPS >= fromPS && d.net.flows.info[t.slot].row == t.row && s.sentBytes < s.sizeBytes &&
			d.ringOf(c, s).places[s.place].readyPS == t.atPS {
			return t.atPS
		}
	}
	return never
}

// noteReady notes when the pacing of a flow ends, for look: after a packet, and when it has gone back.
func (d *domain) noteReady(c *nic, s *sender, nowPS int64) {
	for len(c.ready) > 0 && c.ready[0].atPS <= nowPS {
		c.ready.pop()
	}
	if at := &d.ringOf(c, s).places[s.place]; at.readyPS > nowPS {
		c.ready.push(timer{at.readyPS, d.net.flows.info[at.slot].row, at.slot})
	}
}

// receiveAll receives the data that arrives at a NIC in a window, adds its ACKs to acks, and returns what else arrives:
// ACKs and starts of flows.
func (d *domain) receiveAll(c *nic, acks *fifo, arrivals []arrival) []arrival {
	in := d.in[:0]
	for i := range arrivals {
		if a := &arrivals[i]; a.link < 0 {
			acks.push(a.item)
		} else if a.bits&flagAck != 0 {
			in = append(in, *a)
		} else if d.clocked {
			d.receiveClocked(c, &a.item, acks)
		} else if d.receiveData(&a.item) {
			acks.push(a.item)
		}
	}
	d.sendDelayed(c, acks, d.endPS-1)
	d.in = in
	return in
}

// scheduleNIC schedules what a NIC has to do next. A timer and a delayed ACK are far ahead, and mostly set anew
// before: they need no look before one that is planned.
func (d *domain) scheduleNIC(u int32, c *nic, next, timerPS int64) {
	timer := next == timerPS
	if len(c.delayed) > 0 && c.delayed[0].atPS < next {
		next, timer = c.delayed[0].atPS, true
	}
	switch {
	case next == never:
	case !timer:
		d.schedule(u, next)
	case c.lookPS < d.endPS || c.lookPS > next:
		d.schedule(u, next)
		c.lookPS = next
	}
}

// receiveData processes a data packet at its destination and turns it into its ACK; false if it is not answered.
func (d *domain) receiveData(it *item) bool {
	if d.recovers {
		return d.receiveInOrder(it)
	}
	if it.bits&flagLast != 0 { // packets stay in order
		d.results.add(&d.net.flows, d.net.flows.hops[it.hop].flow, it.atPS)
	}
	it.bits |= flagAck
	return true
}

// receive processes an ACK of a flow of this host, or the start of one.
func (d *domain) receive(c *nic, it *item) {
	t := &d.net.flows
	slot := t.hops[it.hop].flow
	s := &t.senders[slot]
	if it.bits&flagStart != 0 {
		r := d.ringOf(c, s)
		if r.vacated > 32 && r.vacated*2 > len(r.places) {
			r.compact(func(slot, place int32) { t.senders[slot].place = place })
		}
		s.place = r.add(slot, it.atPS)
		if d.clocked {
			s.handOver(&d.net.params, &d.net.recovery.flows[slot], it.atPS)
		}
		return
	}
	switch {
	case d.clocked:
		d.receiveClockedAck(c, slot, s, it)
		return
	case d.recovers:
		d.receiveAck(c, slot, s, it)
		return
	}
	if it.bits&flagLast != 0 {
		s.ackedBytes = s.sizeBytes
		d.free(slot)
		return
	}
	s.ackedBytes += d.net.params.PayloadBytes
	if s.sentBytes == s.sizeBytes {
		return
	}
	if s.external != nil {
		number := s.external.acked
		s.external.acked++
		s.onAck(d, it, number, 0)
	} else {
		s.updateDCTCP(&d.net.params, it)
	}
	d.updateOpen(c, s, s.sentBytes-s.ackedBytes < s.windowBytes, it.atPS)
}

// updateDCTCP passes an ACK to the embedded sender.
func (s *sender) updateDCTCP(p *simkernel.Params, it *item) {
	if it.bits&flagMarked == 0 && !s.dctcp.WindowEnds(s.ackedBytes) {
		return
	}
	if s.dctcp.Update(p, s.ackedBytes, s.sentBytes, it.bits&flagMarked != 0) {
		s.gap = simkernel.NewWireTime(s.dctcp.RateBps)
		s.windowBytes = s.dctcp.Window()
	}
}

// updateOpen opens or closes a flow at its NIC.
func (d *domain) updateOpen(c *nic, s *sender, open bool, nowPS int64) {
	r := d.ringOf(c, s)
	if d.ticks && !s.external.ticking && s.external.NextTick() != never {
		slot := r.places[s.place].slot
		s.external.ticking = true
		c.ticks.push(timer{s.external.NextTick(), d.net.flows.info[slot].row, slot})
	}
	switch {
	case open == r.isOpen(s.place):
	case open:
		r.reopen(s.place, nowPS)
	default:
		r.close(s.place)
	}
}

// vacate removes the place of a flow that sends nothing any more.
func (c *ring) vacate(place int32) {
	c.close(place)
	c.places[place].slot = -1
	c.vacated++
	if c.vacated == len(c.places) {
		c.places, c.open, c.nextPlace, c.vacated = c.places[:0], c.open[:0], 0, 0
	}
}

// sendNext sends a packet of the chosen flow at the chosen time. The window decides whether a flow may send,
// never how much: the last packet may exceed it, as in ns-3.
func (d *domain) sendNext(p *port, c *nic) {
	t, params := &d.net.flows, &d.net.params
	r, class := &c.ring, 0
	if c.classes != nil {
		class = d.pickClass(p, c)
		r = &c.classes[class]
	}
	nowPS, place := c.sendPS, r.sendAt
	slot := r.places[place].slot
	s := &t.senders[slot]
	number, attempt := s.next, uint32(0)
	s.next++
	var flags uint32
	payload := params.PayloadBytes
	if rest := s.sizeBytes - s.sentBytes; rest <= payload {
		payload, flags = rest, flagLast
	}
	s.sentBytes += payload
	if d.recovers {
		attempt = d.onSend(slot, nowPS)
	}
	if d.clocked {
		s.external.handed = s.external.handed[1:]
		s.takeHanded(params, &d.net.recovery.flows[slot])
	} else if s.external != nil {
		s.onSend(params, number, attempt, nowPS)
	}
	r.nextPlace = place + 1
	c.sendPS = unknown
	r.places[place].readyPS = nowPS + s.gap.PS(payload+params.HeaderBytes)
	if d.ticks {
		d.noteReady(c, s, nowPS)
	}
	if flags != 0 && !d.recovers {
		r.vacate(int32(place))
	} else if s.sentBytes == s.sizeBytes || s.sentBytes-s.ackedBytes >= s.windowBytes {
		r.close(int32(place))
	}
	if d.recovers {
		if f := &d.net.recovery.flows[slot]; !f.timerSet {
			d.setTimer(c, slot, f, nowPS)
		}
	}
	it := item{nowPS, s.firstHop, number<<d.numberShift | attempt<<flagBits | flags}
	if d.tagMask != 0 {
		it.bits |= d.net.recovery.flows[slot].plb.label << recoveryShift & d.tagMask
	}
	if d.telemetry && d.moves != nil { // this path may be shorter than that of the packet before
		clear(d.telemetryOf(s.external, it.bits))
	}
	d.transmit(p, p.kind, it, nowPS)
	if c.classes == nil {
		return
	}
	if r.choose(p.freePS); r.sendPS > p.freePS { // nothing of the class waits
		d.net.emptied(p.classes, class)
	}
}
