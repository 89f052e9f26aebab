package topology

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"parsimon/schema/names"
	"parsimon/stages/rng"
)

// A Router assigns a path to each flow: a shortest path (fewest links) over the cables that are up, chosen by
// ECMP at every node (see below).
//
// A destination attachment is a set of switches. Hosts with the same neighbor switches share one. For each
// attachment and switch, the tables have the distance and the number of the set of links that lead nearer, 6
// bytes in total. Equal sets are stored once. Hosts never forward traffic of others. If two switches both
// lead to a host in two links, a host takes the one inside its server (KindInner).
//
// A Router is a snapshot of the network at the time it was created. It is safe for concurrent use.
type Router struct {
	Net      *Network
	key      uint64
	hosts    []routeHost // by index of the node; the attachment of switches is -1
	switches int
	switchOf []int32 // by link: number of the switch it leads to; -1: a host
	nodeOf   []int32 // by switch number: index of the node
	dist     []uint16
	next     []int32 // by attachment × switches + switch: number of a set of links
	setAt    []int32 // by set: start of its links in setLink and setSalt; one extra at the end
	number   []int32 // by index of the node: switch number; -1 for hosts
	setLink  []int32 // links of the hosts, then links of the sets
	setSalt  []uint64
	attached [][]int32 // by attachment: its switches, in ascending order
	weights  []float64 // of the links in setLink; nil: all equal
	salts    []uint64  // by link, of its two nodes
	fib      *FIB      // nil: shortest paths
	toHost   []int32   // links to hosts: reverses of the first links of setLink

	run         []int32  // by place in setLink, see findRuns; nil: no LAGs
	memberSalts []uint64 // by link; nil: no LAGs

	Hash Hash // how switches choose links; must not change during use
}

type routeHost struct {
	attachment int32 // -1: not a host; attachment 0 has no switches
	only       int32 // the only link of the host, if it leads to a switch; otherwise -1
	from, to   int32 // indexes in Router.setLink of its links that are up
	direct     bool  // some of these links lead to hosts
}

const (
	unreachableDist = math.MaxUint16
	maxSwitches     = 1 << 20
	maxHops         = 250 // as network.MaxHops of the simulator
	setNone         = -1  // no path from here
	setArrive       = -2  // the destination is attached to this switch
)

// An UnreachableError says that no path over the cables that are up joins two hosts.
type UnreachableError struct {
	Src, Dst int32
	Why      string // the route where packets end, if routes come from a FIB
	text     string
}

func (e *UnreachableError) Error() string { return e.text }

// Path appends the ids of the links that the flow crosses, in order. It does not allocate memory if path has
// enough capacity. If there is an error, path is returned unchanged. The error is an *UnreachableError if no
// path joins src and dst. It is another error if they are not two different hosts.
func (r *Router) Path(flowID int64, src, dst int32, path []int32) ([]int32, error) {
	w := walk{path: path}
	r.start(&w, flowID, src, dst)
	for w.row != nil {
		r.advance(&w, w.row[w.at])
	}
	if w.end != arrived {
		return path, r.pathError(&w, flowID, src, dst)
	}
	return w.path, nil
}

// A PathQuery is a flow whose path Paths finds.
type PathQuery struct {
	FlowID   int64
	Src, Dst int32
	Path     []int32 // the result; Paths uses its memory
	Err      error   // as returned by Path
	walk     walk
}

// Paths finds the paths of several flows, as Path does. All of them advance by one link at a time. The
// processor then fetches parts of the tables, which exceed its second-level cache, for many flows at once.
func (r *Router) Paths(flows []PathQuery) {
	for i := range flows {
		q := &flows[i]
		q.walk = walk{path: q.Path[:0]}
		r.start(&q.walk, q.FlowID, q.Src, q.Dst)
	}
	for left := true; left; {
		left = false
		for i := range flows {
			w := &flows[i].walk
			if w.row != nil {
				w.set = w.row[w.at]
			}
		}
		for i := range flows {
			w := &flows[i].walk
			if w.row != nil {
				r.advance(w, w.set)
				left = true
			}
		}
	}
	for i := range flows {
		q := &flows[i]
		q.Err = nil
		q.Path = q.walk.path
		if q.walk.end != arrived {
			q.Path = q.Path[:0]
			q.Err = r.pathError(&q.walk, q.FlowID, q.Src, q.Dst)
		}
	}
}

