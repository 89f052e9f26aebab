package calendar

import (
	"math/bits"
	"slices"
)

// A Sorter sorts what arrives at the ports of a domain in a window.
type Sorter struct {
	low     int32     // the first port of the domain: ports are numbered from 0 on without it
	first   int32     // the first port of a host, counted from low
	Limited bool      // switches have limited buffers
	Sorted  []Arrival // by port
	Ends    []int32   // by port
	due     []DuePort // the ports with work by group, in order, with space for all ports in each
	dueEnd  [dueGroups]int32

	parted   []Arrival // scratch of SortWindow
	partEnds []int32
}

// Ports are grouped by the number of their arrivals (none, one, two, more), and ports of switches precede
// those of hosts. The ports of a group are served one after the other, because the processor then predicts
// their common branches. The groups of switches are 0 to DueHosts - 1, those of hosts the DueHosts groups
// after them.
const (
	dueGroups = 2 * DueHosts
	DueHosts  = 4
)

// A DuePort is a port with work in a window. Its arrivals are Sorter.Sorted[From:Ends[Port]], until it is
// served.
type DuePort struct{ Port, From int32 }

// NewSorter returns a sorter for consecutive ports, the first of which is low. The first hosts' port is low +
// first.
func NewSorter(low, first int32, ports int) Sorter {
	return Sorter{low: low, first: first, Ends: make([]int32, ports), due: make([]DuePort, ports*dueGroups)}
}

// SortByPort sorts the arrivals of a window by port and time into s.Sorted, which has one place more. Equal
// arrivals keep their order.
func (s *Sorter) SortByPort(arrivals []Arrival, work *PortSet) {
	s.groupPorts(arrivals, work)
	s.Sorted = slices.Grow(s.Sorted[:0], len(arrivals)+1)[:len(arrivals)+1]
	sorted := s.Sorted
	ends := s.Ends
	low := s.low
	for i := range arrivals {
		a := &arrivals[i]
		u := a.Port - low
		k := ends[u]
		ends[u] = k + 1
		sorted[k] = *a
	}
	for g := range dueGroups {
		switch {
		case g%DueHosts == 2:
			for _, o := range s.DueOf(g) {
				in := sorted[o.From:][:2]
				if in[1].before(&in[0]) {
					in[0], in[1] = in[1], in[0]
				}
			}
		case g%DueHosts > 2 || s.Limited:
			for _, o := range s.DueOf(g) {
				sortArrivals(sorted[o.From:ends[o.Port]])
			}
		}
	}
}

// groupPorts counts the arrivals of each port and sets s.due, and s.Ends to where those of each port begin.
// Ports with arrivals and ports with work are due. It empties work. With limited buffers all ports of
// switches are one group.
func (s *Sorter) groupPorts(arrivals []Arrival, work *PortSet) {
	ends := s.Ends
	due := s.due
	ports := work.bits
	low := s.low
	if len(arrivals) < len(ports) {
		for i := range arrivals {
			work.Add(arrivals[i].Port - low)
		}
	} else {
		work.lookEverywhere()
	}
	for i := range arrivals {
		u := uint32(arrivals[i].Port - low)
		ends[u]++
		ports[u/64] |= 1 << (u % 64)
	}
	var next [dueGroups]int32
	for g := range next {
		next[g] = int32(g * len(ends))
	}
	at := int32(0)
	grouped := int32(DueHosts - 1)
	if s.Limited {
		grouped = 0
	}
	for i, some := range work.words {
		for work.words[i] = 0; some != 0; some &= some - 1 {
			k := i*64 + bits.TrailingZeros64(some)
			word := ports[k]
			for ports[k] = 0; word != 0; word &= word - 1 {
				u := int32(k*64 + bits.TrailingZeros64(word))
				count := ends[u]
				host := (s.first - 1 - u) >> 31 // all bits of host are set for a host
				ends[u] = at
				g := min(count, DueHosts-1)&(grouped|host) + DueHosts&host
				due[next[g]] = DuePort{u, at}
				next[g]++
				at += count
			}
		}
	}
	s.dueEnd = next
}

// DueOf returns the ports of a group.
func (s *Sorter) DueOf(g int) []DuePort { return s.due[g*len(s.Ends) : s.dueEnd[g]] }

// ArrivalsOf returns what arrives at a port in the current window, in order. It is called once for each port
// with work.
func (s *Sorter) ArrivalsOf(o DuePort) []Arrival {
	to := s.Ends[o.Port]
	s.Ends[o.Port] = 0
	return s.Sorted[o.From:to:to]
}

// SortWindow sorts the arrivals of the current window by time and keeps the order of equals. It divides the
// window, which begins at StartPS, into as many parts as there are arrivals, and sorts each part.
func (s *Sorter) SortWindow(arrivals []Arrival, startPS, lengthPS int64) {
	n := len(arrivals)
	s.partEnds = slices.Grow(s.partEnds[:0], n+1)[:n+1]
	s.parted = slices.Grow(s.parted[:0], n)[:n]
	ends := s.partEnds
	scale := float64(n) / float64(lengthPS)
	clear(ends)
	part := func(a *Arrival) int { return min(max(0, int(float64(a.AtPS-startPS)*scale)), n-1) }
	for i := range arrivals {
		ends[part(&arrivals[i])+1]++
	}
	for i := range n {
		ends[i+1] += ends[i]
	}
	for i := range arrivals { // ends[k] goes from the start of part k to its end
		k := part(&arrivals[i])
		s.parted[ends[k]] = arrivals[i]
		ends[k]++
	}
	copy(arrivals, s.parted)
	from := int32(0)
	for _, to := range ends[:n] {
		same := arrivals[from:to]
		if len(same) > 16 {
			slices.SortStableFunc(same, CompareArrivals)
		} else {
			sortArrivals(same)
		}
		from = to
	}
}
