package network

import (
	"fmt"
	"slices"

	"parsimon/simkernel"
)

// BufferParams are the buffers of switches, and how senders recover from losses.
type BufferParams struct {
	SwitchBytes int64 // shared by the ports of a switch; above 0
	// Alpha is the parameter of dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998): a packet is dropped
	// if its port would then hold more than Alpha times the free bytes of the buffer.
	Alpha float64
	// RetransmitNS is the retransmission timeout: without an ACK for new data for this time, a sender resends from
	// the first unacknowledged packet. It doubles with every timeout in a row. 0 chooses the longest time that a
	// packet of the flow can take, so that only lost packets are resent (the rule of IRN's RTO_high: Mittal et
	// al., SIGCOMM'18, §3.1).
	RetransmitNS int64
}

// DefaultAlpha is the common setting of switches for lossy traffic.
const DefaultAlpha = 1

// nackEveryNS is the least time between two NACKs for the same packet (the HPCC simulator's default).
const nackEveryNS = 500_000

// validate reports the first value that cannot be simulated.
func (b *BufferParams) validate(p *simkernel.Params) error {
	switch {
	case b.SwitchBytes < p.PayloadBytes+p.HeaderBytes:
		return fmt.Errorf("switch buffer is %d bytes, must hold a packet of %d", b.SwitchBytes,
			p.PayloadBytes+p.HeaderBytes)
	case b.SwitchBytes > 1<<60:
		return fmt.Errorf("switch buffer is %d bytes, must be at most 2^60", b.SwitchBytes)
	case !(b.Alpha >= 1.0/1024 && b.Alpha <= 1024):
		return fmt.Errorf("alpha of the switch buffers is %v, must be 1/1024 to 1024", b.Alpha)
	case float64(p.PayloadBytes+p.HeaderBytes) > b.Alpha*float64(b.SwitchBytes):
		return fmt.Errorf("switch buffer of %d bytes with alpha %v never admits a packet of %d bytes", b.SwitchBytes,
			b.Alpha, p.PayloadBytes+p.HeaderBytes)
	case b.RetransmitNS < 0 || b.RetransmitNS > 1e12:
		return fmt.Errorf("retransmission timeout is %d ns, must be 0 to 1,000 s", b.RetransmitNS)
	}
	return nil
}

// A Buffered is a Network whose switches have finite buffers. As long as nothing is dropped its results are
// identical.
//
// Buffers: the data packets that wait at the ports of a switch share its buffer. Each takes its wire bytes from
// its arrival until its service starts. A packet is dropped on arrival if the buffer is full or its port above the
// dynamic threshold (BufferParams.Alpha). ACKs take no buffer and are never dropped (priority group 0 of the HPCC
// simulator).
//
// Recovery is go-back-N, as in RDMA NICs and the HPCC simulator. A receiver accepts packets in order only, and
// acknowledges them. It discards packets beyond the expected one and answers the first of them, and then one
// per nackEveryNS without progress, by a NACK that names the expected packet; the sender goes back to it. It
// also discards duplicates. A timeout covers the loss of a flow's last packets. The transport processes a
// NACK like an ACK of the same number; losses have no other effect on it.
//
// Order of events: as in Network, and at a switch where packets arrive and leave in the same ps, arrivals first,
// by the link that they came over. Because the ports of a switch share state, time is not cut into windows:
// there is one event heap and one goroutine.
type Buffered struct {
	params   simkernel.Params
	buffer   BufferParams
	links    []Link
	host     []bool
	check    Network // validates paths and starts; never run
	ports    []bufferedPort
	used     []int64 // by node: bytes of its buffer in use
	peak     []int64 // by node: maximum of used
	heap     eventHeap
	timeouts eventHeap // timeouts, apart because most are far ahead
	serial   uint64

	more        func() (*Flows, error)
	pending     *Flows
	next        int
	flows       int64 // in the network
	rows        int64
	lastNS      int64
	packets     []*bufferedPacket // all packets, by id
	freePackets []*bufferedPacket
	starting    *bufferedFlow   // its start is in the heap
	timers      []*bufferedFlow // owners of timers, by number
	freeTimers  []int32         // numbers of free timers
	slots       []*bufferedFlow // flows with bytes to send or unacknowledged, for the NICs
	freeSlots   []int32
	ideal       simkernel.IdealPath
	finished    []bufferedFinish // at the present time
	err         error

	// Results are as in Network.
	Results Results
	// Losses count losses and their recovery so far.
	Losses Losses
}

// Losses count packets. Sent = Delivered + Dropped + Discarded when all flows have finished.
type Losses struct {
	Sent      int64 // by hosts, retransmissions included
	Delivered int64 // in order
	Dropped   int64 // by switches
	Discarded int64 // by receivers: out of order, or duplicate
	Again     int64 // retransmissions
	NACKs     int64 // sent by receivers
	Timeouts  int64
}

