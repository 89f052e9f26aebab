package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// Kinds of nodes. Only hosts send and receive flows; the other kinds are switches, and differ in
// name only.
const (
	KindHost   = "host"
	KindTor    = "tor"
	KindFabric = "fabric"
	KindSpine  = "spine"
	KindSwitch = "switch"
)

// Limits of what the kernel's integers can express.
const (
	maxBps     = int64(1e15) // 1 Pbps
	maxDelayNS = int64(1e12) // 1,000 s
)

// A Node is a host or a switch.
type Node struct {
	ID   int32 // as in the topology file; at least 0, need not be dense
	Name string
	Kind string // one of the kinds above
	Pod  int32  // counted from 0; -1 where the topology has none
	Rack int32  // counted from 0 over the whole network; -1 where the topology has none
}

// A Cable joins two nodes, with the same bandwidth and propagation delay both ways.
type Cable struct {
	A, B         int32 // node ids
	BandwidthBps int64
	DelayNS      int64
}

// A Link is one direction of a cable. Its ID is its place in Network.Links: 2 × the place of the
// cable for the direction A → B, one more for B → A.
type Link struct {
	ID, Src, Dst int32 // link id and node ids
	BandwidthBps int64
	DelayNS      int64
	Tier         string // kinds of the two ends, in the direction of the link: "host-tor", "tor-host"
	Failed       bool   // the cable is down
}

// A Network is a topology that has been checked: every cable joins two different known nodes, no
// two cables join the same two, every host has a cable, every number is in range. It only changes
// by Fail and SetBandwidth, and must not change while others read it.
type Network struct {
	Nodes []Node // by id
	Links []Link // by id

	index   nodeIndex
	cableOf map[[2]int32]int32 // lower node id, higher node id → cable
	byName  map[string]int32   // name → node id; -1 where several nodes have the name
	hosts   []int32
	racks   [][]int32
}

// A TopologyError is a node or a cable that cannot be part of a network.
type Error struct {
	Node  int // place in the list of nodes, or -1
	Cable int // place in the list of cables, or -1
	What  string
}

func (e *Error) Error() string { return e.What }

// NewNetwork checks a topology. The order of the cables gives the links their ids; the order of
// the nodes is free. Empty names become the kind and id in words ("host 17"), empty kinds
// "switch". The error is a *TopologyError where one node or cable is to blame.
func NewNetwork(nodes []Node, cables []Cable) (*Network, error) {
	n := &Network{Nodes: slices.Clone(nodes)}
	for i := range n.Nodes {
		v := &n.Nodes[i]
		bad := func(format string, args ...any) error {
			return &Error{Node: i, Cable: -1, What: fmt.Sprintf("node %d: ", v.ID) + fmt.Sprintf(format, args...)}
		}
		switch v.Kind {
		case "":
			v.Kind = KindSwitch
		case KindHost, KindTor, KindFabric, KindSpine, KindSwitch:
		default:
			return nil, bad("unknown kind %q (host, tor, fabric, spine or switch)", v.Kind)
		}
		switch {
		case v.ID < 0:
			return nil, bad("ids must not be negative")
		case v.Pod < -1 || v.Rack < -1:
			return nil, bad("pod and rack must not be negative")
		}
		if v.Name == "" {
			v.Name = v.Kind + " " + strconv.Itoa(int(v.ID))
		}
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return nodes[order[a]].ID < nodes[order[b]].ID })
	for i := 1; i < len(order); i++ {
		if nodes[order[i]].ID == nodes[order[i-1]].ID {
			return nil, &Error{Node: order[i], Cable: -1, What: fmt.Sprintf("node %d stands there twice", nodes[order[i]].ID)}
		}
	}
	slices.SortStableFunc(n.Nodes, func(a, b Node) int { return int(a.ID) - int(b.ID) })
	n.index = newNodeIndex(n.Nodes)
	n.byName = make(map[string]int32, len(n.Nodes))
	for _, v := range n.Nodes {
		if _, taken := n.byName[v.Name]; taken {
			n.byName[v.Name] = -1
		} else {
			n.byName[v.Name] = v.ID
		}
		if v.Kind == KindHost {
			n.hosts = append(n.hosts, v.ID)
		}
	}
	if len(n.hosts) == 0 {
		return nil, fmt.Errorf("the topology has no host (%d nodes)", len(nodes))
	}
	if err := n.addCables(cables); err != nil {
		return nil, err
	}
	n.racks = n.findRacks()
	return n, nil
}

