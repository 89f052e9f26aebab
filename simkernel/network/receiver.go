package network

import (
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/packetset"
)

// nackEveryNS is the shortest time between two NACKs for the same packet (the default of the HPCC simulator).
// If the round trip of the path is longer, it applies instead, because the packet that the first NACK
// requests cannot arrive earlier.
const nackEveryNS = 500_000

// A receiver belongs to the domain of the destination.
type receiver struct {
	got       packetset.Set // if it accepts packets in any order
	highest   int64         // highest number received so far, of packets that were sent once
	reordered int32         // number of those that arrived after one with a higher number (RFC 4737)
	expected  int64         // packets received in order
	nacked    int64         // 1 + the packet that the last NACK requested
	nackPS    int64         // when the next NACK for it may be sent
	waitPS    int64         // between two NACKs for a packet
	beyond    int64         // clocked by ACKs: 1 + the highest packet received
	coming    packetset.Set // clocked by ACKs: packets that have left the last port (dependencies.go)
	sent      int64         // number of packets that have left the last port and will be received in order
}

// countOrder counts a data packet that was overtaken.
func (r *receiver) countOrder(it *calendar.Item, number int64) {
	if it.Bits&calendar.AttemptMask != 0 || number < r.expected || r.got.Has(number) {
		return
	}
	if number < r.highest {
		r.reordered++
	}
	r.highest = max(r.highest, number)
}

// throughFlag returns calendar.FlagThrough if the receiver has all packets up to the number.
func (r *receiver) throughFlag(number int64) uint32 {
	if number < r.expected {
		return calendar.FlagThrough
	}
	return 0
}

// receiveInOrder processes a data packet at its destination, turns it into its ACK or NACK, and reports
// whether there is one.
func (x *retransmission) receiveInOrder(it *calendar.Item) bool {
	d := x.domain
	slot := d.net.flows.hops[it.Hop].flow
	r := &d.net.recovery.receivers[slot]
	number := d.net.nearest(r.expected, it.Bits)
	r.countOrder(it, number)
	switch {
	case d.recovery.net.selective:
		x.receiveAny(slot, r, number, it.AtPS)
		it.Bits = it.Bits&^calendar.FlagLast | r.throughFlag(number)
	case number == r.expected:
		r.expected++
		d.journal.losses.Delivered++
		if it.Bits&calendar.FlagLast != 0 {
			d.journal.finished = append(d.journal.finished, finish{it.AtPS, slot})
		}
	case number < r.expected:
		d.journal.losses.Discarded++
		if d.paths == nil { // its ACK was not lost
			d.journal.gone = append(d.journal.gone, slot)
			return false
		}
	default:
		d.journal.losses.Discarded++
		if r.nacked == r.expected+1 && it.AtPS < r.nackPS {
			d.journal.gone = append(d.journal.gone, slot)
			return false
		}
		r.nacked = r.expected + 1
		r.nackPS = it.AtPS + r.waitPS
		it.Bits |= calendar.FlagNack
		d.journal.losses.NACKs++
	}
	it.Bits |= calendar.FlagAck
	return true
}

// receiveAny processes a data packet at a receiver that accepts packets in any order.
func (x *retransmission) receiveAny(slot int32, r *receiver, number, atPS int64) {
	d := x.domain
	if r.got.Has(number) {
		d.journal.losses.Discarded++
		return
	}
	d.journal.losses.Delivered++
	r.got.Add(number)
	r.expected = r.got.Base
	if r.expected == d.net.recovery.flows[slot].packets {
		d.journal.finished = append(d.journal.finished, finish{atPS, slot})
	}
}
