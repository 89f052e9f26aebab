package linkcase

import (
	"math/bits"
	"slices"
)

// A picker is a priority queue of sources by the time when their next packet arrives at the target.
//
// A key is a time and a source row in one integer, (time − base) << bits | row, so that comparing keys
// compares times and then rows. A time too far ahead is cut to the farthest representable one, and the source
// is planned again there; base follows the time of the last event.
//
// Few sources are active at a time in most cases, and a source that has just sent is usually the last to send
// again. So up to pickFew keys are kept in order, and a new one is inserted from the back. With more keys a
// tournament tree takes over.
type picker struct {
	keys        [1 << 8]int64 // a ring, in order from front to before back; keys[back] is noKey
	front, back uint8
	many        bool
	tournament  tournament
	sources     int

	base      int64 // ps
	far       int64 // the largest time − base
	bits      uint
	mask      int64
	leastBits uint  // test hook: lower bound of bits, which makes times too far ahead frequent
	stop      int64 // the first key at which runQueue must call startNext: a flow starts, or base must move
}

const (
	noKey   = unbounded
	pickFew = 24
)

// reset empties the picker for a case with that many sources.
func (p *picker) reset(sources int) {
	p.front, p.back = 0, 0
	p.keys[0] = noKey
	p.many = false
	p.sources = sources
	p.bits = max(p.leastBits, uint(bits.Len(uint(sources-1))))
	p.mask = 1<<p.bits - 1
	p.far = 1<<(62-p.bits) - 1
	p.base = 0
	p.stop = 0
}

// least returns the least key, noKey if there is none.
func (p *picker) least() int64 {
	if p.many {
		return p.tournament.nodes[1]
	}
	return p.keys[p.front]
}

// key returns the source's key for a time, cut to the farthest representable one.
func (p *picker) key(s *source, at int64) int64 {
	return min(at-p.base, p.far)<<(p.bits&63) | int64(s.row)
}

// replace changes the least key, which is the source's, to one that is not less, and returns the new least.
func (p *picker) replace(s *source, key int64) int64 {
	if p.many {
		p.tournament.set(s.row, key)
		return p.tournament.nodes[1]
	}
	return p.push(key)
}

// push is replace for keys in order.
func (p *picker) push(key int64) int64 {
	keys, i := &p.keys, p.back
	// The key that is replaced is not greater, and ends the loop.
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

// put gives a source a key; active says that it has one already.
func (p *picker) put(s *source, active bool, key int64) {
	if active {
		if p.many {
			p.tournament.set(s.row, key)
			return
		}
		p.cut(s)
	} else if !p.many && p.back-p.front == pickFew {
		p.tournament.reset(p.sources)
		for i := p.front; i != p.back; i++ {
			p.tournament.join(int32(p.keys[i]&p.mask), p.keys[i])
		}
		p.many = true
	}
	if p.many {
		p.tournament.join(s.row, key)
		return
	}
	i := p.back
	for i != p.front && p.keys[i-1] > key {
		p.keys[i] = p.keys[i-1]
		i--
	}
	p.keys[i] = key
	p.back++
	p.keys[p.back] = noKey
}

// drop removes an active source's key.
func (p *picker) drop(s *source) {
	if !p.many {
		p.cut(s)
		return
	}
	t := &p.tournament
	t.leave(s.row)
	if t.size() > pickFew/2 {
		return
	}
	p.many = false
	n := 0
	for _, key := range t.nodes[t.leaves : 2*t.leaves] {
		if key != noKey {
			p.keys[n] = key
			n++
		}
	}
	slices.Sort(p.keys[:n])
	p.keys[n] = noKey
	p.front, p.back = 0, uint8(n)
}

// cut removes the source's key from the ordered ring.
func (p *picker) cut(s *source) {
	i := p.front
	for p.keys[i]&p.mask != int64(s.row) {
		i++
	}
	for ; i != p.back; i++ {
		p.keys[i] = p.keys[i+1]
	}
	p.back--
}

// next sets the time of the next flow start.
func (p *picker) next(startPS int64) {
	p.stop = min(startPS-p.base, p.far/2) << p.bits
}

// rebase moves the base to now: the least time of the keys, or any time if there are none.
func (p *picker) rebase(now, startPS int64) {
	shift := (now - p.base) << p.bits
	p.base = now
	if p.many {
		t := &p.tournament
		for i := t.leaves; i < 2*t.leaves; i++ {
			if t.nodes[i] != noKey {
				t.nodes[i] -= shift
			}
		}
		t.rebuild()
	} else {
		for i := p.front; i != p.back; i++ {
			p.keys[i] -= shift
		}
	}
	p.next(startPS)
}

// A tournament is a binary tree over keys in which every node has the least key below it. A change of a key
// takes one load and one minimum per level, and no branch that is hard to predict.
type tournament struct {
	nodes  []int64 // nodes[1] is the root, the children of i are 2i and 2i+1, the second half are the leaves
	leaves int32
	leafOf []int32 // by source row; 0 if the source has no leaf
	vacant []int32 // leaves without a key
}

// reset empties the tournament for that many sources.
func (t *tournament) reset(sources int) {
	t.leaves = 1
	for t.leaves < 2*pickFew {
		t.leaves *= 2
	}
	t.nodes = resize(t.nodes, int(2*t.leaves))
	t.leafOf = resize(t.leafOf, sources)
	clear(t.leafOf)
	t.vacant = t.vacant[:0]
	t.vacate(t.leaves)
	t.rebuild()
}

// vacate empties the leaves from the given one on.
func (t *tournament) vacate(from int32) {
	for i := 2*t.leaves - 1; i >= from; i-- {
		t.nodes[i] = noKey
		t.vacant = append(t.vacant, i)
	}
}

// size returns the number of keys.
func (t *tournament) size() int { return int(t.leaves) - len(t.vacant) }

// join gives a source a leaf and a key.
func (t *tournament) join(row int32, key int64) {
	if len(t.vacant) == 0 {
		t.grow()
	}
	t.leafOf[row] = t.vacant[len(t.vacant)-1]
	t.vacant = t.vacant[:len(t.vacant)-1]
	t.set(row, key)
}

// leave removes a source's leaf and key.
func (t *tournament) leave(row int32) {
	t.set(row, noKey)
	t.vacant = append(t.vacant, t.leafOf[row])
	t.leafOf[row] = 0
}

// set changes a source's key.
func (t *tournament) set(row int32, key int64) {
	nodes := t.nodes
	for i := uint32(t.leafOf[row]); i > 1; i >>= 1 {
		nodes[i] = key
		key = min(key, nodes[i^1])
	}
	nodes[1] = key
}

// grow doubles the number of leaves, all of which are in use.
func (t *tournament) grow() {
	old := t.leaves
	t.leaves *= 2
	t.nodes = resize(t.nodes, int(2*t.leaves))
	copy(t.nodes[t.leaves:], t.nodes[old:2*old])
	t.vacate(t.leaves + old)
	for row, leaf := range t.leafOf {
		if leaf != 0 {
			t.leafOf[row] = leaf + old
		}
	}
	t.rebuild()
}

// rebuild recomputes the inner nodes from the leaves.
func (t *tournament) rebuild() {
	for i := t.leaves - 1; i > 0; i-- {
		t.nodes[i] = min(t.nodes[2*i], t.nodes[2*i+1])
	}
}