func (n *Network) addCables(cables []Cable) error {
	if len(cables) > math.MaxInt32/2 {
		return fmt.Errorf("%d cables are more than link ids can count", len(cables))
	}
	n.Links = make([]Link, 0, 2*len(cables))
	n.cableOf = make(map[[2]int32]int32, len(cables))
	cabled := make([]bool, len(n.Nodes))
	for i, c := range cables {
		bad := func(format string, args ...any) error {
			return &Error{Node: -1, Cable: i, What: fmt.Sprintf("cable %d:%d: ", c.A, c.B) + fmt.Sprintf(format, args...)}
		}
		a, b := n.index.of(c.A), n.index.of(c.B)
		switch {
		case a < 0:
			return bad("no node has the id %d", c.A)
		case b < 0:
			return bad("no node has the id %d", c.B)
		case c.A == c.B:
			return bad("both ends are the same node")
		case c.BandwidthBps < simkernel.MinBps || c.BandwidthBps > maxBps:
			return bad("bandwidth of %d bps, must be %d to %d", c.BandwidthBps, int64(simkernel.MinBps), maxBps)
		case c.DelayNS < 0 || c.DelayNS > maxDelayNS:
			return bad("delay of %d ns, must be 0 to %d", c.DelayNS, maxDelayNS)
		}
		key := cableKey(c.A, c.B)
		if _, twice := n.cableOf[key]; twice {
			return bad("the two nodes are joined twice (make it one cable of the summed bandwidth)")
		}
		n.cableOf[key] = int32(i)
		cabled[a], cabled[b] = true, true
		ka, kb := n.Nodes[a].Kind, n.Nodes[b].Kind
		l := Link{ID: int32(2 * i), Src: c.A, Dst: c.B, BandwidthBps: c.BandwidthBps, DelayNS: c.DelayNS, Tier: ka + "-" + kb}
		n.Links = append(n.Links, l)
		l.ID, l.Src, l.Dst, l.Tier = l.ID+1, c.B, c.A, kb+"-"+ka
		n.Links = append(n.Links, l)
	}
	for i, v := range n.Nodes {
		if v.Kind == KindHost && !cabled[i] {
			return fmt.Errorf("host %d (%s) has no cable", v.ID, v.Name)
		}
	}
	return nil
}

func cableKey(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// Reverse is the other direction of the same cable.
func Reverse(link int32) int32 { return link ^ 1 }

// Node is the node with that id.
func (n *Network) Node(id int32) (Node, bool) {
	i := n.index.of(id)
	if i < 0 {
		return Node{}, false
	}
	return n.Nodes[i], true
}

// FromHost says whether a link is a host's own: the first hop of the paths that start there.
func (n *Network) FromHost(link int32) bool {
	v, _ := n.Node(n.Links[link].Src)
	return v.Kind == KindHost
}

// Hosts are the ids of all hosts, ascending. The slice is the network's own.
func (n *Network) Hosts() []int32 { return n.hosts }

// Racks are the ids of each rack's hosts, by rack number, as traffic matrices count them. Where no
// host has a rack, hosts with the same set of neighbours make one, in order of their lowest host.
// Numbers without hosts are left out. The slices are the network's own.
func (n *Network) Racks() [][]int32 { return n.racks }

func (n *Network) findRacks() [][]int32 {
	groups := map[string][]int32{}
	var keys []string
	add := func(key string, host int32) {
		if _, known := groups[key]; !known {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], host)
	}
	ablation := false
	for _, h := range n.hosts {
		v := n.Nodes[n.index.of(h)]
		if v.Rack < 0 {
			ablation = true
		} else {
			add(fmt.Sprintf("rack %010d", v.Rack), h)
		}
	}
	sort.Strings(keys) // numbered racks first, in order of their number
	if ablation {
		near := map[int32][]int32{}
		for _, l := range n.Links {
			near[l.Src] = append(near[l.Src], l.Dst)
		}
		for _, h := range n.hosts {
			if v := n.Nodes[n.index.of(h)]; v.Rack < 0 {
				s := near[h]
				slices.Sort(s)
				add(fmt.Sprint(s), h)
			}
		}
	}
	racks := make([][]int32, len(keys))
	for i, k := range keys {
		racks[i] = groups[k]
	}
	return racks
}

// Pods is the number of pods that have hosts, and 1 where the topology names none.
func (n *Network) Pods() int {
	pods := map[int32]bool{}
	for _, h := range n.hosts {
		pods[n.Nodes[n.index.of(h)].Pod] = true
	}
	return max(1, len(pods))
}