// A walk is a path up to a switch.
type walk struct {
	flow uint64 // hash of the flow
	to   *routeHost
	path []int32
	row  []int32 // part of Router.next for the destination; nil at the end of the walk
	at   int32   // number of the switch, or setNone at the source
	set  int32   // row[at] (Paths)
	end  walkEnd
}

// A walkEnd says how a walk ended.
type walkEnd int8

const (
	arrived walkEnd = iota
	noHosts         // the source or the destination is not a host, or both are the same
	noPath
)

// start begins a walk at its source.
func (r *Router) start(w *walk, flowID int64, src, dst int32) {
	i := r.Net.place(src)
	j := r.Net.place(dst)
	if i < 0 || j < 0 || src == dst || r.hosts[i].attachment < 0 || r.hosts[j].attachment < 0 {
		w.end = noHosts
		return
	}
	from := &r.hosts[i]
	w.to = &r.hosts[j]
	w.flow = rng.Hash(r.key, uint64(flowID))
	if r.Hash.Addresses {
		w.flow = rng.Hash(r.key, uint64(uint32(src))<<32|uint64(uint32(dst)))
	}
	base := int(w.to.attachment) * r.switches
	link := from.only
	if link < 0 {
		link = r.firstLink(w.flow, from, base, dst)
	}
	if link < 0 {
		w.at = setNone
		w.end = noPath
		return
	}
	w.row = r.next[base : base+r.switches]
	r.follow(w, link)
}

// follow appends a link to a walk. A cable between two hosts ends it.
func (r *Router) follow(w *walk, link int32) {
	w.path = append(w.path, link)
	w.at = r.switchOf[link]
	if w.at < 0 {
		w.row = nil
	}
}

// advance follows a link of a set, which is that of the switch where the walk is.
func (r *Router) advance(w *walk, set int32) {
	switch {
	case set >= 0:
		r.follow(w, r.choose(w.flow, r.setAt[set], r.setAt[set+1]))
	case set == setArrive:
		w.path = append(w.path, r.lastLink(w))
		w.row = nil
	default:
		w.end = noPath
		w.row = nil
	}
}

// lastLink returns the link of a walk from its switch to the destination.
func (r *Router) lastLink(w *walk) int32 {
	to := w.to
	if to.only >= 0 {
		return Reverse(to.only)
	}
	for k := to.from; k < to.to; k += r.sizeOf(k) {
		if r.switchOf[r.setLink[k]] == w.at {
			return Reverse(r.member(w.flow, k))
		}
	}
	panic("topology: a switch of the destination's attachment has no link to it")
}

// pathError returns the error for a walk that did not arrive.
func (r *Router) pathError(w *walk, flowID int64, src, dst int32) error {
	if w.end == noHosts {
		return r.endpointError(flowID, src, dst)
	}
	return r.unreachable(flowID, src, dst, w.at)
}

// Next returns the links of a switch that lead nearer to a host, and the number of their set, 0 to Sets() -
// 1. Members of a LAG count as separate links. If there is no path, it returns no links. node and host
// are indexes into Network.Nodes.
func (r *Router) Next(node, host int32) (set int32, links []int32) {
	to := &r.hosts[host]
	switch set = r.next[int(to.attachment)*r.switches+int(r.number[node])]; set {
	case setNone:
		return 0, nil
	case setArrive:
		for k := to.from; k < to.to; k++ {
			if r.switchOf[r.setLink[k]] == r.number[node] {
				return r.pathSets() + k, r.toHost[k : k+r.sizeOf(k)]
			}
		}
	}
	return set, r.setLink[r.setAt[set]:r.setAt[set+1]]
}

// Sets returns the number of different sets of links. The sets of links to hosts follow the others.
func (r *Router) Sets() int { return int(r.pathSets()) + len(r.toHost) }

// pathSets returns the number of sets of links to other switches.
func (r *Router) pathSets() int32 { return int32(len(r.setAt) - 1) }

// SetWeights makes flows choose links in proportion to weights, by link id (WCMP). Weights must be above 0.
// If weights is nil, nothing changes. SetWeights must not run while others use the router.
func (r *Router) SetWeights(weights []float64) {
	if weights == nil {
		return
	}
	r.weights = names.Of(r.setLink, func(l int32) float64 { return weights[l] })
}

