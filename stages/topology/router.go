package topology

import (
	"fmt"
	"math"

	"parsimon/stages/rng"
)

// A Router assigns each flow a path: a shortest path (fewest links) over the cables that are up,
// chosen by ECMP at every node (ecmp.go).
//
// A destination attachment is a set of switches; hosts with the same neighbour switches share one.
// The tables hold, for each attachment and switch, the distance and the number of the set of links
// that lead nearer: 6 bytes. Equal sets are stored once. Hosts never forward traffic of others.
//
// A Router is a snapshot of the network at the time it was made. It is safe for concurrent use.
type Router struct {
	Net      *Network
	key      uint64
	hosts    []routeHost // by index of the node; attachment -1 for switches
	switches int
	switchOf []int32 // by link: the number of the switch it leads to, or -1 for a host
	nodeOf   []int32 // by switch number: index of the node
	dist     []uint16
	next     []int32 // number of a set of links, by attachment × switches + switch
	setAt    []int32 // by set: its start in setLink and setSalt; one more than sets
	setLink  []int32 // links of the sets, then the links of the hosts
	setSalt  []uint64
	attached [][]int32 // by attachment: its switches, ascending
}

type routeHost struct {
	attachment int32 // -1: not a host; attachment 0 has no switch
	only       int32 // the only link out of the host, if it leads to a switch; else -1
	from, to   int32 // its links out that are up, in Router.setLink
	direct     bool  // some of them lead to hosts
}

const (
	unreachableDist = math.MaxUint16
	maxSwitches     = 1 << 20
	maxHops         = math.MaxInt16 // hops are counted in 16 bits
	setNone         = -1            // no path from here
	setArrive       = -2            // the destination is attached to this switch
)

// An UnreachableError says that no path joins two hosts over the cables that are up.
type UnreachableError struct {
	FlowID           int64
	Src, Dst         int32
	SrcName, DstName string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("flow %d: no path from host %d (%s) to host %d (%s)", e.FlowID, e.Src, e.SrcName, e.Dst,
		e.DstName)
}

// An EndpointError says that a flow's source or destination is not a host, or that both are the same.
type EndpointError struct {
	FlowID   int64
	Src, Dst int32
	What     string
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("flow %d from node %d to node %d: %s", e.FlowID, e.Src, e.Dst, e.What)
}

// Path returns the ids of the links that the flow crosses, in order, in buf[:0]. It does not allocate
// if buf has the capacity. The error is an *EndpointError where src or dst is not a host or both are
// the same, and an *UnreachableError where no path joins them.
func (r *Router) Path(flowID int64, src, dst int32, buf []int32) ([]int32, error) {
	return r.AppendPath(flowID, src, dst, buf[:0])
}

// AppendPath is Path, appending to path. After an error the result is path as it was.
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
			panic("topology: a switch of the destination's attachment has no link to it")
		}
		if set == setNone {
			return path[:start], r.unreachable(flowID, src, dst)
		}
		link = r.choose(flow, r.setAt[set], r.setAt[set+1])
		path = append(path, link)
	}
	return path, nil // a cable from host to host
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
