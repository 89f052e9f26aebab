package simkernel

import "math/bits"

// A picker knows which source's packet reaches the target next: a tournament tree over the active
// sources, whose every node is the least key below it. Changing a key takes one load and one
// minimum per level, and no branch that a processor could guess wrong.
//
// A key is a time and a source row in one integer, (time − base) << bits | row, so that comparing
// keys compares times and then rows. A time too far ahead for that is cut to the farthest there is,
// and must be looked at again; base follows the time that was picked last.
type picker struct {
	tree   []int64 // tree[1] is the root, the children of i are 2i and 2i+1; [leaves, 2·leaves) are leaves
	leaves int32
	vacant []int32 // leaves without a source
	base   int64   // ps
	far    int64   // the largest time − base
	bits   uint
	mask   int64
	stop   int64 // the key at which the kernel must look up: a flow starts, or base must move
}

const noKey = unbounded

// reset empties the picker for a case of that many sources.
func (p *picker) reset(sources int) {
	p.bits = uint(bits.Len(uint(sources - 1)))
	p.mask = 1<<p.bits - 1
	p.far = 1<<(62-p.bits) - 1
	p.base = 0
	p.stop = 0
	if len(p.tree) < 2 {
		p.tree = make([]int64, 2, 128)
	}
	p.tree = p.tree[:2]
	p.tree[1] = noKey
	p.leaves = 1
	p.vacant = append(p.vacant[:0], 1)
}

// join gives the source a leaf.
func (p *picker) join(s *source, row int64, sources []source) {
	if len(p.vacant) == 0 {
		p.grow(sources)
	}
	s.leaf = p.vacant[len(p.vacant)-1]
	s.row = row
	p.vacant = p.vacant[:len(p.vacant)-1]
}

// leave takes the source's leaf back.
func (p *picker) leave(s *source) {
	p.set(s.leaf, noKey)
	p.vacant = append(p.vacant, s.leaf)
	s.leaf = 0
}

// grow doubles the leaves. All of them are taken.
func (p *picker) grow(sources []source) {
	old := p.leaves
	p.leaves *= 2
	p.tree = resize(p.tree, int(2*p.leaves))
	copy(p.tree[p.leaves:], p.tree[old:2*old])
	for i := 2*p.leaves - 1; i >= p.leaves+old; i-- {
		p.tree[i] = noKey
		p.vacant = append(p.vacant, i)
	}
	for i := range sources {
		if sources[i].leaf != 0 {
			sources[i].leaf += old
		}
	}
	p.rebuild()
}

// rebuild restores all inner nodes.
func (p *picker) rebuild() {
	for i := p.leaves - 1; i > 0; i-- {
		p.tree[i] = min(p.tree[2*i], p.tree[2*i+1])
	}
}

// set changes the key of a leaf.
func (p *picker) set(leaf int32, key int64) {
	tree := p.tree
	for i := uint32(leaf); i > 1; i >>= 1 {
		tree[i] = key
		key = min(key, tree[i^1])
	}
	tree[1] = key
}

// at is the time of the source's key.
func (p *picker) at(s *source) int64 {
	return p.base + p.tree[s.leaf]>>p.bits
}

// next says when the next flow starts.
func (p *picker) next(startPS int64) {
	p.stop = min(startPS-p.base, p.far/2) << p.bits
}

// rebase moves the base to now, the least time in the tree, or any time if it is empty.
func (p *picker) rebase(now, startPS int64) {
	shift := (now - p.base) << p.bits
	for i := p.leaves; i < 2*p.leaves; i++ {
		if p.tree[i] != noKey {
			p.tree[i] -= shift
		}
	}
	p.base = now
	p.rebuild()
	p.next(startPS)
}