// A Hash says how switches choose links. The zero value means by flow and switch.
type Hash struct {
	Addresses bool // by source and destination instead of the flow
	Polarized bool // by the same hash at every switch
}

// unreachable returns the error for a flow whose packets end at switch at, or at its source.
func (r *Router) unreachable(flowID int64, src, dst, at int32) error {
	err := &UnreachableError{
		Src: src,
		Dst: dst,
		text: fmt.Sprintf("flow %d: no path from host %d (%s) to host %d (%s)",
			flowID, src, r.Net.Name(src), dst, r.Net.Name(dst)),
	}
	host, _ := slices.BinarySearch(r.Net.hosts, dst)
	if r.fib != nil && at >= 0 {
		err.Why = r.fib.name(int32(host), at)
		err.text += ": the packets end at " + err.Why
	}
	return err
}

func (r *Router) endpointError(flowID int64, src, dst int32) error {
	what := "source and destination are the same host"
	for _, id := range []int32{src, dst} {
		if v, ok := r.Net.Node(id); !ok {
			what = fmt.Sprintf("no node has the id %d", id)
		} else if v.Kind != KindHost {
			what = fmt.Sprintf("node %d (%s) is a %s, not a host", id, v.Name, v.Kind)
		}
	}
	return fmt.Errorf("flow %d from node %d to node %d: %s", flowID, src, dst, what)
}

// NewRouter computes the tables of the network in its current state, including failures. It returns an error
// if a shortest path has more than maxHops links, if the network has more than maxSwitches switches, or if
// ctx ends.
func NewRouter(ctx context.Context, n *Network, seed uint64) (*Router, error) {
	r := &Router{
		Net:      n,
		key:      rng.MixKey(rng.MixKey(0, seed), uint64(rng.FlowPath)),
		hosts:    make([]routeHost, len(n.Nodes)),
		switchOf: make([]int32, len(n.Links)),
	}
	r.number = slices.Repeat([]int32{-1}, len(n.Nodes))
	for i, v := range n.Nodes {
		if v.Kind != KindHost {
			r.number[i] = int32(len(r.nodeOf))
			r.nodeOf = append(r.nodeOf, int32(i))
		}
	}
	r.switches = len(r.nodeOf)
	if r.switches > maxSwitches {
		return nil, fmt.Errorf("%d switches are more than the router's limit of %d", r.switches, maxSwitches)
	}
	for i, l := range n.Links {
		r.switchOf[i] = r.number[n.place(l.Dst)]
	}
	out := n.linksUp() // only links to switches, for switches
	for _, i := range r.nodeOf {
		out[i] = slices.DeleteFunc(out[i], func(l int32) bool { return r.switchOf[l] < 0 })
	}
	if n.HasLAGs() {
		for i := range out {
			n.groupMembers(out[i])
		}
	}
	r.salts = make([]uint64, len(n.Links))
	for i, l := range n.Links {
		// The ids of nodes are used, because link ids change if the cables of a file are reordered.
		s := rng.New(seed, rng.ECMP, uint64(uint32(l.Src)), uint64(uint32(l.Dst)))
		r.salts[i] = s.Uint64()
	}
	r.saltMembers()
	r.attach(out)
	return r, r.buildTables(ctx, out)
}

func (r *Router) addLink(l int32) {
	r.setLink = append(r.setLink, l)
	r.setSalt = append(r.setSalt, r.salts[l])
}

// attach adds the links of the hosts and groups the hosts by the switches that they are attached to.
func (r *Router) attach(out [][]int32) {
	r.attached = [][]int32{nil}
	known := interned{ids: map[string]int32{"": 0}}
	for i, v := range r.Net.Nodes {
		h := &r.hosts[i]
		h.attachment = -1
		h.only = -1
		if v.Kind != KindHost {
			continue
		}
		h.from = int32(len(r.setLink))
		var at []int32
		for _, l := range out[i] {
			r.addLink(l)
			r.toHost = append(r.toHost, Reverse(l))
			sw := r.switchOf[l]
			if sw >= 0 {
				at = append(at, sw)
			} else {
				h.direct = true
			}
		}
		h.to = int32(len(r.setLink))
		r.findRuns()
		if len(at) == 1 && !h.direct {
			h.only = r.setLink[h.from]
		}
		slices.Sort(at)
		at = slices.Compact(at)
		var added bool
		h.attachment, added = known.of(at)
		if added {
			r.attached = append(r.attached, at)
		}
	}
}