type bufferedFinish struct {
	flow *bufferedFlow
	atPS int64
}

// NewBuffered returns an idle network; for hosts and more see New.
func NewBuffered(params simkernel.Params, buffer BufferParams, links []Link, hosts []bool,
	more func() (*Flows, error)) (*Buffered, error) {
	whole, err := New(params, links, hosts, nil, more)
	if err != nil {
		return nil, err
	}
	if err := buffer.validate(&params); err != nil {
		return nil, err
	}
	n := &Buffered{
		params: params, buffer: buffer, links: slices.Clone(links), host: slices.Clone(hosts),
		check: *whole, more: more, ports: make([]bufferedPort, len(links)),
		used: make([]int64, len(hosts)), peak: make([]int64, len(hosts)),
	}
	for l, link := range links {
		p := &n.ports[l]
		p.wire = simkernel.NewWireTime(float64(link.BandwidthBps))
		p.sendAtPS = netNever
		p.isHost = hosts[link.SrcNode]
		p.node = link.SrcNode
		p.markBytes = params.MarkBytes(link.BandwidthBps)
		p.red = simkernel.RedMark{MinBytes: p.markBytes, MaxBytes: params.MaxMarkBytes(link.BandwidthBps),
			Share: params.DCQCN.MaxMarking}
		p.markKey = simkernel.MarkKey(params.Seed, int32(l))
	}
	return n, nil
}

// Counters returns the counters of the sending end of a link.
func (n *Buffered) Counters(link int32) Counters { return n.ports[link].counters }

// Dropped returns the number of packets dropped at the sending end of a link.
func (n *Buffered) Dropped(link int32) int64 { return n.ports[link].dropped }

// MostBytes returns the maximum number of bytes in the buffer of a node.
func (n *Buffered) MostBytes(node int32) int64 { return n.peak[node] }

// Run simulates the whole workload. It calls finished, if not nil, whenever a few thousand flows are in n.Results,
// and once more at the end; Results is reset after each call. Invalid rows and errors of more and finished end it.
func (n *Buffered) Run(finished func(*Results) error) error {
	if n.err == nil {
		n.err = n.run(finished)
	}
	return n.err
}

func (n *Buffered) run(finished func(*Results) error) error {
	if err := n.admitNext(); err != nil {
		return err
	}
	emit := func(least int) error {
		if finished == nil || len(n.Results.Row) < least {
			return nil
		}
		err := finished(&n.Results)
		n.Results.Reset()
		return err
	}
	for len(n.heap)+len(n.timeouts) > 0 {
		e := n.nextEvent()
		if len(n.finished) > 0 && e.atPS > n.finished[0].atPS {
			n.finish()
			if err := emit(4096); err != nil {
				return err
			}
		}
		switch {
		case e.rank >= rankSend:
			if p := &n.ports[e.port]; p.sendAtPS == e.atPS {
				p.sendAtPS = netNever
				n.send(e.port, p, e.atPS)
			}
		case e.rank >= rankTimeout:
			f := n.timers[e.item]
			n.timers[e.item] = nil
			n.freeTimers = append(n.freeTimers, e.item)
			n.timeout(f, e.atPS)
		case e.rank >= rankStart:
			n.startFlow(n.starting, e.atPS)
			if err := n.admitNext(); err != nil {
				return err
			}
		default:
			n.arrive(e.port, n.packets[e.item], e.atPS)
		}
		if e.atPS > netHorizonPS && n.flows > 0 {
			return fmt.Errorf("%d flows have not drained after 26 days of simulated time", n.flows)
		}
	}
	n.finish()
	if n.flows != 0 {
		panic("simkernel: buffered network is idle with unfinished flows")
	}
	return emit(1)
}

// nextEvent removes the first event.
func (n *Buffered) nextEvent() event {
	if len(n.heap) == 0 || len(n.timeouts) > 0 && n.timeouts[0].before(&n.heap[0]) {
		return n.timeouts.pop()
	}
	return n.heap.pop()
}

// finish writes the results of the flows that were delivered at the present time, by row.
func (n *Buffered) finish() {
	slices.SortFunc(n.finished, func(a, b bufferedFinish) int { return int(min(1, max(-1, a.flow.row-b.flow.row))) })
	r := &n.Results
	for _, e := range n.finished {
		f := e.flow
		r.Row = append(r.Row, f.row)
		r.FCTNS = append(r.FCTNS, simkernel.CeilNS(e.atPS-f.startPS))
		r.IdealNS = append(r.IdealNS, f.idealNS)
		for h := range f.path {
			r.WaitNS = append(r.WaitNS, f.waitPS[h]/simkernel.PSPerNS)
			r.LastWaitNS = append(r.LastWaitNS, f.lastPS[h]/simkernel.PSPerNS)
		}
		r.Marks = append(r.Marks, f.marks...)
		r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
	}
	n.finished = n.finished[:0]
}

