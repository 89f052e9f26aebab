package linkcase

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"

	"parsimon/simkernel"
)

type slowKind int

const (
	slowDepart slowKind = iota
	slowAck
	slowStart
	slowSend
	slowArrive
)

type slowEvent struct {
	at     int64
	kind   slowKind
	source int
	seq    int
	packet *slowPacket
	flow   *slowFlow
}

type slowEvents []slowEvent

func (h slowEvents) Len() int      { return len(h) }
func (h slowEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *slowEvents) Push(x any)   { *h = append(*h, x.(slowEvent)) }
func (h *slowEvents) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
func (h slowEvents) Less(i, j int) bool {
	a := h[i]
	b := h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.source, b.source),
		cmp.Compare(a.seq, b.seq)) < 0
}

type slowPacket struct {
	flow          *slowFlow
	payload, wire int64
	n             int64 // number in its flow
	arrived       int64
	sentAt        int64
	upstream      int64 // of a first hop: wait before the slowest link
	acked         int64 // when its ACK is at the host, apart from earlier ones
	marked        bool
	links         []simkernel.Telemetry
	feedback      float64
}

type slowFlow struct {
	row, source                   int
	start, path, size             int64
	sent, delivered, acked, paced int64
	limits                        simkernel.Limits
	opened                        int64 // when the last ACK that found the window closed arrived
	lastAck                       int64
	// when its last packet has passed the slowest links before and behind the target
	up, down int64
	alone    int64   // when the target would have sent the flow's packets so far, alone
	block    int64   // first of its blocks
	waits    []int64 // by packet
	marks    []bool
	uses     []float64 // how far the target slows it, as of the ACK of each packet; HPCC
	sender   simkernel.Sender
	window   int64
}

// A linkTwin is a slow and obvious version of Kernel, with one heap of events in the order that kernel.go
// states and one struct per packet. It shares only the transport (dctcp), the arithmetic of time and the
// ideal FCT with Kernel.
type linkTwin struct {
	p       simkernel.Params
	c       *Case
	r       *Result
	flows   []*slowFlow
	events  slowEvents
	seq     int
	active  [][]*slowFlow      // by source, in row order
	served  []int              // row served last, by source
	free    []int64            // when the host's link is free, by source
	queue   []*slowPacket      // at the target; the first is in service
	reached []int64            // by source: when its last packet reaches the target
	crowded map[int64][2]int64 // by slot: when the queue was longest, and how long
	bytes   int64              // of queue
	busy    int64
	sent    int64 // wire bytes the target has sent
	waits   int64
}

func (t *linkTwin) at(at int64, kind slowKind, source int, packet *slowPacket, flow *slowFlow) {
	t.seq++
	heap.Push(&t.events, slowEvent{at, kind, source, t.seq, packet, flow})
}

