package network

import (
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A Network simulates one workload on one network. It is used once.
type Network struct {
	params   simkernel.Params
	traits   simkernel.Traits
	buffer   BufferParams
	links    []Link
	host     []bool
	more     func() (*Flows, error)
	domains  []domain
	domainOf []int32 // by node

	fullBytes int64 // a full packet on the wire
	ports     []port
	portOf    []int32  // by link: its port
	buffers   []buffer // by node; empty if they are unlimited
	// freeOfDrops is how many bytes can be in a switch's buffer so that no packet finds its port above the threshold.
	freeOfDrops int64
	recovery    *recovery // nil if nothing is lost

	stepPS int64
	step   int64 // steps so far
	flows  flowTable
}

// Link is one link of a Network. Links 2c and 2c+1 are the two directions of one cable.
type Link struct {
	SrcNode, DstNode int32
	BandwidthBps     int64 // total; at least MinBps
	DelayNS          int64 // propagation; at least 1
}

// horizonPS bounds simulated time, so that no sum of times overflows: 26 days.
const horizonPS = math.MaxInt64 / 4

// MaxNS is the latest start of a flow in a Network, from the first: 13 days.
const MaxNS = horizonPS / 2 / simkernel.PSPerNS

// never is later than any time of a simulation.
const never = math.MaxInt64

// New returns an idle network. hosts[i] is whether node i is a host. The zero value of limits stands for switches with
// unlimited buffers, in which nothing is lost. more returns the next chunk of the workload, and nil after the
// last; Run calls it from a goroutine of its own, ahead of the simulation.
func New(params simkernel.Params, limits BufferParams, links []Link, hosts []bool,
	more func() (*Flows, error)) (*Network, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if len(links) == 0 || len(links)%2 != 0 {
		return nil, fmt.Errorf("%d links: a network has two for every cable, one each way", len(links))
	}
	n := &Network{
		params: params, traits: params.Transport.Traits(), buffer: limits, links: slices.Clone(links),
		host: slices.Clone(hosts), more: more, fullBytes: params.PayloadBytes + params.HeaderBytes,
	}
	for l, link := range links {
		if err := n.checkLink(l, link); err != nil {
			return nil, err
		}
	}
	if limits != (BufferParams{}) {
		if err := limits.validate(&params); err != nil {
			return nil, err
		}
		n.buffers = make([]buffer, len(hosts))
		n.recovery = &recovery{net: n}
		most := limits.Alpha / (1 + limits.Alpha) * float64(limits.SwitchBytes)
		n.freeOfDrops = int64(most) - 1
	}
	return n, nil
}

func (n *Network) checkLink(l int, link Link) error {
	back := n.links[l^1]
	switch {
	case link.SrcNode < 0 || int(link.SrcNode) >= len(n.host) || link.DstNode < 0 || int(link.DstNode) >= len(n.host):
		return fmt.Errorf("link %d goes from node %d to node %d, nodes are 0 to %d", l, link.SrcNode, link.DstNode,
			len(n.host)-1)
	case link.SrcNode == link.DstNode:
		return fmt.Errorf("link %d goes from node %d to itself", l, link.SrcNode)
	case link.SrcNode != back.DstNode || link.DstNode != back.SrcNode:
		return fmt.Errorf("link %d (%d to %d) is not the other direction of link %d (%d to %d)",
			l, link.SrcNode, link.DstNode, l^1, back.SrcNode, back.DstNode)
	case link.BandwidthBps < simkernel.MinBps || link.BandwidthBps > 1e15:
		return fmt.Errorf("link %d: bandwidth_bps is %d, must be 10,000 to 1e15", l, link.BandwidthBps)
	case link.DelayNS < 1:
		return fmt.Errorf("link %d: delay_ns is %d, must be at least 1 to simulate the whole network", l, link.DelayNS)
	case link.DelayNS > 60e9:
		return fmt.Errorf("link %d: delay_ns is %d, must be at most a minute", l, link.DelayNS)
	}
	return nil
}

// Counters returns the counters of the sending end of a link, after Run.
func (n *Network) Counters(link int32) Counters {
	p := n.portAt(link)
	return Counters{p.marked, p.maxQueue, p.maxAtPS / simkernel.PSPerNS}
}

// Dropped returns the number of packets dropped at the sending end of a link, after Run.
func (n *Network) Dropped(link int32) int64 { return n.portAt(link).dropped }

func (n *Network) portAt(link int32) *port {
	if n.portOf == nil {
		return &port{}
	}
	return &n.ports[n.portOf[link]]
}

// MostBytes returns the maximum number of bytes in the limited buffer of a node, after Run.
func (n *Network) MostBytes(node int32) int64 { return n.buffers[node].peakBytes }

// Losses returns what was lost, after Run.
func (n *Network) Losses() (all Losses) {
	for d := range n.domains {
		all.add(&n.domains[d].losses)
	}
	return all
}
