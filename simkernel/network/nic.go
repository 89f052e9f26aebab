package network

// A nic is the sending half of a host port.
type nic struct {
	ring
	timerPS int64          // no timer expires before
	lookPS  int64          // when the NIC is scheduled to look at its timers
	classes []ring         // with classes, instead of ring
	delayed []item         // of TCP: ACKs and when they are sent at the latest, by time
	timers  minHeap[timer] // of retransmissions

	// With timers of transports, by time. Invalid timers are removed when they are first.
	ticks minHeap[timer] // no timer of a flow with bytes to send ticks before
	ready minHeap[timer] // when the pacing of a flow with bytes to send ends: nicPlace.readyPS
}

// ringOf returns the ring that a flow is in.
func (c *nic) ringOf(d *domain, s *sender) *ring {
	if c.classes == nil {
		return &c.ring
	}
	return &c.classes[s.class]
}

// runNIC simulates a host's NIC to the end of the window. arrivals have reached it in the window, in order.
// Of events at the same time, ACKs and data arrive first. Then flows start, timers expire, and packets are
// sent.
//
// A timer of a transport changes the rate of a flow when it ticks. As in ns-3, the window of the flow changes
// only when the NIC looks at its flows: after an ACK, a start or a timeout of any flow, when the wire is
// free, and when the pacing of any flow ends.
func (d *domain) runNIC(u int32, p *port, c *nic, arrivals []arrival) {
	acks := &p.data
	in := d.receiveAll(c, acks, arrivals)
	sawPS := int64(-1)
	for {
		inPS := int64(never)
		timerPS := int64(never)
		tickedPS := int64(never)
		if len(in) > 0 {
			inPS = in[0].atPS
		}
		ackAt, ackPS := p.nextAck(d, acks)
		if len(c.ticks) > 0 {
			tickedPS = c.look(d, p, sawPS)
		}
		if d.recovery != nil {
			timerPS = c.timerPS
		}
		if c.classes != nil {
			d.classes.chooseClasses(p, c)
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
			in = in[1:]
			sawPS = inPS
		case timerPS == next:
			c.timerPS = d.recovery.nextTimer(c, timerPS)
			if c.timerPS == timerPS {
				d.recovery.timeout(c)
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

// runNICs simulates NICs to the end of the window. Those with classes, delayed ACKs, changes of the rate or
// ticks in the window go to runNIC. On all others ACKs go before data, regardless of what happens before the
// wire is free. So the ACK of data is sent when the data is received, unless the wire is free only in a later
// window.
func (d *domain) runNICs(due []duePort) {
	for _, o := range due {
		p := &d.ports[o.port]
		c := &d.nics[o.port-d.first]
		in := d.sorter.arrivalsOf(o)
		if (d.classes != nil || d.tcp != nil) || p.bits&portChanges != 0 || d.traits.Timers &&
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
			next = min(c.sendPS, c.timerPS)
			if i < len(in) && in[i].atPS <= next {
				a := &in[i]
				i++
				switch nowPS := max(p.freePS, a.atPS); {
				case a.bits&flagAck != 0 && !a.isAnswer():
					d.receive(c, &a.item)
				case !a.isAnswer() && !d.receiveData(&a.item): // it is not answered
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
				continue
			}
			c.timerPS = d.recovery.nextTimer(c, next)
			if c.timerPS == next {
				d.recovery.timeout(c)
			}
		}
		if !acks.empty() {
			next = min(next, p.freePS)
		}
		timerPS := c.timerPS
		if len(c.ticks) > 0 {
			timerPS = min(timerPS, c.look(d, p, d.endPS-1))
		}
		d.scheduleNIC(o.port, c, min(next, timerPS), timerPS)
	}
}

// nextAck returns the place of the first ACK of a NIC that is not paused, and when it can be sent, or never.
func (p *port) nextAck(d *domain, acks *fifo) (at int, atPS int64) {
	for at = int(acks.head); at < len(acks.buf); at++ {
		if p.bits&portPaused == 0 || !d.traits.AcksQueue || !d.pfc.paused(p, int(d.classOf(&acks.buf[at]))) {
			return at, max(p.freePS, acks.buf[at].atPS)
		}
	}
	return at, never
}

// receiveAll receives the data that arrives at a NIC in a window, adds its ACKs to acks, and returns what
// else arrives: ACKs and starts of flows.
func (d *domain) receiveAll(c *nic, acks *fifo, arrivals []arrival) []arrival {
	in := d.in[:0]
	for i := range arrivals {
		a := &arrivals[i]
		if a.isAnswer() {
			acks.push(a.item)
		} else if a.bits&flagAck != 0 {
			in = append(in, *a)
		} else if d.tcp != nil {
			d.tcp.receiveClocked(c, &a.item, acks)
		} else if d.receiveData(&a.item) {
			acks.push(a.item)
		}
	}
	d.tcp.sendDelayed(c, acks, d.endPS-1)
	d.in = in
	return in
}

// scheduleNIC schedules what a NIC has to do next. Timers and delayed ACKs are far ahead and mostly reset
// before they are due. If an earlier look at the NIC is scheduled, they need none of their own.
func (d *domain) scheduleNIC(u int32, c *nic, next, timerPS int64) {
	timer := next == timerPS
	if len(c.delayed) > 0 && c.delayed[0].atPS < next {
		next = c.delayed[0].atPS
		timer = true
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

// receiveData processes a data packet at its destination, turns it into its ACK, and reports whether that is
// sent.
func (d *domain) receiveData(it *item) bool {
	if d.recovery != nil {
		return d.recovery.receiveInOrder(it)
	}
	if it.bits&flagLast != 0 { // packets stay in order
		d.journal.results.add(&d.net.flows, d.net.flows.hops[it.hop].flow, it.atPS)
	}
	it.bits |= flagAck
	return true
}

// receive processes an ACK of a flow of this host, or the start of one.
func (d *domain) receive(c *nic, it *item) {
	t := &d.net.flows
	slot := t.hops[it.hop].flow
	s := &t.senders[slot]
	if it.isControl() {
		r := c.ringOf(d, s)
		if r.vacated > 32 && r.vacated*2 > len(r.places) {
			r.compact(func(slot, place int32) { t.senders[slot].place = place })
		}
		s.place = r.add(slot, it.atPS)
		if d.tcp != nil {
			s.handOver(&d.net.params, &d.net.recovery.flows[slot], it.atPS)
		}
		return
	}
	switch {
	case d.tcp != nil:
		d.tcp.receiveClockedAck(c, slot, s, it)
		return
	case d.recovery != nil:
		d.recovery.receiveAck(c, slot, s, it)
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

// updateOpen opens or closes a flow at its NIC.
func (d *domain) updateOpen(c *nic, s *sender, open bool, nowPS int64) {
	r := c.ringOf(d, s)
	if d.traits.Timers && !s.external.ticking && s.external.NextTick() != never {
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

// sendNext sends a packet of the chosen flow at the chosen time. The window decides whether a flow may send,
// never how much: the last packet may exceed it, as in ns-3.
func (d *domain) sendNext(p *port, c *nic) {
	t := &d.net.flows
	params := &d.net.params
	r := &c.ring
	class := 0
	if d.classes != nil {
		class = d.classes.pickClass(p, c)
		r = &c.classes[class]
	}
	nowPS := c.sendPS
	place := r.sendAt
	slot := r.places[place].slot
	s := &t.senders[slot]
	number := s.next
	attempt := uint32(0)
	s.next++
	var flags uint32
	payload := params.PayloadBytes
	rest := s.sizeBytes - s.sentBytes
	if rest <= payload {
		payload = rest
		flags = flagLast
	}
	s.sentBytes += payload
	if d.recovery != nil {
		attempt = d.recovery.onSend(slot, nowPS)
	}
	if d.tcp != nil {
		d.tcp.sent(slot, s)
	} else if s.external != nil {
		s.onSend(params, number, attempt, nowPS)
	}
	r.nextPlace = place + 1
	c.sendPS = unknown
	r.places[place].readyPS = nowPS + s.gap.PS(payload+params.HeaderBytes)
	if d.traits.Timers {
		c.noteReady(d, s, nowPS)
	}
	if flags != 0 && d.recovery == nil {
		r.vacate(int32(place))
	} else if s.sentBytes == s.sizeBytes || s.sentBytes-s.ackedBytes >= s.windowBytes {
		r.close(int32(place))
	}
	if d.recovery != nil {
		d.recovery.startTimer(c, slot, nowPS)
	}
	it := item{nowPS, s.firstHop, number<<d.numberShift | attempt<<flagBits | flags}
	if d.paths != nil {
		d.paths.label(slot, s, &it)
	}
	d.transmit(p, p.kind, it, nowPS)
	if d.classes != nil {
		d.classes.sent(p, c, class)
	}
}
