package network

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// blockWindows is the number of windows in a block. A domain keeps the work of the present block by window,
// and later work by block.
const blockWindows = 64

// A calendar has the future work of a domain, by window.
type calendar struct {
	window, startPS, endPS, lengthPS int64  // the present window
	perWindow                        uint64 // 2^64 / lengthPS, rounded up
	ofPorts                          int    // how many there are

	// Work of the present block, in slot w % blockWindows. Bit w % blockWindows of busy is set if there is
	// any.
	block   uint64
	blockPS int64 // when it begins
	busy    uint64
	windows [blockWindows]windowWork // those with work have memory
	unused  []windowWork             // memory

	later      []laterBlock // blocks with work, in order
	recent     int          // index in later of the block that was added to last
	spare      []arrival    // memory
	spareLooks []look
}

// windowWork is what a domain has to do in a window.
type windowWork struct {
	arrivals []arrival // at its ports
	ports    *portSet  // that may have something to send; ports without work do no harm
}

// A portSet is a set of ports of a domain. Bit u % 64 of bits[u / 64] is port u. If bits[i] is not 0, bit i %
// 64 of words[i / 64] is set, so that a window in which little happens costs little.
type portSet struct{ bits, words []uint64 }

func newPortSet(ports int) *portSet {
	words := (ports + 63) / 64
	return &portSet{make([]uint64, words), make([]uint64, (words+63)/64)}
}

func (s *portSet) add(u int32) {
	i := uint64(u) / 64
	s.bits[i] |= 1 << (uint64(u) % 64)
	s.words[i/64] |= 1 << (i % 64)
}

// lookEverywhere sets all bits of words.
func (s *portSet) lookEverywhere() {
	for i := range s.words {
		s.words[i] = math.MaxUint64
	}
	s.words[len(s.words)-1] >>= uint(-len(s.bits)) % 64
}

// nextPS returns a time before which there is nothing to do, in the window of the first thing.
func (c *calendar) nextPS() int64 {
	switch {
	case c.busy != 0:
		ahead := bits.TrailingZeros64(c.busy >> (uint64(c.window) % blockWindows))
		return (c.window + int64(ahead)) * c.lengthPS
	case len(c.later) > 0:
		return c.later[0].firstPS
	}
	return never
}

// setWindow makes w the present window. No earlier window may have work left. The work of its block is
// inserted before any new work, so that arrivals with equal times keep their order.
func (c *calendar) setWindow(w int64) {
	c.window = w
	c.startPS = w * c.lengthPS
	c.endPS = (w + 1) * c.lengthPS
	c.block = uint64(w) / blockWindows
	c.blockPS = int64(c.block) * blockWindows * c.lengthPS
	if len(c.later) == 0 || c.later[0].number != c.block {
		return
	}
	b := c.later[0]
	c.later = slices.Delete(c.later, 0, 1)
	for _, a := range b.arrivals {
		c.insert(a)
	}
	for _, l := range b.looks {
		c.schedule(l.port, l.atPS)
	}
	c.spare = b.arrivals[:0]
	c.spareLooks = b.looks[:0]
}

// slotAt returns the slot of the window of a time, which is not before the present window. If the window is
// in a later block, the result is blockWindows or more.
func (c *calendar) slotAt(atPS int64) (slot uint64) {
	slot, _ = bits.Mul64(uint64(atPS-c.blockPS), c.perWindow)
	return slot
}

// roomAt returns the arrivals in the window of a time, or nil if an append to them would need memory.
func (c *calendar) roomAt(atPS int64) *[]arrival {
	slot := c.slotAt(atPS)
	if slot >= blockWindows || len(c.windows[slot].arrivals) == cap(c.windows[slot].arrivals) {
		return nil
	}
	return &c.windows[slot].arrivals
}

// schedule schedules work for a port at a time.
func (c *calendar) schedule(u int32, atPS int64) {
	slot := c.slotAt(atPS)
	if slot >= blockWindows {
		b := c.laterBlockAt(atPS)
		b.looks = append(b.looks, look{atPS, u})
		return
	}
	if c.busy>>slot&1 == 0 {
		c.begin(slot)
	}
	c.windows[slot].ports.add(u)
}

// begin gives a slot the memory that was used last, because that is in the cache.
func (c *calendar) begin(slot uint64) {
	c.busy |= 1 << slot
	last := len(c.unused) - 1
	if last >= 0 {
		c.windows[slot] = c.unused[last]
		c.unused = c.unused[:last]
		return
	}
	c.windows[slot] = windowWork{ports: newPortSet(c.ofPorts)}
}

// insert adds what will arrive at a port of this domain.
func (c *calendar) insert(a arrival) {
	slot := c.slotAt(a.atPS)
	if slot < blockWindows {
		if c.busy>>slot&1 == 0 {
			c.begin(slot)
		}
		w := &c.windows[slot]
		w.arrivals = append(w.arrivals, a)
	} else {
		b := c.laterBlockAt(a.atPS)
		b.arrivals = append(b.arrivals, a)
	}
}

// A laterBlock is the work of a block of windows.
type laterBlock struct {
	number   uint64
	firstPS  int64 // the earliest time among them
	arrivals []arrival
	looks    []look
}

// A look is when a port may have something to send.
type look struct {
	atPS int64
	port int32
}

// laterBlockAt returns the block of a time after the present block. The caller adds work of that time to it.
func (c *calendar) laterBlockAt(atPS int64) *laterBlock {
	number := uint64(atPS / (blockWindows * c.lengthPS))
	i := c.recent
	found := c.recent < len(c.later) && c.later[c.recent].number == number
	if !found {
		i, found = slices.BinarySearchFunc(c.later, number, func(b laterBlock, number uint64) int {
			return cmp.Compare(b.number, number)
		})
		c.recent = i
	}
	if !found {
		c.later = slices.Insert(c.later, i, laterBlock{number, atPS, c.spare, c.spareLooks})
		c.spare = nil
		c.spareLooks = nil
	}
	b := &c.later[i]
	b.firstPS = min(b.firstPS, atPS)
	return b
}
