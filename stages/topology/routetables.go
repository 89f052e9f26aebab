package topology

import (
	"fmt"
	"slices"

	"parsimon/stages/rng"
)

// NewRouter computes the tables for the network as it is now, failures included. It fails where a
// shortest path has more than 32,767 links, or the network more than 2^20 switches.
func NewRouter(n *Network, seed uint64) (*Router, error) {
	r := &Router{
		Net:      n,
		key:      rng.MixKey(rng.MixKey(0, seed), uint64(rng.FlowPath)),
		hosts:    make([]routeHost, len(n.Nodes)),
		switchOf: make([]int32, len(n.Links)),
	}
	number := make([]int32, len(n.Nodes))
	for i, v := range n.Nodes {
		number[i] = -1
		if v.Kind != KindHost {
			number[i] = int32(len(r.nodeOf))
			r.nodeOf = append(r.nodeOf, int32(i))
		}
	}
	r.switches = len(r.nodeOf)
	if r.switches > maxSwitches {
		return nil, fmt.Errorf("%d switches are more than the router's limit of %d", r.switches, maxSwitches)
	}
	out := make([][]int32, len(n.Nodes)) // links that are up, ascending; of switches only those to switches
	for i, l := range n.Links {
		r.switchOf[i] = number[n.index.of(l.Dst)]
		src := n.index.of(l.Src)
		if !l.Failed && (r.switchOf[i] >= 0 || number[src] < 0) {
			out[src] = append(out[src], int32(i))
		}
	}
	hostLinks := r.attach(out)
	salts := make([]uint64, len(n.Links))
	for i, l := range n.Links {
		// The nodes' ids, not the link's: ids of links move when a file's cables are reordered.
		s := rng.New(seed, rng.ECMP, uint64(uint32(l.Src)), uint64(uint32(l.Dst)))
		salts[i] = s.Uint64()
	}
	if err := r.buildTables(out, salts); err != nil {
		return nil, err
	}
	r.addHostLinks(hostLinks, salts)
	return r, nil
}

// attach groups the hosts by the switches they are attached to. It returns the links out of the
// hosts; from and to of each host count in them.
func (r *Router) attach(out [][]int32) (links []int32) {
	r.attached = [][]int32{nil}
	known := map[string]int32{"": 0}
	var key []byte
	for i, v := range r.Net.Nodes {
		h := &r.hosts[i]
		h.attachment, h.only = -1, -1
		if v.Kind != KindHost {
			continue
		}
		h.from = int32(len(links))
		var at []int32
		for _, l := range out[i] {
			links = append(links, l)
			if sw := r.switchOf[l]; sw >= 0 {
				at = append(at, sw)
			} else {
				h.direct = true
			}
		}
		h.to = int32(len(links))
		if len(at) == 1 && !h.direct {
			h.only = links[h.from]
		}
		slices.Sort(at)
		key = key[:0]
		for _, s := range at {
			key = appendInt32(key, s)
		}
		id, ok := known[string(key)]
		if !ok {
			id = int32(len(r.attached))
			known[string(key)] = id
			r.attached = append(r.attached, at)
		}
		h.attachment = id
	}
	return links
}

// appendInt32 appends a number to the key of an interned set.
func appendInt32(key []byte, v int32) []byte {
	return append(key, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

// buildTables searches breadth first from every attachment.
func (r *Router) buildTables(out [][]int32, salts []uint64) error {
	cells := len(r.attached) * r.switches
	r.dist = make([]uint16, cells)
	r.next = make([]int32, cells)
	r.setAt = []int32{0}
	sets := map[string]int32{}
	queue := make([]int32, 0, r.switches)
	var members []int32
	var key []byte
	for a, at := range r.attached {
		dist := r.dist[a*r.switches : (a+1)*r.switches]
		next := r.next[a*r.switches : (a+1)*r.switches]
		for i := range dist {
			dist[i], next[i] = unreachableDist, setNone
		}
		var err error
		if queue, err = r.search(at, dist, out, queue[:0]); err != nil {
			return err
		}
		for _, s := range queue {
			if dist[s] == 1 {
				next[s] = setArrive
				continue
			}
			members, key = members[:0], key[:0]
			for _, l := range out[r.nodeOf[s]] {
				if dist[r.switchOf[l]] == dist[s]-1 {
					members = append(members, l)
					key = appendInt32(key, l)
				}
			}
			id, ok := sets[string(key)]
			if !ok {
				id = int32(len(r.setAt) - 1)
				sets[string(key)] = id
				for _, l := range members {
					r.setLink = append(r.setLink, l)
					r.setSalt = append(r.setSalt, salts[l])
				}
				r.setAt = append(r.setAt, int32(len(r.setLink)))
			}
			next[s] = id
		}
	}
	return nil
}

// search sets the number of links from each switch to a host of the attachment, and returns the
// switches that reach it, nearest first.
func (r *Router) search(at []int32, dist []uint16, out [][]int32, queue []int32) ([]int32, error) {
	for _, s := range at {
		dist[s] = 1
		queue = append(queue, s)
	}
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		for _, l := range out[r.nodeOf[s]] {
			to := r.switchOf[l]
			if dist[to] != unreachableDist {
				continue
			}
			if dist[s] == maxHops-1 { // and one link more from the source to here
				return nil, fmt.Errorf("a shortest path has more than %d links", maxHops)
			}
			dist[to] = dist[s] + 1
			queue = append(queue, to)
		}
	}
	return queue, nil
}

// addHostLinks stores the links of the hosts after the sets, where choose and firstLink read them.
func (r *Router) addHostLinks(links []int32, salts []uint64) {
	at := int32(len(r.setLink))
	for _, l := range links {
		r.setLink = append(r.setLink, l)
		r.setSalt = append(r.setSalt, salts[l])
	}
	for i := range r.hosts {
		r.hosts[i].from += at
		r.hosts[i].to += at
	}
}
