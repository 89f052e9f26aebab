package network

import (
	"math/bits"

	"parsimon/simkernel"
)

// A netNIC is the sending half of a host: the flows that have bytes to send, in start order, which is the order of
// the round robin.
type netNIC struct {
	places    []netPlace
	open      []uint64 // bit per place: the flow has bytes to send and its window is open
	nextPlace int      // the place after the one served last
	vacated   int      // number of places whose flows have sent everything
	fresh     bool     // sendPS and sendAt are valid
	sendPS    int64    // when the next data packet can be sent; netNever if none
	sendAt    int      // and the place of its flow
}

// A netPlace is one flow of a NIC.
type netPlace struct {
	readyPS int64 // earliest time by pacing and by the ACK that opened the window
	slot    int32
}

// add appends a flow to the round robin.
func (c *netNIC) add(slot int32, nowPS int64) (place int32) {
	k := len(c.places)
	c.places = append(c.places, netPlace{nowPS, slot})
	if k%64 == 0 {
		c.open = append(c.open, 0)
	}
	c.open[k/64] |= 1 << (k % 64)
	c.fresh = false
	return int32(k)
}

func (c *netNIC) isOpen(place int32) bool { return c.open[place/64]>>(place%64)&1 != 0 }

func (c *netNIC) close(place int32) {
	c.open[place/64] &^= 1 << (place % 64)
	c.fresh = false
}

func (c *netNIC) reopen(place int32, nowPS int64) {
	c.open[place/64] |= 1 << (place % 64)
	c.places[place].readyPS = max(c.places[place].readyPS, nowPS)
	c.fresh = false
}

// choose selects the flow that sends next, and when, if the wire is free from freePS on: of the flows that are
// ready first (all that are ready by freePS count as equal) the first after the one served last.
func (c *netNIC) choose(freePS int64) {
	c.fresh = true
	c.sendPS = netNever
	k := c.nextPlace / 64
	rest := uint64(1)<<(c.nextPlace%64) - 1 // places before the one served last, in its word
	for i := 0; i <= len(c.open); i++ {
		if k >= len(c.open) {
			k = 0
		}
		if k >= len(c.open) {
			return
		}
		word := c.open[k]
		if i == 0 {
			word &^= rest
		} else if i == len(c.open) {
			word &= rest
		}
		for ; word != 0; word &= word - 1 {
			place := k*64 + bits.TrailingZeros64(word)
			readyPS := max(freePS, c.places[place].readyPS)
			if readyPS < c.sendPS {
				c.sendPS, c.sendAt = readyPS, place
				if readyPS == freePS {
					return
				}
			}
		}
		k++
	}
}

// compact removes the places of flows that have sent everything and keeps the order of the others. It calls moved
// with the new place of each remaining slot.
func (c *netNIC) compact(moved func(slot, place int32)) {
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
	c.fresh = false
}

// runNIC simulates a host's NIC to the end of the window. Arrivals at a time precede sends at that time.
func (d *netDomain) runNIC(u int32, p *netPort, c *netNIC) {
	t := &d.net.flows
	data, in := &p.rings[0], &p.rings[1]
	for {
		inPS, ackPS := int64(netNever), int64(netNever)
		if in.head != in.tail {
			inPS = in.at(in.head).atPS
		}
		if data.head != data.tail {
			ackPS = max(p.freePS, data.at(data.head).atPS)
		}
		if !c.fresh {
			c.choose(p.freePS)
		}
		outPS := min(ackPS, c.sendPS)
		if next := min(inPS, outPS); next >= d.endPS {
			for ; p.arrived != data.tail; d.delivered(p, p.arrived) {
				if atPS := data.at(p.arrived).atPS; atPS >= d.endPS {
					next = min(next, atPS)
					break
				}
			}
			if next != netNever {
				d.schedule(u, next)
			}
			if data.head == data.tail {
				data.head, data.tail, p.arrived = 0, 0, 0
			}
			if in.head == in.tail {
				in.head, in.tail = 0, 0
			}
			return
		}
		switch {
		case inPS <= outPS:
			it := in.at(in.head)
			in.head++
			d.receive(c, it)
		case ackPS <= outPS:
			it := *data.at(data.head)
			d.delivered(p, data.head)
			data.head++
			p.freePS = ackPS + p.ackPS
			c.fresh = false
			it.atPS = p.freePS + p.delayPS
			it.flags = netAck | it.flags&netMarked
			to := t.hops[it.hop].backward
			it.hop--
			d.forward(u, p, to, it)
		default:
			d.sendData(u, p, c)
		}
	}
}

