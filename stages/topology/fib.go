package topology

import (
	"errors"
	"fmt"
	"slices"
)

// A FIB is the forwarding tables of all switches, which stay as they are, whatever happens. Switches are the nodes that
// are no hosts, in order of Network.Nodes; hosts are those of Network.Hosts. It is made by ReadFIB, and kept as JSON.
type FIB struct {
	Sets  [][]int32 `json:"sets"`   // links out of a switch, each and then its weight
	Rows  [][]int32 `json:"rows"`   // by switch: place in Sets, setNone or setArrive
	RowOf []int32   `json:"row_of"` // by host: place in Rows

	where func(host, sw int32) string // names the route; nil: the FIB was not read from files
}

func (f *FIB) name(host, sw int32) string {
	if f.where == nil {
		return "routes of files"
	}
	return f.where(host, sw)
}

// switches are the ids of the switches, as a FIB counts them.
func (n *Network) switches() (ids []int32) {
	for _, v := range n.Nodes {
		if v.Kind != KindHost {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// check reports what no tables of the network's switches can be: links that are not theirs, and routes that loop.
func (f *FIB) check(n *Network) error {
	switches, ok := n.switches(), len(f.RowOf) == len(n.hosts)
	out := func(s int, m []int32) bool { // of switch s to another
		return len(m) == 2 && m[0] >= 0 && int(m[0]) < len(n.Links) && m[1] > 0 && n.Links[m[0]].Src == switches[s] &&
			!n.FromHost(Reverse(m[0]))
	}
	for _, row := range f.Rows {
		ok = ok && len(row) == len(switches)
		for s, set := range row {
			ok = ok && set >= setArrive && int(set) < len(f.Sets)
			if ok && set >= 0 {
				for m := range slices.Chunk(f.Sets[set], 2) {
					ok = ok && out(s, m)
				}
			}
		}
	}
	for host := 0; ok && host < len(f.RowOf); host++ {
		ok = f.RowOf[host] >= 0 && int(f.RowOf[host]) < len(f.Rows)
	}
	if !ok {
		return errors.New("routes of files: they are not those of the network's switches")
	}
	checked := make([]bool, len(f.Rows))
	for host, row := range f.RowOf {
		known := make([]bool, len(switches)) // that all routes from there end
		for s := 0; s < len(switches) && !checked[row]; s++ {
			if err := f.follow(n, switches, int32(host), int32(s), known, nil); err != nil {
				return err
			}
		}
		checked[row] = true
	}
	return nil
}

// follow follows all routes to a host from a switch, to which those before it have led.
func (f *FIB) follow(n *Network, switches []int32, host, s int32, known []bool, before []int32) error {
	if at := slices.Index(before, s); at >= 0 {
		var names []string
		for _, at := range append(before[at:], s) {
			names = append(names, n.Name(switches[at]))
		}
		return fmt.Errorf("%s: packets to %s take a loop: %s", f.name(host, s), n.Name(n.hosts[host]),
			Listed(names, mostListed))
	}
	if set := f.Rows[f.RowOf[host]][s]; set >= 0 && !known[s] {
		for m := range slices.Chunk(f.Sets[set], 2) {
			next, _ := slices.BinarySearch(switches, n.Links[m[0]].Dst)
			if err := f.follow(n, switches, host, int32(next), known, append(before, s)); err != nil {
				return err
			}
		}
	}
	known[s] = true
	return nil
}

// SetRoutes gives the switches the routes of a FIB, unless it is nil, in place of shortest paths; hosts choose among
// their links as before. Links that are down are taken out. It must not run while others use the router.
func (r *Router) SetRoutes(f *FIB) error {
	if f == nil {
		return nil
	}
	if err := f.check(r.Net); err != nil {
		return err
	}
	of := len(r.toHost) // the links of hosts stay
	r.fib, r.setLink, r.setSalt, r.setAt = f, r.setLink[:of], r.setSalt[:of], []int32{int32(of)}
	r.weights = slices.Repeat([]float64{1}, of)
	place := make([]int32, len(f.Sets))
	for i, set := range f.Sets {
		for m := range slices.Chunk(set, 2) {
			if !r.Net.Links[m[0]].Failed {
				r.addLink(m[0])
				r.weights = append(r.weights, float64(m[1]))
			}
		}
		if place[i] = setNone; len(r.setLink) > int(r.setAt[len(r.setAt)-1]) {
			place[i] = int32(r.Sets())
			r.setAt = append(r.setAt, int32(len(r.setLink)))
		}
	}
	dist, attached, known := r.dist, r.attached, map[[2]int32]int32{}
	r.dist, r.next, r.attached = nil, nil, nil
	for i, id := range r.Net.hosts { // hosts with the same row and attachment share one
		h := &r.hosts[r.Net.index.of(id)]
		key := [2]int32{f.RowOf[i], h.attachment}
		if _, shared := known[key]; !shared {
			known[key] = int32(len(known))
			r.dist = append(r.dist, dist[int(h.attachment)*r.switches:][:r.switches]...)
			r.attached = append(r.attached, attached[h.attachment])
			for s, set := range f.Rows[f.RowOf[i]] {
				if set >= 0 {
					set = place[set]
				} else if !slices.Contains(attached[h.attachment], int32(s)) {
					set = setNone
				}
				r.next = append(r.next, set)
			}
		}
		h.attachment = known[key]
	}
	return nil
}
