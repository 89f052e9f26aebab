package linkcase

import (
	"math"
	"slices"

	"parsimon/simkernel"
)

// Order of events. Kernel computes exactly what a simulator with one global event queue would compute. That
// simulator processes events by (time in ps, kind, source, sequence number). The kinds are, in this order:
//
//  1. Service end: the target finishes a packet and starts the next one. The next one's mark is decided
//     here, so a packet that arrives at this very time does not count as left behind.
//  2. ACK: a host receives an ACK. ACKs of one host come in the order in which their packets left the target.
//  3. Flow start: a host takes up a flow, in row order.
//  4. Send: a host whose link is free sends a packet, round robin: of the sendable flows, the first by row
//     after the flow served last, wrapping around. A flow is sendable if its pacing time has come and
//     less than its window is in flight. It sends a full packet, or what it has left.
//  5. Arrival: a packet arrives at the target, by source row. At an idle target its service starts at once,
//     unmarked.
//
// A packet takes at least 1 ps on every link, so no event causes another one that precedes it in this order.
//
// Kernel itself has only one kind of event: the next packet of a source arrives at the target. This time
// depends on ACKs, pacing and the window, and thus on packets that left the target earlier. It is evaluated
// when needed. See Kernel.runQueue.

// A packet that would leave the target (or, for a first hop, the host) after horizonPS is not sent. Flows
// with undelivered bytes are then unfinished.
const (
	horizonPS = simkernel.HorizonPS
	never     = simkernel.Never
)

// A Kernel simulates link cases, one at a time. It owns scratch memory that grows to the needs of the largest
// case so far and is reused, so that it allocates nothing in steady state. Kernels share no state. Use one
// per worker.
type Kernel struct {
	params simkernel.Params
	traits simkernel.Traits // of params.Transport
	layout simkernel.BlockLayout

	// The current case.
	c        *Case
	r        *Result
	firstNS  int64 // start of the first flow; the case's clock counts from here
	nextRow  int   // the next flow to start
	nextPS   int64 // its start; never if there is none
	finished int64
	// Blocks and the slowest links of flows are tracked only in cases that have feedback or record
	// observations.
	blocks    bool
	nextBlock uint32 // first block of the next flow
	glides    bool   // flows may glide

	sources []source
	flows   []flow // active and retired flows, by slot
	free    []int32
	// slots whose last packet had not started service when it was sent, oldest first
	retired        []retiredSlot
	retiredAt      int                // index of the first of them
	acks           []ack              // the ACK rings of all slots
	senders        []simkernel.Sender // by slot; unused if the sender is embedded in flow
	clocks         []senderClock      // parallel to senders
	stamps         []stamp            // parallel to acks: more of a packet for senders that are not embedded
	watchesService bool               // service starts decide marks or telemetry: see advanceService
	ackScratch     simkernel.AckInfo

	target target
	picker picker

	needsPaths bool // of params

	earlyPS    []int64 // by row: see earlyOf; empty if the case has no BetweenPS
	earliestPS int64   // the maximum of earlyPS: no last packet arrives earlier than a full one by more

	busyPS int64 // of a first hop
}

// NewKernel validates the constants and returns a kernel for cases that share them.
func NewKernel(p simkernel.Params) (*Kernel, error) {
	if err := p.CheckLinkCases(); err != nil {
		return nil, err
	}
	t := p.Transport.Traits()
	return &Kernel{params: p, needsPaths: p.NeedsPaths(), traits: t, layout: p.Layout(),
		watchesService: t.RandomMarks || t.Telemetry}, nil
}

// Simulate simulates a case and writes the result to r. It reuses the slices of r. If a column is invalid,
// the error names the row of the source or the flow, from 0, and r is undefined. The result depends only on
// the case and on the kernel's Params.
func (k *Kernel) Simulate(c *Case, r *Result) error {
	if err := k.prepare(c, r); err != nil {
		return err
	}
	if len(c.StartNS) > 0 {
		if !c.Behind {
			k.runFirstHop()
			r.BusyNS = k.busyPS / simkernel.PSPerNS
		} else {
			k.runQueue()
			if k.watchesService {
				k.advanceService(never)
			}
			k.target.count(r, k.firstNS)
		}
	}
	r.Unfinished = int64(len(c.StartNS)) - k.finished
	k.c = nil
	k.r = nil
	return nil
}

