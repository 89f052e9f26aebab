// Package network simulates every packet of every flow at every hop of its path. A Network has unlimited buffers; a
// Buffered network has finite ones, with losses and recovery. twin_test.go has a slow, simple simulator that the
// Network must agree with in every bit.
package network

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A Network simulates every packet of every flow at every hop: the reference that estimates from link cases are
// compared with. It consists of the same transports (sender), link speeds (WireTime), queues and ideal FCTs
// as the link kernel, composed differently.
//
// # Model
//
// Switches store and forward. Each port of a switch has two FIFOs, one for ACKs and one for data, with strict
// priority for ACKs, without preemption. A data packet is marked if more than Params.MarkBytes(bandwidth) wire
// bytes of data are left behind it when its service starts. (With Transport.RandomMarks there is one FIFO
// for both, and marks are random.) Every data packet is acknowledged by one ACK of AckBytes, which returns over
// the reverse links and through the destination's NIC. A NIC sends ACKs first, then serves its sendable
// flows round robin, one packet each, and never marks. A flow with less than its window in flight is sendable
// and sends a full packet even if that exceeds the window. Buffers are infinite: nothing is dropped or paused
// (Buffered has finite ones). Not modelled: PFC, several classes of data.
//
// Compared with ns-3, the ground truth: with times rounded down to whole ns as ns-3 does, small networks yield
// its FCTs to the ns, marks and cuts included, with one exception. When several flows share a NIC after a cut,
// ns-3 can let a paced flow wait until the next ACK, because it schedules its next send at the earliest
// pacing time of all flows, including flows whose windows are closed. Network does not.
//
// # Order of events
//
// Time is in ps. Items that reach a queue in the same ps are ordered by the link that they came over; flows
// that start in the same ps by row. A host first receives all ACKs of a time, then starts flows, and then
// sends. A switch that starts a service considers ACKs that arrive at this very time; data that does is not
// left behind yet. This is the link kernel's order (kernel.go): a network of one queue yields its results bit
// by bit. Nothing else can tie: ports share no state, and what leaves one port reaches the next one later.
//
// # Windows
//
// Time is cut into windows as long as the shortest propagation delay. Whatever reaches a port during a window
// left another port before the window began. So each port processes its window alone, in one pass over its
// sorted queue, without an event heap, and ports may do so in any order or concurrently, with identical
// results. Advance sets the next window, starts its flows and collects the results of the previous one. Then
// RunDomain must be called once for every domain, in any order or concurrently. Then Advance again, until it
// reports the end. Run does all of this on the calling goroutine.
//
// Memory grows with the flows in the network and the packets in its queues, not with the workload.
type Network struct {
	params   simkernel.Params
	links    []Link
	host     []bool
	ports    []netPort // one per link: its sending end
	nics     []netNIC  // one per link that leaves a host
	domains  []netDomain
	windowPS int64

	step int // windows so far

	more    func() (*Flows, error)
	pending *Flows // the present chunk of flows; next is its next row
	next    int
	noMore  bool
	rows    int64 // flows started so far
	lastNS  int64 // start of the last of them

	flows    netFlowTable
	ideal    simkernel.IdealPath
	finished []netFinish
	done     bool
	err      error

	// Results are the flows that have finished since the last call of Results.Reset, by time and then row. Valid
	// between a call of Advance and the next one.
	Results Results
}

// Link is one link of a Network. Links 2c and 2c+1 are the two directions of one cable.
type Link struct {
	SrcNode, DstNode int32
	BandwidthBps     int64 // total; at least MinBps
	DelayNS          int64 // propagation; at least 1
}

// Flows is a chunk of the workload, one row per flow, in start order within and across chunks. The links of
// flow i's path are PathLinks[PathEnds[i-1]:PathEnds[i]] (from 0 for the first flow), from the source's uplink to
// the link that ends at the destination. A Network reads a chunk until it requests the next one, and
// never writes to it.
type Flows struct {
	SizeBytes []int64
	StartNS   []int64
	PathEnds  []int32
	PathLinks []int32
	Key       []uint64 // identifies the flow in random marks, together with Params.Seed; nil: its row
}

// Results are results, one row per finished flow.
type Results struct {
	Row     []int64 // the flow's row in the workload, counted from 0 over all chunks
	FCTNS   []int64 // from its start to the delivery of its last byte, rounded up
	IdealNS []int64 // of the flow alone on the same path, with a window that never binds
	// The waits of flow i are in rows HopEnds[i-1]:HopEnds[i], one per hop. Hop 0 is the NIC, whose wait is 0: a packet
	// exists from the time when it is sent.
	HopEnds    []int32
	WaitNS     []int64 // sum over the flow's packets of their waits in the hop's queue
	LastWaitNS []int64 // wait of its last packet
	Marks      []int32 // number of its packets that the hop marked; 0 at hop 0
}

