package topology

import (
	"cmp"
	"fmt"
	"math"

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

// faults are what is wrong with nodes and cables.
type faults []*Error

func (f *faults) add(node, cable int, kind FaultKind, format string, args ...any) {
	*f = append(*f, &Error{node, cable, fmt.Sprintf(format, args...), kind})
}

// Check returns everything that is wrong with nodes and the cables between them. It sets empty kinds to "switch".
func Check(nodes []Node, cables []Cable) []*Error {
	at := map[int32]int32{} // of two nodes with one id, the first; by place + 1
	for i, v := range nodes {
		if at[v.ID] == 0 && v.ID >= 0 {
			at[v.ID] = int32(i + 1)
		}
	}
	return append(checkNodes(nodes), checkCables(nodes, cables, func(id int32) int32 { return at[id] - 1 })...)
}

// checkNodes sets empty kinds to "switch" and returns everything that is wrong with the nodes.
func checkNodes(nodes []Node) (found faults) {
	hosts := 0
	seen := map[int32]bool{}
	for i := range nodes {
		v := &nodes[i]
		switch v.Kind {
		case "":
			v.Kind = KindSwitch
		case KindHost:
			hosts++
		case KindTor, KindFabric, KindSpine, KindSwitch, KindInner:
		default:
			found.add(i, -1, FaultRole, "node %d: unknown kind %q (host, tor, fabric, spine, switch or inner)", v.ID, v.Kind)
		}
		switch {
		case v.ID < 0:
			found.add(i, -1, FaultRange, "node %d: ids must not be negative", v.ID)
		case v.Pod < -1 || v.Rack < -1:
			found.add(i, -1, FaultRange, "node %d: pod and rack must not be negative", v.ID)
		}
		if seen[v.ID] {
			found.add(i, -1, FaultDoubled, "node %d is listed twice", v.ID)
		}
		seen[v.ID] = true
	}
	if hosts == 0 {
		found.add(-1, -1, FaultNoHost, "the topology has no host (%d nodes)", len(nodes))
	}
	return found
}

// checkCables returns everything that is wrong with the cables between nodes. index is the place of an id in nodes,
// or -1.
func checkCables(nodes []Node, cables []Cable, index func(id int32) int32) (found faults) {
	if len(cables) > math.MaxInt32/2 {
		found.add(-1, -1, FaultRange, "%d cables are more than link ids can count", len(cables))
		return found
	}
	cabled := make([]bool, len(nodes))
	joined := make(map[[2]int32]bool, len(cables))
	for i, c := range cables {
		a, b := index(c.A), index(c.B)
		kind, what := checkCable(c, a >= 0, b >= 0)
		if kind == "" && joined[cableKey(c.A, c.B)] {
			kind, what = FaultParallel, "the two nodes are joined twice (use one cable of the summed bandwidth)"
		}
		joined[cableKey(c.A, c.B)] = true
		if kind != "" {
			found.add(-1, i, kind, "cable %d:%d: %s", c.A, c.B, what)
		}
		for _, end := range []int32{a, b} {
			if end >= 0 {
				cabled[end] = true
			}
		}
	}
	for i, v := range nodes {
		if v.Kind == KindHost && !cabled[i] && index(v.ID) == int32(i) {
			name := cmp.Or(v.Name, fmt.Sprintf("%s %d", v.Kind, v.ID))
			found.add(i, -1, FaultUncabled, "host %d (%s) has no cable", v.ID, name)
		}
	}
	return found
}

// checkCable checks one cable by itself; an empty kind means that it is sound.
func checkCable(c Cable, knownA, knownB bool) (FaultKind, string) {
	switch {
	case !knownA || !knownB:
		return FaultUnknownNode, fmt.Sprintf("no node has the id %d", map[bool]int32{false: c.A, true: c.B}[knownA])
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
