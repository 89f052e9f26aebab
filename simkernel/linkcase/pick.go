package linkcase

import (
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// A picker is a priority queue of sources by the time at which their next packet arrives at the target.
//
// A key has a time and the row of a source in one integer, (time − base) << bits | row, so that comparing
// keys compares times and then rows. A time that is too far ahead is reduced to the largest possible one, at
// which the source is planned again. base follows the time of the last event.
//
// In most cases few sources are active at a time, and a source that has just sent is usually the last one to
// send its next packet. Up to pickFew keys are therefore kept in order, and a new one is inserted from the
// back. More keys are in a binary heap.
type picker struct {
	keys        [1 << 8]int64 // a ring, in order from front to before back; keys[back] is noKey
	front, back uint8
	many        bool
	heap        []int64 // the keys, if there are many

	base      int64 // ps
	far       int64 // the largest time − base
	bits      uint
	mask      int64
	leastBits uint  // test hook: lower bound of bits, which makes times too far ahead frequent
	stop      int64 // the first key at which runQueue must call startNext: a flow starts, or base must move
}

const (
	noKey   = never
	pickFew = 24
)

func (p *picker) reset(sources int) {
	p.front = 0
	p.back = 0
	p.keys[0] = noKey
	p.many = false
	p.bits = max(p.leastBits, uint(bits.Len(uint(sources-1))))
	p.mask = 1<<p.bits - 1
	p.far = 1<<(62-p.bits) - 1
	p.base = 0
	p.stop = 0
}

func (p *picker) least() int64 {
	if p.many {
		return p.heap[0]
	}
	return p.keys[p.front]
}

// replace replaces the smallest key by one of the same source that is not smaller, and returns the new
// smallest key.
func (p *picker) replace(key int64) int64 {
	if p.many {
		p.heap[0] = key
		p.sink(0)
		return p.heap[0]
	}
	return p.push(key)
}

// push is replace for keys in order.
func (p *picker) push(key int64) int64 {
	keys := &p.keys
	i := p.back
	// The key that is replaced is not larger, and ends the loop.
	for keys[i-1] > key {
		keys[i] = keys[i-1]
		i--
	}
	keys[i] = key
	p.front++
	p.back++
	keys[p.back] = noKey
	return keys[p.front]
}

// swap replaces the smallest key by one that becomes the second one, and returns the new smallest key. glide
// and coast each choose between it and push: as one method, which is not inlined, the choice made stage
// simulate take 1.1 to 1.2 times as long.
func (p *picker) swap(key int64) int64 {
	next := p.keys[p.front+1]
	p.keys[p.front] = next
	p.keys[p.front+1] = key
	return next
}

// put sets the key of a source. active means that it already has one.
func (p *picker) put(s *source, active bool, key int64) {
	if p.many {
		i := len(p.heap)
		if active {
			i = slices.IndexFunc(p.heap, func(old int64) bool { return old&p.mask == int64(s.row) })
		} else {
			p.heap = append(p.heap, 0)
		}
		for ; i > 0 && p.heap[(i-1)/2] > key; i = (i - 1) / 2 {
			p.heap[i] = p.heap[(i-1)/2]
		}
		p.heap[i] = key
		p.sink(i)
		return
	}
	if active {
		i := p.front
		for p.keys[i]&p.mask != int64(s.row) {
			i++
		}
		for ; i != p.back; i++ {
			p.keys[i] = p.keys[i+1]
		}
		p.back--
	} else if p.back-p.front == pickFew {
		p.many = true
		p.heap = p.heap[:0]
		for i := p.front; i != p.back; i++ {
			p.heap = append(p.heap, p.keys[i])
		}
		p.put(s, false, key)
		return
	}
	p.insert(key)
}

func (p *picker) insert(key int64) {
	i := p.back
	for ; i != p.front && p.keys[i-1] > key; i-- {
		p.keys[i] = p.keys[i-1]
	}
	p.keys[i] = key
	p.back++
	p.keys[p.back] = noKey
}

func (p *picker) drop() {
	if !p.many {
		p.front++
		return
	}
	last := len(p.heap) - 1
	p.heap[0] = p.heap[last]
	p.heap = p.heap[:last]
	p.sink(0)
	if last <= pickFew/2 {
		p.many = false
		p.front = 0
		p.back = 0
		for _, key := range p.heap {
			p.insert(key)
		}
	}
}

// sink restores the order of the heap below a position whose key may be too large.
func (p *picker) sink(i int) {
	heap := p.heap
	for key := heap[i]; ; {
		down := 2*i + 1
		if down+1 < len(heap) && heap[down+1] < heap[down] {
			down++
		}
		if down >= len(heap) || heap[down] >= key {
			heap[i] = key
			return
		}
		heap[i] = heap[down]
		i = down
	}
}

func (p *picker) next(startPS int64) {
	p.stop = min(startPS-p.base, p.far/2) << p.bits
}

// rebase moves the base to now, which is the smallest time of the keys, or any time if there are none.
func (p *picker) rebase(now, startPS int64) {
	shift := (now - p.base) << p.bits
	p.base = now
	for i := range p.heap {
		p.heap[i] -= shift
	}
	for i := p.front; i != p.back; i++ {
		p.keys[i] -= shift
	}
	p.next(startPS)
}

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
