package topology

import (
	"fmt"
	"math"
	"slices"

	"parsimon/stages/rng"
)

// A Router picks each flow's path: a shortest path (fewest links) over the cables that are up, by
// ECMP at every node on the way.
//
// Every choice between equal-cost links is by rendezvous hashing (Thaler and Ravishankar, 1998): of
// the links that lead nearer to the destination, a flow takes the one with the highest hash of
// (seed, flow id, node, link). The hash differs from node to node, so choices do not repeat from
// hop to hop (polarisation), and it is consistent: taking a cable away only moves the flows that
// crossed it, since every other flow's winner still wins.
//
// Tables are per destination attachment — hosts with the same set of neighbour switches share one —
// and hold, for each switch, its distance and which interned set of links leads nearer: 6 bytes per
// attachment and switch. Hosts never transit traffic of others.
//
// A Router is a snapshot of the network at the time it was made, and safe for concurrent use.
type Router struct {
	Net       *Network
	key       uint64
	hosts     []routeHost // by node place; attachment -1 for switches
	switches  int
	switchOf  []int32 // by link: the number of the switch it leads to, or -1 for a host
	nodeOf    []int32 // by switch number: place of the node
	neighbour []int32 // links out of hosts, flat: see routeHost
	dist      []uint16
	next      []int32 // set of links, by attachment × switches + switch
	setAt     []int32 // set → its range in setLink and setSalt; one more than sets
	setLink   []int32
	setSalt   []uint64
	attached  [][]int32 // by attachment: its switches, ascending
}

type routeHost struct {
	attachment int32 // -1: not a host; attachment 0 has no switch
	only       int32 // the only link out of the host, if it leads to a switch; else -1
	from, to   int32 // its links out that are up, in Router.neighbour
	direct     bool  // some of them lead to hosts
}

const (
	unreachableDist = math.MaxUint16
	maxSwitches     = 1 << 20
	maxHops         = math.MaxInt16 // hops are counted in 16 bits
	setNone         = -1            // no way from here
	setArrive       = -2            // the destination hangs on this switch
)

// An UnreachableError says that no path joins two hosts over the cables that are up.
type UnreachableError struct {
	FlowID           int64
	Src, Dst         int32
	SrcName, DstName string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("flow %d: no path from host %d (%s) to host %d (%s)", e.FlowID, e.Src, e.SrcName, e.Dst, e.DstName)
}

// An EndpointError says that a flow's source or destination cannot be one.
type EndpointError struct {
	FlowID   int64
	Src, Dst int32
	What     string
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("flow %d from node %d to node %d: %s", e.FlowID, e.Src, e.Dst, e.What)
}

// NewRouter computes the tables for a network as it is now, failures included. It fails where a
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
	out := make([][]int32, len(n.Nodes)) // links that are up, ascending
	for i, l := range n.Links {
		r.switchOf[i] = number[n.index.of(l.Dst)]
		if !l.Failed {
			src := n.index.of(l.Src)
			out[src] = append(out[src], int32(i))
		}
	}
	r.attach(out)
	salts := make([]uint64, len(n.Links))
	for i, l := range n.Links {
		// The nodes' ids, not the link's: ids of links move when a file's cables are reordered.
		s := rng.New(seed, rng.ECMP, uint64(uint32(l.Src)), uint64(uint32(l.Dst)))
		salts[i] = s.Uint64()
	}
	if err := r.buildTables(out, salts); err != nil {
		return nil, err
	}
	return r, nil
}

// attach groups the hosts by the switches they hang on.
func (r *Router) attach(out [][]int32) {
	r.attached = [][]int32{nil}
	known := map[string]int32{"": 0}
	var key []byte
	for i, v := range r.Net.Nodes {
		h := &r.hosts[i]
		h.attachment, h.only = -1, -1
		if v.Kind != KindHost {
			continue
		}
		h.from = int32(len(r.neighbour))
		var at []int32
		for _, l := range out[i] {
			r.neighbour = append(r.neighbour, l)
			if sw := r.switchOf[l]; sw >= 0 {
				at = append(at, sw)
			} else {
				h.direct = true
			}
		}
		h.to = int32(len(r.neighbour))
		if len(at) == 1 && !h.direct {
			h.only = r.neighbour[h.from]
		}
		slices.Sort(at)
		key = key[:0]
		for _, s := range at {
			key = append(key, byte(s), byte(s>>8), byte(s>>16), byte(s>>24))
		}
		id, ok := known[string(key)]
		if !ok {
			id = int32(len(r.attached))
			known[string(key)] = id
			r.attached = append(r.attached, at)
		}
		h.attachment = id
	}
}