// delivered counts the data packet at a position of ring 0, unless it has been counted already.
func (d *netDomain) delivered(p *netPort, position uint32) {
	if position != p.arrived {
		return
	}
	p.arrived++
	t, it := &d.net.flows, p.rings[0].at(position)
	slot := it.hop >> t.shift
	t.undelivered[slot] -= it.payloadBytes()
	if t.undelivered[slot] == 0 {
		d.finished = append(d.finished, netFinish{it.atPS, slot})
	}
}

// receive processes an ACK of a flow of this host, or the start of one.
func (d *netDomain) receive(c *netNIC, it *netItem) {
	t, params := &d.net.flows, &d.net.params
	slot := it.hop >> t.shift
	if it.flags&netStart != 0 {
		if c.vacated > 32 && c.vacated*2 > len(c.places) {
			c.compact(func(slot, place int32) { t.senders[slot].place = place })
		}
		t.senders[slot].place = c.add(slot, it.atPS)
		return
	}
	s := &t.senders[slot]
	s.ackedBytes += it.payloadBytes()
	if s.sentBytes == s.sizeBytes {
		if s.ackedBytes == s.sizeBytes {
			d.drained = append(d.drained, slot)
		}
		return
	}
	if s.external != nil {
		s.onAckExternal(params, it)
	} else if s.dctcp.Update(params, s.ackedBytes, s.sentBytes, it.flags&netMarked != 0) {
		s.gap = simkernel.NewWireTime(s.dctcp.RateBps)
		s.windowBytes = s.dctcp.Window(params)
	}
	open := s.sentBytes-s.ackedBytes < s.windowBytes
	if was := c.isOpen(s.place); open != was {
		if open {
			c.reopen(s.place, it.atPS)
		} else {
			c.close(s.place)
		}
	}
}

// sendData sends a packet of the chosen flow at the chosen time. The window decides whether a flow may send,
// never how much: the last packet may exceed it, as in ns-3.
func (d *netDomain) sendData(u int32, p *netPort, c *netNIC) {
	t, params := &d.net.flows, &d.net.params
	nowPS, place := c.sendPS, c.sendAt
	slot := c.places[place].slot
	s := &t.senders[slot]
	payload := min(params.PayloadBytes, s.sizeBytes-s.sentBytes)
	s.sentBytes += payload
	if s.external != nil {
		s.onSendExternal(params, nowPS)
	}

	c.nextPlace = place + 1
	c.fresh = false
	var flags uint8
	if s.sentBytes == s.sizeBytes {
		flags = netLast
		c.close(int32(place))
		c.places[place].slot = -1
		c.vacated++
		if c.vacated == len(c.places) {
			c.places, c.open, c.nextPlace, c.vacated = c.places[:0], c.open[:0], 0, 0
		}
	} else {
		if s.sentBytes-s.ackedBytes >= s.windowBytes {
			c.close(int32(place))
		}
		c.places[place].readyPS = nowPS + s.gap.PS(payload+params.HeaderBytes)
	}
	p.freePS = nowPS + p.wirePS(params, payload)
	hop := slot << t.shift
	it := netItem{p.freePS + p.delayPS, hop + 1, uint16(payload - 1), flags}
	d.forward(u, p, t.hops[hop].forward, it)
}