// Fail takes the cable between two nodes down, both directions. Taking it down twice is no error.
func (n *Network) Fail(a, b int32) error {
	for _, id := range []int32{a, b} {
		if n.index.of(id) < 0 {
			return fmt.Errorf("cable %d:%d cannot fail: no node has the id %d", a, b, id)
		}
	}
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("cable %d:%d cannot fail: no cable joins these nodes", a, b)
	}
	n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
	return nil
}

// SetBandwidth changes the bandwidth of the cable between two nodes, both directions.
func (n *Network) SetBandwidth(a, b int32, bps int64) error {
	c, ok := n.cableOf[cableKey(a, b)]
	if !ok {
		return fmt.Errorf("no cable joins nodes %d and %d", a, b)
	}
	if bps < simkernel.MinBps || bps > simkernel.MaxBps {
		return fmt.Errorf("bandwidth is %d bps, must be 10,000 to 10^14", bps)
	}
	n.Links[2*c].BandwidthBps, n.Links[2*c+1].BandwidthBps = bps, bps
	return nil
}

// Select finds the cables that a user means: one, "A:B", all of a tier by its name in either direction
// ("fabric-spine" and "spine-fabric" are the same cables), or several such with commas in between.
// Lower node id first, each once, in the order of what was said and of the cables.
func (n *Network) Select(selector string) ([][2]int32, error) {
	var found [][2]int32
	seen := map[[2]int32]bool{}
	for one := range strings.SplitSeq(selector, ",") {
		cables, err := n.selectOne(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		for _, c := range cables {
			if !seen[c] {
				seen[c] = true
				found = append(found, c)
			}
		}
	}
	return found, nil
}

func (n *Network) selectOne(selector string) ([][2]int32, error) {
	var found [][2]int32
	tiers := map[string]bool{}
	for i := 0; i < len(n.Links); i += 2 {
		l := &n.Links[i]
		tiers[l.Tier] = true
		if l.Tier == selector || n.Links[i+1].Tier == selector {
			found = append(found, [2]int32{min(l.Src, l.Dst), max(l.Src, l.Dst)})
		}
	}
	if found != nil {
		return found, nil
	}
	if !strings.Contains(selector, ":") {
		return nil, fmt.Errorf("no cables are of tier %q; the tiers are %s", selector, strings.Join(slices.Sorted(maps.Keys(tiers)), ", "))
	}
	a, b, err := n.Cable(selector)
	return [][2]int32{{a, b}}, err
}

// DrawCables draws k different cables of a tier that are up, the same ones for the same seed and
// draw. (The first k by a hash of seed, draw and ends: so those of k are among those of k + 1.)
func (n *Network) DrawCables(tier string, k int, seed, draw uint64) ([][2]int32, error) {
	cables, err := n.Select(tier)
	if err != nil {
		return nil, err
	}
	cables = slices.DeleteFunc(cables, func(c [2]int32) bool { return n.Links[2*n.cableOf[c]].Failed })
	if k < 1 || k > len(cables) {
		return nil, fmt.Errorf("%d cables of %q cannot be drawn: %d are up", k, tier, len(cables))
	}
	hash := func(c [2]int32) uint64 {
		s := rng.New(seed, rng.Failure, draw, uint64(c[0]), uint64(c[1]))
		return s.Uint64()
	}
	slices.SortFunc(cables, func(a, b [2]int32) int { return cmp.Compare(hash(a), hash(b)) })
	return cables[:k], nil
}

// Pair finds two nodes written "A:B", with ids or names.
func (n *Network) Pair(ends string) (a, b int32, err error) {
	// Names may hold colons, so every place to cut is tried.
	tried := 0
	for i, r := range ends {
		if r != ':' {
			continue
		}
		tried++
		x, errX := n.find(ends[:i])
		y, errY := n.find(ends[i+1:])
		if errX != nil || errY != nil {
			if err == nil {
				err = errX
				if errX == nil {
					err = errY
				}
			}
			continue
		}
		return x, y, nil
	}
	if tried == 0 {
		return 0, 0, errors.New("want two nodes as A:B")
	}
	return 0, 0, err
}

// Cable finds a cable by its two ends, written "A:B" with ids or names, lower id first in the
// answer.
func (n *Network) Cable(ends string) (a, b int32, err error) {
	x, y, err := n.Pair(ends)
	if err != nil {
		return 0, 0, fmt.Errorf("cable %q: %w", ends, err)
	}
	if _, ok := n.cableOf[cableKey(x, y)]; !ok {
		return 0, 0, fmt.Errorf("cable %q: no cable joins nodes %d and %d", ends, x, y)
	}
	return min(x, y), max(x, y), nil
}

// find is the node with that name or, where none has it, that id.
func (n *Network) find(name string) (int32, error) {
	name = strings.TrimSpace(name)
	if id, ok := n.byName[name]; ok {
		if id < 0 {
			return 0, fmt.Errorf("several nodes are named %q; use an id", name)
		}
		return id, nil
	}
	if id, err := strconv.ParseInt(name, 10, 32); err == nil && n.index.of(int32(id)) >= 0 {
		return int32(id), nil
	}
	return 0, fmt.Errorf("no node has the name or id %q", name)
}

// HostList finds hosts by name, by id, or as a range of ids, "0-63", each once and in order of id.
func (n *Network) HostList(texts []string) ([]int32, error) {
	var hosts []int32
	for _, text := range texts {
		id, err := n.find(text)
		lo, hi := id, id
		if from, to, isRange := strings.Cut(text, "-"); err != nil && isRange {
			a, errA := strconv.ParseInt(strings.TrimSpace(from), 10, 32)
			b, errB := strconv.ParseInt(strings.TrimSpace(to), 10, 32)
			if errA == nil && errB == nil && a <= b && b-a < 1<<24 {
				lo, hi, err = int32(a), int32(b), nil
			}
		}
		if err != nil {
			return nil, err
		}
		for id := lo; ; id++ {
			if _, isHost := slices.BinarySearch(n.hosts, id); !isHost {
				return nil, fmt.Errorf("%q: node %d is no host", text, id)
			}
			hosts = append(hosts, id)
			if id == hi {
				break
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

// NodesRecord is table nodes of the lake. The caller releases it.
func (n *Network) NodesRecord() arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Nodes.Arrow())
	defer b.Release()
	place := func(col int, v int32) {
		if f := b.Field(col).(*array.Int32Builder); v < 0 {
			f.AppendNull()
		} else {
			f.Append(v)
		}
	}
	id, name, kind := schema.Nodes.Index("node_id"), schema.Nodes.Index("name"), schema.Nodes.Index("kind")
	pod, rack := schema.Nodes.Index("pod"), schema.Nodes.Index("rack")
	for _, v := range n.Nodes {
		b.Field(id).(*array.Int32Builder).Append(v.ID)
		b.Field(name).(*array.StringBuilder).Append(v.Name)
		b.Field(kind).(*array.StringBuilder).Append(v.Kind)
		place(pod, v.Pod)
		place(rack, v.Rack)
	}
	return b.NewRecord()
}

// LinksRecord is table links of the lake. The caller releases it.
func (n *Network) LinksRecord() arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Links.Arrow())
	defer b.Release()
	t := schema.Links
	id := b.Field(t.Index("link_id")).(*array.Int32Builder)
	src := b.Field(t.Index("src_node")).(*array.Int32Builder)
	dst := b.Field(t.Index("dst_node")).(*array.Int32Builder)
	bps := b.Field(t.Index("bandwidth_bps")).(*array.Int64Builder)
	delay := b.Field(t.Index("delay_ns")).(*array.Int64Builder)
	tier := b.Field(t.Index("tier")).(*array.StringBuilder)
	failed := b.Field(t.Index("failed")).(*array.BooleanBuilder)
	for _, l := range n.Links {
		id.Append(l.ID)
		src.Append(l.Src)
		dst.Append(l.Dst)
		bps.Append(l.BandwidthBps)
		delay.Append(l.DelayNS)
		tier.Append(l.Tier)
		failed.Append(l.Failed)
	}
	return b.NewRecord()
}

// A nodeIndex turns a node id into the node's place in Network.Nodes. Ids are usually dense, and
// then it is an array.
type nodeIndex struct {
	dense  []int32
	sparse map[int32]int32
}

func newNodeIndex(nodes []Node) nodeIndex {
	var x nodeIndex
	if len(nodes) == 0 {
		return x
	}
	top := int(nodes[len(nodes)-1].ID)
	if top < 4*len(nodes)+1<<16 {
		x.dense = make([]int32, top+1)
		for i := range x.dense {
			x.dense[i] = -1
		}
		for i, v := range nodes {
			x.dense[v.ID] = int32(i)
		}
		return x
	}
	x.sparse = make(map[int32]int32, len(nodes))
	for i, v := range nodes {
		x.sparse[v.ID] = int32(i)
	}
	return x
}

// of is the place of the node with that id, or -1.
func (x *nodeIndex) of(id int32) int32 {
	if x.dense != nil {
		if uint(id) < uint(len(x.dense)) {
			return x.dense[id]
		}
		return -1
	}
	if i, ok := x.sparse[id]; ok {
		return i
	}
	return -1
}