// Reset removes all rows and keeps the memory.
func (r *Results) Reset() {
	r.Row, r.FCTNS, r.IdealNS = r.Row[:0], r.FCTNS[:0], r.IdealNS[:0]
	r.HopEnds, r.WaitNS, r.LastWaitNS, r.Marks = r.HopEnds[:0], r.WaitNS[:0], r.LastWaitNS[:0], r.Marks[:0]
}

// Counters describe the queue of a switch's port; a NIC's are 0.
type Counters struct {
	PacketsMarked int64
	MaxQueueBytes int64 // maximum of wire bytes of data in the queue at service starts, packet in service included
	MaxQueueAtNS  int64 // first time of the maximum
}

// Counters returns the counters of the sending end of a link. It must not be called during a window.
func (n *Network) Counters(link int32) Counters { return n.ports[link].counters }

// netFinish is a flow whose last byte was delivered at atPS.
type netFinish struct {
	atPS int64
	slot int32
}

// netHorizonPS bounds simulated time, so that no sum of times overflows: 26 days.
const netHorizonPS = math.MaxInt64 / 4

// MaxNS is the latest start of a flow in a Network, from the first: 13 days.
const MaxNS = netHorizonPS / 2 / simkernel.PSPerNS

// netNever is later than any time of a simulation.
const netNever = math.MaxInt64

