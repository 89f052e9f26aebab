package network

import (
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/roundrobin"
)

// A nic is the sending part of a host port.
type nic struct {
	roundrobin.Ring
	timerPS int64                   // no timer expires before
	lookPS  int64                   // when the NIC is scheduled to check its timers
	classes []roundrobin.Ring       // with classes, instead of ring
	delayed []calendar.Item         // of TCP: ACKs and when they are sent at the latest, by time
	timers  calendar.MinHeap[timer] // of retransmissions

	// Timers of transports, by time. Invalid timers are removed when they become the first.
	ticks calendar.MinHeap[timer] // no timer of a flow with bytes to send ticks before
	ready calendar.MinHeap[timer] // when the pacing of a flow with bytes to send ends: nicPlace.ReadyPS
}

// ringOf returns the ring of a flow.
func (c *nic) ringOf(d *domain, s *sender) *roundrobin.Ring {
	if c.classes == nil {
		return &c.Ring
	}
	return &c.classes[s.class]
}

// runNIC simulates a host's NIC to the end of the window. arrivals are those of the window, in order. Among
// events at the same time, ACKs and data arrive first. Then flows start, timers expire, and packets are sent.
//
// A timer of a transport changes the rate of a flow when it ticks. As in ns-3, the window of the flow changes
// only when the NIC checks its flows: after an ACK, a start or a timeout of any flow, when the wire becomes
// free, and when the pacing of any flow ends.
func (d *domain) runNIC(u int32, p *port, c *nic, arrivals []calendar.Arrival) {
	acks := &p.data
	in := d.receiveAll(c, acks, arrivals)
	sawPS := int64(-1)
	for {
		inPS := int64(never)
		timerPS := int64(never)
		tickedPS := int64(never)
		if len(in) > 0 {
			inPS = in[0].AtPS
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
		} else if c.SendPS < p.freePS {
			c.Choose(p.freePS)
		}
		outPS := min(ackPS, c.SendPS)
		next := min(inPS, timerPS, tickedPS, outPS)
		if p.bits&portChanges != 0 && p.changeAtPS <= min(next, d.EndPS-1) {
			p.bits &^= portChanges
			c.SendPS = roundrobin.Unknown
			d.change(p)
			continue
		}
		if next >= d.EndPS {
			d.scheduleNIC(u, c, next, min(timerPS, tickedPS))
			acks.Trim()
			return
		}
		switch {
		case inPS == next:
			d.receive(c, &in[0].Item)
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
			it := acks.Buf[ackAt]
			if ackAt != int(acks.Head) {
				copy(acks.Buf[acks.Head+1:], acks.Buf[acks.Head:ackAt])
			}
			acks.Head++
			d.transmit(p, p.kind, it, ackPS)
		default:
			d.sendNext(p, c)
		}
	}
}

