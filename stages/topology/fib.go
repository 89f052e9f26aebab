package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A FIB is the forwarding tables of all switches, which stay as they are, whatever happens. Switches are the nodes that
// are no hosts, in order of Network.Nodes; hosts are those of Network.Hosts. It is made by ReadFIB, and kept as JSON.
type FIB struct {
	Sets  [][][2]int32 `json:"sets"`   // links out of a switch and their weights, by link
	Rows  [][]int32    `json:"rows"`   // by switch: place in Sets, setNone or setArrive
	RowOf []int32      `json:"row_of"` // by host: place in Rows

	files *fibFiles // that it was read from; nil: it was not
}

// why says why a switch has no route to a host.
func (f *FIB) why(n *Network, host, sw int32) string {
	if f.files == nil {
		return "switch " + n.Name(n.switches()[sw]) + " has no route to it"
	}
	return f.files.why(host, sw)
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
	switches, number := n.switches(), map[int32]int32{}
	for i, id := range switches {
		number[id] = int32(i)
	}
	ok := len(f.RowOf) == len(n.hosts)
	for _, row := range f.RowOf {
		ok = ok && row >= 0 && int(row) < len(f.Rows)
	}
	for _, set := range f.Sets {
		ok = ok && len(set) > 0
		for _, m := range set {
			ok = ok && m[0] >= 0 && int(m[0]) < len(n.Links) && m[1] > 0
			_, leads := number[n.Links[max(0, min(int(m[0]), len(n.Links)-1))].Dst]
			ok = ok && leads
		}
	}
	for _, row := range f.Rows {
		ok = ok && len(row) == len(switches)
		for s, set := range row {
			ok = ok && set >= setArrive && int(set) < len(f.Sets)
			others := func(m [2]int32) bool { return n.Links[m[0]].Src != switches[s] }
			ok = ok && (set < 0 || !slices.ContainsFunc(f.Sets[set], others))
		}
	}
	if !ok {
		return errors.New("routes of files: they are not those of the network's switches")
	}
	checked := make([]bool, len(f.Rows))
	for host, row := range f.RowOf {
		if checked[row] {
			continue
		}
		checked[row] = true
		w := fibWalk{f: f, n: n, number: number, switches: switches, row: f.Rows[row], links: make([]int, len(switches))}
		for s := range switches {
			if err := w.from(int32(host), int32(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A fibWalk follows the routes of a row.
type fibWalk struct {
	f        *FIB
	n        *Network
	number   map[int32]int32
	switches []int32
	row      []int32
	links    []int // by switch: most links to the host, 0: not known yet
	on       []int32
}

// from follows all routes from a switch.
func (w *fibWalk) from(host, s int32) error {
	if w.links[s] > 0 || w.row[s] < 0 {
		w.links[s] = max(1, w.links[s])
		return nil
	}
	loops := slices.Contains(w.on, s)
	if w.on = append(w.on, s); loops || len(w.on) >= maxHops {
		var names []string
		for _, at := range w.on[slices.Index(w.on, s):] {
			names = append(names, w.n.Name(w.switches[at]))
		}
		where := "routes of files"
		if w.f.files != nil {
			where = w.f.files.where(host, s)
		}
		what := "routes to " + w.n.Name(w.n.hosts[host])
		if !loops {
			return fmt.Errorf("%s: %s have more than %d links", where, what, maxHops)
		}
		return fmt.Errorf("%s: %s loop: %s", where, what, strings.Join(names, " → "))
	}
	most := 0
	for _, m := range w.f.Sets[w.row[s]] {
		next := w.number[w.n.Links[m[0]].Dst]
		if err := w.from(host, next); err != nil {
			return err
		}
		most = max(most, 1+w.links[next])
	}
	w.links[s], w.on = most, w.on[:len(w.on)-1]
	if w.links[s] >= maxHops-1 {
		return fmt.Errorf("routes to %s have more than %d links", w.n.Name(w.n.hosts[host]), maxHops)
	}
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
	first := len(r.setLink) - len(r.toHost)
	hostLinks := slices.Clone(r.setLink[first:])
	r.fib, r.setLink, r.setSalt, r.setAt, r.toHost = f, nil, nil, []int32{0}, nil
	var weights []float64
	place := make([]int32, len(f.Sets))
	for i, set := range f.Sets {
		for _, m := range set {
			if !r.Net.Links[m[0]].Failed {
				r.setLink, r.setSalt = append(r.setLink, m[0]), append(r.setSalt, r.salts[m[0]])
				weights = append(weights, float64(m[1]))
			}
		}
		if place[i] = setNone; len(r.setLink) > int(r.setAt[len(r.setAt)-1]) {
			place[i] = int32(r.Sets())
			r.setAt = append(r.setAt, int32(len(r.setLink)))
		}
	}
	if slices.ContainsFunc(weights, func(w float64) bool { return w != 1 }) {
		r.weights = append(weights, slices.Repeat([]float64{1}, len(hostLinks))...)
	}
	for i := range r.hosts {
		r.hosts[i].from -= int32(first)
		r.hosts[i].to -= int32(first)
	}
	r.addHostLinks(hostLinks)
	dist, attached, known := r.dist, r.attached, map[[2]int32]int32{}
	r.dist, r.next, r.attached = nil, nil, nil
	for i, id := range r.Net.hosts { // hosts with the same row and attachment share one
		h := &r.hosts[r.Net.index.of(id)]
		key := [2]int32{f.RowOf[i], h.attachment}
		number, shared := known[key]
		if !shared {
			number = int32(len(known))
			known[key] = number
			r.dist = append(r.dist, dist[int(h.attachment)*r.switches:][:r.switches]...)
			r.attached = append(r.attached, attached[h.attachment])
			for s, set := range f.Rows[f.RowOf[i]] {
				if set >= 0 {
					set = place[set]
				} else if set == setArrive && !slices.Contains(attached[h.attachment], int32(s)) {
					set = setNone
				}
				r.next = append(r.next, set)
			}
		}
		h.attachment = number
	}
	return nil
}

// newSet returns the number of a set of links with weights, which have no common divisor then.
func (f *FIB) newSet(known map[string]int32, weights map[int32]int64) int32 {
	var set [][2]int32
	var divisor int64
	for link, weight := range weights {
		set = append(set, [2]int32{link, int32(weight)})
		for a := weight; a != 0; {
			divisor, a = a, divisor%a
		}
	}
	slices.SortFunc(set, func(a, b [2]int32) int { return int(a[0]) - int(b[0]) })
	var key []byte
	for i := range set {
		set[i][1] /= int32(divisor)
		key = binary.LittleEndian.AppendUint64(key, uint64(set[i][0])<<32|uint64(set[i][1]))
	}
	number, shared := known[string(key)]
	if !shared {
		number = int32(len(f.Sets))
		known[string(key)], f.Sets = number, append(f.Sets, set)
	}
	return number
}
