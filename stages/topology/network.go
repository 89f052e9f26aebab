package topology

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"

	"parsimon/schema/names"
)

// Kinds of nodes. Only hosts send and receive flows. The other kinds are switches; they differ in name only.
const (
	KindHost   = "host"
	KindTor    = "tor"
	KindFabric = "fabric"
	KindSpine  = "spine"
	KindSwitch = "switch"
	KindInner  = "inner" // inside of a server, with its hosts only: NVLink
)

// A Node is a host or a switch.
type Node struct {
	ID   int32 // as in the topology file; at least 0, need not be dense
	Name string
	Kind string // one of the kinds above
	Pod  int32  // counted from 0; -1 where the topology has none
	Rack int32  // counted from 0 over the whole network; -1 where the topology has none
}

// A Cable joins two nodes with the same bandwidth and propagation delay in both directions.
type Cable struct {
	A, B         int32 // node ids
	BandwidthBps int64
	DelayNS      int64
}

// A Link is one direction of a cable. Its ID is its index in Network.Links: 2 × the index of the
// cable for the direction A → B, one more for B → A.
type Link struct {
	ID, Src, Dst int32 // link id and node ids
	BandwidthBps int64
	DelayNS      int64
	Tier         string // kinds of the two ends, in the direction of the link: "host-tor", "tor-host"
	Failed       bool   // the cable is down
}

// A Network is a checked topology: every cable joins two different known nodes, no two cables join
// the same two nodes, every host has a cable, and every number is in range. Only the Set and
// Fail methods and AddCable change it; they must not run while others read it.
type Network struct {
	Nodes []Node // by id
	Links []Link // by id

	index   nodeIndex
	cableOf map[[2]int32]int32 // lower node id, higher node id → cable
	byName  map[string]int32   // name → node id; -1 where several nodes have the name
	hosts   []int32
	racks   [][]int32

	ports     []Ports          // by cable; nil or shorter where the topology names none
	rackLabel map[int32]string // by Node.Rack, where the topology names it
}

// NewNetwork checks a topology and builds it. The order of the cables gives the links their ids; the
// order of the nodes is free. An empty name becomes the kind and the id ("host 17"), an empty kind
// "switch". The error is an *Error where one node or cable is to blame.
func NewNetwork(nodes []Node, cables []Cable) (*Network, error) {
	nodes = slices.Clone(nodes)
	if faults := checkNodes(nodes); len(faults) > 0 {
		return nil, faults[0]
	}
	n := &Network{Nodes: nodes}
	slices.SortFunc(n.Nodes, func(a, b Node) int { return int(a.ID) - int(b.ID) })
	n.index.nodes = n.Nodes
	if top := int(nodes[len(nodes)-1].ID); top < 4*len(nodes)+1<<16 {
		n.index.dense = slices.Repeat([]int32{-1}, top+1)
		for i, v := range nodes {
			n.index.dense[v.ID] = int32(i)
		}
	}
	if faults := checkCables(n.Nodes, cables, n.index.of); len(faults) > 0 {
		return nil, faults[0]
	}
	n.addNames()
	n.Links, n.cableOf = make([]Link, 0, 2*len(cables)), make(map[[2]int32]int32, len(cables))
	for _, c := range cables {
		n.addCable(c)
	}
	n.racks = n.findRacks()
	return n, nil
}

// addNames fills the lookup by name and the list of hosts. Names need not be unique: a name that
// several nodes have finds none of them.
func (n *Network) addNames() {
	n.byName = make(map[string]int32, len(n.Nodes))
	for i := range n.Nodes {
		v := &n.Nodes[i]
		if v.Name == "" {
			v.Name = v.Kind + " " + strconv.Itoa(int(v.ID))
		}
		if _, taken := n.byName[v.Name]; taken {
			n.byName[v.Name] = -1
		} else {
			n.byName[v.Name] = v.ID
		}
		if v.Kind == KindHost {
			n.hosts = append(n.hosts, v.ID)
		}
	}
}

