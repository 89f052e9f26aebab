package calendar

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// blockWindows is the number of windows in a block. A domain stores the work of the current block by window,
// and later work by block.
const blockWindows = 64

// LongestPS bounds the length of windows, so that slotAt is exact: the excess of PerWindow over
// 2^64 / LengthPS, times the time since a block began, is less than 2^64 / LengthPS.
const LongestPS = 1 << 28

// A Calendar has the future work of a domain, by window.
type Calendar struct {
	StartPS, EndPS, LengthPS int64  // the current window
	PerWindow                uint64 // 2^64 / LengthPS, rounded up

	ports  int   // how many there are
	window int64 // the number of the current window

	// These fields have the work of the current block: that of window w is in slot w % blockWindows. Bit w %
	// blockWindows of busy is set if there is any.
	block   uint64
	blockPS int64 // when it begins
	busy    uint64
	windows [blockWindows]WindowWork // those with work have memory
	unused  []WindowWork             // memory

	later      []laterBlock // blocks with work, in order
	recent     int          // index in later of the block that was added to last
	spare      []Arrival    // memory
	spareLooks []look
}

// WindowWork is the work of a domain in a window.
type WindowWork struct {
	Arrivals []Arrival // at its ports
	Ports    *PortSet  // ports that may have something to send; ports without work do no harm
}

// A PortSet is a set of ports of a domain. Bit u % 64 of bits[u / 64] is port u. If bits[i] is not 0, bit i %
// 64 of words[i / 64] is set, so that a window in which little happens costs little.
type PortSet struct{ bits, words []uint64 }

func newPortSet(ports int) *PortSet {
	words := (ports + 63) / 64
	return &PortSet{make([]uint64, words), make([]uint64, (words+63)/64)}
}

// Add adds a port.
func (s *PortSet) Add(u int32) {
	i := uint64(u) / 64
	s.bits[i] |= 1 << (uint64(u) % 64)
	s.words[i/64] |= 1 << (i % 64)
}

// lookEverywhere sets all bits of words.
func (s *PortSet) lookEverywhere() {
	for i := range s.words {
		s.words[i] = math.MaxUint64
	}
	s.words[len(s.words)-1] >>= uint(-len(s.bits)) % 64
}

// NextPS returns a time before which there is no work. It is in the window of the next work.
func (c *Calendar) NextPS() int64 {
	switch {
	case c.busy != 0:
		ahead := bits.TrailingZeros64(c.busy >> (uint64(c.window) % blockWindows))
		return (c.window + int64(ahead)) * c.LengthPS
	case len(c.later) > 0:
		return c.later[0].firstPS
	}
	return simkernel.Never
}

// New returns the calendar of a domain with the given number of ports and length of windows.
func New(ports int, lengthPS int64) Calendar {
	return Calendar{LengthPS: lengthPS, PerWindow: math.MaxUint64/uint64(lengthPS) + 1, ports: ports}
}

// SetWindow makes the window of a time the current one. No earlier window may have work left. The work of its
// block is inserted before any new work, so that arrivals with equal times keep their order.
func (c *Calendar) SetWindow(atPS int64) {
	w := atPS / c.LengthPS
	c.window = w
	c.StartPS = w * c.LengthPS
	c.EndPS = (w + 1) * c.LengthPS
	c.block = uint64(w) / blockWindows
	c.blockPS = int64(c.block) * blockWindows * c.LengthPS
	if len(c.later) == 0 || c.later[0].number != c.block {
		return
	}
	b := c.later[0]
	c.later = slices.Delete(c.later, 0, 1)
	for _, a := range b.arrivals {
		c.Insert(a)
	}
	for _, l := range b.looks {
		c.Schedule(l.port, l.atPS)
	}
	c.spare = b.arrivals[:0]
	c.spareLooks = b.looks[:0]
}

// Take removes the work of the current window, and reports whether there is any. Reuse takes its memory back.
func (c *Calendar) Take() (work WindowWork, some bool) {
	slot := uint64(c.window) % blockWindows
	if c.busy>>slot&1 == 0 {
		return work, false
	}
	work = c.windows[slot]
	c.busy &^= 1 << slot
	c.windows[slot] = WindowWork{}
	return work, true
}

// Reuse takes the memory of work that is done. No port of it may be left.
func (c *Calendar) Reuse(work WindowWork) {
	c.unused = append(c.unused, WindowWork{work.Arrivals[:0], work.Ports})
}

// slotAt returns the slot of the window of a time, which must not be before the current window. If the window
// is in a later block, the result is blockWindows or more.
func (c *Calendar) slotAt(atPS int64) (slot uint64) {
	slot, _ = bits.Mul64(uint64(atPS-c.blockPS), c.PerWindow)
	return slot
}

// RoomAt returns the arrivals in the window of a time, or nil if an append to them would need memory.
func (c *Calendar) RoomAt(atPS int64) *[]Arrival {
	slot := c.slotAt(atPS)
	if slot >= blockWindows || len(c.windows[slot].Arrivals) == cap(c.windows[slot].Arrivals) {
		return nil
	}
	return &c.windows[slot].Arrivals
}

// Schedule schedules work for a port at a time.
func (c *Calendar) Schedule(u int32, atPS int64) {
	slot := c.slotAt(atPS)
	if slot >= blockWindows {
		b := c.laterBlockAt(atPS)
		b.looks = append(b.looks, look{atPS, u})
		return
	}
	if c.busy>>slot&1 == 0 {
		c.begin(slot)
	}
	c.windows[slot].Ports.Add(u)
}

// begin gives a slot the memory that was used last, because this memory is in the cache.
func (c *Calendar) begin(slot uint64) {
	c.busy |= 1 << slot
	last := len(c.unused) - 1
	if last >= 0 {
		c.windows[slot] = c.unused[last]
		c.unused = c.unused[:last]
		return
	}
	c.windows[slot] = WindowWork{Ports: newPortSet(c.ports)}
}

// Insert adds an arrival at a port of this domain.
func (c *Calendar) Insert(a Arrival) {
	slot := c.slotAt(a.AtPS)
	if slot < blockWindows {
		if c.busy>>slot&1 == 0 {
			c.begin(slot)
		}
		w := &c.windows[slot]
		w.Arrivals = append(w.Arrivals, a)
	} else {
		b := c.laterBlockAt(a.AtPS)
		b.arrivals = append(b.arrivals, a)
	}
}

// A laterBlock has the work of a block of windows.
type laterBlock struct {
	number   uint64
	firstPS  int64 // the earliest time among them
	arrivals []Arrival
	looks    []look
}

// A look is a time at which a port may have something to send.
type look struct {
	atPS int64
	port int32
}

// laterBlockAt returns the block of a time after the current block. The caller adds work of that time to it.
func (c *Calendar) laterBlockAt(atPS int64) *laterBlock {
	number := uint64(atPS / (blockWindows * c.LengthPS))
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
