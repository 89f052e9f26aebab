package network

import (
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/roundrobin"
)

// A Buffered is a Network whose switches have finite buffers. As long as nothing is dropped its results are
// identical.
//
// Buffers: the data packets that wait at the ports of a switch share its buffer. Each packet uses its size on
// the wire, from its arrival until its service starts. A packet is dropped on arrival if the buffer is full
// or its port above the dynamic threshold (BufferParams.Alpha). ACKs take no buffer and are never dropped
// (priority group 0 of the HPCC simulator).
//
// Recovery is go-back-N, as in RDMA NICs and the HPCC simulator. A receiver accepts packets only in order,
// and acknowledges them. It discards packets beyond the expected one. It answers the first of them by a NACK
// that names the expected packet, and then sends one NACK per nackEveryNS without progress, or per round trip
// if that is longer. The sender goes back to the expected packet. It also discards duplicates. A timeout
// covers the loss of a flow's last packets. The transport processes a NACK like an ACK of the same number.
// Losses have no other effect on it.
//
// Events are ordered as in Network. If packets arrive at a switch and leave it in the same ps, arrivals come
// first, in the order of the links on which they arrive. Because the ports of a switch share state, time is
// not divided into windows: there is one event heap and one goroutine.
type Buffered struct {
	params   simkernel.Params
	buffer   BufferParams
	classes  []Class
	links    []Link
	host     []bool
	feed     feed
	batch    *batch
	ports    []bufferedPort
	pfc      *twinPFC // nil: off
	moves    *twinMoves
	used     []int64 // by node: bytes of its buffer in use
	peak     []int64 // by node: maximum of used
	heap     eventHeap
	timeouts eventHeap // timeouts, apart because most are far ahead
	serial   uint64

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
	delayed     []delayedACK
	err         error

	// Results are as in Network.
	Results Results
	// Losses count losses and their recovery so far.
	Losses Losses
}

type bufferedFinish struct {
	flow *bufferedFlow
	atPS int64
}

// NewBuffered returns an idle network. For hosts and more, see New.
func NewBuffered(params simkernel.Params, buffer BufferParams, classes []Class, links []Link, hosts []bool,
	more func() (*Flows, error)) (*Buffered, error) {
	whole, err := New(params, BufferParams{}, links, hosts, more)
	if err != nil {
		return nil, err
	}
	whole.classes = classes
	if classes == nil {
		classes = make([]Class, 1)
	}
	if err := buffer.Validate(&params); err != nil {
		return nil, err
	}
	n := &Buffered{
		params: params, buffer: buffer, classes: classes, links: slices.Clone(links), host: slices.Clone(hosts),
		feed: feed{net: whole}, ports: make([]bufferedPort, len(links)),
		used: make([]int64, len(hosts)), peak: make([]int64, len(hosts)),
	}
	for l, link := range links {
		p := &n.ports[l]
		p.wire = simkernel.NewWireTime(float64(link.BandwidthBps))
		p.sendAtPS = never
		p.isHost = hosts[link.SrcNode]
		p.node = link.SrcNode
		for _, c := range classes {
			from, always := params.MarkBytes(link.BandwidthBps, link.DelayNS)
			if c.MarkPerGbps > 0 {
				from = simkernel.PerGbps(c.MarkPerGbps, link.BandwidthBps)
				always = max(from, simkernel.PerGbps(c.MaxMarkPerGbps, link.BandwidthBps))
			}
			p.classes = append(p.classes, bufferedClass{markBytes: from, rule: params.MarkRule(from, always)})
		}
		p.markKey = simkernel.MarkKey(params.Seed, int32(l))
	}
	if buffer.PFC {
		n.pfc = newTwinPFC(n)
	}
	return n, nil
}

// Counters returns the counters of the sending end of a link.
func (n *Buffered) Counters(link int32) Counters { return n.ports[link].counters }

// Dropped returns the number of packets dropped at the sending end of a link.
func (n *Buffered) Dropped(link int32) int64 { return n.ports[link].dropped }

// MostBytes returns the maximum number of bytes in the buffer of a node.
func (n *Buffered) MostBytes(node int32) int64 { return n.peak[node] }

