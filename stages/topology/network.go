package topology

import (
	"maps"
	"slices"
	"strconv"
)

// Kinds of nodes. Only hosts send and receive flows. The other kinds are switches; they differ in
// name only.
const (
	KindHost   = "host"
	KindTor    = "tor"
	KindFabric = "fabric"
	KindSpine  = "spine"
	KindSwitch = "switch"
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
// the same two nodes, every host has a cable, and every number is in range. Only Fail, SetBandwidth
// and AddCable change it; they must not run while others read it.
type Network struct {
	Nodes []Node // by id
	Links []Link // by id

	index   nodeIndex
	cableOf map[[2]int32]int32 // lower node id, higher node id → cable
	byName  map[string]int32   // name → node id; -1 where several nodes have the name
	hosts   []int32
	racks   [][]int32
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
	n.index = newNodeIndex(n.Nodes)
	if faults := checkCables(n, cables); len(faults) > 0 {
		return nil, faults[0]
	}
	n.addNames()
	n.addLinks(cables)
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

// addLinks makes two links of each cable. Names of tiers are shared, since a network has few.
func (n *Network) addLinks(cables []Cable) {
	n.Links = make([]Link, 0, 2*len(cables))
	n.cableOf = make(map[[2]int32]int32, len(cables))
	tiers := map[[2]string]string{}
	tier := func(from, to string) string {
		name, known := tiers[[2]string{from, to}]
		if !known {
			name = from + "-" + to
			tiers[[2]string{from, to}] = name
		}
		return name
	}
	for i, c := range cables {
		n.cableOf[cableKey(c.A, c.B)] = int32(i)
		a, b := n.Nodes[n.index.of(c.A)].Kind, n.Nodes[n.index.of(c.B)].Kind
		l := Link{ID: int32(2 * i), Src: c.A, Dst: c.B, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS}
		l.Tier = tier(a, b)
		n.Links = append(n.Links, l)
		l.ID, l.Src, l.Dst, l.Tier = l.ID+1, c.B, c.A, tier(b, a)
		n.Links = append(n.Links, l)
	}
}

// cableKey identifies a cable by its two nodes, in either order.
func cableKey(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// Reverse returns the other direction of the same cable.
func Reverse(link int32) int32 { return link ^ 1 }

// Clone returns a network that can be changed without changing n.
func (n *Network) Clone() *Network {
	c := *n
	c.Links, c.cableOf = slices.Clone(n.Links), maps.Clone(n.cableOf)
	return &c
}

// Node returns the node with that id.
func (n *Network) Node(id int32) (Node, bool) {
	i := n.index.of(id)
	if i < 0 {
		return Node{}, false
	}
	return n.Nodes[i], true
}

// FromHost reports whether a link leaves a host: the first hop of the paths that start there.
func (n *Network) FromHost(link int32) bool {
	v, _ := n.Node(n.Links[link].Src)
	return v.Kind == KindHost
}

// Hosts returns the ids of all hosts, ascending. The slice belongs to the network.
func (n *Network) Hosts() []int32 { return n.hosts }
