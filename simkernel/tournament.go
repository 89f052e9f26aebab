package simkernel

// A tournament is a binary tree over keys whose every node is the least key below it. Changing a key
// takes one load and one minimum per level, and no branch that a processor could guess wrong.
type tournament struct {
	nodes  []int64 // nodes[1] is the root, the children of i are 2i and 2i+1, the second half are leaves
	leaves int32
	vacant []int32 // leaves without a key
}

// reset empties the tournament.
func (t *tournament) reset() {
	t.leaves = 2 * pickFew
	for t.leaves&(t.leaves-1) != 0 {
		t.leaves += t.leaves & -t.leaves
	}
	t.nodes = resize(t.nodes, int(2*t.leaves))
	t.vacant = t.vacant[:0]
	for i := 2*t.leaves - 1; i >= t.leaves; i-- {
		t.nodes[i] = noKey
		t.vacant = append(t.vacant, i)
	}
	t.rebuild()
}

// size is the number of keys.
func (t *tournament) size() int { return int(t.leaves) - len(t.vacant) }

// join finds a leaf for a key; set comes next. If it must grow, the leaves of all sources move.
func (t *tournament) join(sources []source) int32 {
	if len(t.vacant) == 0 {
		t.grow(sources)
	}
	leaf := t.vacant[len(t.vacant)-1]
	t.vacant = t.vacant[:len(t.vacant)-1]
	return leaf
}

// leave takes a leaf's key away.
func (t *tournament) leave(leaf int32) {
	t.set(leaf, noKey)
	t.vacant = append(t.vacant, leaf)
}

// set changes the key of a leaf.
func (t *tournament) set(leaf int32, key int64) {
	nodes := t.nodes
	for i := uint32(leaf); i > 1; i >>= 1 {
		nodes[i] = key
		key = min(key, nodes[i^1])
	}
	nodes[1] = key
}

// grow doubles the leaves, all of which are taken.
func (t *tournament) grow(sources []source) {
	old := t.leaves
	t.leaves *= 2
	t.nodes = resize(t.nodes, int(2*t.leaves))
	copy(t.nodes[t.leaves:], t.nodes[old:2*old])
	for i := 2*t.leaves - 1; i >= t.leaves+old; i-- {
		t.nodes[i] = noKey
		t.vacant = append(t.vacant, i)
	}
	for i := range sources {
		if sources[i].leaf != 0 {
			sources[i].leaf += old
		}
	}
	t.rebuild()
}

// rebuild restores all inner nodes from the leaves.
func (t *tournament) rebuild() {
	for i := t.leaves - 1; i > 0; i-- {
		t.nodes[i] = min(t.nodes[2*i], t.nodes[2*i+1])
	}
}
