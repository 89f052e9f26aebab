// Package topology defines networks that have been checked, routes flows over them, and describes them.
// Package format reads them from files.
//
//	nodes, cables ─ NewNetwork (Check) ─► Network ─ NewRouter ─► Router ─ Path ─► links of each flow
//	ClosSpec ─ Clos ──────────────────────┘   FabricSpec: fat-tree, rails, dragonfly, torus
//
// Describe describes a Network. WriteTables, NodesRecord and LinksRecord store it.
//
// A Network has its nodes in ascending order of id, and its links in order of id. The links of cable c are 2c
// (A to B) and 2c+1 (B to A). Cables are selected by tier, by their ends or by patterns (Select). They can
// fail, get another bandwidth or delay, or be added. A Router is a snapshot of a Network. It chooses a
// shortest path for every flow by ECMP, and computes expected loads as the average over such choices.
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/csv"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/simkernel"
)

// Kinds of nodes. Only hosts send and receive flows. All other kinds are switches and behave alike, except
// that hosts of a server prefer their switch of kind KindInner.
const (
	KindHost   = "host"
	KindTor    = "tor"
	KindFabric = "fabric"
	KindSpine  = "spine"
	KindSwitch = "switch"
	KindInner  = "inner" // inside a server, with its hosts only: NVLink
)

// A Node is a host or a switch.
type Node struct {
	ID   int32 // as in the topology file; at least 0, may have gaps
	Name string
	Kind string // one of the kinds above
	Pod  int32  // counted from 0, or -1 if the topology has none
	Rack int32  // counted from 0 over the whole network, or -1 if the topology has none
}

// A Cable joins two nodes with the same bandwidth and propagation delay in both directions.
type Cable struct {
	A, B         int32 // node ids
	BandwidthBps int64
	DelayNS      int64
	Parallel     bool // may join nodes that an earlier cable joins: both are members of a LAG (see Members)
}

// A Link is one direction of a cable. Its ID is its index in Network.Links: 2 × the index of the cable for
// the direction A → B, and one more for B → A.
type Link struct {
	ID, Src, Dst int32 // link id and node ids
	BandwidthBps int64
	DelayNS      int64
	Tier         string // kinds of the two ends, in the direction of the link: "host-tor", "tor-host"
	Failed       bool   // the cable is down
}

// A Network is a topology that has been checked. Every cable joins two different known nodes, every
// host has a cable, and every number is in range. Cables that join the same two nodes are a LAG (see
// Members). Only the Set and Fail methods and AddCable change it. They must not run while others read the
// network.
type Network struct {
	Nodes []Node // by id
	Links []Link // by id

	places  []int32              // by node id: index into Nodes, or -1; nil if ids are sparse
	cableOf map[[2]int32]int32   // lower node id, higher node id → cable, the first of a LAG
	lags    map[[2]int32][]int32 // the same → cables of a LAG
	byName  map[string]int32     // name → node id; -1 if several nodes have the name
	hosts   []int32
	racks   [][]int32

	ports     []Ports          // by cable; nil or shorter if the topology names none
	rackLabel map[int32]string // by Node.Rack, if the topology names it
}

// NewNetwork checks a topology and builds it. The order of the cables determines link ids. The order of the
// nodes does not matter. An empty name becomes the kind and the id ("host 17"), and an empty kind becomes
// "switch". The error is an *Error if a node or a cable caused it.
func NewNetwork(nodes []Node, cables []Cable) (*Network, error) {
	nodes = slices.Clone(nodes)
	faults := Check(nodes, cables)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	n := &Network{Nodes: nodes}
	slices.SortFunc(n.Nodes, func(a, b Node) int { return int(a.ID) - int(b.ID) })
	top := int(nodes[len(nodes)-1].ID)
	if top < 4*len(nodes)+1<<16 {
		n.places = slices.Repeat([]int32{-1}, top+1)
		for i, v := range nodes {
			n.places[v.ID] = int32(i)
		}
	}
	n.addNames()
	n.Links = make([]Link, 0, 2*len(cables))
	n.cableOf = make(map[[2]int32]int32, len(cables))
	for _, c := range cables {
		n.addCable(c)
	}
	n.racks = n.findRacks()
	return n, nil
}