// admitNext reads the next flow of the workload and pushes its start.
func (n *Buffered) admitNext() error {
	n.check.pending, n.check.next, n.check.rows, n.check.lastNS = n.pending, n.next, n.rows, n.lastNS
	if err := n.check.fill(); err != nil {
		return err
	}
	n.pending, n.next = n.check.pending, n.check.next
	if n.pending == nil {
		return nil
	}
	c, i := n.pending, n.next
	path, err := n.check.pathOf(c, i)
	if err != nil {
		return err
	}
	size, startNS := c.SizeBytes[i], c.StartNS[i]
	f := &bufferedFlow{row: n.rows, path: slices.Clone(path), size: size, startPS: startNS * simkernel.PSPerNS,
		key: uint64(n.rows)}
	if c.Key != nil {
		f.key = c.Key[i]
	}
	n.ideal.Reset(&n.params)
	idlePS := int64(0)
	for _, l := range path {
		link := n.links[l]
		n.ideal.Add(link.BandwidthBps, link.DelayNS)
		p, back := &n.ports[l], &n.ports[l^1]
		idlePS += p.wire.PS(n.params.PayloadBytes+n.params.HeaderBytes) + back.wire.PS(n.params.AckBytes) +
			2*link.DelayNS*simkernel.PSPerNS
	}
	f.idealNS = n.ideal.FCTNS(size)
	f.packets = n.params.Packets(size)
	f.timeoutPS = n.timeoutPS(path, idlePS)
	f.waitPS, f.lastPS, f.marks = make([]int64, len(path)), make([]int64, len(path)), make([]int32, len(path))
	n.starting = f
	n.push(event{atPS: f.startPS, rank: rankStart + uint64(n.rows)})
	n.rows++
	n.lastNS = startNS
	n.next++
	return nil
}

// timeoutPS returns the retransmission timeout of flows of a path. By default it covers a packet that waits behind
// the largest possible queue (Alpha/(1+Alpha) of the buffer) at every switch, and whose ACK waits at each for one
// packet and for as many ACKs as such a queue has packets.
func (n *Buffered) timeoutPS(path []int32, idlePS int64) int64 {
	if n.buffer.RetransmitNS > 0 {
		return n.buffer.RetransmitNS * simkernel.PSPerNS
	}
	deepest := n.buffer.Alpha / (1 + n.buffer.Alpha) * float64(n.buffer.SwitchBytes)
	sum := 2 * float64(idlePS)
	for _, l := range path {
		slower := min(n.links[l].BandwidthBps, n.links[l^1].BandwidthBps)
		sum += 2 * deepest * 8e12 / float64(slower)
	}
	return int64(min(sum, netHorizonPS/4))
}

// An event is a flow start, a packet's arrival at a port, a timeout, or a send opportunity of a port. At equal
// times arrivals come first, by the link that they came over, then starts by row, timeouts by row, and sends.
type event struct {
	atPS   int64
	rank   uint64
	serial uint64
	port   int32
	item   int32 // arrival: the packet's id; timeout: the timer's number
}

const (
	rankStart   = uint64(1) << 32
	rankTimeout = uint64(1) << 62
	rankSend    = uint64(1) << 63
)

func (e *event) before(o *event) bool {
	if e.atPS != o.atPS {
		return e.atPS < o.atPS
	}
	if e.rank != o.rank {
		return e.rank < o.rank
	}
	return e.serial < o.serial
}

func (n *Buffered) push(e event) {
	n.serial++
	e.serial = n.serial
	n.heap.push(e)
}

// scheduleSend makes a port try to send at a time, unless it will try earlier.
func (n *Buffered) scheduleSend(port int32, atPS int64) {
	if p := &n.ports[port]; atPS < p.sendAtPS {
		p.sendAtPS = atPS
		n.push(event{atPS: atPS, rank: rankSend, port: port})
	}
}

// An eventHeap is a binary heap.
type eventHeap []event

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
	*h = s
}

func (h *eventHeap) pop() event {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].before(&s[down]) {
			down++
		}
		if !s[down].before(&last) {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}

// sharesQueue reports whether ACKs share one queue with data at switches.
func (n *Buffered) sharesQueue() bool { return n.params.Transport.AcksQueue() }

// threshold returns how many bytes may wait at a port of a node.
func (n *Buffered) threshold(node int32) float64 {
	return n.buffer.Alpha * float64(n.buffer.SwitchBytes-n.used[node])
}

// admits reports whether a data packet of that size fits at a switch's port.
func (n *Buffered) admits(p *bufferedPort, wireBytes int64) bool {
	return n.used[p.node]+wireBytes <= n.buffer.SwitchBytes && float64(p.dataBytes+wireBytes) <= n.threshold(p.node)
}