// interned assigns numbers to sets of ids.
type interned struct {
	ids map[string]int32
	key []byte
}

func (x *interned) of(set []int32) (id int32, added bool) {
	x.key = x.key[:0]
	for _, v := range set {
		x.key = binary.LittleEndian.AppendUint32(x.key, uint32(v))
	}
	id, known := x.ids[string(x.key)]
	if !known {
		id = int32(len(x.ids))
		x.ids[string(x.key)] = id
	}
	return id, !known
}

// buildTables performs a breadth-first search from every attachment. The tables of a large network take
// minutes, so it checks ctx before each search.
func (r *Router) buildTables(ctx context.Context, out [][]int32) error {
	cells := len(r.attached) * r.switches
	r.dist = make([]uint16, cells)
	r.next = make([]int32, cells)
	r.setAt = []int32{int32(len(r.setLink))}
	sets := interned{ids: map[string]int32{}}
	queue := make([]int32, 0, r.switches)
	var members []int32
	for a, at := range r.attached {
		if err := ctx.Err(); err != nil {
			return err
		}
		dist := r.dist[a*r.switches : (a+1)*r.switches]
		next := r.next[a*r.switches : (a+1)*r.switches]
		for i := range dist {
			dist[i] = unreachableDist
			next[i] = setNone
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
			members = r.nearer(members[:0], out[r.nodeOf[s]], dist, dist[s])
			id, added := sets.of(members)
			if added {
				r.addSet(members)
			}
			next[s] = id
		}
	}
	return nil
}

// nearer appends the links that lead to switches one link nearer to the attachment than far.
func (r *Router) nearer(to []int32, links []int32, dist []uint16, far uint16) []int32 {
	for _, l := range links {
		if dist[r.switchOf[l]] == far-1 {
			to = append(to, l)
		}
	}
	return to
}

// addSet appends a set of links.
func (r *Router) addSet(links []int32) {
	for _, l := range links {
		r.addLink(l)
	}
	r.findRuns()
	r.setAt = append(r.setAt, int32(len(r.setLink)))
}

// search sets the number of links from each switch to a host of the attachment. It returns the switches that
// reach the attachment, nearest first.
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
			if dist[s] == maxHops-1 { // the source adds one more link
				return nil, fmt.Errorf(
					"a shortest path has more than %d links, the most that can be simulated",
					maxHops,
				)
			}
			dist[to] = dist[s] + 1
			queue = append(queue, to)
		}
	}
	return queue, nil
}

// ECMP: flows choose between equal-cost links by rendezvous hashing (Thaler and Ravishankar, 1998). Of the
// links that lead nearer to the destination, a flow takes the one with the highest hash of (seed, flow id,
// node, link). The hash differs between nodes, so choices at successive hops are independent (no
// polarization). The hash is consistent: if a cable fails, only the flows that crossed it move, because all
// other flows keep their highest hash. Path computes the flow's key, and NewRouter computes the salts of
// links.

// choose returns the link of a set with the highest hash for the flow. The lowest id breaks ties.
func (r *Router) choose(flow uint64, lo, hi int32) int32 {
	if hi == lo+1 {
		return r.setLink[lo]
	}
	if r.run != nil {
		return r.member(flow, r.chooseLAG(flow, lo, hi))
	}
	if r.Hash.Polarized {
		return r.chooseAlike(linkHash(flow, 0), lo, hi)
	}
	best := lo
	most := uint64(0)
	for i, salt := range r.setSalt[lo:hi] {
		h := linkHash(flow, salt)
		if r.weights != nil {
			h = weigh(h, r.weights[int(lo)+i])
		}
		// A branch would be mispredicted for each link that exceeds those before it.
		_, above := bits.Sub64(most, h, 0)
		mask := -above
		best ^= (best ^ (lo + int32(i))) & int32(mask)
		most ^= (most ^ h) & mask
	}
	return r.setLink[best]
}