// addNames fills the lookup by name and the list of hosts. Names need not be unique. The lookup does not find
// nodes that share a name.
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
	key := cableKey(c.A, c.B)
	if first, joined := n.cableOf[key]; joined {
		n.addToLAG(key, first, id/2)
	} else {
		n.cableOf[key] = id / 2
	}
	a := n.Nodes[n.place(c.A)].Kind
	b := n.Nodes[n.place(c.B)].Kind
	n.Links = append(
		n.Links,
		Link{ID: id, Src: c.A, Dst: c.B, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS, Tier: tierName(a, b)},
		Link{ID: id + 1, Src: c.B, Dst: c.A, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS,
			Tier: tierName(b, a)},
	)
}

// tierName names the tier of links. Links share the string, because a network has few tiers.
func tierName(from, to string) string { return unique.Make(from + "-" + to).Value() }

// cableKey identifies a cable by its two nodes, in either order.
func cableKey(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// Reverse returns the other direction of the same cable.
func Reverse(link int32) int32 { return link ^ 1 }

// Clone returns a network that can be changed without changing n.
func (n *Network) Clone() *Network {
	c := *n
	c.Links = slices.Clone(n.Links)
	c.cableOf = maps.Clone(n.cableOf)
	c.lags = maps.Clone(n.lags)
	c.ports = slices.Clone(n.ports)
	return &c
}

// Node returns the node with the given id.
func (n *Network) Node(id int32) (Node, bool) {
	i := n.place(id)
	if i >= 0 {
		return n.Nodes[i], true
	}
	return Node{}, false
}

// FromHost reports whether a link leaves a host. Such a link is the first hop of the paths that start there.
func (n *Network) FromHost(link int32) bool {
	v, _ := n.Node(n.Links[link].Src)
	return v.Kind == KindHost
}

// Hosts returns the ids of all hosts in ascending order. The slice belongs to the network.
func (n *Network) Hosts() []int32 { return n.hosts }

// place returns the index into Nodes of the node with the given id, or -1.
func (n *Network) place(id int32) int32 {
	if uint(id) < uint(len(n.places)) {
		return n.places[id]
	}
	i, known := slices.BinarySearchFunc(
		n.Nodes,
		id,
		func(v Node, id int32) int { return cmp.Compare(v.ID, id) },
	)
	if !known {
		return -1
	}
	return int32(i)
}

// Racks returns the ids of each rack's hosts, by rack, in the order that traffic matrices use. Hosts without
// a rack number form one rack per set of neighbors. These racks follow the numbered ones, in the order of
// their lowest host. Rack numbers without hosts are omitted. The slices belong to the network.
func (n *Network) Racks() [][]int32 { return n.racks }

func (n *Network) findRacks() [][]int32 {
	near := n.nearHosts()
	groups := map[string][]int32{}
	var numbered, others []string
	for _, h := range n.hosts {
		rack := n.Nodes[n.place(h)].Rack
		keys := &numbered
		key := fmt.Sprintf("rack %010d", rack)
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

// HostBps returns the lowest and the highest bandwidth of hosts' links.
func (n *Network) HostBps() (least, most int64) {
	least = math.MaxInt64
	for i := range n.Links {
		l := &n.Links[i]
		if n.FromHost(l.ID) {
			least = min(least, l.BandwidthBps)
			most = max(most, l.BandwidthBps)
		}
	}
	return least, most
}

// nearHosts returns the neighbors of each host.
func (n *Network) nearHosts() map[int32][]int32 {
	near := make(map[int32][]int32, len(n.hosts))
	for i := range n.Links {
		l := &n.Links[i]
		if n.FromHost(l.ID) && !slices.Contains(near[l.Src], l.Dst) {
			near[l.Src] = append(near[l.Src], l.Dst)
		}
	}
	return near
}

// SetRackNames sets the names of racks, by rack number of their nodes.
func (n *Network) SetRackNames(names map[int32]string) { n.rackLabel = names }

// RackNames returns the name of each rack in Racks. It is the name in the topology, otherwise that of the
// switches of its hosts, "leaf1" or "leaf1+leaf2". It is "rack 3" if the hosts have no switch, more than two,
// or different ones, or if two racks would have the same name.
func (n *Network) RackNames() []string {
	near := n.nearHosts()
	names := make([]string, len(n.racks))
	uses := map[string]int{}
	for i, hosts := range n.racks {
		v, _ := n.Node(hosts[0])
		names[i] = n.rackLabel[v.Rack]
		if names[i] == "" {
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

// attachmentName joins the names of the switches of hosts, if all hosts have the same one or two switches.
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

// RackList finds racks by name, by a switch whose hosts belong to one rack, or by index into Racks: "R1,R7",
// "leaf1+leaf2", "leaf1", "4-7" or "0,2,5". Names take precedence over switches, and switches over indexes.
func (n *Network) RackList(text string) (places []int, err error) {
	all := n.RackNames()
	near := n.nearHosts()
	for piece := range strings.SplitSeq(text, ",") {
		piece = strings.TrimSpace(piece)
		if at := slices.Index(all, piece); at >= 0 {
			places = append(places, at)
			continue
		}
		var at []int // racks with hosts at the switch
		id, isNode := n.byName[piece]
		for i, hosts := range n.racks {
			if isNode &&
				slices.ContainsFunc(hosts, func(h int32) bool { return slices.Contains(near[h], id) }) {
				at = append(at, i)
			}
		}
		from, to, ok := Span(piece)
		switch {
		case len(at) == 1:
			from = at[0]
			to = at[0]
		case len(at) > 1:
			return nil, fmt.Errorf(
				"%s has hosts of %d racks, such as %s and %s: name one",
				piece,
				len(at),
				all[at[0]],
				all[at[1]],
			)
		case !ok:
			return nil, fmt.Errorf(
				"no rack is named %q, no hosts are at such a switch, and it is not a place such as 4-7 or "+
					"0,2,5; the racks are %s",
				piece,
				names.Listed(slices.SortedFunc(slices.Values(all), CompareNatural), mostListed),
			)
		case to >= len(n.racks):
			return nil, fmt.Errorf("rack %d: the topology has racks 0 to %d", to, len(n.racks)-1)
		}
		for r := from; r <= to; r++ {
			places = append(places, r)
		}
	}
	return places, nil
}

// Span parses a number, or two numbers in ascending order with a dash between them.
func Span(text string) (from, to int, ok bool) {
	lo, hi, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(strings.TrimSpace(lo))
	to = from
	if isRange && err == nil {
		to, err = strconv.Atoi(strings.TrimSpace(hi))
	}
	return from, to, err == nil && 0 <= from && from <= to && to <= math.MaxInt32
}

// Pods returns the number of pods that nodes belong to. It is 1 if the topology names none.
func (n *Network) Pods() int {
	pods := map[int32]bool{}
	for _, v := range n.Nodes {
		if v.Pod >= 0 {
			pods[v.Pod] = true
		}
	}
	return max(1, len(pods))
}

// Limits of the kernel's integers.
const (
	maxBps     = int64(1e15) // 1 Pbps
	maxDelayNS = int64(1e12) // 1,000 s
)

// A FaultKind classifies the faults of a topology. Package format defines which kinds it can repair.
type FaultKind string

// The kinds of faults.
const (
	FaultFormat        FaultKind = "format"        // not valid in its format: syntax, a missing column
	FaultRange         FaultKind = "range"         // a number outside the limits
	FaultRole          FaultKind = "role"          // an unknown kind of node
	FaultStatus        FaultKind = "status"        // an unknown status, or not a network cable
	FaultUnknownNode   FaultKind = "unknown-node"  // an end of a cable that is not a known node
	FaultUncabled      FaultKind = "uncabled"      // a host without a cable
	FaultNoHost        FaultKind = "no-host"       // no node is a host
	FaultUnknownSpeed  FaultKind = "unknown-speed" // a cable without a speed
	FaultOneSided      FaultKind = "one-sided"     // a cable that only one of its two ends reports
	FaultDoubled       FaultKind = "doubled"       // the same cable or node listed twice
	FaultContradictory FaultKind = "contradictory" // two different speeds, delays or roles for one cable or node
	FaultSharedPort    FaultKind = "shared-port"   // one port with two cables
	FaultParallel      FaultKind = "parallel"      // several cables between the same two nodes
	FaultSelfLoop      FaultKind = "self-loop"     // a cable from a node to itself
	FaultIsland        FaultKind = "island"        // a part that is not connected to the others
	FaultSimilarNames  FaultKind = "similar-names" // a name that may mean two nodes: by case, domain or number
)

// An Error is a fault of a node or a cable.
type Error struct {
	Node  int // index in the list of nodes, or -1
	Cable int // index in the list of cables, or -1
	What  string
	Kind  FaultKind
}

func (e *Error) Error() string { return e.What }

type faults []*Error

func (f *faults) add(node, cable int, kind FaultKind, format string, args ...any) {
	*f = append(*f, &Error{node, cable, fmt.Sprintf(format, args...), kind})
}

// Check returns all faults of nodes and of the cables between them. It sets empty kinds to "switch".
func Check(nodes []Node, cables []Cable) []*Error {
	found, at := checkNodes(nodes)
	return append(found, checkCables(nodes, cables, at)...)
}

// checkNodes returns all faults of the nodes, and the index of each id. If two nodes have the same id, it is
// the index of the first. It sets empty kinds to "switch".
func checkNodes(nodes []Node) (found faults, at map[int32]int) {
	hosts := 0
	at = make(map[int32]int, len(nodes))
	for i := range nodes {
		v := &nodes[i]
		switch v.Kind {
		case "":
			v.Kind = KindSwitch
		case KindHost:
			hosts++
		case KindTor, KindFabric, KindSpine, KindSwitch, KindInner:
		default:
			found.add(
				i,
				-1,
				FaultRole,
				"node %d: unknown kind %q (host, tor, fabric, spine, switch or inner)",
				v.ID,
				v.Kind,
			)
		}
		switch {
		case v.ID < 0:
			found.add(i, -1, FaultRange, "node %d: ids must not be negative", v.ID)
		case v.Pod < -1 || v.Rack < -1:
			found.add(i, -1, FaultRange, "node %d: pod and rack must not be negative", v.ID)
		}
		if _, twice := at[v.ID]; twice {
			found.add(i, -1, FaultDoubled, "node %d is listed twice", v.ID)
		} else {
			at[v.ID] = i
		}
	}
	if hosts == 0 {
		found.add(-1, -1, FaultNoHost, "the topology has no host (%d nodes)", len(nodes))
	}
	return found, at
}

// checkCables returns all faults of the cables between nodes. at has the indexes of nodes by id.
func checkCables(nodes []Node, cables []Cable, at map[int32]int) (found faults) {
	if len(cables) > math.MaxInt32/2 {
		found.add(-1, -1, FaultRange, "%d cables are more than link ids can count", len(cables))
		return found
	}
	cabled := make(map[int32]bool, len(nodes))
	joined := make(map[[2]int32]bool, len(cables))
	for i, c := range cables {
		_, knownA := at[c.A]
		_, knownB := at[c.B]
		kind, what := checkCable(c, knownA, knownB)
		if kind == "" && joined[cableKey(c.A, c.B)] && !c.Parallel {
			kind = FaultParallel
			what = "the two nodes are joined twice"
		}
		joined[cableKey(c.A, c.B)] = true
		if kind != "" {
			found.add(-1, i, kind, "cable %d:%d: %s", c.A, c.B, what)
		}
		cabled[c.A] = true
		cabled[c.B] = true
	}
	for i, v := range nodes {
		if v.Kind == KindHost && !cabled[v.ID] && at[v.ID] == i {
			name := cmp.Or(v.Name, fmt.Sprintf("%s %d", v.Kind, v.ID))
			found.add(i, -1, FaultUncabled, "host %d (%s) has no cable", v.ID, name)
		}
	}
	return found
}

// checkCable checks a single cable. It returns an empty kind if the cable has no fault.
func checkCable(c Cable, knownA, knownB bool) (FaultKind, string) {
	switch {
	case !knownA || !knownB:
		return FaultUnknownNode, fmt.Sprintf(
			"no node has the id %d",
			map[bool]int32{false: c.A, true: c.B}[knownA],
		)
	case c.A == c.B:
		return FaultSelfLoop, "both ends are the same node"
	case c.BandwidthBps < simkernel.MinBps || c.BandwidthBps > maxBps:
		return FaultRange, fmt.Sprintf("bandwidth of %d bps, must be %d to %d",
			c.BandwidthBps, int64(simkernel.MinBps), maxBps)
	case c.DelayNS < 0 || c.DelayNS > maxDelayNS:
		return FaultRange, fmt.Sprintf("delay of %d ns, must be 0 to %d", c.DelayNS, maxDelayNS)
	}
	return "", ""
}

// NodesRecord returns table nodes of the lake. The caller must release it.
func (n *Network) NodesRecord() arrow.Record {
	ofHost := map[int32]string{}
	ofRack := map[int32]string{}
	for i, name := range n.RackNames() {
		for _, h := range n.racks[i] {
			ofHost[h], ofRack[n.Nodes[n.place(h)].Rack] = name, name
		}
	}
	return columns.RecordOf(schema.Nodes, n.Nodes, func(v Node) columns.Row {
		row := columns.Row{"node_id": v.ID, "name": v.Name, "kind": v.Kind}
		if v.Pod >= 0 {
			row["pod"] = v.Pod
		}
		name := ofHost[v.ID]
		if v.Rack >= 0 {
			row["rack"] = v.Rack
			name = ofRack[v.Rack]
		}
		if name != "" {
			row["rack_name"] = name
		}
		return row
	})
}

// LinksRecord returns table links of the lake. The caller must release it.
func (n *Network) LinksRecord() arrow.Record {
	return columns.RecordOf(schema.Links, n.Links, func(l Link) columns.Row {
		row := columns.Row{
			"link_id":       l.ID,
			"src_node":      l.Src,
			"dst_node":      l.Dst,
			"bandwidth_bps": l.BandwidthBps,
			"delay_ns":      l.DelayNS,
			"tier":          l.Tier,
			"failed":        l.Failed,
		}
		from, to := n.portsOf(l.ID)
		if from != "" {
			row["src_port"] = from
		}
		if to != "" {
			row["dst_port"] = to
		}
		return row
	})
}

// WriteTables writes tables nodes and links to nodes.csv and links.csv in a directory. It creates the
// directory if necessary. Reading the directory yields the same network, with the same ids, links and paths.
func WriteTables(dir string, n *Network) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(writeCSV(filepath.Join(dir, "nodes.csv"), n.NodesRecord()),
		writeCSV(filepath.Join(dir, "links.csv"), n.LinksRecord()))
}

func writeCSV(file string, rec arrow.Record) error {
	defer rec.Release()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f, rec.Schema(), csv.WithHeader(true), csv.WithNullWriter(""))
	return errors.Join(w.Write(rec), w.Flush(), f.Close())
}
