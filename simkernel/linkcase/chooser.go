package linkcase

import "math/bits"

// A chooser finds the flow that sends next at a source with many active flows. Where round trips are long, most flows
// wait for their windows at any time, and a search through all of them would cost more than the packets.
//
// It is a tournament over the flows in the order of the ring. A flow's key is a lower bound of the time when it can
// send: exact bounds are computed (Kernel.ready) only for flows that come into question.
type chooser struct {
	slots  []int32 // by place: the flow's slot; -1: it has sent everything
	nodes  []int64 // nodes[1] is the root, the second half are the leaves, by place; unbounded: no flow
	leaves int
}

// A source has a chooser from chooseMany active flows on, until it has less than half as many.
const chooseMany = 12

// choosers are those of the sources that have many active flows.
type choosers struct {
	of    []*chooser // by source row; nil: none
	place []int32    // by slot: place in its source's chooser
	all   []*chooser
	spare []*chooser // of all; the last is the first to use
}

// reset removes all choosers, for a case with that many sources.
func (c *choosers) reset(sources int) {
	c.of = resize(c.of, sources)
	clear(c.of)
	c.spare = append(c.spare[:0], c.all...) // in an order that equal cases repeat
}

// joined adds the flow in a slot, which has just joined its source's ring, to the source's chooser, if it has or needs
// one.
func (k *Kernel) joined(s *source, slot int32) {
	if s.count < chooseMany/2 {
		return
	}
	x := k.choosers.of[s.row]
	if x == nil {
		if s.count >= chooseMany {
			k.makeChooser(s)
		}
		return
	}
	if len(x.slots) == x.leaves {
		k.fillChooser(s, x)
		return
	}
	k.placeFlow(x, slot)
}

// left removes the flow in a slot, which has just left its source's ring.
func (k *Kernel) left(s *source, slot int32) {
	x := k.choosers.of[s.row]
	if x == nil {
		return
	}
	if s.count < chooseMany/2 {
		k.choosers.of[s.row] = nil
		k.choosers.spare = append(k.choosers.spare, x)
		return
	}
	at := k.choosers.place[slot]
	x.slots[at] = -1
	x.set(at, unbounded)
}

// rekey updates the key of a flow that has just sent.
func (k *Kernel) rekey(s *source, slot int32) {
	if x := k.choosers.of[s.row]; x != nil {
		f := &k.flows[slot]
		x.set(k.choosers.place[slot], f.readyPS+f.nicWaitPS)
	}
}

func (k *Kernel) makeChooser(s *source) {
	c := &k.choosers
	if len(c.spare) == 0 {
		c.all = append(c.all, new(chooser))
		c.spare = append(c.spare, c.all[len(c.all)-1])
	}
	x := c.spare[len(c.spare)-1]
	c.spare = c.spare[:len(c.spare)-1]
	c.of[s.row] = x
	k.fillChooser(s, x)
}

// fillChooser enters all flows of the source's ring, the one of the least row first.
func (k *Kernel) fillChooser(s *source, x *chooser) {
	x.leaves = 1 << bits.Len(uint(2*s.count))
	x.slots = x.slots[:0]
	x.nodes = resize(x.nodes, 2*x.leaves)
	for i := range x.nodes {
		x.nodes[i] = unbounded
	}
	slot := k.flows[s.last].nextSlot
	for range s.count {
		k.placeFlow(x, slot)
		slot = k.flows[slot].nextSlot
	}
}

func (k *Kernel) placeFlow(x *chooser, slot int32) {
	if int(slot) >= len(k.choosers.place) {
		k.choosers.place = resize(k.choosers.place, max(int(slot)+1, len(k.flows)))
	}
	at := int32(len(x.slots))
	k.choosers.place[slot] = at
	x.slots = append(x.slots, slot)
	f := &k.flows[slot]
	x.set(at, f.readyPS+f.nicWaitPS)
}

// set changes the key of a place.
func (x *chooser) set(place int32, key int64) {
	nodes := x.nodes
	for i := uint32(x.leaves) + uint32(place); i > 1; i >>= 1 {
		nodes[i] = key
		key = min(key, nodes[i^1])
	}
	nodes[1] = key
}

// first returns the first place from the given one on, and then from the beginning, whose key is at most limit, which
// the root is.
func (x *chooser) first(from int32, limit int64) int32 {
	i := uint32(x.leaves) + uint32(from)
	if x.nodes[i] > limit {
		// Up to the first subtree to the right with such a key; from the right edge to the whole tree.
		for {
			for i&1 == 1 && i > 1 {
				i >>= 1
			}
			if i <= 1 {
				i = 1
				break
			}
			if i++; x.nodes[i] <= limit {
				break
			}
		}
	}
	for i < uint32(x.leaves) {
		if i *= 2; x.nodes[i] > limit {
			i++
		}
	}
	return int32(i) - int32(x.leaves)
}

// chooseFromMany is choose with the source's chooser.
func (k *Kernel) chooseFromMany(s *source, x *chooser, now int64) (slot int32, at int64, known bool) {
	from := k.choosers.place[s.next]
	for {
		limit := max(s.freePS, x.nodes[1])
		place := x.first(from, limit)
		slot = x.slots[place]
		if at, known = k.ready(&k.flows[slot], s.freePS, now); at == limit {
			return slot, at, known
		}
		x.set(place, at)
	}
}
