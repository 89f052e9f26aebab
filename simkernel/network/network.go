// Package network simulates every packet of every flow at every hop of its path, on all cores. It consists of the same
// transports (simkernel.Sender), link speeds (simkernel.WireTime), queues and ideal FCTs as the link kernel, composed
// differently. twin_test.go has a slow, simple simulator that it must agree with in every bit.
//
// # Model
//
// Switches store and forward. Each port of a switch has two FIFOs, one for ACKs and one for data, with strict priority
// for ACKs, without preemption. A data packet is marked if more wire bytes of data than the link's threshold
// (Params.MarkBytes) are left behind it when its service starts. (With Traits.AcksQueue there is one FIFO for both;
// with Traits.RandomMarks marks are random between two thresholds.) Every data packet is acknowledged by one ACK of
// AckBytes, which returns over the reverse links and through the destination's NIC. A NIC sends ACKs first, then serves
// its sendable flows round robin, one packet each, and never marks. A flow with less than its window in flight is
// sendable and sends a full packet even if that exceeds the window. Data can have several classes (classes.go).
//
// Buffers of switches are unlimited, or the data packets that wait at the ports of a switch share one of limited size
// (BufferParams). Each takes its wire bytes from its arrival until its service starts. A packet is dropped on arrival
// if the buffer is full or its port above the dynamic threshold. ACKs take no buffer and are never dropped (priority
// group 0 of the HPCC simulator). recovery.go describes how senders recover. With PFC (pfc.go) switches pause senders
// instead. sender.go has the flows of TCP, which send when ACKs come.
//
// # Order of events
//
// Time is in ps. Items that reach a port in the same ps are ordered by the link that they came over; flows that start
// in the same ps by row. A host first receives all ACKs of a time, then starts flows, then looks at timers, and then
// sends. A switch that starts a service considers ACKs that arrive at this very time; data that does is not left
// behind yet. At a switch with a limited buffer arrivals come before services. This is the link kernel's order: a
// network of one queue yields its results bit by bit. Nothing else can tie: what leaves one port reaches the next one
// later.
//
// # Domains, steps and windows
//
// The nodes are divided into domains (partition.go), and time into steps as long as the least time that a packet takes
// from one domain to another. In a step workers simulate the domains in any order or at the same time (workers.go);
// what leaves a domain is read by the other in the next step. A domain divides a step into windows as long as the least
// time from one of its ports to the next. What reaches a port in a window left another port before the window began.
// So each port processes its arrivals of a window alone, in one pass, without an event heap (calendar.go).
//
//	feed ──► flows ──► step: domain 0 │ domain 1 │ … ──► results ──► finished
//	(goroutine)               windows │ windows  │       (goroutine)
//
// Memory grows with the flows in the network and the packets in its queues, not with the workload.
//
// # Where what happens
//
//   - A flow starts: pacer.start passes it to its source's domain, domain.admit lays out its path, and domain.receive
//     adds it to its NIC when its start is reached. If it waits for others, the frontier starts it (dependencies.go).
//   - Its next hop is chosen once, in domain.admit (hop.to); domain.transmit and domain.runPorts read it.
//     Where paths move (Network.Move), it is chosen again when a packet has arrived, in domain.choosePort, which also
//     removes what was lost on the link.
//   - A packet enters a switch's port in domain.runPorts, or in domain.runMerged where a limited buffer may drop it
//     (Network.admits, domain.drop).
//   - It leaves a switch's port in domain.runPorts, if it need not wait for others, or in domain.serve
//     (domain.serveClass with classes), and a NIC in domain.sendNext.
//   - Its last packet is delivered in domain.receiveData (with recovery: Network settles it between epochs, in
//     recovery.settle); the flow's slot is free when its source has received the last ACK (domain.free).
package network

import (
	"fmt"
	"slices"

	"parsimon/simkernel"
)

// A Network simulates one workload on one network. It is used once.
type Network struct {
	// Progress, if not nil, is called during Run with how many packets and ACKs have arrived at ports and hosts since.
	Progress func(items int64)
	// EndNS, if not 0, ends Run before the first step that begins at or after it. Left has the flows of that time.
	EndNS int64

	params   simkernel.Params
	traits   simkernel.Traits
	buffer   BufferParams
	links    []Link
	host     []bool
	more     func() (*Flows, error)
	domains  []domain
	domainOf []int32 // by node

	rules
	ports      []port
	portOf     []int32                // by link: its port
	kinds      map[portKind]*portKind // by what is in them without classRules
	buffers    []buffer               // by node; empty if they are unlimited
	pausers    []pauser               // by link and class; nil without PFC
	shortfalls []Shortfall
	recovery   *recovery // nil if nothing is lost
	moves      *moves    // nil if every flow has one path
	frontier   *frontier // nil if no flow waits for others

	classes []Class // nil: there are none
	strict  uint32  // bits of those without a weight
	quantum [MaxClasses]int64

	alone     bool        // one worker simulates the present epoch
	calendars []*calendar // by domain
	mailed    calendar
	leastWork int64 // of a domain in a step that several workers simulate
	stepPS    int64
	step      int64 // steps so far
	flows     flowTable
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

// MaxNS is the latest start of a flow in a Network, from the first: 13 days.
const MaxNS = horizonPS / 2 / simkernel.PSPerNS

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
		host: slices.Clone(hosts), more: more, leastWork: leastWork, rules: rules{numberShift: flagBits,
			fullBytes: params.PayloadBytes + params.HeaderBytes, ackBytes: params.AckBytes},
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

// checkLink checks a link of nodes that there are. Bounds of bandwidths are checked where a topology is read.
func (n *Network) checkLink(l int, link Link) error {
	back := n.links[l^1]
	switch {
	case link.SrcNode != back.DstNode || link.DstNode != back.SrcNode:
		return fmt.Errorf("link %d (%d to %d) is not the other direction of link %d (%d to %d)",
			l, link.SrcNode, link.DstNode, l^1, back.SrcNode, back.DstNode)
	case link.DelayNS < 1:
		return fmt.Errorf("link %d: delay_ns is %d, must be at least 1 to simulate the whole network", l, link.DelayNS)
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

// CountersOf returns how many packets of a class were marked and dropped at the sending end of a link, after Run.
func (n *Network) CountersOf(link int32, class int) (marked, dropped int64) {
	p := &n.ports[n.portOf[link]]
	if p.classes == nil || p.classes.queues == nil { // there is one, or it is a NIC, which does neither
		return p.marked, p.dropped
	}
	return p.classes.queues[class].marked, p.classes.queues[class].dropped
}

// MostBytes returns the maximum number of bytes in the limited buffer of a node, after Run.
func (n *Network) MostBytes(node int32) int64 { return n.buffers[node].peakBytes }

// Left calls do, after Run, with each flow that had started and was not acknowledged at EndNS: its row and tag, its
// ideal FCT and the bytes that were not acknowledged.
func (n *Network) Left(do func(row int64, tag int32, idealNS, bytes int64)) {
	free := map[int32]bool{}
	for i := range n.domains {
		for _, slot := range n.domains[i].pool.slots {
			free[slot] = true
		}
	}
	for slot, f := range n.flows.info {
		if s := &n.flows.senders[slot]; !free[int32(slot)] {
			do(f.row, f.tag, f.idealNS, max(1, s.sizeBytes-s.ackedBytes))
		}
	}
}

// Losses returns what was lost, after Run.
func (n *Network) Losses() (all Losses) {
	for d := range n.domains {
		all.add(&n.domains[d].losses)
	}
	return all
}