// prepare validates the case and resets the kernel and the result.
func (k *Kernel) prepare(c *Case, r *Result) error {
	if err := k.check(c); err != nil {
		return err
	}
	k.sources = k.sources[:0]
	for i, bps := range c.SourceBps {
		k.sources = append(k.sources, source{delayPS: c.SourceDelayNS[i] * simkernel.PSPerNS,
			wire: simkernel.NewWireTime(float64(bps)), row: int32(i), served: -1})
	}
	n := len(c.StartNS)
	r.FCTNS = slices.Grow(r.FCTNS[:0], n)[:n]
	r.IdealNS = slices.Grow(r.IdealNS[:0], n)[:n]
	r.Unfinished = 0
	r.Counters = Counters{}
	if err := k.checkFlows(c, r.IdealNS); err != nil {
		return err
	}
	blocks, err := k.checkFeedback(c)
	if err != nil {
		return err
	}
	k.blocks = c.Record || len(c.Feedback) > 0 || len(c.UpstreamBps) > 0 || len(c.DownstreamBps) > 0
	k.glides = !k.blocks && k.traits.Embedded
	r.Observed = r.Observed[:0]
	r.CrowdedAtNS = r.CrowdedAtNS[:0]
	r.CrowdedBytes = r.CrowdedBytes[:0]
	if c.Record {
		r.Observed = slices.Grow(r.Observed[:0], int(blocks))[:int(blocks)]
		clear(r.Observed)
	}
	for i := range n {
		r.FCTNS[i] = -1
	}
	k.c = c
	k.r = r
	k.finished = 0
	k.busyPS = 0
	k.nextRow = 0
	k.nextBlock = 0
	k.nextPS = never
	if n > 0 {
		k.firstNS = c.StartNS[0]
		k.nextPS = 0
	}
	k.retired = k.retired[:0]
	k.retiredAt = 0
	k.free = k.free[:0]
	for i := len(k.flows) - 1; i >= 0; i-- {
		k.free = append(k.free, int32(i)) // the smallest slot is taken first
	}
	return nil
}

// runQueue simulates a case whose target is a queue behind the sources' links.
//
// Each source with active flows has a key: the time at which its next packet arrives at the target. The
// smallest key is the next arrival. Everything at the target before that time is final: departures, and the
// marks of packets in service. Before a source's host sends its following packet, it receives only ACKs of
// such packets, so the key of that packet can be computed immediately. There is an exception: if the queue is
// so long that the mark of a needed ACK is undecided, the key is a lower bound, at which the source is
// planned again.
func (k *Kernel) runQueue() {
	k.target.reset(k.c, &k.params, k.watchesService)
	p := &k.picker
	p.reset(len(k.c.SourceBps))
	for {
		if !p.many && k.traits.Embedded && k.passPlain() {
			continue
		}
		root := p.least()
		if root >= p.stop {
			if k.nextPS == never && root == noKey {
				return
			}
			k.startNext(root)
			continue
		}
		now := p.base + root>>p.bits
		s := &k.sources[root&p.mask]
		if s.known {
			f := &k.flows[s.planned]
			if !k.forward(s, f, now) {
				return
			}
			if s.count == 0 {
				p.drop()
				continue
			}
		}
		p.replace(k.plan(s, now))
	}
}

// passPlain passes packets by glide and cruise. It reports whether more of them may be passed that way.
func (k *Kernel) passPlain() bool {
	p := &k.picker
	var now int64
	var deep bool
	if k.glides {
		now, deep = k.glide()
	}
	if !deep {
		now, deep = k.cruise()
	}
	if deep {
		k.decideMarks(now)
		return true
	}
	root := p.keys[p.front]
	return root < p.stop && k.sources[root&p.mask].glides
}

// startNext starts the next flow if that is the next event. Otherwise it moves the picker's base.
func (k *Kernel) startNext(root int64) {
	p := &k.picker
	startPS := k.nextPS
	now := startPS
	if root != noKey {
		now = p.base + root>>p.bits
	}
	if root == noKey || startPS > now {
		p.rebase(now, startPS)
		if startPS > now {
			return
		}
	}
	if k.watchesService {
		k.advanceService(startPS)
	}
	sourceRow := k.c.Source[k.nextRow]
	s := &k.sources[sourceRow]
	active := s.count > 0
	if s.glides {
		k.land(s)
	}
	if !p.many && p.back-p.front == pickFew { // there may be too many now
		k.landAll()
	}
	// A packet that the host sends before the flow starts is not affected by it.
	unaffected := active && s.known && s.sendPS < startPS
	k.start(s, startPS)
	s.plain = false
	if !unaffected {
		p.put(s, active, k.plan(s, startPS))
	}
	p.next(k.nextPS)
}

