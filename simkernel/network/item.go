package network

import (
	"cmp"
	"math/bits"
	"slices"
)

// An item is a packet or an ACK in flight or in a queue, or the start of a flow on its way to the source's NIC. It has
// 16 bytes, because queues are most of the memory of a loaded network.
//
//	bits   31 … numberShift   number of the packet in its flow; of an ACK: of the packet that it answers
//	       16 … 10            with PLB and CONGA: tag (moves.go)
//	       9 … 5              with recovery: in which attempt the packet was sent, 0 the first (recovery.go)
//	       4 … 0              flags
//
// All packets of a flow are full but the last, so that the size on the wire follows from the flags (wireBytes).
type item struct {
	atPS int64  // when it is at the port: wholly received by the port's node
	hop  int32  // index of flowTable.hops: its place on the data path (ACKs: on the reverse)
	bits uint32 // see above
}

const (
	flagAck    uint32 = 1 << iota // an ACK, on the reverse path
	flagMarked                    // the packet has been marked (an ACK: the packet that it answers)
	flagLast                      // the last packet of its flow
	flagStart                     // not a packet: the flow starts
	flagNack                      // with flagAck: the packet that it answers was not the expected one

	// flagThrough, on the ACK of a receiver that takes packets in any order: it has all packets up to the number.
	flagThrough = flagLast

	flagBits    = 5
	attemptBits = 5 // with recovery
	attemptMask = (1<<attemptBits - 1) << flagBits
	tagBits     = 7 // with PLB and CONGA
)

// An arrival is an item on its way to a port.
type arrival struct {
	item
	port int32
	link int32 // over which it comes, startLink for the start of a flow: the order of items with equal times
}

// startLink orders flow starts behind what arrives at the same time.
const startLink = 1<<31 - 1

// before is the order in which items arrive at a port. Items of one link with equal times keep their order.
func (a *arrival) before(b *arrival) bool {
	return a.atPS < b.atPS || a.atPS == b.atPS && a.link < b.link
}

func compareArrivals(a, b arrival) int {
	return cmp.Or(cmp.Compare(a.atPS, b.atPS), cmp.Compare(a.link, b.link))
}

// sortArrivals sorts a few arrivals and keeps the order of equals.
func sortArrivals(s []arrival) {
	for i := 1; i < len(s); i++ {
		if !s[i].before(&s[i-1]) {
			continue
		}
		a, k := s[i], i
		for ; k > 0 && a.before(&s[k-1]); k-- {
			s[k] = s[k-1]
		}
		s[k] = a
	}
}

// A sorter sorts what arrives in a window.
type sorter struct {
	sorted []arrival // by port
	ends   []int32   // by port
	due    []duePort // the ports with work by group, in order, with space for all ports in each
	dueEnd [dueGroups]int32

	parted   []arrival // scratch of sortWindow
	partEnds []int32
}

// Ports with no arrivals, one, two and more are groups, those of switches before those of hosts. Those of a group are
// served one after the other: a processor foresees the branches that they have in common.
const (
	dueGroups = 8
	dueHosts  = 4
)

// A duePort is a port with work in a window. Its arrivals are sorter.sorted[from:ends[port]], until it is served.
type duePort struct{ port, from int32 }

// sortByPort sorts the arrivals of a window into s.sorted, which has one place more, by port and as they arrive. It
// keeps the order of equals.
func (d *domain) sortByPort(arrivals []arrival, work *portSet) {
	d.groupPorts(arrivals, work)
	s := &d.sorter
	s.sorted = slices.Grow(s.sorted[:0], len(arrivals)+1)[:len(arrivals)+1]
	sorted, ends, low := s.sorted, s.ends, d.low
	for i := range arrivals {
		a := &arrivals[i]
		u := a.port - low
		k := ends[u]
		ends[u] = k + 1
		sorted[k] = *a
	}
	for g := range dueGroups {
		switch {
		case g%dueHosts == 2:
			for _, o := range s.dueOf(g) {
				if in := sorted[o.from:][:2]; in[1].before(&in[0]) {
					in[0], in[1] = in[1], in[0]
				}
			}
		case g%dueHosts > 2 || d.limited:
			for _, o := range s.dueOf(g) {
				sortArrivals(sorted[o.from:ends[o.port]])
			}
		}
	}
}

