package linkcase

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