func (n *Network) addCable(c Cable) {
	id := int32(len(n.Links))
	n.cableOf[cableKey(c.A, c.B)] = id / 2
	a, b := n.Nodes[n.index.of(c.A)].Kind, n.Nodes[n.index.of(c.B)].Kind
	n.Links = append(n.Links, Link{ID: id, Src: c.A, Dst: c.B, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS,
		Tier: tierName(a, b)}, Link{ID: id + 1, Src: c.B, Dst: c.A, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS,
		Tier: tierName(b, a)})
}

// tierName names the tier of links. The links of a network share the names, since it has few.
func tierName(from, to string) string { return unique.Make(from + "-" + to).Value() }

// cableKey identifies a cable by its two nodes, in either order.
func cableKey(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// Reverse returns the other direction of the same cable.
func Reverse(link int32) int32 { return link ^ 1 }

// Clone returns a network that can be changed without changing n.
func (n *Network) Clone() *Network {
	c := *n
	c.Links, c.cableOf, c.ports = slices.Clone(n.Links), maps.Clone(n.cableOf), slices.Clone(n.ports)
	return &c
}

// Node returns the node with that id.
func (n *Network) Node(id int32) (Node, bool) {
	if i := n.index.of(id); i >= 0 {
		return n.Nodes[i], true
	}
	return Node{}, false
}

// FromHost reports whether a link leaves a host: the first hop of the paths that start there.
func (n *Network) FromHost(link int32) bool {
	v, _ := n.Node(n.Links[link].Src)
	return v.Kind == KindHost
}

// Hosts returns the ids of all hosts, ascending. The slice belongs to the network.
func (n *Network) Hosts() []int32 { return n.hosts }

// A nodeIndex maps a node id to the node's index in Network.Nodes. Ids are usually dense; then the map is an array.
type nodeIndex struct {
	dense []int32
	nodes []Node // in ascending order of id
}

func (x *nodeIndex) of(id int32) int32 {
	if uint(id) < uint(len(x.dense)) {
		return x.dense[id]
	}
	i, known := slices.BinarySearchFunc(x.nodes, id, func(v Node, id int32) int { return cmp.Compare(v.ID, id) })
	if !known {
		return -1
	}
	return int32(i)
}

// Racks returns the ids of each rack's hosts, by rack number, as traffic matrices count them. Hosts
// without a rack number form a rack per set of neighbours, after the numbered racks and in order of
// their lowest host. Rack numbers without hosts are left out. The slices belong to the network.
func (n *Network) Racks() [][]int32 { return n.racks }

func (n *Network) findRacks() [][]int32 {
	near := n.nearHosts()
	groups := map[string][]int32{}
	var numbered, others []string
	for _, h := range n.hosts {
		rack := n.Nodes[n.index.of(h)].Rack
		keys, key := &numbered, fmt.Sprintf("rack %010d", rack)
		if rack < 0 {
			keys, key = &others, fmt.Sprint(slices.Sorted(slices.Values(near[h])))
		}
		if groups[key] == nil {
			*keys = append(*keys, key)
		}
		groups[key] = append(groups[key], h)
	}
	slices.Sort(numbered)
	racks := make([][]int32, 0, len(groups))
	for _, key := range append(numbered, others...) {
		racks = append(racks, groups[key])
	}
	return racks
}

// HostBps returns the least and the most bandwidth of hosts' links.
func (n *Network) HostBps() (least, most int64) {
	least = math.MaxInt64
	for i := range n.Links {
		if l := &n.Links[i]; n.FromHost(l.ID) {
			least, most = min(least, l.BandwidthBps), max(most, l.BandwidthBps)
		}
	}
	return least, most
}

func (n *Network) nearHosts() map[int32][]int32 {
	near := make(map[int32][]int32, len(n.hosts))
	for i := range n.Links {
		if l := &n.Links[i]; n.FromHost(l.ID) {
			near[l.Src] = append(near[l.Src], l.Dst)
		}
	}
	return near
}

// SetRackNames names racks by the number that their nodes have.
func (n *Network) SetRackNames(names map[int32]string) { n.rackLabel = names }

// RackNames returns the name of each rack of Racks: as the topology names it, else after the switches of its hosts,
// "leaf1" or "leaf1+leaf2"; "rack 3" where hosts have no or more switches, or where two racks would have one name.
func (n *Network) RackNames() []string {
	near := n.nearHosts()
	names, uses := make([]string, len(n.racks)), map[string]int{}
	for i, hosts := range n.racks {
		v, _ := n.Node(hosts[0])
		if names[i] = n.rackLabel[v.Rack]; names[i] == "" {
			names[i] = n.attachmentName(hosts, near)
		}
		uses[names[i]]++
	}
	for i := range names {
		if names[i] == "" || uses[names[i]] > 1 {
			names[i] = fmt.Sprintf("rack %d", i)
		}
	}
	return names
}

// attachmentName joins the names of the switches of hosts, if all have the same one or two.
func (n *Network) attachmentName(hosts []int32, near map[int32][]int32) string {
	var name string
	for i, h := range hosts {
		at := names.Of(near[h], n.Name)
		slices.SortFunc(at, CompareNatural)
		joined := strings.Join(at, "+")
		if len(at) > 2 || i > 0 && joined != name {
			return ""
		}
		name = joined
	}
	return name
}

// RackList finds racks by name, by a switch that hosts of no other rack have, or by place in Racks: "R1,R7",
// "leaf1+leaf2", "leaf1", "4-7" or "0,2,5". Names come before switches, and these before places.
func (n *Network) RackList(text string) (places []int, err error) {
	all, near := n.RackNames(), n.nearHosts()
	for piece := range strings.SplitSeq(text, ",") {
		piece = strings.TrimSpace(piece)
		if at := slices.Index(all, piece); at >= 0 {
			places = append(places, at)
			continue
		}
		var at []int // racks with hosts at the switch
		id, isNode := n.byName[piece]
		for i, hosts := range n.racks {
			if isNode && slices.ContainsFunc(hosts, func(h int32) bool { return slices.Contains(near[h], id) }) {
				at = append(at, i)
			}
		}
		from, to, ok := Span(piece)
		switch {
		case len(at) == 1:
			from, to = at[0], at[0]
		case len(at) > 1:
			return nil, fmt.Errorf("%s has hosts of %d racks, such as %s and %s: name one", piece, len(at), all[at[0]],
				all[at[1]])
		case !ok:
			return nil, fmt.Errorf("no rack is named %q, no hosts are at such a switch, and it is no place such as 4-7 or "+
				"0,2,5; the racks are %s", piece, Listed(slices.SortedFunc(slices.Values(all), CompareNatural), mostListed))
		case to >= len(n.racks):
			return nil, fmt.Errorf("rack %d: the topology has racks 0 to %d", to, len(n.racks)-1)
		}
		for r := from; r <= to; r++ {
			places = append(places, r)
		}
	}
	return places, nil
}

// Span reads a number, or two in order with a dash between them.
func Span(text string) (from, to int, ok bool) {
	lo, hi, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(strings.TrimSpace(lo))
	if to = from; isRange && err == nil {
		to, err = strconv.Atoi(strings.TrimSpace(hi))
	}
	return from, to, err == nil && 0 <= from && from <= to && to <= math.MaxInt32
}

// Pods returns the number of pods that have hosts; it is 1 where the topology names none.
func (n *Network) Pods() int {
	pods := map[int32]bool{}
	for _, h := range n.hosts {
		pods[n.Nodes[n.index.of(h)].Pod] = true
	}
	return max(1, len(pods))
}
