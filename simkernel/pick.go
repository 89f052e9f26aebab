package simkernel

import (
	"math/bits"
	"slices"
)

// A picker knows which source's packet reaches the target next.
//
// A key is a time and a source row in one integer, (time − base) << bits | row, so that comparing
// keys compares times and then rows. A time too far ahead for that is cut to the farthest there is,
// and must be looked at again; base follows the time that was picked last.
//
// Few sources are active at a time in most cases, and a source that has just sent is mostly the last
// of them to send again: so the keys stand in order, and a new one is put in from the back. With
// more than pickFew the tournament takes over.
type picker struct {
	keys        []int64 // keys[front:back] are in order; the one before them, if any, is less
	front, back int
	many        bool
	tournament  tournament

	base int64 // ps
	far  int64 // the largest time − base
	bits uint
	mask int64
	stop int64 // the key at which the kernel must look up: a flow starts, or base must move
}

const (
	noKey    = unbounded
	pickFew  = 24
	pickSpan = 256 // keys move to the start of the array once in so many steps
)

// reset empties the picker for a case of that many sources.
func (p *picker) reset(sources int) {
	if p.keys == nil {
		p.keys = make([]int64, pickSpan+1)
	}
	p.front, p.back = 0, 0
	p.keys[0] = noKey
	p.many = false
	p.bits = uint(bits.Len(uint(sources - 1)))
	p.mask = 1<<p.bits - 1
	p.far = 1<<(62-p.bits) - 1
	p.base = 0
	p.stop = 0
}

// least is the least key, noKey if there is none.
func (p *picker) least() int64 {
	if p.many {
		return p.tournament.nodes[1]
	}
	return p.keys[p.front]
}

// replace changes the least key, which is the source's, to one not less, and answers the new least.
func (p *picker) replace(s *source, key int64) int64 {
	if p.many {
		p.tournament.set(s.leaf, key)
		return p.tournament.nodes[1]
	}
	if p.back == pickSpan {
		p.slide()
	}
	keys := p.keys
	i := p.back
	// The key that goes is not greater: it ends the loop.
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

// put gives an inactive source a key, or an active one another.
func (p *picker) put(s *source, active bool, key int64, sources []source) {
	if active {
		if p.many {
			p.tournament.set(s.leaf, key)
			return
		}
		p.cut(s)
	} else if !p.many && p.back-p.front == pickFew {
		p.tournament.reset()
		for _, other := range p.keys[p.front:p.back] {
			o := &sources[other&p.mask]
			o.leaf = p.tournament.join(sources)
			p.tournament.set(o.leaf, other)
		}
		p.many = true
	}
	if p.many {
		s.leaf = p.tournament.join(sources)
		p.tournament.set(s.leaf, key)
		return
	}
	if p.back == pickSpan {
		p.slide()
	}
	i := p.back
	for i > p.front && p.keys[i-1] > key {
		p.keys[i] = p.keys[i-1]
		i--
	}
	p.keys[i] = key
	p.back++
	p.keys[p.back] = noKey
}

// drop takes an active source's key away.
func (p *picker) drop(s *source, sources []source) {
	if !p.many {
		p.cut(s)
		return
	}
	t := &p.tournament
	t.leave(s.leaf)
	s.leaf = 0
	if t.size() > pickFew/2 {
		return
	}
	p.many = false
	p.front, p.back = 0, 0
	for _, key := range t.nodes[t.leaves : 2*t.leaves] {
		if key != noKey {
			sources[key&p.mask].leaf = 0
			p.keys[p.back] = key
			p.back++
		}
	}
	slices.Sort(p.keys[:p.back])
	p.keys[p.back] = noKey
}

// cut takes the source's key out of the ordered ones.
func (p *picker) cut(s *source) {
	i := p.front
	for p.keys[i]&p.mask != s.row {
		i++
	}
	copy(p.keys[i:p.back], p.keys[i+1:p.back+1])
	p.back--
}

// slide moves the ordered keys to the start of the array.
func (p *picker) slide() {
	copy(p.keys, p.keys[p.front:p.back+1])
	p.back -= p.front
	p.front = 0
}

// lone says whether one source is active.
func (p *picker) lone() bool { return p.back-p.front == 1 && !p.many }

// next says when the next flow starts.
func (p *picker) next(startPS int64) {
	p.stop = min(startPS-p.base, p.far/2) << p.bits
}

// rebase moves the base to now, the least time of the keys, or any time if there are none.
func (p *picker) rebase(now, startPS int64) {
	shift := (now - p.base) << p.bits
	p.base = now
	keys := p.keys[p.front:p.back]
	if p.many {
		keys = p.tournament.nodes[p.tournament.leaves:]
	}
	for i, key := range keys {
		if key != noKey {
			keys[i] = key - shift
		}
	}
	if p.many {
		p.tournament.rebuild()
	}
	p.next(startPS)
}
