package linkcase

import "parsimon/simkernel"

// A source is a host with its own link, and a ring of its active flows, ordered by row. Its size is 64 bytes,
// so that the hot loop computes its address by a shift.
type source struct {
	freePS  int64 // the host's link is free from here on
	delayPS int64 // propagation from the host to the target
	wire    simkernel.WireTime
	sendPS  int64 // when the host sends the planned packet
	planned int32 // slot of the flow of the planned packet
	row     int32
	count   int32 // number of active flows
	next    int32 // slot of the first flow to consider in the round robin
	last    int32 // slot of the flow with the greatest row
	served  int32 // row of the flow served last
	known   bool  // the source's key is the arrival of the planned packet, not only a lower bound
	plain   bool  // cruise can process the planned packet
}

// plan computes when the source sends next, given all arrivals at the target before now, and returns its key.
func (k *Kernel) plan(s *source, now int64) int64 {
	if k.watchesService {
		k.advanceService(now)
	}
	slot := s.next
	at, known := k.ready(&k.flows[slot], s.freePS, now)
	if s.count > 1 {
		slot, at, known = k.choose(s, now, at, known)
	}
	s.planned = slot
	s.sendPS = at
	f := &k.flows[slot]
	payload, earlyPS := min(k.params.PayloadBytes, f.left), int64(0)
	if payload == f.left {
		earlyPS = k.earlyOf(f.row)
	}
	if !known && s.count > 1 {
		payload, earlyPS = 1, k.earliestPS // no packet of another flow arrives earlier, whatever the ACKs carry
	}
	at += max(0, s.wire.PS(payload+k.params.HeaderBytes)+s.delayPS-earlyPS)
	if known || s.count == 1 {
		at = max(at+f.upstreamPS, f.upPassedPS+f.upWire.PS(payload+k.params.HeaderBytes))
	}
	at = max(at, now) - k.picker.base
	if at > k.picker.far {
		at, known = k.picker.far, false
	}
	s.known = known
	s.plain = known && s.count == 1 && payload < f.left && f.head-f.tail <= f.mask
	return at<<k.picker.bits | int64(s.row)
}

// choose selects the source's next flow round robin: of the flows that can send first, the first after the one
// served last. at and known are the result of ready for the flow s.next.
func (k *Kernel) choose(s *source, now, at int64, known bool) (int32, int64, bool) {
	slot := s.next
	f := &k.flows[slot]
	for i := f.nextSlot; i != s.next && at > s.freePS; i = f.nextSlot {
		f = &k.flows[i]
		if f.readyPS+f.nicWaitPS >= at {
			continue
		}
		fAt, fKnown := k.ready(f, s.freePS, now)
		if fAt < at {
			slot, at, known = i, fAt, fKnown
		}
	}
	return slot, at, known
}

// add appends a flow, whose row is greater than all others, to the source's ring.
func (s *source) add(flows []flow, slot int32) {
	f := &flows[slot]
	if s.count == 0 {
		f.nextSlot, f.prevSlot = slot, slot
		s.next = slot
	} else {
		last := &flows[s.last]
		f.prevSlot, f.nextSlot = s.last, last.nextSlot
		flows[last.nextSlot].prevSlot = slot
		// If the round robin has wrapped around to the first row, the new flow precedes it.
		if last.row <= s.served {
			s.next = slot
		}
		last.nextSlot = slot
	}
	s.last = slot
	s.count++
}

// remove takes a flow that has sent all its bytes out of the source's ring.
func (s *source) remove(flows []flow, slot int32) {
	f := &flows[slot]
	flows[f.prevSlot].nextSlot = f.nextSlot
	flows[f.nextSlot].prevSlot = f.prevSlot
	if s.last == slot {
		s.last = f.prevSlot
	}
	if s.next == slot {
		s.next = f.nextSlot
	}
	s.count--
}