// groupPorts counts the arrivals of each port and sets s.due, and s.ends to where those of each port begin. The ports
// with work are those of arrivals and those of work, which it empties. With limited buffers those of switches are one
// group.
func (d *domain) groupPorts(arrivals []arrival, work *portSet) {
	s := &d.sorter
	ends, due, ports, low := s.ends, s.due, work.bits, d.low
	if len(arrivals) < len(ports) {
		for i := range arrivals {
			work.add(arrivals[i].port - low)
		}
	} else {
		work.lookEverywhere()
	}
	for i := range arrivals {
		u := uint32(arrivals[i].port - low)
		ends[u]++
		ports[u/64] |= 1 << (u % 64)
	}
	var next [dueGroups]int32
	for g := range next {
		next[g] = int32(g * len(ends))
	}
	at, grouped := int32(0), int32(dueHosts-1)
	if d.limited {
		grouped = 0
	}
	for i, some := range work.words {
		for work.words[i] = 0; some != 0; some &= some - 1 {
			k := i*64 + bits.TrailingZeros64(some)
			word := ports[k]
			for ports[k] = 0; word != 0; word &= word - 1 {
				u := int32(k*64 + bits.TrailingZeros64(word))
				count, host := ends[u], (d.first-1-u)>>31 // all bits of host are set if it is one
				ends[u] = at
				g := min(count, dueHosts-1)&(grouped|host) + dueHosts&host
				due[next[g]] = duePort{u, at}
				next[g]++
				at += count
			}
		}
	}
	s.dueEnd = next
}

// dueOf returns the ports of a group.
func (s *sorter) dueOf(g int) []duePort { return s.due[g*len(s.ends) : s.dueEnd[g]] }

// arrivalsOf returns what arrives at a port in the present window, in order. It is called once for each port with work.
func (s *sorter) arrivalsOf(o duePort) []arrival {
	to := s.ends[o.port]
	s.ends[o.port] = 0
	return s.sorted[o.from:to:to]
}

// sortWindow sorts the arrivals of the present window and keeps the order of equals: it divides them into as many parts
// of the time of the window as there are, and sorts each.
func (d *domain) sortWindow(arrivals []arrival) {
	n := len(arrivals)
	d.partEnds, d.parted = slices.Grow(d.partEnds[:0], n+1)[:n+1], slices.Grow(d.parted[:0], n)[:n]
	ends, scale := d.partEnds, float64(n)/float64(d.lengthPS)
	clear(ends)
	part := func(a *arrival) int { return min(max(0, int(float64(a.atPS-d.startPS)*scale)), n-1) }
	for i := range arrivals {
		ends[part(&arrivals[i])+1]++
	}
	for i := range n {
		ends[i+1] += ends[i]
	}
	for i := range arrivals { // ends[k] goes from the start of part k to its end
		k := part(&arrivals[i])
		d.parted[ends[k]] = arrivals[i]
		ends[k]++
	}
	copy(arrivals, d.parted)
	from := int32(0)
	for _, to := range ends[:n] {
		if same := arrivals[from:to]; len(same) > 16 {
			slices.SortStableFunc(same, compareArrivals)
		} else {
			sortArrivals(same)
		}
		from = to
	}
}

// A fifo is a queue of items in order of arrival.
type fifo struct {
	buf     []item
	head    int32 // buf[head:] is the queue
	arrived int32 // buf[head:arrived] is what port.leftBytes counts
}

func (f *fifo) empty() bool { return int(f.head) == len(f.buf) }

func (f *fifo) push(it item) { f.buf = append(f.buf, it) }

// trim removes what has been taken, if that is everything or most, and returns how much.
func (f *fifo) trim() (taken int32) {
	if taken = f.head; int(taken) == len(f.buf) {
		f.buf, f.head, f.arrived = f.buf[:0], 0, 0
	} else if taken >= 32 && int(taken)*2 > len(f.buf) {
		f.buf = f.buf[:copy(f.buf, f.buf[taken:])]
		f.arrived -= taken
		f.head = 0
	} else {
		return 0
	}
	return taken
}

// reset empties the queue.
func (f *fifo) reset() *fifo {
	f.buf, f.head, f.arrived = f.buf[:0], 0, 0
	return f
}

// take moves the content of another queue into this one, which is empty.
func (f *fifo) take(from *fifo) {
	f.buf = append(f.buf[:0], from.buf[from.head:]...)
	f.head, f.arrived = 0, from.arrived-from.head
}
