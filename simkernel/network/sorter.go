package network

import (
	"math/bits"
	"slices"
)

// A sorter sorts what arrives in a window.
type sorter struct {
	sorted []arrival // by port
	ends   []int32   // by port
	due    []duePort // the ports with work by group, in order, with space for all ports in each
	dueEnd [dueGroups]int32

	parted   []arrival // scratch of sortWindow
	partEnds []int32
}

// Ports are grouped by the number of their arrivals (none, one, two, more), those of switches before those of
// hosts. The ports of a group are served one after the other, because a processor predicts the branches that
// they have in common.
const (
	dueGroups = 8
	dueHosts  = 4
)

// A duePort is a port with work in a window. Its arrivals are sorter.sorted[from:ends[port]], until it is
// served.
type duePort struct{ port, from int32 }

// sortByPort sorts the arrivals of a window by port and time into s.sorted, which has one place more. It
// keeps the order of equals.
func (d *domain) sortByPort(arrivals []arrival, work *portSet) {
	d.groupPorts(arrivals, work)
	s := &d.sorter
	s.sorted = slices.Grow(s.sorted[:0], len(arrivals)+1)[:len(arrivals)+1]
	sorted := s.sorted
	ends := s.ends
	low := d.low
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
				in := sorted[o.from:][:2]
				if in[1].before(&in[0]) {
					in[0], in[1] = in[1], in[0]
				}
			}
		case g%dueHosts > 2 || d.buffers != nil:
			for _, o := range s.dueOf(g) {
				sortArrivals(sorted[o.from:ends[o.port]])
			}
		}
	}
}

// groupPorts counts the arrivals of each port and sets s.due, and s.ends to where those of each port begin.
// Ports with arrivals and the ports in work are due. It empties work. With limited buffers all ports of
// switches are one group.
func (d *domain) groupPorts(arrivals []arrival, work *portSet) {
	s := &d.sorter
	ends := s.ends
	due := s.due
	ports := work.bits
	low := d.low
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
	at := int32(0)
	grouped := int32(dueHosts - 1)
	if d.buffers != nil {
		grouped = 0
	}
	for i, some := range work.words {
		for work.words[i] = 0; some != 0; some &= some - 1 {
			k := i*64 + bits.TrailingZeros64(some)
			word := ports[k]
			for ports[k] = 0; word != 0; word &= word - 1 {
				u := int32(k*64 + bits.TrailingZeros64(word))
				count := ends[u]
				host := (d.first - 1 - u) >> 31 // all bits of host are set if it is one
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

// arrivalsOf returns what arrives at a port in the present window, in order. It is called once for each port
// with work.
func (s *sorter) arrivalsOf(o duePort) []arrival {
	to := s.ends[o.port]
	s.ends[o.port] = 0
	return s.sorted[o.from:to:to]
}

// sortWindow sorts the arrivals of the present window by time and keeps the order of equals. It divides the
// window into as many parts as there are arrivals, and sorts each part.
func (d *domain) sortWindow(arrivals []arrival) {
	n := len(arrivals)
	d.sorter.partEnds = slices.Grow(d.sorter.partEnds[:0], n+1)[:n+1]
	d.sorter.parted = slices.Grow(d.sorter.parted[:0], n)[:n]
	ends := d.sorter.partEnds
	scale := float64(n) / float64(d.lengthPS)
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
		d.sorter.parted[ends[k]] = arrivals[i]
		ends[k]++
	}
	copy(arrivals, d.sorter.parted)
	from := int32(0)
	for _, to := range ends[:n] {
		same := arrivals[from:to]
		if len(same) > 16 {
			slices.SortStableFunc(same, compareArrivals)
		} else {
			sortArrivals(same)
		}
		from = to
	}
}