// buildTables walks breadth first from every attachment.
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
		queue = queue[:0]
		for _, s := range at {
			dist[s], next[s] = 1, setArrive
			queue = append(queue, s)
		}
		for i := 0; i < len(queue); i++ {
			s := queue[i]
			for _, l := range out[r.nodeOf[s]] {
				if to := r.switchOf[l]; to >= 0 && dist[to] == unreachableDist {
					if dist[s] == maxHops-1 { // and one link more from the source to here
						return fmt.Errorf("a shortest path has more than %d links", maxHops)
					}
					dist[to] = dist[s] + 1
					queue = append(queue, to)
				}
			}
		}
		for _, s := range queue {
			if dist[s] == 1 {
				continue
			}
			members, key = members[:0], key[:0]
			for _, l := range out[r.nodeOf[s]] {
				if to := r.switchOf[l]; to >= 0 && dist[to] == dist[s]-1 {
					members = append(members, l)
					key = append(key, byte(l), byte(l>>8), byte(l>>16), byte(l>>24))
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
	// Hosts with several links choose by the same salts.
	r.hostSalts(salts)
	return nil
}

// hostSalts puts the salts of the hosts' own links where choose finds them: behind the sets.
func (r *Router) hostSalts(salts []uint64) {
	at := int32(len(r.setLink))
	for _, l := range r.neighbour {
		r.setLink = append(r.setLink, l)
		r.setSalt = append(r.setSalt, salts[l])
	}
	for i := range r.hosts {
		r.hosts[i].from += at
		r.hosts[i].to += at
	}
	r.neighbour = r.setLink[at:]
}

// MemoryBytes is about what the router's tables take.
func (r *Router) MemoryBytes() int64 {
	return int64(len(r.hosts))*20 + int64(len(r.switchOf))*4 + int64(len(r.dist))*6 + int64(len(r.setLink))*12
}

// Path appends the ids of the links that the flow crosses, in order, to buf[:0]. It does not
// allocate if buf has room for them. The error is an *EndpointError where src or dst is no host, or
// both are the same, and an *UnreachableError where no path joins them.
func (r *Router) Path(flowID int64, src, dst int32, buf []int32) ([]int32, error) {
	return r.AppendPath(flowID, src, dst, buf[:0])
}

func (r *Router) AppendPath(flowID int64, src, dst int32, path []int32) ([]int32, error) {
	i, j := r.Net.index.of(src), r.Net.index.of(dst)
	if i < 0 || j < 0 || src == dst || r.hosts[i].attachment < 0 || r.hosts[j].attachment < 0 {
		return path, r.endpointError(flowID, src, dst)
	}
	from, to := &r.hosts[i], &r.hosts[j]
	flow := rng.Hash(r.key, uint64(flowID))
	base := int(to.attachment) * r.switches
	var link int32
	if from.only >= 0 {
		link = from.only
	} else if link = r.firstLink(flow, from, base, dst); link < 0 {
		return path, r.unreachable(flowID, src, dst)
	}
	start := len(path)
	path = append(path, link)
	for r.switchOf[link] >= 0 {
		at := r.switchOf[link]
		set := r.next[base+int(at)]
		if set == setArrive {
			if to.only >= 0 {
				return append(path, Reverse(to.only)), nil
			}
			for _, l := range r.setLink[to.from:to.to] {
				if r.switchOf[l] == at {
					return append(path, Reverse(l)), nil
				}
			}
			panic("stages: a switch of the destination's attachment has no link to it")
		}
		if set == setNone {
			return path[:start], r.unreachable(flowID, src, dst)
		}
		link = r.choose(flow, r.setAt[set], r.setAt[set+1])
		path = append(path, link)
	}
	return path, nil // a cable from host to host
}

// choose is the link of a set with the highest hash for the flow; the lowest id breaks ties.
func (r *Router) choose(flow uint64, lo, hi int32) int32 {
	links := r.setLink[lo:hi]
	if len(links) == 1 {
		return links[0]
	}
	salts := r.setSalt[lo:hi]
	salts = salts[:len(links)]
	best, bestHash := links[0], linkHash(flow, salts[0])
	for i := 1; i < len(links); i++ {
		if h := linkHash(flow, salts[i]); h > bestHash {
			best, bestHash = links[i], h
		}
	}
	return best
}

// linkHash hashes a flow's key and a link's salt, both well mixed already, so that one more round
// of mixing makes the hashes of two links independent.
func linkHash(flow, salt uint64) uint64 {
	x := flow ^ salt
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// firstLink is the flow's link out of a host with several, or -1.
func (r *Router) firstLink(flow uint64, from *routeHost, base int, dst int32) int32 {
	best, bestDist, bestHash := int32(-1), unreachableDist, uint64(0)
	for k := from.from; k < from.to; k++ {
		l := r.setLink[k]
		d := unreachableDist
		if sw := r.switchOf[l]; sw >= 0 {
			d = int(r.dist[base+int(sw)])
		} else if r.Net.Links[l].Dst == dst {
			d = 0
		}
		if d == unreachableDist || d > bestDist {
			continue
		}
		if h := linkHash(flow, r.setSalt[k]); d < bestDist || h > bestHash {
			best, bestDist, bestHash = l, d, h
		}
	}
	return best
}

func (r *Router) unreachable(flowID int64, src, dst int32) error {
	a, _ := r.Net.Node(src)
	b, _ := r.Net.Node(dst)
	return &UnreachableError{flowID, src, dst, a.Name, b.Name}
}

func (r *Router) endpointError(flowID int64, src, dst int32) error {
	e := &EndpointError{FlowID: flowID, Src: src, Dst: dst}
	for _, id := range []int32{src, dst} {
		v, ok := r.Net.Node(id)
		if !ok {
			e.What = fmt.Sprintf("no node has the id %d", id)
			return e
		}
		if v.Kind != KindHost {
			e.What = fmt.Sprintf("node %d (%s) is a %s, not a host", id, v.Name, v.Kind)
			return e
		}
	}
	e.What = "source and destination are the same host"
	return e
}
