package network

import "parsimon/simkernel"

// A bufferedFlow is a flow in a buffered network, sender and receiver. Packets are counted; all but the last are
// full.
type bufferedFlow struct {
	row     int64
	path    []int32
	size    int64
	packets int64
	startPS int64
	idealNS int64
	key     uint64 // in random marks

	// Sender.
	sender  simkernel.Sender
	gap     simkernel.WireTime // pacing time per byte at the present rate
	window  int64              // bytes
	una     int64              // packets acknowledged
	nxt     int64              // the next packet to send
	maxSent int64              // number of packets that have been sent at least once
	slot    int32
	place   int32 // index of netNIC.places
	done    bool
	backoff uint // timeouts in a row

	timeoutPS  int64 // of the first in a row
	deadlinePS int64
	timerSet   bool // there is an event for it

	// Receiver.
	expected int64 // packets received in order
	nacked   int64 // 1 + the packet that the last NACK named
	nackPS   int64 // and when

	waitPS, lastPS []int64 // by hop
	marks          []int32 // by hop
}

// maxBackoff bounds how often a timeout is doubled.
const maxBackoff = 10

// bytes returns the payload of the flow's first packets.
func (n *Buffered) bytes(f *bufferedFlow, packets int64) int64 {
	return min(f.size, packets*n.params.PayloadBytes)
}

// setRate adopts the rate of the flow's sender.
func (n *Buffered) setRate(f *bufferedFlow) {
	rateBps, lineBps := f.sender.Rate()
	f.gap = simkernel.NewWireTime(rateBps)
	f.window = n.params.WindowAt(rateBps, lineBps)
}

// startFlow starts a flow at its host.
func (n *Buffered) startFlow(f *bufferedFlow, nowPS int64) {
	n.flows++
	port := f.path[0]
	p := &n.ports[port]
	f.sender = simkernel.NewSender(n.params.Transport)
	f.sender.Start(&n.params, float64(n.links[port].BandwidthBps), len(f.path))
	n.setRate(f)
	f.gap = p.wire
	if k := len(n.freeSlots); k > 0 {
		f.slot = n.freeSlots[k-1]
		n.freeSlots = n.freeSlots[:k-1]
		n.slots[f.slot] = f
	} else {
		f.slot = int32(len(n.slots))
		n.slots = append(n.slots, f)
	}
	if c := &p.nic; c.vacated > 32 && c.vacated*2 > len(c.places) {
		c.compact(func(slot, place int32) { n.slots[slot].place = place })
	}
	f.place = p.nic.add(f.slot, nowPS)
	n.scheduleSend(port, max(nowPS, p.freePS))
}

// sendNext sends a packet of the flow that is next in the round robin, or schedules a send for when there is one.
func (n *Buffered) sendNext(port int32, p *bufferedPort, nowPS int64) {
	c := &p.nic
	c.choose(p.freePS)
	if c.sendPS > nowPS {
		if c.sendPS != netNever {
			n.scheduleSend(port, c.sendPS)
		}
		return
	}
	place := c.sendAt
	f := n.slots[c.places[place].slot]
	k := n.newPacket()
	payload := n.bytes(f, f.nxt+1) - n.bytes(f, f.nxt)
	k.flow, k.number, k.wire, k.atPS, k.sentPS = f, f.nxt, payload+n.params.HeaderBytes, nowPS, nowPS
	if f.nxt < f.maxSent {
		n.Losses.Again++
	}
	n.Losses.Sent++
	f.nxt++
	f.maxSent = max(f.maxSent, f.nxt)
	if f.sender.Tick(&n.params, nowPS) {
		n.setRate(f)
	}
	c.nextPlace = place + 1
	c.places[place].readyPS = nowPS + f.gap.PS(k.wire)
	if !n.open(f) {
		c.close(int32(place))
	}
	if !f.timerSet {
		n.arm(f, nowPS)
	}
	n.passData(port, p, k, nowPS)
}

// open reports whether a flow has a packet to send and its window allows it.
func (n *Buffered) open(f *bufferedFlow) bool {
	return f.nxt < f.packets && n.bytes(f, f.nxt)-n.bytes(f, f.una) < f.window
}

