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
//	       16 … 10            with PLB and CONGA: tag (conga.go)
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
	taken  int32     // how many of them have been taken
	ends   []int32   // by port
	due    []int32   // the ports with work, in order; its capacity is all of them

	parted   []arrival // scratch of sortWindow
	partEnds []int32
}

// sortByPort sorts arrivals into s.sorted, by port, and keeps the order of equals. Those of a port with work end at its
// s.ends and begin where those of the port with work before it end. Those ports come from work, which is emptied, and
// from the arrivals, to s.due. The first port is low.
func (s *sorter) sortByPort(arrivals []arrival, low int32, work *portSet) {
	ends, due, n, ports := s.ends, s.due[:cap(s.due)], 0, work.bits
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
	at := int32(0)
	for i, some := range work.words {
		for work.words[i] = 0; some != 0; some &= some - 1 {
			k := i*64 + bits.TrailingZeros64(some)
			word := ports[k]
			for ports[k] = 0; word != 0; word &= word - 1 {
				u := int32(k*64 + bits.TrailingZeros64(word))
				count := ends[u]
				ends[u], due[n] = at, u
				at += count
				n++
			}
		}
	}
	s.due = due[:n]
	s.sorted, s.taken = slices.Grow(s.sorted[:0], len(arrivals))[:len(arrivals)], 0
	sorted := s.sorted
	for i := range arrivals {
		a := &arrivals[i]
		u := a.port - low
		k := ends[u]
		ends[u] = k + 1
		sorted[k] = *a
	}
}

// arrivalsOf returns what arrives at a port in the present window, in order. It is called for each port with work, in
// their order.
func (s *sorter) arrivalsOf(u int32) []arrival {
	from, to := s.taken, s.ends[u]
	s.taken, s.ends[u] = to, 0
	in := s.sorted[from:to:to]
	if len(in) > 1 {
		sortArrivals(in)
	}
	return in
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