// forward passes the source's planned packet, which arrives now, through the target. It returns false if the
// packet would leave the target after the horizon.
func (k *Kernel) forward(s *source, f *flow, now int64) bool {
	t := &k.target
	payload := min(k.params.PayloadBytes, f.left)
	wire := payload + k.params.HeaderBytes
	startPS := max(now, t.freePS)
	departPS := startPS + t.wire.PS(wire)
	if departPS > horizonPS {
		return false
	}
	if f.head-f.tail > f.mask {
		k.growRing(f)
	}
	if !k.traits.Embedded {
		k.onSend(f, s.sendPS)
	}
	if k.watchesService {
		k.advanceService(now)
	}
	f.upPassedPS = now
	f.left -= payload
	place := f.head & f.mask
	entry := f.base + place
	downstreamPS := f.behindTarget(departPS, k.params.PayloadBytes+k.params.HeaderBytes)
	marked := int64(f.marks>>(place%simkernel.MarkBits)) & ackMarked
	k.acks[entry] = ack{departPS + f.ackPS + downstreamPS, f.endsWindow | marked | downstreamPS<<ackShift}
	alonePS := max(now, f.alonePS)
	f.alonePS = alonePS + departPS - startPS
	f.waitPS += startPS - alonePS
	f.endsWindow = 0

	if t.arrived == t.full {
		t.trimLog(now)
	}
	t.log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry, f.block}
	t.arrived++
	t.bytes += wire
	t.busyPS += departPS - startPS
	t.waitPS += startPS - now
	t.freePS = departPS
	if k.watchesService {
		k.drawMark(f, f.head, now)
	} else if t.deep(departPS-now, now) {
		k.decideMarks(now)
	}
	s.freePS = s.sendPS + s.wire.PS(wire)
	f.readyPS = s.sendPS + f.gapPS // only a flow's last packet is shorter
	f.head++
	if f.head == f.nextBlockAt && k.blocks && f.left > 0 {
		k.advanceBlock(f)
	}
	s.next = f.nextSlot
	s.served = f.row
	if f.left == 0 {
		k.finish(s, retiredSlot{s.planned, startPS}, departPS+downstreamPS)
	}
	return true
}

// decideMarks decides the marks that the packet that arrives now determines. If there is a mark, no source
// glides any longer.
func (k *Kernel) decideMarks(now int64) {
	marked := k.target.marked
	k.target.decideMarks(k.acks, k.r.Observed, now)
	if k.target.marked > marked && !k.picker.many { // a source does not glide if there are many
		k.landAll()
	}
	k.target.noteCrowded(k.r, k.target.queueBytes(), now)
}

// finish removes a flow from its source and writes its result. The last packet of the flow leaves the target
// at departPS. FCTs are rounded up, like the ideal FCT.
func (k *Kernel) finish(s *source, last retiredSlot, departPS int64) {
	f := &k.flows[last.slot]
	if k.blocks {
		k.recordBlock(f, f.head-k.layout.Start(f.head-1))
	}
	delayNS := k.c.PathDelayNS[f.row]
	startNS := k.c.StartNS[f.row] - k.firstNS
	k.r.FCTNS[f.row] = simkernel.CeilNS(departPS - s.delayPS + (delayNS-startNS)*simkernel.PSPerNS)
	k.finished++
	s.remove(k.flows, last.slot)
	k.retired = append(k.retired, last)
}

// loadBlock reads the feedback of the flow's next packets, block f.block.
func (k *Kernel) loadBlock(f *flow) {
	f.nextBlockAt = k.layout.End(f.head)
	if len(k.c.Feedback) > 0 {
		b := &k.c.Feedback[f.block]
		f.nicWaitPS = int64(b.NICWaitNS) * simkernel.PSPerNS
		f.upstreamPS = int64(b.UpstreamNS) * simkernel.PSPerNS
		f.downstreamPS = int64(b.WaitNS) * simkernel.PSPerNS
		f.marks = b.Marks
	}
}

// advanceBlock ends a block, whose last packet has just been sent, and begins the next one.
func (k *Kernel) advanceBlock(f *flow) {
	k.recordBlock(f, f.nextBlockAt-k.layout.Start(f.nextBlockAt-1))
	f.block++
	k.loadBlock(f)
}

