package linkcase

import "parsimon/simkernel"

// A source is a host with its own link and a ring of its active flows, ordered by row. Its size is 128 bytes,
// so that the hot loops compute its address by a shift.
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
	glides  bool  // glide can process the planned packet
	turned  bool  // turn has prepared the planned packet

	glider
}

// plan computes when the source sends next, given all arrivals at the target before now. It returns the
// source's key.
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
	payload := min(k.params.PayloadBytes, f.left)
	earlyPS := int64(0)
	if payload == f.left {
		earlyPS = k.earlyOf(f.row)
	}
	if !known && s.count > 1 {
		payload = 1
		earlyPS = k.earliestPS // no packet of another flow arrives earlier, for any ACKs
	}
	at += max(0, s.wire.PS(payload+k.params.HeaderBytes)+s.delayPS-earlyPS)
	if known || s.count == 1 {
		at = max(at+f.upstreamPS, f.upPassedPS+f.upWire.PS(payload+k.params.HeaderBytes))
	}
	at = max(at, now) - k.picker.base
	if at > k.picker.far {
		at = k.picker.far
		known = false
	}
	s.known = known
	s.plain = known && s.count == 1 && payload < f.left && f.head-f.tail <= f.mask
	if s.plain && k.glides {
		k.join(s, f, at+k.picker.base)
	}
	return at<<k.picker.bits | int64(s.row)
}

// choose selects the source's next flow round robin: among the flows that can send first, the first one after
// the flow served last. at and known are the results of ready for flow s.next.
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
			slot = i
			at = fAt
			known = fKnown
		}
	}
	return slot, at, known
}

// add appends a flow, whose row is larger than all others, to the source's ring.
func (s *source) add(flows []flow, slot int32) {
	f := &flows[slot]
	if s.count == 0 {
		f.nextSlot = slot
		f.prevSlot = slot
		s.next = slot
	} else {
		last := &flows[s.last]
		f.prevSlot = s.last
		f.nextSlot = last.nextSlot
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

// remove removes a flow that has sent all of its bytes from the source's ring.
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
