package network

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// blockWindows is how many windows make a block. A domain keeps the work of the present block by window, and what is
// farther ahead by block.
const blockWindows = 64

// A calendar is what a domain has to do, by window.
type calendar struct {
	window, startPS, endPS, lengthPS int64  // the present window
	perWindow                        uint64 // 2^64 / lengthPS, rounded up
	ofPorts                          int    // how many there are

	// Work of the present block, in slot w % blockWindows. Bit w % blockWindows of busy is set if there is any.
	block   uint64
	blockPS int64 // when it begins
	busy    uint64
	windows [blockWindows]windowWork // with memory only where there is any
	unused  []windowWork             // memory

	later  []laterBlock // blocks with work, in order
	recent int          // index in later of the block that was added to last
	spare  []arrival    // memory
}

// windowWork is what a domain has to do in a window.
type windowWork struct {
	arrivals []arrival // at its ports
	ports    *portSet  // they may have something to send; superfluous ones are harmless
}

// A portSet is a set of ports of a domain: bit u % 64 of bits[u / 64] is port u. Bit i % 64 of words[i / 64] is set
// where bits[i] may not be 0, so that a window in which little happens costs little.
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

// lookEverywhere makes every word one that may not be 0.
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

// setWindow makes w the present window. No earlier window may have work left. The work of its block is scheduled before
// anything that is inserted now, so that equal arrivals keep their order.
func (c *calendar) setWindow(w int64) {
	c.window, c.startPS, c.endPS = w, w*c.lengthPS, (w+1)*c.lengthPS
	c.block = uint64(w) / blockWindows
	c.blockPS = int64(c.block) * blockWindows * c.lengthPS
	if len(c.later) == 0 || c.later[0].number != c.block {
		return
	}
	work := c.later[0].work
	c.later = slices.Delete(c.later, 0, 1)
	for _, a := range work {
		if a.hop == laterPort {
			c.schedule(a.port, a.atPS)
		} else {
			c.insert(a)
		}
	}
	c.spare = work[:0]
}

// slotAt returns the slot of the window of a time, which is not before the present window; not below blockWindows if
// that is in a later block.
func (c *calendar) slotAt(atPS int64) (slot uint64) {
	slot, _ = bits.Mul64(uint64(atPS-c.blockPS), c.perWindow)
	return slot
}

// roomAt returns the arrivals in the window of a time, if one can be added to them without a call, else nil.
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
		c.pushLater(arrival{item: item{atPS: atPS, hop: laterPort}, port: u})
		return
	}
	if c.busy>>slot&1 == 0 {
		c.begin(slot)
	}
	c.windows[slot].ports.add(u)
}

// begin gives a slot the memory that was used last, which is in the cache.
func (c *calendar) begin(slot uint64) {
	c.busy |= 1 << slot
	if last := len(c.unused) - 1; last >= 0 {
		c.windows[slot], c.unused = c.unused[last], c.unused[:last]
		return
	}
	c.windows[slot] = windowWork{ports: newPortSet(c.ofPorts)}
}

// insert adds what will arrive at a port of this domain.
func (c *calendar) insert(a arrival) {
	if slot := c.slotAt(a.atPS); slot < blockWindows {
		if c.busy>>slot&1 == 0 {
			c.begin(slot)
		}
		w := &c.windows[slot]
		w.arrivals = append(w.arrivals, a)
	} else {
		c.pushLater(a)
	}
}

// A laterBlock is the work of a block of windows: arrivals, or, with hop laterPort, the time when a port has something
// to do.
type laterBlock struct {
	number  uint64
	firstPS int64 // the earliest time among them
	work    []arrival
}

const laterPort = -1

func (c *calendar) pushLater(a arrival) {
	number := uint64(a.atPS / (blockWindows * c.lengthPS))
	i, found := c.recent, c.recent < len(c.later) && c.later[c.recent].number == number
	if !found {
		i, found = slices.BinarySearchFunc(c.later, number, func(b laterBlock, number uint64) int {
			return cmp.Compare(b.number, number)
		})
		c.recent = i
	}
	if !found {
		c.later = slices.Insert(c.later, i, laterBlock{number, a.atPS, c.spare})
		c.spare = nil
	}
	b := &c.later[i]
	b.firstPS = min(b.firstPS, a.atPS)
	b.work = append(b.work, a)
}