// New returns an idle network. hosts[i] is whether node i is a host; domainOf (nil: all in domain
// 0) gives the domain of each node, from 0, see Partition. more returns the next chunk of the workload,
// and nil after the last; only Advance calls it.
func New(params simkernel.Params, links []Link, hosts []bool, domainOf []int32,
	more func() (*Flows, error)) (*Network, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if len(links) == 0 || len(links)%2 != 0 {
		return nil, fmt.Errorf("%d links: a network has two for every cable, one each way", len(links))
	}
	if domainOf != nil && len(domainOf) != len(hosts) {
		return nil, fmt.Errorf("domains for %d nodes, but there are %d", len(domainOf), len(hosts))
	}
	n := &Network{
		params: params, links: slices.Clone(links), host: slices.Clone(hosts), more: more,
		ports: make([]netPort, len(links)), windowPS: math.MaxInt64,
	}
	for l, link := range links {
		if err := n.checkLink(l, link); err != nil {
			return nil, err
		}
		n.windowPS = min(n.windowPS, link.DelayNS*simkernel.PSPerNS)
	}
	domains := int32(1)
	for node, d := range domainOf {
		if d < 0 || int(d) >= len(domainOf) {
			return nil, fmt.Errorf("node %d is in domain %d, must be 0 to %d", node, d, len(domainOf)-1)
		}
		domains = max(domains, d+1)
	}
	n.domains = make([]netDomain, domains)
	for d := range n.domains {
		n.domains[d].init(n, int32(d))
	}
	n.flows.init(params.Transport)
	for l := range links {
		n.initPort(int32(l), domainOf)
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

// Domains returns the number of domains, for each of which RunDomain must be called.
func (n *Network) Domains() int { return len(n.domains) }

// Run simulates the whole workload on the calling goroutine. It calls finished, if not nil, whenever a few
// thousand flows are in n.Results, and once more at the end; Results is reset after each call.
func (n *Network) Run(finished func(*Results) error) error {
	for {
		more, err := n.Advance()
		if err != nil {
			return err
		}
		if finished != nil && (!more && len(n.Results.Row) > 0 || len(n.Results.Row) >= 4096) {
			if err := finished(&n.Results); err != nil {
				return err
			}
			n.Results.Reset()
		}
		if !more {
			return nil
		}
		for d := range n.domains {
			n.RunDomain(d)
		}
	}
}

// RunDomain simulates the window that Advance has set for one domain. Domains share no state that changes
// during a window.
func (n *Network) RunDomain(d int) { n.domains[d].run() }

// Advance ends the present window and sets the next one. It returns false when every flow has finished and every
// ACK has been received. Invalid rows of the workload and errors of its source are returned as errors that
// name the row; every later call returns the same error.
func (n *Network) Advance() (more bool, err error) {
	if n.err != nil || n.done {
		return false, n.err
	}
	n.collect()
	if n.err = n.fill(); n.err != nil {
		return false, n.err
	}
	window := int64(math.MaxInt64)
	for d := range n.domains {
		window = min(window, n.domains[d].nextWindow())
	}
	if n.pending != nil {
		window = min(window, n.pending.StartNS[n.next]*simkernel.PSPerNS/n.windowPS)
	}
	if window == math.MaxInt64 {
		n.done = true
		if n.flows.live() != 0 {
			panic("simkernel: network is idle with unfinished flows")
		}
		return false, nil
	}
	endPS := (window + 1) * n.windowPS
	if endPS > netHorizonPS {
		n.err = fmt.Errorf("%d flows have not drained after 26 days of simulated time", n.flows.live())
		return false, n.err
	}
	n.step++
	for d := range n.domains {
		n.domains[d].setWindow(window)
	}
	for n.pending != nil && n.pending.StartNS[n.next]*simkernel.PSPerNS < endPS {
		if n.err = n.admit(); n.err == nil {
			n.err = n.fill()
		}
		if n.err != nil {
			return false, n.err
		}
	}
	return true, nil
}

// collect gathers what the domains have finished during the last window.
func (n *Network) collect() {
	n.finished = n.finished[:0]
	for d := range n.domains {
		dom := &n.domains[d]
		n.finished = append(n.finished, dom.finished...)
		dom.finished = dom.finished[:0]
	}
	if len(n.finished) > 1 {
		slices.SortFunc(n.finished, func(a, b netFinish) int {
			if a.atPS != b.atPS {
				return int(min(1, max(-1, a.atPS-b.atPS)))
			}
			return int(min(1, max(-1, n.flows.rows[a.slot]-n.flows.rows[b.slot])))
		})
	}
	for _, f := range n.finished {
		n.flows.result(f, &n.Results)
	}
	for d := range n.domains {
		dom := &n.domains[d]
		for _, slot := range dom.drained {
			n.flows.free(slot)
		}
		dom.drained = dom.drained[:0]
	}
}

// fill loads chunks until pending contains the next flow; pending is nil after the last.
func (n *Network) fill() error {
	for (n.pending == nil || n.next == len(n.pending.StartNS)) && !n.noMore {
		c, err := n.more()
		if err != nil {
			return err
		}
		n.pending, n.next = c, 0
		if c == nil {
			n.noMore = true
		} else if rows := len(c.StartNS); rows != len(c.SizeBytes) || rows != len(c.PathEnds) ||
			c.Key != nil && rows != len(c.Key) {
			return fmt.Errorf("flow columns differ in length: %d starts, %d sizes, %d paths", rows, len(c.SizeBytes),
				len(c.PathEnds))
		}
	}
	if n.pending != nil {
		return n.checkStart(n.pending.StartNS[n.next])
	}
	return nil
}

func (n *Network) checkStart(startNS int64) error {
	switch {
	case startNS < 0 || startNS > MaxNS:
		return fmt.Errorf("flow row %d: start_ns is %d, must be 0 to 13 days", n.rows, startNS)
	case startNS < n.lastNS:
		return fmt.Errorf("flow row %d: start_ns is %d, before the flow above it (%d)", n.rows, startNS, n.lastNS)
	}
	return nil
}

var errPathEmpty = errors.New("the path is empty")

// checkPath checks that a path leads from a host over adjacent links and switches to a host.
func (n *Network) checkPath(path []int32) error {
	if len(path) == 0 {
		return errPathEmpty
	}
	if len(path) > MaxHops {
		return fmt.Errorf("the path has %d hops, at most %d can be simulated", len(path), MaxHops)
	}
	for i, l := range path {
		if l < 0 || int(l) >= len(n.links) {
			return fmt.Errorf("hop %d is link %d, links are 0 to %d", i, l, len(n.links)-1)
		}
		link := n.links[l]
		if i == 0 && !n.host[link.SrcNode] {
			return fmt.Errorf("the path starts at node %d, which is no host", link.SrcNode)
		}
		if i > 0 && n.links[path[i-1]].DstNode != link.SrcNode {
			return fmt.Errorf("hop %d starts at node %d, but hop %d ends at node %d", i, link.SrcNode, i-1,
				n.links[path[i-1]].DstNode)
		}
		if last := i == len(path)-1; n.host[link.DstNode] != last {
			if last {
				return fmt.Errorf("the path ends at node %d, which is no host", link.DstNode)
			}
			return fmt.Errorf("hop %d ends at host %d before the path does: hosts do not forward", i, link.DstNode)
		}
	}
	return nil
}