// chooseAlike chooses by a hash that is the same at all switches: by its value modulo the number of links.
// With weights, the hash selects a point in the sum of the weights, and the link whose part has this point is
// chosen.
func (r *Router) chooseAlike(hash uint64, lo, hi int32) int32 {
	if r.weights == nil {
		return r.setLink[lo+int32(hash%uint64(hi-lo))]
	}
	sum := 0.0
	for _, w := range r.weights[lo:hi] {
		sum += w
	}
	rest := unit(hash) * sum
	for k := lo; k < hi-1; k++ {
		rest -= r.weights[k]
		if rest < 0 {
			return r.setLink[k]
		}
	}
	return r.setLink[hi-1]
}

// weigh returns the value that replaces the hash of a link with a weight. The link with the highest value is
// chosen. This is weighted rendezvous hashing (Schindelhauer and Schomaker, SPAA'05), which chooses the
// lowest -ln(u) / weight, where u is the hash mapped to (0, 1).
func weigh(h uint64, weight float64) uint64 { return ^math.Float64bits(-math.Log(unit(h)) / weight) }

// unit maps a hash to (0, 1).
func unit(h uint64) float64 { return (float64(h>>11) + 0.5) / (1 << 53) }

// linkHash hashes a flow's key and a link's salt. Both are already mixed well, so one more round of mixing
// makes the hashes of two links independent.
func linkHash(flow, salt uint64) uint64 {
	x := flow ^ salt
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// firstCost orders the links of a host by their distance to host dst. It returns 0 if a link ends there,
// otherwise twice the number of links. For the switch inside a server it returns one less, so that two hosts
// prefer it to a leaf that they share.
func (r *Router) firstCost(link int32, base int, dst int32) int {
	sw := r.switchOf[link]
	switch {
	case sw < 0 && r.Net.Links[link].Dst == dst:
		return 0
	case sw < 0 || r.dist[base+int(sw)] == unreachableDist:
		return unreachableDist
	case r.Net.Nodes[r.nodeOf[sw]].Kind == KindInner:
		return 2*int(r.dist[base+int(sw)]) - 1
	}
	return 2 * int(r.dist[base+int(sw)])
}

// firstLink returns the link that the flow takes out of a host with several links, or -1.
func (r *Router) firstLink(flow uint64, from *routeHost, base int, dst int32) int32 {
	best := int32(-1)
	bestDist := unreachableDist
	bestHash := uint64(0)
	for k := from.from; k < from.to; k += r.sizeOf(k) {
		d := r.firstCost(r.setLink[k], base, dst)
		if d == unreachableDist || d > bestDist {
			continue
		}
		h := linkHash(flow, r.setSalt[k])
		if r.weights != nil {
			h = weigh(h, r.weightOf(k))
		}
		if d < bestDist || h > bestHash {
			best = k
			bestDist = d
			bestHash = h
		}
	}
	if best < 0 {
		return -1
	}
	return r.member(flow, best)
}

// ExpectedLoads returns the expected weight on each link, by link id, in the unit of the given weights.
// weight(i, j) is sent from the hosts of group i to those of group j, in equal parts for all pairs of
// different hosts. At every node it is divided equally among the links of equal cost. The result is the exact
// expectation of Path over random flow ids, not a sample. Weight between hosts that no path joins is on no
// link.
//
// Weights must be finite and at least 0. The weight of a group of one host to itself must be 0. Groups
// consist of hosts of the network, and no host is in two groups.
//
// The cost is one traversal of the network for each set of switches that hosts of a group are attached to
// (one per rack of a data center).
func (r *Router) ExpectedLoads(groups [][]int32, weight func(i, j int) float64) []float64 {
	parts := names.Of(groups, r.partition)
	w := &spreader{r: r, load: make([]float64, len(r.Net.Links)), mass: make([]float64, r.switches)}
	var order []int32
	for j := range groups {
		for k := range parts[j] {
			d := &parts[j][k]
			order = r.farthestFirst(d.attachment, order[:0])
			for i := range groups {
				x := weight(i, j)
				for m := 0; x > 0 && m < len(parts[i]); m++ {
					own := i == j && m == k
					each := perHost(x, len(groups[i]), len(groups[j]), len(d.hosts), i == j, own)
					if each > 0 {
						w.send(&parts[i][m], d, each)
					}
				}
			}
			w.deliver(d, order)
		}
	}
	return w.load
}

// perHost returns what one host of a group with from hosts sends to part hosts of a group with to hosts, if
// weight is the weight between the groups. No host sends to itself. sameGroup says that both groups are the
// same, and own says that the sender is one of the part hosts.
func perHost(weight float64, from, to, part int, sameGroup, own bool) float64 {
	if sameGroup {
		to--
	}
	if own {
		part--
	}
	return weight / float64(from) * float64(part) / float64(to)
}

// A groupPart has the hosts of a group that the router treats alike. They have the same attachment and no
// cable to another host. A host with such a cable is a separate part.
type groupPart struct {
	attachment int32
	hosts      []int32 // indexes of nodes
}

// partition divides a group by attachment.
func (r *Router) partition(group []int32) (parts []groupPart) {
	of := map[int32]int{}
	for _, id := range group {
		i := r.Net.place(id)
		h := &r.hosts[i]
		p, known := of[h.attachment]
		if !known || h.direct {
			p = len(parts)
			parts = append(parts, groupPart{attachment: h.attachment})
		}
		if !h.direct {
			of[h.attachment] = p
		}
		parts[p].hosts = append(parts[p].hosts, i)
	}
	return parts
}

// farthestFirst appends the switches that reach an attachment, the farthest first.
func (r *Router) farthestFirst(attachment int32, order []int32) []int32 {
	dist := r.dist[int(attachment)*r.switches : (int(attachment)+1)*r.switches]
	for s, d := range dist {
		if d != unreachableDist {
			order = append(order, int32(s))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(dist[b], dist[a]), cmp.Compare(a, b))
	})
	return order
}