// Run simulates the whole workload. It calls finished, if not nil, whenever a few thousand flows are in
// n.Results, and once more at the end. Results is reset after each call. It stops at the first invalid row,
// and at an error of more or finished.
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
		n.Results = Results{}
		return err
	}
	for len(n.heap)+len(n.timeouts) > 0 {
		e := n.nextEvent()
		if n.pfc != nil && len(n.pfc.left) > 0 && e.atPS > n.pfc.leftPS {
			n.heap.push(e)
			n.pfc.resume(n)
			continue
		}
		if len(n.finished) > 0 && e.atPS > n.finished[0].atPS {
			n.finish()
			if err := emit(4096); err != nil {
				return err
			}
		}
		switch {
		case e.rank == rankWatch:
			n.pfc.watch(n, e.port, int(e.item), e.atPS)
		case e.item == delayedItem:
			n.sendDelayed(e.port, e.atPS)
		case e.rank >= rankSend:
			p := &n.ports[e.port]
			if p.sendAtPS == e.atPS {
				p.sendAtPS = never
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
			if e.item < 0 {
				n.pfc.toggle(n, e.port, e.item, e.atPS)
				break
			}
			n.arrive(e.port, n.packets[e.item], e.atPS, int32(e.rank))
		}
		if e.atPS > horizonPS && n.flows > 0 {
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
	slices.SortFunc(n.finished, func(a, b bufferedFinish) int {
		return int(min(1, max(-1, a.flow.row-b.flow.row)))
	})
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
	for n.batch == nil || n.next == len(n.batch.flows) {
		if n.batch != nil && (n.batch.err != nil || n.batch.last) {
			return n.batch.err
		}
		n.batch = n.feed.next()
		n.next = 0
	}
	c := n.batch.flows[n.next]
	path := c.path
	size := c.size
	startNS := c.startPS / simkernel.PSPerNS
	f := &bufferedFlow{row: n.rows, path: path, size: size, startPS: startNS * simkernel.PSPerNS,
		key: c.key, class: int(c.class)}
	n.ideal.Reset(&n.params)
	idlePS := int64(0)
	for _, l := range path {
		link := n.links[l]
		n.ideal.Add(link.BandwidthBps, link.DelayNS)
		p := &n.ports[l]
		back := &n.ports[l^1]
		idlePS += p.wire.PS(n.params.PayloadBytes+n.params.HeaderBytes) + back.wire.PS(n.params.AckBytes) +
			2*link.DelayNS*simkernel.PSPerNS
	}
	f.idealNS = n.ideal.FCTNS(size)
	f.limits = n.params.Limits(float64(n.links[path[0]].BandwidthBps), n.ideal.Path())
	f.packets = n.params.Packets(size)
	f.timeoutPS = n.timeoutPS(path, idlePS)
	f.lowPS = max(100_000, 3*n.ideal.Path().RoundTripNS) * simkernel.PSPerNS
	f.nackWaitPS = max(nackEveryNS, n.ideal.Path().RoundTripNS) * simkernel.PSPerNS
	if n.params.Transport.Traits().AckClocked {
		f.limits.RoundTripNS = n.ideal.Path().RoundTripNS
	}
	f.waitPS = make([]int64, len(path))
	f.lastPS = make([]int64, len(path))
	f.marks = make([]int32, len(path))
	n.starting = f
	n.push(event{atPS: f.startPS, rank: rankStart + uint64(n.rows)})
	n.rows++
	n.lastNS = startNS
	n.next++
	return nil
}

// timeoutPS returns the retransmission timeout of flows of a path. By default it covers a packet that waits
// behind the largest possible queue (Alpha/(1+Alpha) of the buffer) at every switch, and whose ACK waits at
// each for one packet and for as many ACKs as such a queue has packets.
func (n *Buffered) timeoutPS(path []int32, idlePS int64) int64 {
	if n.buffer.RetransmitNS > 0 {
		return n.buffer.RetransmitNS * simkernel.PSPerNS
	}
	if n.pfc != nil {
		return pfcTimeoutNS * simkernel.PSPerNS
	}
	deepest := n.buffer.Alpha/(1+n.buffer.Alpha)*float64(n.buffer.SwitchBytes) + float64(n.buffer.ReservedBytes)
	if len(n.classes) > 1 || n.classes[0].MarkPerGbps > 0 || n.classes[0].Alpha > 0 {
		deepest = float64(n.buffer.SwitchBytes)
	}
	sum := 2 * float64(idlePS)
	for _, l := range path {
		slower := min(n.links[l].BandwidthBps, n.links[l^1].BandwidthBps)
		sum += 2 * deepest * 8e12 / float64(slower)
	}
	return int64(min(sum, horizonPS/4))
}

// An event is a flow start, a packet's arrival at a port, a timeout, or a send opportunity of a port. At
// equal times, arrivals come first, in the order of their links. Starts and timeouts follow, each in the
// order of rows, and then sends.
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
	rankWatch   = rankSend - 1
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
	p := &n.ports[port]
	if atPS < p.sendAtPS {
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
	top := s[0]
	last := s[len(s)-1]
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
func (n *Buffered) sharesQueue() bool { return n.params.Transport.Traits().AcksQueue }

// alpha is the dynamic threshold of a class.
func (n *Buffered) alpha(class int) float64 {
	c := n.classes[class]
	if c.Alpha == 0 && c.Lossy {
		return 1
	}
	if c.Alpha == 0 {
		return n.buffer.Alpha
	}
	return c.Alpha
}

// admits reports whether a data packet of the given class and size fits at a switch's port.
func (n *Buffered) admits(p *bufferedPort, class int, wireBytes int64) bool {
	free := n.buffer.SwitchBytes - n.used[p.node]
	own := int64(0)
	if n.buffer.ReservedBytes > 0 {
		own = n.buffer.ReservedBytes
		free = n.buffer.SwitchBytes
		for i := range n.ports {
			for _, c := range n.ports[i].classes {
				if n.ports[i].node == p.node {
					free -= max(own, c.dataBytes)
				}
			}
		}
	}
	held := p.classes[class].dataBytes
	beyond := max(0, held+wireBytes-own)
	return beyond == 0 || beyond-max(0, held-own) <= free && float64(beyond) <= n.alpha(class)*float64(free)
}

// nextClass returns the class that a port serves next, or a number below 0 if none is ready. bytes has the
// sizes of the next packets of the classes; a size below 0 means that the class is not ready. The quantum of
// the smallest weight is a full packet.
func (n *Buffered) nextClass(p *bufferedPort, bytes []int64) int {
	for q := len(bytes) - 1; q >= 0; q-- {
		if bytes[q] >= 0 && n.classes[q].Weight == 0 {
			return q
		}
	}
	least := int64(1 << 60)
	for _, c := range n.classes {
		if c.Weight > 0 {
			least = min(least, c.Weight)
		}
	}
	for {
		q := p.turn
		c := &p.classes[q]
		if bytes[q] >= 0 {
			if !p.granted {
				c.deficit += (n.params.PayloadBytes + n.params.HeaderBytes) * n.classes[q].Weight / least
				p.granted = true
			}
			if c.deficit >= bytes[q] {
				c.deficit -= bytes[q]
				return q
			}
		}
		p.pass()
	}
}

// pass gives the turn to the next class.
func (p *bufferedPort) pass() {
	p.turn = (p.turn + 1) % len(p.classes)
	p.granted = false
}

// ended records that no packet of the class waits after a service.
func (p *bufferedPort) ended(class int) {
	p.classes[class].deficit = 0
	if p.turn == class {
		p.pass()
	}
}

// A bufferedFlow is a flow in a buffered network, sender and receiver. Packets are counted; all but the last
// are full.
type bufferedFlow struct {
	limits  simkernel.Limits
	row     int64
	path    []int32
	size    int64
	packets int64
	startPS int64
	idealNS int64
	key     uint64 // in random marks
	class   int

	// Sender.
	sender  simkernel.Sender
	gap     simkernel.WireTime // pacing time per byte at the present rate
	window  int64              // bytes
	una     int64              // packets acknowledged
	nxt     int64              // the next packet to send
	maxSent int64              // number of packets that have been sent at least once
	slot    int32
	place   int32 // index of nic.places
	done    bool
	backoff uint // timeouts in a row

	timeoutPS  int64 // of the first in a row
	deadlinePS int64
	timerSet   bool // there is an event for it

	// Receiver.
	expected   int64 // packets received in order
	nacked     int64 // 1 + the packet that the last NACK named
	nackPS     int64 // earliest time of the next one
	nackWaitPS int64

	twinTCP
	twinIRN
	waitPS, lastPS []int64 // by hop
	marks          []int32 // by hop
}

// bytes returns the payload of the flow's first packets.
func (n *Buffered) bytes(f *bufferedFlow, packets int64) int64 {
	return min(f.size, packets*n.params.PayloadBytes)
}

// setRate applies the rate of the flow's sender.
func (n *Buffered) setRate(f *bufferedFlow) {
	rateBps, _ := f.sender.Rate()
	f.gap = simkernel.NewWireTime(rateBps)
	f.window = f.limits.WindowAt(rateBps)
}

// startFlow starts a flow at its host.
func (n *Buffered) startFlow(f *bufferedFlow, nowPS int64) {
	n.flows++
	port := f.path[0]
	p := &n.ports[port]
	f.sender = simkernel.NewSender(n.params.Transport)
	f.sender.Start(&n.params, f.limits)
	n.setRate(f)
	f.gap = simkernel.NewWireTime(f.limits.LineBps)
	n.startTCP(f)
	if n.buffer.Selective && f.tcp == nil {
		f.twinIRN = twinIRN{acked: map[int64]bool{}, resent: map[int64]bool{}, lowPS: f.lowPS}
		f.lost = map[int64]bool{}
		f.got = map[int64]bool{}
	}
	k := len(n.freeSlots)
	if k > 0 {
		f.slot = n.freeSlots[k-1]
		n.freeSlots = n.freeSlots[:k-1]
		n.slots[f.slot] = f
	} else {
		f.slot = int32(len(n.slots))
		n.slots = append(n.slots, f)
	}
	c := &p.classes[f.class].ring
	if c.Sparse() {
		c.Compact(func(slot, place int32) { n.slots[slot].place = place })
	}
	f.place = c.Add(f.slot, nowPS)
	if f.tcp != nil {
		n.handOver(f, nowPS)
	}
	n.scheduleSend(port, max(nowPS, p.freePS))
}

// sendNext sends a packet of the flow that is next in the round robin, or schedules a send for the time at
// which there will be one.
func (n *Buffered) sendNext(port int32, p *bufferedPort, nowPS int64) {
	bytes := slices.Repeat([]int64{-1}, len(n.classes))
	nextPS := n.tick(p, nowPS)
	for q := range p.classes {
		c := &p.classes[q].ring
		if n.pfc != nil && n.pfc.of(port, q).paused {
			continue
		}
		c.Choose(p.freePS)
		nextPS = min(nextPS, c.SendPS)
		if c.SendPS <= nowPS {
			f := n.slots[c.Places[c.SendAt].Slot]
			bytes[q] = n.bytes(f, f.nxt+1) - n.bytes(f, f.nxt) + n.params.HeaderBytes
		}
	}
	if nextPS > nowPS {
		if nextPS != never {
			n.scheduleSend(port, nextPS)
		}
		return
	}
	class := n.nextClass(p, bytes)
	c := &p.classes[class].ring
	place := c.SendAt
	f := n.slots[c.Places[place].Slot]
	k := n.newPacket()
	payload := n.bytes(f, f.nxt+1) - n.bytes(f, f.nxt)
	k.flow = f
	k.number = f.nxt
	k.wire = payload + n.params.HeaderBytes
	k.atPS = nowPS
	k.sentPS = nowPS
	if f.nxt < f.maxSent {
		n.Losses.Again++
		if n.moves != nil {
			k.attempt = n.moves.flow(f).attempt
		}
	}
	n.Losses.Sent++
	if f.acked != nil {
		f.resent[f.nxt] = f.nxt < f.maxSent
	}
	f.nxt++
	f.maxSent = max(f.maxSent, f.nxt)
	if n.moves != nil {
		n.moves.sent(f, k)
	}
	if f.acked != nil {
		f.chooseIRN()
	}
	if f.tcp != nil {
		f.handed = f.handed[1:]
		f.chooseHanded()
	} else if f.sender.Tick(&n.params, nowPS) {
		n.setRate(f)
	}
	c.Sent(place, nowPS+f.gap.PS(k.wire))
	if !n.open(f) {
		c.Close(int32(place))
	}
	if !f.timerSet {
		n.arm(f, nowPS)
	}
	p.noteQueue(k.wire, nowPS)
	n.passData(port, p, k, nowPS)
	c.Choose(p.freePS)
	if c.SendPS > p.freePS {
		p.ended(class)
	}
}

// tick updates the windows of a NIC's flows by their timers. It returns the first time at which the pacing of
// a flow ends.
func (n *Buffered) tick(p *bufferedPort, nowPS int64) (nextPS int64) {
	nextPS = never
	for q := range p.classes {
		for _, place := range p.classes[q].ring.Places {
			if place.Slot < 0 || !n.params.Transport.Traits().Timers ||
				n.slots[place.Slot].nxt == n.slots[place.Slot].packets {
				continue
			}
			f := n.slots[place.Slot]
			if f.sender.Tick(&n.params, nowPS) {
				n.setRate(f)
			}
			n.updateOpen(p, f, nowPS)
			if place.ReadyPS > nowPS {
				nextPS = min(nextPS, place.ReadyPS)
			}
		}
	}
	return nextPS
}

// open reports whether a flow has a packet to send and its window allows it.
func (n *Buffered) open(f *bufferedFlow) bool {
	if f.tcp != nil {
		return len(f.handed) > 0
	}
	return f.nxt < f.packets && n.bytes(f, f.nxt)-n.bytes(f, f.una) < f.window
}

// receiveData processes a data packet at its destination and turns it into its ACK or NACK. It returns false
// if there is none.
func (n *Buffered) receiveData(k *bufferedPacket, nowPS int64) bool {
	f := k.flow
	if n.moves != nil {
		return n.moves.receiveData(n, k, nowPS)
	}
	switch {
	case k.number == f.expected:
		f.expected++
		n.Losses.Delivered++
		if f.expected == f.packets {
			n.finished = append(n.finished, bufferedFinish{f, nowPS})
		}
	case k.number < f.expected:
		n.Losses.Discarded++
		return false
	default:
		n.Losses.Discarded++
		if f.nacked == f.expected+1 && nowPS < f.nackPS {
			return false
		}
		f.nacked = f.expected + 1
		f.nackPS = nowPS + f.nackWaitPS
		k.nack = true
		n.Losses.NACKs++
	}
	k.ack = true
	k.number = f.expected
	k.wire = n.params.AckBytes
	k.hop--
	return true
}

// receiveAck processes an ACK or a NACK at the source.
func (n *Buffered) receiveAck(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	f := k.flow
	n.scheduleSend(port, max(nowPS, p.freePS))
	if f.done {
		n.release(k)
		return
	}
	if f.tcp != nil {
		n.receiveTCPAck(port, p, k, nowPS)
		return
	}
	if f.acked != nil {
		n.receiveIRNAck(port, p, k, nowPS)
		return
	}
	if n.moves != nil {
		n.moves.receiveAck(n, port, p, k, nowPS)
		n.release(k)
		return
	}
	if k.number > f.una {
		f.una = k.number
		f.nxt = max(f.nxt, f.una) // it had gone back to before packets still in flight
		f.backoff = 0
		f.deadlinePS = nowPS + f.timeoutPS
	}
	if k.nack && k.number == f.una {
		f.nxt = f.una
	}
	if f.una == f.packets {
		n.endFlow(p, f)
	} else {
		changed := f.sender.Tick(&n.params, nowPS)
		h := simkernel.AckInfo{
			NowPS: nowPS, RTTPS: nowPS - k.sentPS, AckedBytes: n.bytes(f, f.una), SentBytes: n.bytes(f, f.nxt),
			Marked: k.marked, Links: k.links,
		}
		if f.sender.OnAck(&n.params, &h) || changed {
			n.setRate(f)
		}
		n.updateOpen(p, f, nowPS)
		n.scheduleSend(port, max(nowPS, p.freePS))
	}
	n.release(k)
}

// updateOpen opens or closes a flow at its NIC.
func (n *Buffered) updateOpen(p *bufferedPort, f *bufferedFlow, nowPS int64) {
	c := &p.classes[f.class].ring
	c.SendPS = roundrobin.Unknown
	open := n.open(f)
	if open != c.IsOpen(f.place) {
		if open {
			c.Reopen(f.place, nowPS)
		} else {
			c.Close(f.place)
		}
	}
}

// endFlow removes a flow whose packets are all acknowledged from its NIC.
func (n *Buffered) endFlow(p *bufferedPort, f *bufferedFlow) {
	c := &p.classes[f.class].ring
	f.done = true
	c.Vacate(f.place)
	n.slots[f.slot] = nil
	n.freeSlots = append(n.freeSlots, f.slot)
	f.sender = nil
	n.flows--
}

// arm sets the flow's timer.
func (n *Buffered) arm(f *bufferedFlow, nowPS int64) {
	f.deadlinePS = nowPS + min(f.patience(), horizonPS/4>>f.backoff)<<f.backoff
	n.scheduleTimeout(f)
}

// scheduleTimeout pushes the event of the flow's timer.
func (n *Buffered) scheduleTimeout(f *bufferedFlow) {
	f.timerSet = true
	item := int32(len(n.timers))
	k := len(n.freeTimers)
	if k > 0 {
		item = n.freeTimers[k-1]
		n.freeTimers = n.freeTimers[:k-1]
		n.timers[item] = f
	} else {
		n.timers = append(n.timers, f)
	}
	n.timeouts.push(event{atPS: f.deadlinePS, rank: rankTimeout + uint64(f.row), item: item})
}

// timeout processes the event of the flow's timer. If there was no progress during the timeout, the sender
// goes back to the first unacknowledged packet.
func (n *Buffered) timeout(f *bufferedFlow, nowPS int64) {
	f.timerSet = false
	switch {
	case f.done:
	case nowPS < f.deadlinePS:
		n.scheduleTimeout(f)
	// nothing is in flight: the next packet sets the timer
	case f.nxt == f.una && f.tcp == nil && f.acked == nil || f.maxSent == f.una:
	case f.acked != nil && !f.waited && f.lowPS < f.timeoutPS && f.maxSent-f.una > 3:
		f.waited = true
		f.deadlinePS = nowPS + f.timeoutPS - f.lowPS
		n.scheduleTimeout(f)
	default:
		f.waited = false
		n.Losses.Timeouts++
		if n.moves != nil {
			n.moves.goBack(f)
			n.moves.of[f].label++
		}
		f.nxt = f.una
		n.timeoutTCP(f, nowPS)
		if f.acked != nil {
			f.recoverTo = f.maxSent
			f.resent = map[int64]bool{}
			for k := f.una; k < f.maxSent; k++ {
				f.lost[k] = true
			}
			f.chooseIRN()
		}
		f.backoff = min(f.backoff+1, maxBackoff)
		n.arm(f, nowPS)
		p := &n.ports[f.path[0]]
		n.updateOpen(p, f, nowPS)
		n.scheduleSend(f.path[0], max(nowPS, p.freePS))
	}
}

// A bufferedPort is the sending end of one link.
type bufferedPort struct {
	isHost   bool
	node     int32
	wire     simkernel.WireTime
	freePS   int64 // the wire is free from here on
	sendAtPS int64 // time of its scheduled send; never if none

	acks    bufferedQueue
	classes []bufferedClass
	turn    int
	granted bool

	markKey   uint64
	sentBytes int64 // wire bytes so far, for telemetry
	counters  Counters
	dropped   int64
}

// A bufferedClass is a class at a port.
type bufferedClass struct {
	data       bufferedQueue
	queueBytes int64 // wire bytes of the items in data
	dataBytes  int64 // wire bytes of the data packets among them, which take buffer
	dropped    int64
	deficit    int64
	ring       roundrobin.Ring // at a host
	markBytes  int64
	rule       simkernel.MarkRule
}

// A bufferedQueue is a FIFO.
type bufferedQueue struct {
	items []*bufferedPacket
	head  int
}

func (q *bufferedQueue) empty() bool { return q.head == len(q.items) }

func (q *bufferedQueue) put(k *bufferedPacket) { q.items = append(q.items, k) }

func (q *bufferedQueue) take() *bufferedPacket {
	k := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items = q.items[:0]
		q.head = 0
	} else if q.head >= 64 && q.head*2 > len(q.items) {
		kept := copy(q.items, q.items[q.head:])
		clear(q.items[kept:])
		q.items = q.items[:kept]
		q.head = 0
	}
	return k
}

// A bufferedPacket is a data packet in flight, and then the ACK or NACK that answers it.
type bufferedPacket struct {
	id      int32
	flow    *bufferedFlow
	number  int64 // data: its number in the flow, from 0; ACK: of the next expected packet
	hop     int   // the hop that it waits for or has crossed; of an ACK on the reverse path
	ack     bool
	nack    bool
	marked  bool
	atPS    int64 // arrival at the port
	sentPS  int64 // when the data packet left its host
	wire    int64 // bytes
	links   []simkernel.Telemetry
	over    int32   // the link on which it arrives
	answers []int64 // an ACK of TCP: the packets that it acknowledges

	// of balances: PLB's label; CONGA's metric and the place of the first switch's link
	label, metric, way uint32
	attempt            uint32
	through            bool // an ACK in any order: the receiver has all packets up to the number
}

func (n *Buffered) newPacket() *bufferedPacket {
	k := len(n.freePackets)
	if k > 0 {
		p := n.freePackets[k-1]
		n.freePackets = n.freePackets[:k-1]
		*p = bufferedPacket{id: p.id, links: p.links[:0]}
		return p
	}
	p := &bufferedPacket{id: int32(len(n.packets))}
	n.packets = append(n.packets, p)
	return p
}

func (n *Buffered) release(k *bufferedPacket) {
	k.flow = nil
	n.freePackets = append(n.freePackets, k)
}

// arrive processes a packet that arrives at a port's node.
func (n *Buffered) arrive(port int32, k *bufferedPacket, nowPS int64, over int32) {
	if n.moves != nil {
		var kept bool
		port, kept = n.moves.place(n, port, k, nowPS, over)
		if !kept {
			n.release(k)
			return
		}
	}
	p := &n.ports[port]
	k.atPS = nowPS
	k.over = over
	if k.ack && k.hop < 0 {
		n.receiveAck(port, p, k, nowPS)
		return
	}
	if !k.ack && k.hop == len(k.flow.path) {
		if k.flow.acked != nil {
			n.receiveIRN(k, nowPS)
		} else if k.flow.tcp != nil {
			n.receiveTCP(port, k, nowPS)
			return
		} else if !n.receiveData(k, nowPS) {
			n.release(k)
			return
		}
	}
	c := &p.classes[k.flow.class]
	switch {
	case k.ack && (p.isHost || !n.sharesQueue()):
		p.acks.put(k)
	case k.ack:
		c.data.put(k)
		c.queueBytes += k.wire
	default:
		if n.pfc == nil && !n.admits(p, k.flow.class, k.wire) ||
			n.pfc != nil && !n.pfc.takeIn(n, over, p, k, nowPS) {
			n.drop(p, k)
			return
		}
		c.data.put(k)
		c.queueBytes += k.wire
		c.dataBytes += k.wire
		n.used[p.node] += k.wire
		n.peak[p.node] = max(n.peak[p.node], n.used[p.node])
	}
	n.scheduleSend(port, max(nowPS, p.freePS))
}

func (n *Buffered) drop(p *bufferedPort, k *bufferedPacket) {
	p.dropped++
	p.classes[k.flow.class].dropped++
	n.Losses.Dropped++
	n.release(k)
}

// send sends the next item of a port, if one can be sent now.
func (n *Buffered) send(port int32, p *bufferedPort, nowPS int64) {
	if p.freePS > nowPS {
		n.scheduleSend(port, p.freePS)
		return
	}
	for i := p.acks.head; i < len(p.acks.items); i++ {
		k := p.acks.items[i]
		if n.pfc != nil && n.sharesQueue() && n.pfc.of(port, k.flow.class).paused {
			continue
		}
		copy(p.acks.items[p.acks.head+1:], p.acks.items[p.acks.head:i])
		p.acks.items[p.acks.head] = k
		n.passACK(port, p, p.acks.take(), nowPS)
		return
	}
	if p.isHost {
		n.sendNext(port, p, nowPS)
		return
	}
	bytes := slices.Repeat([]int64{-1}, len(n.classes))
	waits := false
	for q := range p.classes {
		d := &p.classes[q].data
		if !d.empty() && (n.pfc == nil || !n.pfc.of(port, q).paused) {
			waits = true
			bytes[q] = d.items[d.head].wire
		}
	}
	if !waits {
		return
	}
	n.sendFrom(port, p, n.nextClass(p, bytes), nowPS)
}

// sendFrom sends the next packet of a class.
func (n *Buffered) sendFrom(port int32, p *bufferedPort, class int, nowPS int64) {
	c := &p.classes[class]
	k := c.data.take()
	c.queueBytes -= k.wire
	left, all := n.bytesBehind(p, class, nowPS)
	p.noteQueue(all+k.wire, nowPS)
	if left == 0 {
		p.ended(class)
	}
	if k.ack {
		n.passACK(port, p, k, nowPS)
		return
	}
	n.leave(p, k, nowPS)
	if n.marks(p, k, left) {
		k.marked = true
		k.flow.marks[k.hop]++
		p.counters.PacketsMarked++
	}
	if n.params.Transport.Traits().Telemetry {
		for len(k.links) < k.hop {
			k.links = append(k.links, simkernel.Telemetry{})
		}
		k.links[k.hop-1] = simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes, LeftBytes: all,
			Bps: float64(n.links[port].BandwidthBps), Link: port}
	}
	f := k.flow
	waitPS := nowPS - k.atPS
	f.waitPS[k.hop] += waitPS
	if k.number == f.packets-1 {
		f.lastPS[k.hop] = waitPS
	}
	n.passData(port, p, k, nowPS)
}

// noteQueue counts the bytes in the queue at the start of a service.
func (p *bufferedPort) noteQueue(bytes, nowPS int64) {
	if bytes > p.counters.MaxQueueBytes {
		p.counters.MaxQueueBytes = bytes
		p.counters.MaxQueueAtNS = nowPS / simkernel.PSPerNS
	}
}

// leave frees the buffer space of a packet.
func (n *Buffered) leave(p *bufferedPort, k *bufferedPacket, nowPS int64) {
	p.classes[k.flow.class].dataBytes -= k.wire
	n.used[p.node] -= k.wire
	if n.pfc != nil {
		n.pfc.leave(k, nowPS)
	}
}

// bytesBehind returns how many bytes of a class, and of all classes, arrived before now and wait.
func (n *Buffered) bytesBehind(p *bufferedPort, class int, nowPS int64) (own, all int64) {
	for q := range p.classes {
		c := &p.classes[q]
		left := c.queueBytes
		for i := len(c.data.items) - 1; i >= c.data.head && c.data.items[i].atPS == nowPS; i-- {
			left -= c.data.items[i].wire
		}
		all += left
		if q == class {
			own = left
		}
	}
	return own, all
}

func (n *Buffered) marks(p *bufferedPort, k *bufferedPacket, left int64) bool {
	if n.params.Transport.Traits().RandomMarks {
		rule := &p.classes[k.flow.class].rule
		return left > rule.MinBytes &&
			rule.Marks(left, simkernel.MixKey(simkernel.MixKey(p.markKey, k.flow.key), uint64(k.number)))
	}
	return left > p.classes[k.flow.class].markBytes
}

// passData sends a data packet over its hop.
func (n *Buffered) passData(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	k.hop++
	to := port ^ 1
	if k.hop < len(k.flow.path) {
		to = k.flow.path[k.hop]
	}
	n.transmit(port, to, p, k, k.wire, nowPS)
}

// passACK sends an ACK over its hop.
func (n *Buffered) passACK(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	k.hop--
	to := k.flow.path[0]
	if k.hop >= 0 {
		to = k.flow.path[k.hop] ^ 1
	}
	n.transmit(port, to, p, k, n.params.AckBytes, nowPS)
}

func (n *Buffered) transmit(port, to int32, p *bufferedPort, k *bufferedPacket, wireBytes, nowPS int64) {
	p.sentBytes += wireBytes
	p.freePS = nowPS + p.wire.PS(wireBytes)
	if n.moves != nil && n.moves.Balance == CONGA {
		n.moves.busy[port] = append(n.moves.busy[port], [2]int64{nowPS, p.freePS})
	}
	n.scheduleSend(port, p.freePS)
	n.push(event{atPS: p.freePS + n.links[port].DelayNS*simkernel.PSPerNS, rank: uint64(port), port: to,
		item: k.id})
}
