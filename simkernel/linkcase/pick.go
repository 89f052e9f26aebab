package linkcase

import (
	"math/bits"
	"slices"
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