// A spreader computes expected loads. It moves weight from sources over their first links (send), then
// through the switches to the destination, farthest switch first (deliver). Weight is divided equally among
// equal-cost links.
type spreader struct {
	r    *Router
	load []float64 // by link id
	mass []float64 // by switch: weight that has arrived but has not been forwarded
}

// send moves weight over the first links of the hosts of a part, perHost from each host, and adds it to mass
// at the switches. A host with several cables uses those that begin a shortest path, in equal parts.
func (w *spreader) send(from, to *groupPart, perHost float64) {
	r := w.r
	base := int(to.attachment) * r.switches
	var ways []int32 // places in setLink
	for _, i := range from.hosts {
		h := &r.hosts[i]
		best := unreachableDist
		ways = ways[:0]
		for k := h.from; k < h.to; k += r.sizeOf(k) {
			// Only a part with one host can be the other end of a cable between hosts.
			d := r.firstCost(r.setLink[k], base, r.Net.Nodes[to.hosts[0]].ID)
			if d < best {
				best = d
				ways = ways[:0]
			}
			if d == best {
				ways = append(ways, k)
			}
		}
		if best == unreachableDist {
			continue
		}
		each := perHost / float64(len(ways))
		for _, k := range ways {
			w.share(r.setLink[k:k+r.sizeOf(k)], each)
			sw := r.switchOf[r.setLink[k]]
			if sw >= 0 {
				w.mass[sw] += each
			}
		}
	}
}

// share divides weight equally among the members of a LAG.
func (w *spreader) share(members []int32, weight float64) {
	for _, l := range members {
		w.load[l] += weight / float64(len(members))
	}
}

// deliver moves the weight at the switches to the destination. order is the result of farthestFirst. Every
// path leads from a farther switch to a nearer one, so all weight for a switch has arrived before it is
// processed. Afterwards mass is zero.
func (w *spreader) deliver(to *groupPart, order []int32) {
	r := w.r
	base := int(to.attachment) * r.switches
	for _, s := range order {
		x := w.mass[s]
		if x == 0 {
			continue
		}
		w.mass[s] = 0
		set := r.next[base+int(s)]
		if set == setArrive {
			each := x / float64(len(to.hosts))
			for _, i := range to.hosts {
				h := &r.hosts[i]
				for k := h.from; k < h.to; k += r.sizeOf(k) {
					if r.switchOf[r.setLink[k]] == s {
						w.share(r.toHost[k:k+r.sizeOf(k)], each)
					}
				}
			}
			continue
		}
		lo := r.setAt[set]
		hi := r.setAt[set+1]
		each := x / float64(r.lagsIn(lo, hi))
		for k := lo; k < hi; k += r.sizeOf(k) {
			w.share(r.setLink[k:k+r.sizeOf(k)], each)
			w.mass[r.switchOf[r.setLink[k]]] += each
		}
	}
}