// receiveData processes a data packet at its destination and turns it into its ACK or NACK; false if there is none.
func (n *Buffered) receiveData(k *bufferedPacket, nowPS int64) bool {
	f := k.flow
	switch {
	case k.number == f.expected:
		f.expected++
		n.Losses.Delivered++
		if f.expected == f.packets {
			n.finished = append(n.finished, bufferedFinish{f, nowPS})
		}
	case k.number < f.expected:
		n.Losses.Discarded++
		return false
	default:
		n.Losses.Discarded++
		if f.nacked == f.expected+1 && nowPS < f.nackPS+nackEveryNS*simkernel.PSPerNS {
			return false
		}
		f.nacked, f.nackPS = f.expected+1, nowPS
		k.nack = true
		n.Losses.NACKs++
	}
	k.ack = true
	k.number = f.expected
	k.wire = n.params.AckBytes
	k.hop--
	return true
}

// receiveAck processes an ACK or a NACK at the source.
func (n *Buffered) receiveAck(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	f := k.flow
	if f.done {
		n.release(k)
		return
	}
	if k.number > f.una {
		f.una = k.number
		f.nxt = max(f.nxt, f.una) // it had gone back to before packets still in flight
		f.backoff = 0
		f.deadlinePS = nowPS + f.timeoutPS
	}
	if k.nack && k.number == f.una {
		f.nxt = f.una
	}
	if f.una == f.packets {
		n.endFlow(p, f)
	} else {
		if f.nxt < f.packets { // later ACKs change nothing
			changed := f.sender.Tick(&n.params, nowPS)
			h := simkernel.AckInfo{
				NowPS: nowPS, RTTPS: nowPS - k.sentPS, AckedBytes: n.bytes(f, f.una), SentBytes: n.bytes(f, f.nxt),
				Marked: k.marked, Links: k.links, Bps: k.bps,
			}
			if f.sender.OnAck(&n.params, &h) || changed {
				n.setRate(f)
			}
		}
		n.updateOpen(p, f, nowPS)
		n.scheduleSend(port, max(nowPS, p.freePS))
	}
	n.release(k)
}

// updateOpen opens or closes a flow at its NIC.
func (n *Buffered) updateOpen(p *bufferedPort, f *bufferedFlow, nowPS int64) {
	c := &p.nic
	c.fresh = false
	if open := n.open(f); open != c.isOpen(f.place) {
		if open {
			c.reopen(f.place, nowPS)
		} else {
			c.close(f.place)
		}
	}
}

// endFlow removes a flow whose packets are all acknowledged from its NIC.
func (n *Buffered) endFlow(p *bufferedPort, f *bufferedFlow) {
	c := &p.nic
	f.done = true
	c.close(f.place)
	c.places[f.place].slot = -1
	c.vacated++
	if c.vacated == len(c.places) {
		c.places, c.open, c.nextPlace, c.vacated = c.places[:0], c.open[:0], 0, 0
	}
	n.slots[f.slot] = nil
	n.freeSlots = append(n.freeSlots, f.slot)
	f.sender = nil
	n.flows--
}

// arm sets the flow's timer.
func (n *Buffered) arm(f *bufferedFlow, nowPS int64) {
	f.deadlinePS = nowPS + min(f.timeoutPS, netHorizonPS/4>>f.backoff)<<f.backoff
	n.scheduleTimeout(f)
}

// scheduleTimeout pushes the event of the flow's timer.
func (n *Buffered) scheduleTimeout(f *bufferedFlow) {
	f.timerSet = true
	item := int32(len(n.timers))
	if k := len(n.freeTimers); k > 0 {
		item = n.freeTimers[k-1]
		n.freeTimers = n.freeTimers[:k-1]
		n.timers[item] = f
	} else {
		n.timers = append(n.timers, f)
	}
	n.timeouts.push(event{atPS: f.deadlinePS, rank: rankTimeout + uint64(f.row), item: item})
}

// timeout processes the event of the flow's timer: after the timeout without progress the sender goes back to the
// first unacknowledged packet.
func (n *Buffered) timeout(f *bufferedFlow, nowPS int64) {
	f.timerSet = false
	switch {
	case f.done:
	case nowPS < f.deadlinePS:
		n.scheduleTimeout(f)
	case f.nxt == f.una: // nothing is in flight: the next packet sets the timer
	default:
		n.Losses.Timeouts++
		f.nxt = f.una
		f.backoff = min(f.backoff+1, maxBackoff)
		n.arm(f, nowPS)
		p := &n.ports[f.path[0]]
		n.updateOpen(p, f, nowPS)
		n.scheduleSend(f.path[0], max(nowPS, p.freePS))
	}
}