// runNICs simulates NICs to the end of the window. NICs with classes, delayed ACKs, changes of the rate or
// ticks in the window are simulated by runNIC. On all others, ACKs precede data, regardless of events before
// the wire is free. The ACK of data is therefore sent when the data is received, unless the wire becomes free
// only in a later window.
func (d *domain) runNICs(due []calendar.DuePort) {
	for _, o := range due {
		p := &d.ports[o.Port]
		c := &d.nics[o.Port-d.first]
		in := d.sorter.ArrivalsOf(o)
		if (d.classes != nil || d.tcp != nil) || p.bits&portChanges != 0 || d.traits.Timers &&
			(d.LengthPS > d.leastTickPS || len(c.ticks) > 0 && c.ticks[0].atPS < d.EndPS) {
			d.runNIC(o.Port, p, c, in)
			continue
		}
		acks := &p.data
		for !acks.Empty() && p.freePS < d.EndPS {
			acks.Head++
			d.transmit(p, p.kind, acks.Buf[acks.Head-1], p.freePS)
		}
		acks.Trim()
		next := int64(0)
		for i := 0; ; {
			if c.SendPS < p.freePS {
				c.Choose(p.freePS)
			}
			next = min(c.SendPS, c.timerPS)
			if i < len(in) && in[i].AtPS <= next {
				a := &in[i]
				i++
				switch nowPS := max(p.freePS, a.AtPS); {
				case a.Bits&calendar.FlagAck != 0 && !a.IsAnswer():
					d.receive(c, &a.Item)
				case !a.IsAnswer() && !d.receiveData(&a.Item): // it is not answered
				case nowPS < d.EndPS:
					d.transmit(p, p.kind, a.Item, nowPS)
				default:
					acks.Push(a.Item)
				}
				continue
			}
			if next >= d.EndPS {
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
		if !acks.Empty() {
			next = min(next, p.freePS)
		}
		timerPS := c.timerPS
		if len(c.ticks) > 0 {
			timerPS = min(timerPS, c.look(d, p, d.EndPS-1))
		}
		d.scheduleNIC(o.Port, c, min(next, timerPS), timerPS)
	}
}

// nextAck returns the index of the first ACK of a NIC that is not paused, and the time at which it can be
// sent, or never.
func (p *port) nextAck(d *domain, acks *calendar.Fifo) (at int, atPS int64) {
	for at = int(acks.Head); at < len(acks.Buf); at++ {
		if p.bits&portPaused == 0 || !d.traits.AcksQueue || !d.pfc.paused(p, int(d.classOf(&acks.Buf[at]))) {
			return at, max(p.freePS, acks.Buf[at].AtPS)
		}
	}
	return at, never
}

// receiveAll receives the data that arrives at a NIC in a window and adds its ACKs to acks. It returns the
// other arrivals: ACKs and starts of flows.
func (d *domain) receiveAll(c *nic, acks *calendar.Fifo, arrivals []calendar.Arrival) []calendar.Arrival {
	in := d.in[:0]
	for i := range arrivals {
		a := &arrivals[i]
		if a.IsAnswer() {
			acks.Push(a.Item)
		} else if a.Bits&calendar.FlagAck != 0 {
			in = append(in, *a)
		} else if d.tcp != nil {
			d.tcp.receiveClocked(c, &a.Item, acks)
		} else if d.receiveData(&a.Item) {
			acks.Push(a.Item)
		}
	}
	d.tcp.sendDelayed(c, acks, d.EndPS-1)
	d.in = in
	return in
}

// scheduleNIC schedules the next work of a NIC. Timers and delayed ACKs are far ahead, and most are reset
// before they are due. If an earlier check of the NIC is scheduled, they are not scheduled separately.
func (d *domain) scheduleNIC(u int32, c *nic, next, timerPS int64) {
	timer := next == timerPS
	if len(c.delayed) > 0 && c.delayed[0].AtPS < next {
		next = c.delayed[0].AtPS
		timer = true
	}
	switch {
	case next == never:
	case !timer:
		d.Schedule(u, next)
	case c.lookPS < d.EndPS || c.lookPS > next:
		d.Schedule(u, next)
		c.lookPS = next
	}
}

// receiveData processes a data packet at its destination, turns it into its ACK, and reports whether the ACK
// is sent.
func (d *domain) receiveData(it *calendar.Item) bool {
	if d.recovery != nil {
		return d.recovery.receiveInOrder(it)
	}
	if it.Bits&calendar.FlagLast != 0 { // packets stay in order
		d.journal.results.add(&d.net.flows, d.net.flows.hops[it.Hop].flow, it.AtPS)
	}
	it.Bits |= calendar.FlagAck
	return true
}

// receive processes an ACK for, or the start of, a flow of this host.
func (d *domain) receive(c *nic, it *calendar.Item) {
	t := &d.net.flows
	slot := t.hops[it.Hop].flow
	s := &t.senders[slot]
	if it.IsControl() {
		r := c.ringOf(d, s)
		if r.Sparse() {
			r.Compact(func(slot, place int32) { t.senders[slot].place = place })
		}
		s.place = r.Add(slot, it.AtPS)
		if d.tcp != nil {
			s.handOver(&d.net.params, &d.net.recovery.flows[slot], it.AtPS)
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
	if it.Bits&calendar.FlagLast != 0 {
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
	d.updateOpen(c, s, s.sentBytes-s.ackedBytes < s.windowBytes, it.AtPS)
}

// updateOpen opens or closes a flow at its NIC.
func (d *domain) updateOpen(c *nic, s *sender, open bool, nowPS int64) {
	r := c.ringOf(d, s)
	if d.traits.Timers && !s.external.ticking && s.external.NextTick() != never {
		slot := r.Places[s.place].Slot
		s.external.ticking = true
		c.ticks.Push(timer{s.external.NextTick(), d.net.flows.info[slot].row, slot})
	}
	switch {
	case open == r.IsOpen(s.place):
	case open:
		r.Reopen(s.place, nowPS)
	default:
		r.Close(s.place)
	}
}

// sendNext sends a packet of the chosen flow at the chosen time. The window determines whether a flow may
// send, but not how much: the last packet may exceed it, as in ns-3.
func (d *domain) sendNext(p *port, c *nic) {
	t := &d.net.flows
	params := &d.net.params
	r := &c.Ring
	class := 0
	if d.classes != nil {
		class = d.classes.pickClass(p, c)
		r = &c.classes[class]
	}
	nowPS := c.SendPS
	place := r.SendAt
	slot := r.Places[place].Slot
	s := &t.senders[slot]
	number := s.next
	attempt := uint32(0)
	s.next++
	var flags uint32
	payload := params.PayloadBytes
	rest := s.sizeBytes - s.sentBytes
	if rest <= payload {
		payload = rest
		flags = calendar.FlagLast
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
	c.SendPS = roundrobin.Unknown
	r.Sent(place, nowPS+s.gap.PS(payload+params.HeaderBytes))
	if d.traits.Timers {
		c.noteReady(d, s, nowPS)
	}
	if flags != 0 && d.recovery == nil {
		r.Vacate(int32(place))
	} else if s.sentBytes == s.sizeBytes || s.sentBytes-s.ackedBytes >= s.windowBytes {
		r.Close(int32(place))
	}
	if d.recovery != nil {
		d.recovery.startTimer(c, slot, nowPS)
	}
	it := calendar.Item{AtPS: nowPS, Hop: s.firstHop}
	it.Bits = number<<d.numberShift | attempt<<calendar.FlagBits | flags
	if d.paths != nil {
		d.paths.label(slot, s, &it)
	}
	if p.bits&portFull == 0 {
		p.noteFirst(d, &it, nowPS)
	}
	d.transmit(p, p.kind, it, nowPS)
	if d.classes != nil {
		d.classes.sent(p, c, class)
	}
}

// look opens and closes the windows of flows whose timers had ticked by sawPS, the time at which their NIC
// last checked them. It returns the time at which the NIC must check them again if nothing arrives.
func (c *nic) look(d *domain, p *port, sawPS int64) (nextPS int64) {
	for len(c.ticks) > 0 && c.ticks[0].atPS <= sawPS {
		t := c.ticks[0]
		s := &d.net.flows.senders[t.slot]
		if d.net.flows.info[t.slot].row != t.row || s.ackedBytes == s.sizeBytes {
			c.ticks.Pop()
			continue
		}
		if s.external.Tick(&d.net.params, sawPS) {
			s.setRate()
		}
		if s.sentBytes < s.sizeBytes {
			d.updateOpen(c, s, s.sentBytes-s.ackedBytes < s.windowBytes, sawPS)
		}
		t.atPS = s.external.NextTick()
		c.ticks.Replace(t)
	}
	if len(c.ticks) == 0 {
		return never
	}
	fromPS := c.ticks[0].atPS
	if p.freePS >= fromPS {
		return p.freePS
	}
	for ; len(c.ready) > 0; c.ready.Pop() {
		t := c.ready[0]
		s := &d.net.flows.senders[t.slot]
		if t.atPS >= fromPS && d.net.flows.info[t.slot].row == t.row && s.sentBytes < s.sizeBytes &&
			c.ringOf(d, s).Places[s.place].ReadyPS == t.atPS {
			return t.atPS
		}
	}
	return never
}

// noteReady records when the pacing of a flow ends, so that the NIC then checks its timers. It is called
// after the flow has sent a packet or gone back.
func (c *nic) noteReady(d *domain, s *sender, nowPS int64) {
	for len(c.ready) > 0 && c.ready[0].atPS <= nowPS {
		c.ready.Pop()
	}
	at := &c.ringOf(d, s).Places[s.place]
	if at.ReadyPS > nowPS {
		c.ready.Push(timer{at.ReadyPS, d.net.flows.info[at.Slot].row, at.Slot})
	}
}
