package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// Limits of what the kernel's integers can express.
const (
	maxBps     = int64(1e15) // 1 Pbps
	maxDelayNS = int64(1e12) // 1,000 s
)

// A FaultKind classifies what is wrong with a topology. Package format says which kinds it can repair.
type FaultKind string

// The kinds of faults.
const (
	FaultFormat        FaultKind = "format"        // not readable as its format: syntax, a missing column
	FaultRange         FaultKind = "range"         // a number outside the limits
	FaultRole          FaultKind = "role"          // an unknown kind of node
	FaultStatus        FaultKind = "status"        // an unknown status, or not a network cable
	FaultUnknownNode   FaultKind = "unknown-node"  // a cable end that no node has
	FaultUncabled      FaultKind = "uncabled"      // a host without a cable
	FaultNoHost        FaultKind = "no-host"       // no node is a host
	FaultUnknownSpeed  FaultKind = "unknown-speed" // a cable without a speed
	FaultOneSided      FaultKind = "one-sided"     // a cable that only one of its two ends reports
	FaultDoubled       FaultKind = "doubled"       // the same cable or node listed twice
	FaultContradictory FaultKind = "contradictory" // two different speeds, delays or roles for one cable or node
	FaultSharedPort    FaultKind = "shared-port"   // one port at the end of two cables
	FaultParallel      FaultKind = "parallel"      // several cables between the same two nodes
	FaultSelfLoop      FaultKind = "self-loop"     // a cable from a node to itself
	FaultIsland        FaultKind = "island"        // a part that no cable joins to the rest
	FaultSimilarNames  FaultKind = "similar-names" // two names that differ in upper and lower case only
)

// An Error is a node or a cable that cannot be part of a network.
type Error struct {
	Node  int // index in the list of nodes, or -1
	Cable int // index in the list of cables, or -1
	What  string
	Kind  FaultKind
}

func (e *Error) Error() string { return e.What }

// Check returns everything that is wrong with nodes and the cables between them. It sets empty kinds to "switch".
func Check(nodes []Node, cables []Cable) []*Error {
	faults := checkNodes(nodes)
	n := &Network{Nodes: slices.Clone(nodes)} // each id once
	slices.SortStableFunc(n.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	n.Nodes = slices.CompactFunc(n.Nodes, func(a, b Node) bool { return a.ID == b.ID })
	n.Nodes = slices.DeleteFunc(n.Nodes, func(v Node) bool { return v.ID < 0 })
	n.index = newNodeIndex(n.Nodes)
	uncabled := checkCables(n, cables)
	for _, e := range uncabled {
		if e.Node >= 0 { // from the place in n to that in nodes
			id := n.Nodes[e.Node].ID
			e.Node = slices.IndexFunc(nodes, func(v Node) bool { return v.ID == id })
		}
	}
	return append(faults, uncabled...)
}

// checkNodes sets empty kinds to "switch" and returns everything that is wrong with the nodes.
func checkNodes(nodes []Node) (faults []*Error) {
	hosts := 0
	for i := range nodes {
		v := &nodes[i]
		bad := func(kind FaultKind, format string, args ...any) {
			what := fmt.Sprintf("node %d: ", v.ID) + fmt.Sprintf(format, args...)
			faults = append(faults, &Error{Node: i, Cable: -1, What: what, Kind: kind})
		}
		switch v.Kind {
		case "":
			v.Kind = KindSwitch
		case KindHost:
			hosts++
		case KindTor, KindFabric, KindSpine, KindSwitch:
		default:
			bad(FaultRole, "unknown kind %q (host, tor, fabric, spine or switch)", v.Kind)
		}
		switch {
		case v.ID < 0:
			bad(FaultRange, "ids must not be negative")
		case v.Pod < -1 || v.Rack < -1:
			bad(FaultRange, "pod and rack must not be negative")
		}
	}
	order := make([]int32, len(nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(nodes[a].ID, nodes[b].ID), cmp.Compare(a, b))
	})
	for i := 1; i < len(order); i++ {
		if id := nodes[order[i]].ID; id == nodes[order[i-1]].ID {
			what := fmt.Sprintf("node %d is listed twice", id)
			faults = append(faults, &Error{Node: int(order[i]), Cable: -1, What: what, Kind: FaultDoubled})
		}
	}
	if hosts == 0 {
		what := fmt.Sprintf("the topology has no host (%d nodes)", len(nodes))
		faults = append(faults, &Error{Node: -1, Cable: -1, What: what, Kind: FaultNoHost})
	}
	return faults
}

// checkCables returns everything that is wrong with the cables between the nodes of a network.
func checkCables(n *Network, cables []Cable) (faults []*Error) {
	if len(cables) > math.MaxInt32/2 {
		what := fmt.Sprintf("%d cables are more than link ids can count", len(cables))
		return []*Error{{Node: -1, Cable: -1, What: what, Kind: FaultRange}}
	}
	cabled := make([]bool, len(n.Nodes))
	joined := make(map[[2]int32]bool, len(cables))
	for i, c := range cables {
		a, b := n.index.of(c.A), n.index.of(c.B)
		kind, what := checkCable(c, a >= 0, b >= 0)
		if kind == "" && joined[cableKey(c.A, c.B)] {
			kind, what = FaultParallel, "the two nodes are joined twice (use one cable of the summed bandwidth)"
		}
		joined[cableKey(c.A, c.B)] = true
		if kind != "" {
			what = fmt.Sprintf("cable %d:%d: %s", c.A, c.B, what)
			faults = append(faults, &Error{Node: -1, Cable: i, What: what, Kind: kind})
		}
		for _, end := range []int32{a, b} {
			if end >= 0 {
				cabled[end] = true
			}
		}
	}
	for i, v := range n.Nodes {
		if v.Kind == KindHost && !cabled[i] {
			name := v.Name
			if name == "" {
				name = fmt.Sprintf("%s %d", v.Kind, v.ID)
			}
			what := fmt.Sprintf("host %d (%s) has no cable", v.ID, name)
			faults = append(faults, &Error{Node: i, Cable: -1, What: what, Kind: FaultUncabled})
		}
	}
	return faults
}

// checkCable checks one cable by itself; an empty kind means that it is sound.
func checkCable(c Cable, knownA, knownB bool) (FaultKind, string) {
	switch {
	case !knownA:
		return FaultUnknownNode, fmt.Sprintf("no node has the id %d", c.A)
	case !knownB:
		return FaultUnknownNode, fmt.Sprintf("no node has the id %d", c.B)
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