// recordBlock records the mean wait of the current block, which has the given number of packets.
func (k *Kernel) recordBlock(f *flow, packets uint32) {
	if f.waitPS == 0 {
		return // nothing to record: Observed is zero
	}
	n := int64(packets)
	if len(k.r.Observed) > 0 && n > 0 {
		k.r.Observed[f.block].WaitNS = int32(min((f.waitPS/simkernel.PSPerNS+n/2)/n, math.MaxInt32))
	}
	f.waitPS = 0
}

// skip advances the flow by packets that have waited waitPS each.
func (k *Kernel) skip(f *flow, packets, waitPS int64) {
	for waitPS > 0 && len(k.r.Observed) > 0 && int64(f.nextBlockAt-f.head) <= packets {
		here := int64(f.nextBlockAt - f.head)
		f.head = f.nextBlockAt
		f.waitPS += here * waitPS
		packets -= here
		k.advanceBlock(f)
	}
	f.head += uint32(packets)
	f.waitPS += packets * waitPS
	if k.blocks && f.head >= f.nextBlockAt {
		k.recordBlock(f, f.nextBlockAt-k.layout.Start(f.nextBlockAt-1))
		f.block = k.blockOf(f, f.head)
		k.loadBlock(f)
	}
}

// limitsOf returns the limits of a flow's sender, from the bandwidth of its host's link and from its path.
func (k *Kernel) limitsOf(c *Case, row int) simkernel.Limits {
	path := simkernel.Path{}
	if len(c.Hops) > 0 {
		path.Hops = int(c.Hops[row])
	}
	if k.needsPaths {
		path.SlowestBps = c.SlowestBps[row]
		path.RoundTripNS = c.RoundTripNS[row]
		path.SendNS = c.SendNS[row]
	}
	return k.params.Limits(float64(c.SourceBps[c.Source[row]]), path)
}

// startSender starts the sender of a flow in its slot, at line rate.
func (k *Kernel) startSender(f *flow, slot int32) {
	f.slot = slot
	limits := k.limitsOf(k.c, int(f.row))
	if k.traits.Embedded {
		f.dctcp.Start(&k.params, limits)
		k.setRate(f)
		return
	}
	if k.traits.Timers {
		f.endsWindow = 0
	}
	for int(slot) >= len(k.senders) {
		k.senders = append(k.senders, simkernel.NewSender(k.params.Transport))
		k.clocks = append(k.clocks, senderClock{})
	}
	key := uint64(f.row)
	if len(k.c.FlowKey) > 0 {
		key = k.c.FlowKey[f.row]
	}
	k.senders[slot].Start(&k.params, limits)
	k.clocks[slot] = senderClock{limits: limits, tickPS: k.senders[slot].NextTick(),
		markKey: simkernel.MixKey(k.c.MarkKey, key)}
	k.updateRate(f)
}

// A senderClock is the state of a flow with an external sender that is not part of the sender.
type senderClock struct {
	limits    simkernel.Limits
	tickPS    int64  // an ACK from here on is passed to the sender in any case
	lastAckPS int64  // time of the last ACK read
	markKey   uint64 // of random marks

	reduced    float64 // of the ACKs of a block, with telemetry: sum of Reduction, and their number
	reductions uint32
	block      uint32
}

// onAckExternal passes the ACK that was read last, received at its clock's lastAckPS, to the flow's sender.
func (k *Kernel) onAckExternal(f *flow, flags int64) {
	s := k.senders[f.slot]
	h := &k.ackScratch
	st := &k.stamps[f.base+(f.tail-1)&f.mask]
	clock := &k.clocks[f.slot]
	h.NowPS = clock.lastAckPS
	h.RTTPS = clock.lastAckPS - st.sentPS
	h.SentBytes = k.sent(f)
	h.Marked = flags&ackMarked != 0
	h.AckedBytes = h.SentBytes - int64(f.head-f.tail)*k.params.PayloadBytes
	ticked := s.Tick(&k.params, h.NowPS)
	if k.traits.Telemetry {
		k.telemetry(f, st)
	}
	changed := s.OnAck(&k.params, h)
	if k.traits.Telemetry && len(k.r.Observed) > 0 {
		k.recordReduction(f, s.(simkernel.Reducer).Reduction())
	}
	if changed || ticked {
		k.updateRate(f)
	}
	clock.tickPS = s.NextTick()
	if flags&ackEndsWindow != 0 {
		f.endsWindow = ackEndsWindow
	}
}

