package network

import (
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/workers"
)

// A Network simulates one workload on one network. It is used once.
type Network struct {
	// Progress, if not nil, is called during Run with the number of packets and ACKs that have arrived at
	// ports and hosts since the last call.
	Progress func(items int64)
	// EndNS, if not 0, ends Run before the first step that begins at or after it. Left then has the flows of
	// that time.
	EndNS int64

	params simkernel.Params
	buffer BufferParams
	links  []Link
	host   []bool // by node
	more   func() (*Flows, error)
	flows  flowTable
	rules
	features
	layout

	alone     bool  // one worker simulates the current epoch
	leastWork int64 // of a domain in a step that several workers simulate
	step      int64 // steps so far
}

// features are shared by the parts in all domains. A feature that is not used is nil or empty.
type features struct {
	buffers    []buffer // by node
	pausers    []pauser // by link and class: PFC
	shortfalls []Shortfall
	recovery   *recovery
	paths      *paths
	frontier   *frontier // of flows that wait for others
	classes    []Class
	strict     uint32 // bits of the classes without a weight
	quantum    [MaxClasses]int64
}

// layout is the division of a network into domains.
type layout struct {
	domains   []domain
	domainOf  []int32 // by node
	ports     []port
	portOf    []int32                // by link: its port
	kinds     map[portKind]*portKind // by a copy of the value without classRules
	calendars []*calendar.Calendar   // by domain
	mailed    calendar.Calendar      // stands for those of domains that another worker may be in: it has no room
	stepPS    int64
}

// Link is one link of a Network. Links 2c and 2c+1 are the two directions of one cable.
type Link struct {
	SrcNode, DstNode int32
	BandwidthBps     int64 // total; at least MinBps
	DelayNS          int64 // propagation; at least 1
}

// MaxDelayNS is the longest propagation delay of a link: a minute.
const MaxDelayNS = 60e9

const (
	horizonPS = simkernel.HorizonPS
	never     = simkernel.Never
)

// MaxNS is the latest start of a flow, relative to the first: 13 days.
const MaxNS = horizonPS / 2 / simkernel.PSPerNS

// New returns an idle network. hosts[i] reports whether node i is a host. The zero value of limits means
// unlimited buffers, without losses. more returns the next chunk of the workload, and nil after the last one.
// Run calls it from a separate goroutine, ahead of the simulation.
func New(params simkernel.Params, limits BufferParams, links []Link, hosts []bool,
	more func() (*Flows, error)) (*Network, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if len(links) == 0 || len(links)%2 != 0 {
		return nil, fmt.Errorf("%d links: a network has two for every cable, one each way", len(links))
	}
	n := &Network{
		params:    params,
		buffer:    limits,
		links:     slices.Clone(links),
		host:      slices.Clone(hosts),
		more:      more,
		leastWork: workers.LeastWork,
		rules: rules{
			traits:      params.Transport.Traits(),
			numberShift: calendar.FlagBits,
			fullBytes:   params.PayloadBytes + params.HeaderBytes,
			ackBytes:    params.AckBytes,
		},
	}
	for l, link := range links {
		if err := n.checkLink(l, link); err != nil {
			return nil, err
		}
	}
	if !limits.IsZero() {
		if err := limits.Validate(&params); err != nil {
			return nil, err
		}
		n.buffers = make([]buffer, len(hosts))
	}
	if n.buffers != nil || n.traits.AckClocked {
		n.recover()
	}
	if limits.PFC {
		return n, n.Classify(make([]Class, 1))
	}
	return n, n.initPools()
}

// checkLink checks a link between existing nodes. The reader of a topology checks the range of bandwidths.
func (n *Network) checkLink(l int, link Link) error {
	back := n.links[l^1]
	switch {
	case link.SrcNode != back.DstNode || link.DstNode != back.SrcNode:
		return fmt.Errorf("link %d (%d to %d) is not the other direction of link %d (%d to %d)",
			l, link.SrcNode, link.DstNode, l^1, back.SrcNode, back.DstNode)
	case link.DelayNS < 1:
		return fmt.Errorf("link %d: delay_ns is %d, must be at least 1 to simulate the whole network", l,
			link.DelayNS)
	case link.DelayNS > MaxDelayNS:
		return fmt.Errorf("link %d: delay_ns is %d, must be at most a minute", l, link.DelayNS)
	}
	return nil
}

// Counters returns the counters of the sending end of a link, after Run.
func (n *Network) Counters(link int32) Counters {
	p := &n.ports[n.portOf[link]]
	return Counters{p.marked, p.maxQueue, p.maxAtPS / simkernel.PSPerNS}
}

// Dropped returns the number of packets dropped at the sending end of a link, after Run.
func (n *Network) Dropped(link int32) int64 { return n.ports[n.portOf[link]].dropped }

// CountersOf returns the number of packets of a class that were marked and dropped at the sending end of a
// link, after Run.
func (n *Network) CountersOf(link int32, class int) (marked, dropped int64) {
	p := &n.ports[n.portOf[link]]
	if p.classes == nil || p.classes.queues == nil { // there is one, or it is a NIC, which does neither
		return p.marked, p.dropped
	}
	return p.classes.queues[class].marked, p.classes.queues[class].dropped
}

// MostBytes returns the maximum number of bytes in the limited buffer of a node, after Run.
func (n *Network) MostBytes(node int32) int64 { return n.buffers[node].peakBytes }

// Left calls do, after Run, for each flow that had started and was not acknowledged at EndNS, with its row
// and tag, its ideal FCT and its unacknowledged bytes.
func (n *Network) Left(do func(row int64, tag int32, idealNS, bytes int64)) {
	free := map[int32]bool{}
	for i := range n.domains {
		for _, slot := range n.domains[i].pool.slots {
			free[slot] = true
		}
	}
	for slot, f := range n.flows.info {
		s := &n.flows.senders[slot]
		if !free[int32(slot)] {
			do(f.row, f.tag, f.idealNS, max(1, s.sizeBytes-s.ackedBytes))
		}
	}
}

// Losses returns the counts of lost packets, after Run.
func (n *Network) Losses() (all Losses) {
	for d := range n.domains {
		all.add(&n.domains[d].journal.losses)
	}
	return all
}