// runLinkTwin simulates the case, slowly.
func runLinkTwin(p simkernel.Params, c *Case) *linkTwin {
	n := len(c.StartNS)
	hosts := len(c.SourceBps)
	r := &Result{FCTNS: make([]int64, n), IdealNS: make([]int64, n), Unfinished: int64(n)}
	t := &linkTwin{p: p, c: c, r: r, active: make([][]*slowFlow, hosts), served: make([]int, hosts),
		free: make([]int64, hosts), crowded: map[int64][2]int64{}}
	for i := range t.served {
		t.served[i] = -1
	}
	t.reached = make([]int64, hosts)
	blocks := int64(0)
	for row := range n {
		s := int(c.Source[row])
		r.IdealNS[row] = -1
		alone := t.alone(row)
		if alone+c.PathDelayNS[row]*simkernel.PSPerNS <= horizonPS {
			r.IdealNS[row] = simkernel.CeilNS(alone + c.PathDelayNS[row]*simkernel.PSPerNS)
		}
		r.FCTNS[row] = -1
		packets := p.Packets(c.SizeBytes[row])
		f := &slowFlow{row: row, source: s, path: c.PathDelayNS[row] * simkernel.PSPerNS, size: c.SizeBytes[row],
			block: blocks}
		f.waits = make([]int64, packets)
		f.marks = make([]bool, packets)
		f.uses = make([]float64, packets)
		for i := range f.uses {
			f.uses[i] = -1
		}
		blocks += p.Layout().Blocks(packets)
		t.flows = append(t.flows, f)
		start := c.StartNS[row] - c.StartNS[0]
		if start <= horizonPS/simkernel.PSPerNS {
			f.start = start * simkernel.PSPerNS
			t.at(f.start, slowStart, s, nil, f)
		}
	}
	for len(t.events) > 0 && t.events[0].at <= horizonPS {
		e := heap.Pop(&t.events).(slowEvent)
		if p.Transport.Traits().Timers {
			for _, flows := range t.active {
				for _, f := range flows {
					f.sender.Tick(&t.p, e.at) // more often than needed, which must not matter
				}
			}
		}
		switch e.kind {
		case slowDepart:
			t.depart(e.at)
		case slowAck:
			if e.flow.window <= e.flow.sent-e.flow.acked {
				e.flow.opened = max(e.flow.opened, e.packet.acked)
				t.at(max(e.at, e.flow.opened+t.feedback(e.flow).nicWait()), slowSend, e.source, nil, nil)
			}
			e.flow.acked += e.packet.payload
			if e.flow.sent < e.flow.size {
				e.flow.sender.Tick(&t.p, e.at)
				t.onAck(e.flow, e.packet, e.at)
				e.flow.window = e.flow.limits.WindowAt(rateOf(e.flow.sender))
				t.at(e.at, slowSend, e.source, nil, nil)
			}
		case slowStart:
			e.flow.sender = simkernel.NewSender(p.Transport)
			e.flow.limits = t.limits(e.flow.row)
			e.flow.sender.Start(&t.p, e.flow.limits)
			e.flow.window = e.flow.limits.WindowAt(rateOf(e.flow.sender))
			e.flow.paced = e.at
			e.flow.opened = e.at
			t.active[e.source] = append(t.active[e.source], e.flow)
			t.at(e.at+t.feedback(e.flow).nicWait(), slowSend, e.source, nil, nil)
		case slowSend:
			t.send(e.at, e.source)
		case slowArrive:
			t.arrive(e.at, e.packet)
		}
	}
	if c.Record {
		r.Observed = make([]simkernel.Block, blocks)
		for _, f := range t.flows {
			f.record(r.Observed[f.block:], int(t.singles()), int(t.together()))
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(t.crowded)) {
		r.CrowdedAtNS = append(r.CrowdedAtNS, float64(t.crowded[slot][0]+c.StartNS[0]))
		r.CrowdedBytes = append(r.CrowdedBytes, float64(t.crowded[slot][1]))
	}
	r.BusyNS = t.busy / simkernel.PSPerNS
	r.WaitSumNS = float64(t.waits / simkernel.PSPerNS)
	return t
}

// OnAck passes an ACK to the flow's sender.
func (t *linkTwin) onAck(f *slowFlow, pk *slowPacket, now int64) {
	f.sender.OnAck(&t.p, &simkernel.AckInfo{
		NowPS: now, RTTPS: now - pk.sentAt, AckedBytes: f.acked, SentBytes: f.sent, Marked: pk.marked,
		Links: pk.links, Feedback: pk.feedback,
	})
	if d, ok := f.sender.(simkernel.Reducer); ok {
		f.uses[pk.n] = d.Reduction()
	}
}

// feedback returns the feedback of the flow's next packet.
func (t *linkTwin) feedback(f *slowFlow) *slowFeedback {
	n := (f.sent + t.p.PayloadBytes - 1) / t.p.PayloadBytes
	if len(t.c.Feedback) == 0 || f.sent == f.size {
		return &slowFeedback{}
	}
	e := t.c.Feedback[f.block+t.blockOf(n)]
	return &slowFeedback{e, e.Marks>>(n%16)&1 == 1}
}

// blockOf returns the block of a packet of a flow.
func (t *linkTwin) blockOf(n int64) int64 {
	if n < t.singles() {
		return n
	}
	return t.singles() + (n-t.singles())/t.together()
}

// limits returns the limits of a flow's sender.
func (t *linkTwin) limits(row int) simkernel.Limits {
	var path simkernel.Path
	if len(t.c.Hops) > 0 {
		path.Hops = int(t.c.Hops[row])
	}
	if len(t.c.SlowestBps) > 0 {
		path.SlowestBps = t.c.SlowestBps[row]
		path.RoundTripNS = t.c.RoundTripNS[row]
		path.SendNS = t.c.SendNS[row]
	}
	return t.p.Limits(float64(t.c.SourceBps[t.c.Source[row]]), path)
}

func rateOf(s simkernel.Sender) float64 {
	rateBps, _ := s.Rate()
	return rateBps
}

// singles returns the number of packets of a flow that are blocks by themselves.
func (t *linkTwin) singles() int64 { return min(256, (2*t.p.Packets(t.p.NominalWindow())+15)/16*16) }

// together returns how many of the other packets share a block.
func (t *linkTwin) together() int64 {
	most := int64(16)
	for most > t.p.Packets(t.p.NominalWindow()) {
		most /= 2
	}
	return most
}

type slowFeedback struct {
	simkernel.Block
	marked bool
}

func (e *slowFeedback) nicWait() int64 { return int64(e.NICWaitNS) * simkernel.PSPerNS }

// record stores the waits and marks of the flow's packets by block.
func (f *slowFlow) record(blocks []simkernel.Block, singles, together int) {
	for n := 0; n < len(f.waits); {
		b := n
		end := n + 1
		if n >= singles {
			b = singles + (n-singles)/together
			end = min(n+together, len(f.waits))
		}
		sum := int64(0)
		for i := n; i < end; i++ {
			sum += f.waits[i]
			if f.marks[i] {
				blocks[b].Marks |= 1 << (i % 16)
			}
		}
		uses := 0.0
		acked := 0
		for i := n; i < end; i++ {
			if f.uses[i] >= 0 {
				uses += f.uses[i]
				acked++
			}
		}
		if acked > 0 {
			blocks[b].Denied = uint16(uses/float64(acked)*simkernel.ShareUnit + 0.5)
		}
		blocks[b].WaitNS = int32(min(math.MaxInt32, (sum/simkernel.PSPerNS+int64(end-n)/2)/int64(end-n)))
		n = end
	}
}

// alone returns the FCT of a flow alone in the case, without propagation and feedback, computed packet by
// packet. If the flow cannot finish within the horizon, it returns some time beyond the horizon.
func (t *linkTwin) alone(row int) int64 {
	c := t.c
	p := &t.p
	s := c.Source[row]
	ps := func(bps, wire int64) int64 { return simkernel.NewWireTime(float64(bps)).PS(wire) }
	pace := simkernel.NewWireTime(t.limits(row).LineBps)
	var sent, paced, arrived, targetFree, down, at int64
	for n, left := int64(0), c.SizeBytes[row]; left > 0; n++ {
		pk := &slowPacket{flow: &slowFlow{row: row}, n: n, wire: min(p.PayloadBytes, left) + p.HeaderBytes}
		left -= pk.wire - p.HeaderBytes
		start := max(sent, paced)
		sent = start + ps(c.SourceBps[s], pk.wire)
		paced = start + pace.PS(pk.wire)
		at = sent
		if left == 0 {
			at -= t.early(row, pk.wire)
		}
		if c.Behind {
			if n > 0 {
				at = max(at, arrived+t.gap(c.UpstreamBps, pk))
			}
			arrived = at
			if n > 0 {
				at = max(at, targetFree)
			}
			at += ps(c.TargetBps, pk.wire)
			targetFree = at
		}
		if n > 0 {
			at = max(at, down+t.fullGap(c.DownstreamBps, pk))
		}
		down = at
		if at > horizonPS {
			break
		}
	}
	return at
}

// early returns how much earlier a flow's last packet arrives than a full one would.
func (t *linkTwin) early(row int, wire int64) int64 {
	if len(t.c.BetweenPS) == 0 {
		return 0
	}
	s := t.c.Source[row]
	latest := simkernel.NewWireTime(float64(t.c.SourceBps[s])).PS(wire)
	if !t.c.Behind {
		latest += t.c.PathDelayNS[row] * simkernel.PSPerNS
	} else {
		latest += t.c.SourceDelayNS[s] * simkernel.PSPerNS
	}
	return min(latest, (t.p.PayloadBytes+t.p.HeaderBytes-wire)*int64(t.c.BetweenPS[row]))
}

// fullGap returns the gap of a full packet. The link needs this time before it can send the flow's next
// packet.
func (t *linkTwin) fullGap(bps []int64, pk *slowPacket) int64 {
	before := *pk
	before.wire = t.p.PayloadBytes + t.p.HeaderBytes
	return t.gap(bps, &before)
}

// gap returns the transmission time of a packet on its flow's link of that column, or 0 for the first packet.
func (t *linkTwin) gap(bps []int64, pk *slowPacket) int64 {
	if len(bps) == 0 || bps[pk.flow.row] == 0 || pk.n == 0 {
		return 0
	}
	return simkernel.NewWireTime(float64(bps[pk.flow.row])).PS(pk.wire)
}

// send lets the host, if its link is free, send a packet of the first sendable flow after the one
// served last.
func (t *linkTwin) send(now int64, source int) {
	if now < t.free[source] {
		return
	}
	flows := t.active[source]
	turn := 0
	for turn < len(flows) && flows[turn].row <= t.served[source] {
		turn++
	}
	for i := range flows {
		f := flows[(turn+i)%len(flows)]
		open := f.window - (f.sent - f.acked)
		feedback := t.feedback(f)
		if now < max(f.paced, f.opened)+feedback.nicWait() || open <= 0 {
			continue
		}
		payload := min(t.p.PayloadBytes, f.size-f.sent) // the window determines whether to send, not how much
		pk := &slowPacket{flow: f, payload: payload, wire: payload + t.p.HeaderBytes, n: f.sent / t.p.PayloadBytes,
			marked: feedback.marked, feedback: float64(feedback.Denied) / simkernel.ShareUnit}
		nicWait := now - max(f.paced, f.opened)
		wait := int64(feedback.WaitNS) * simkernel.PSPerNS
		pk.acked = wait
		leave := now + simkernel.NewWireTime(float64(t.c.SourceBps[source])).PS(pk.wire)
		f.sent += payload
		f.sender.Tick(&t.p, now)
		rateBps := rateOf(f.sender)
		f.window = f.limits.WindowAt(rateBps)
		f.paced = now + simkernel.NewWireTime(rateBps).PS(pk.wire)
		pk.sentAt = now
		t.free[source] = leave
		t.served[source] = f.row
		t.at(leave, slowSend, source, nil, nil)
		t.at(f.paced+t.feedback(f).nicWait(), slowSend, source, nil, nil)
		if f.sent == f.size {
			t.active[source] = slices.DeleteFunc(flows, func(g *slowFlow) bool { return g == f })
		}
		early := int64(0)
		if f.sent == f.size {
			early = t.early(f.row, pk.wire)
		}
		if t.c.Behind {
			t.reached[source] = max(t.reached[source], f.up+t.gap(t.c.UpstreamBps, pk),
				leave-early+(t.c.SourceDelayNS[source]+int64(feedback.UpstreamNS))*simkernel.PSPerNS)
			f.up = t.reached[source]
			t.at(t.reached[source], slowArrive, source, pk, nil)
		} else if leave <= horizonPS {
			t.deepest(pk.wire, now)
			pk.arrived = now
			pk.upstream = int64(feedback.UpstreamNS)*simkernel.PSPerNS - early
			f.waits[pk.n] = nicWait
			t.through(pk, now, leave, 0)
		}
		return
	}
}

// arrive puts a packet into the target's queue.
func (t *linkTwin) arrive(now int64, pk *slowPacket) {
	pk.arrived = now
	t.queue = append(t.queue, pk)
	t.bytes += pk.wire
	if t.c.RoomBytes > 0 && t.bytes > max(t.c.RoomBytes, t.p.PayloadBytes+t.p.HeaderBytes) {
		slot := now / simkernel.PSPerNS / CrowdSlotNS
		if old, met := t.crowded[slot]; !met || t.bytes > old[1] {
			t.crowded[slot] = [2]int64{now / simkernel.PSPerNS, t.bytes}
		}
	}
	if len(t.queue) == 1 {
		t.serve(now)
	}
}

// serve starts to send the first packet of the target's queue.
func (t *linkTwin) serve(now int64) {
	pk := t.queue[0]
	t.deepest(t.bytes, now)
	alone := max(pk.arrived, pk.flow.alone)
	pk.flow.waits[pk.n] = now - alone
	pk.flow.alone = alone + simkernel.NewWireTime(float64(t.c.TargetBps)).PS(pk.wire)
	if t.marks(pk, t.bytes-pk.wire) {
		pk.marked = true
		pk.flow.marks[pk.n] = true
		t.r.PacketsMarked++
	}
	pk.links = []simkernel.Telemetry{
		{AtPS: now, SentBytes: t.sent, LeftBytes: t.bytes - pk.wire, Bps: float64(t.c.TargetBps)}}
	t.sent += pk.wire
	t.at(now+simkernel.NewWireTime(float64(t.c.TargetBps)).PS(pk.wire), slowDepart, 0, nil, nil)
}

// marks reports whether the target marks a packet behind which this many bytes remain.
func (t *linkTwin) marks(pk *slowPacket, left int64) bool {
	if t.p.Transport.Traits().RandomMarks {
		rule := t.p.MarkRule(t.c.MarkBytes, t.c.MaxMarkBytes)
		return rule.Marks(left, simkernel.MixKey(simkernel.MixKey(t.c.MarkKey, uint64(pk.flow.row)), uint64(pk.n)))
	}
	return t.p.Transport.Marks() && left > t.c.MarkBytes
}

// depart ends the service of the first packet of the target's queue.
func (t *linkTwin) depart(now int64) {
	pk := t.queue[0]
	t.queue = t.queue[1:]
	t.bytes -= pk.wire
	began := now - simkernel.NewWireTime(float64(t.c.TargetBps)).PS(pk.wire)
	t.through(pk, began, now, t.c.SourceDelayNS[pk.flow.source]*simkernel.PSPerNS)
	if len(t.queue) > 0 {
		t.serve(now)
	}
}

// through delivers a packet that the case's link has sent, after the given propagation delay.
func (t *linkTwin) through(pk *slowPacket, began, now, delay int64) {
	f := pk.flow
	t.r.PacketsSent++
	t.busy += now - began
	t.waits += began - pk.arrived
	reached := now + pk.upstream
	f.down += t.fullGap(t.c.DownstreamBps, pk)
	if pk.n == 0 || f.down < reached {
		f.down = reached
	}
	pk.acked += f.down - now
	wait := pk.acked
	pk.acked += now - delay + 2*f.path
	if len(t.c.ReturnNS) > 0 {
		pk.acked += t.c.ReturnNS[f.row] * simkernel.PSPerNS
	}
	f.lastAck = max(f.lastAck, pk.acked)
	t.at(f.lastAck, slowAck, f.source, pk, f)
	f.delivered += pk.payload
	if f.delivered == f.size {
		t.r.FCTNS[f.row] = simkernel.CeilNS(now - delay + f.path + wait - f.start)
		t.r.Unfinished--
	}
}

// deepest records the depth of the queue.
func (t *linkTwin) deepest(bytes, now int64) {
	if bytes > t.r.MaxQueueBytes {
		t.r.MaxQueueBytes = bytes
		t.r.MaxQueueAtNS = t.c.StartNS[0] + now/simkernel.PSPerNS
	}
}