// telemetry sets the telemetry of k.ackScratch: that of the target for the packet whose ACK was read last,
// and the reduction by other links.
func (k *Kernel) telemetry(f *flow, st *stamp) {
	h := &k.ackScratch
	h.Links = h.Links[:0]
	if k.c.Behind {
		h.Links = append(h.Links, st.telemetry)
		h.Links[0].Bps = float64(k.c.TargetBps)
	}
	h.Feedback = 0
	if len(k.c.Feedback) > 0 {
		h.Feedback = float64(k.c.Feedback[k.blockOf(f, f.tail-1)].Denied) / simkernel.ShareUnit
	}
}

// blockOf returns the block of a packet of the flow, as an index into Case.Feedback and Result.Observed.
func (k *Kernel) blockOf(f *flow, packet uint32) uint32 {
	return f.firstBlock + uint32(k.layout.Of(int64(packet)))
}

// recordReduction records the reduction of the flow's rate by the target at the last ACK. The record is the
// mean over the ACKs of a block so far.
func (k *Kernel) recordReduction(f *flow, share float64) {
	c := &k.clocks[f.slot]
	block := k.blockOf(f, f.tail-1)
	if c.block != block {
		c.block = block
		c.reductions = 0
		c.reduced = 0
	}
	c.reduced += share
	c.reductions++
	k.r.Observed[block].Denied = uint16(c.reduced/float64(c.reductions)*simkernel.ShareUnit + 0.5)
}

// A stamp has what external senders and random marks use of a packet, in addition to its ack.
type stamp struct {
	sentPS    int64
	draw      uint64 // with random marks: its random number
	telemetry simkernel.Telemetry
}

// onSend notifies an external sender of a packet that the host sends at atPS. It precedes all other effects
// of the packet.
func (k *Kernel) onSend(f *flow, atPS int64) {
	k.stamps[f.base+f.head&f.mask].sentPS = atPS
	clock := &k.clocks[f.slot]
	if atPS < clock.tickPS {
		return
	}
	s := k.senders[f.slot]
	if s.Tick(&k.params, atPS) {
		k.updateRate(f)
	}
	clock.tickPS = s.NextTick()
}

// updateRate sets the pacing and the window of a flow to those of its external sender.
func (k *Kernel) updateRate(f *flow) {
	rateBps, _ := k.senders[f.slot].Rate()
	f.gapPS = simkernel.NewWireTime(rateBps).PS(k.params.PayloadBytes + k.params.HeaderBytes)
	f.windowPackets = k.params.Packets(k.clocks[f.slot].limits.WindowAt(rateBps))
}

// advanceService decides the marks and the telemetry of packets whose service has started by now. It must be
// called before an arrival is counted, so that only earlier arrivals count as left behind these packets.
func (k *Kernel) advanceService(now int64) {
	t := &k.target
	for ; t.waiting != t.arrived; t.waiting++ {
		e := &t.log[t.waiting&t.logMask]
		if e.startPS > now {
			return
		}
		left := int64(0)
		if t.waiting+1 != t.arrived {
			left = t.bytes - t.log[(t.waiting+1)&t.logMask].before
		}
		if k.traits.Telemetry {
			k.stamps[e.entry].telemetry = simkernel.Telemetry{AtPS: e.startPS, SentBytes: e.before, LeftBytes: left}
		}
		if left <= t.rule.MinBytes || !t.rule.Marks(left, k.stamps[e.entry].draw) {
			continue
		}
		k.acks[e.entry].flags |= ackMarked
		if len(k.r.Observed) > 0 {
			k.r.Observed[e.block].Marks |= 1 << (e.entry % simkernel.MarkBits)
		}
		t.marked++
	}
}

// drawMark stores the random number of the packet logged last, and updates the values that depend on the
// queue.
func (k *Kernel) drawMark(f *flow, packet uint32, now int64) {
	t := &k.target
	first := t.arrived - 1 // in service
	last := &t.log[first&t.logMask]
	k.stamps[last.entry].draw = simkernel.MixKey(k.clocks[f.slot].markKey, uint64(packet))
	if last.startPS > now {
		first = t.waiting - 1
	}
	queue := t.bytes - t.log[first&t.logMask].before
	t.noteQueue(now)
	t.noteCrowded(k.r, queue, now)
	t.sumWaits()
}
