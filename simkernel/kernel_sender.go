package simkernel

import "math"

// This file connects Kernel to senders that are not embedded in flow. Their flows take the general path
// (forward and plan): cruise, train and runRounds assume DCTCP.

// startSender starts the sender of a new flow.
func (k *Kernel) startSender(f *flow, slot int32, lineBps float64) {
	f.slot = slot
	if k.traits.embedded {
		f.dctcp.start(&k.params, lineBps, 0)
		k.setRate(f)
		return
	}
	if k.traits.ignoresWindowEnds {
		f.endsWindow = 0
	}
	markKey := uint64(0)
	if k.traits.randomMarks {
		markKey = k.flowKey(f.row)
	}
	for int(slot) >= len(k.senders) {
		k.senders = append(k.senders, newSender(k.params.Transport))
		k.clocks = append(k.clocks, senderClock{})
	}
	hops := 0
	if len(k.c.Hops) > 0 {
		hops = int(k.c.Hops[f.row])
	}
	if k.traits.hint == hintReduction {
		k.reductions = resize(k.reductions, max(len(k.reductions), int(slot)+1))
		k.reductions[slot] = reductionMean{}
	}
	k.senders[slot].start(&k.params, lineBps, hops)
	k.clocks[slot] = senderClock{tickPS: k.senders[slot].nextTick(), markKey: markKey,
		endBlock: k.blocksEnd(int(f.row))}
	k.updateRate(f)
}

// A senderClock is what a flow with an external sender needs besides.
type senderClock struct {
	tickPS    int64  // an ACK from here on is passed to the sender in any case
	lastAckPS int64  // time of the last ACK read
	markKey   uint64 // of random marks
	endBlock  uint32 // the end of its blocks of feedback
	given     uint32 // place of the block that was in use last: see blocksAt

	deviationPS int64 // of the block in use: see stamp
}

// flowKey returns the key of the flow's random marks at this link.
func (k *Kernel) flowKey(row int32) uint64 {
	key := uint64(row)
	if len(k.c.FlowKey) > 0 {
		key = k.c.FlowKey[row]
	}
	return mixKey(k.c.MarkKey, key)
}

// onAckExternal passes the ACK read last, received at its clock's lastAckPS, to the flow's sender.
func (k *Kernel) onAckExternal(f *flow, flags int64) {
	s := k.senders[f.slot]
	h := &k.ackScratch
	st := &k.stamps[f.base+(f.tail-1)&f.mask]
	clock := &k.clocks[f.slot]
	h.nowPS, h.rttPS = clock.lastAckPS, clock.lastAckPS-st.sentPS
	h.rttPS += st.deviationPS
	h.sentBytes, h.marked = k.sent(f), flags&ackMarked != 0
	h.ackedBytes = h.sentBytes - int64(f.head-f.tail)*k.params.PayloadBytes
	ticked := s.tick(&k.params, h.nowPS)
	if k.traits.telemetry {
		k.telemetry(f, st)
	}
	changed := s.onAck(&k.params, h)
	if k.traits.hint == hintReduction && len(k.r.Observed) > 0 {
		k.recordReduction(f, s.(*hpcc).reduction())
	}
	if changed || ticked {
		k.updateRate(f)
	}
	clock.tickPS = s.nextTick()
	if flags&ackEndsWindow != 0 {
		f.endsWindow = ackEndsWindow
	}
}

// deviationPS returns how much longer the block's first packet waited than the mean of its packets.
func (b *Block) deviationPS() int64 {
	if b.Hint == math.MaxUint16 {
		return 0 // unknown
	}
	return (int64(b.Hint)*hintNS - int64(b.UpstreamNS) - int64(b.WaitNS)) * psPerNS
}

// telemetry sets the telemetry of k.ackScratch: the target's, as of the packet whose ACK was read last, and the
// reduction by other links.
func (k *Kernel) telemetry(f *flow, st *stamp) {
	h := &k.ackScratch
	h.links, h.bps = h.links[:0], h.bps[:0]
	if k.c.Kind == Behind {
		h.links = append(h.links, st.telemetry)
		h.bps = append(h.bps, float64(k.c.TargetBps))
	}
	h.feedback = 0
	if len(k.c.Feedback) > 0 {
		h.feedback = float64(k.c.Feedback[k.blockOf(f, f.tail-1)].Hint) / shareUnit
	}
}

// blockOf returns the block of a packet of the flow, an index of Case.Feedback and Result.Observed.
func (k *Kernel) blockOf(f *flow, packet uint32) uint32 {
	return f.firstBlock + uint32(k.layout.Of(int64(packet)))
}

// A reductionMean is the mean of hpcc.reduction over the ACKs of a flow's block so far.
type reductionMean struct {
	sum   float64
	count uint32
	block uint32
}

// recordReduction records by how much the target reduces the flow's rate, as of the last ACK.
func (k *Kernel) recordReduction(f *flow, share float64) {
	m, block := &k.reductions[f.slot], k.blockOf(f, f.tail-1)
	if m.block != block {
		*m = reductionMean{block: block}
	}
	m.sum += share
	m.count++
	k.r.Observed[block].Hint = uint16(m.sum/float64(m.count)*shareUnit + 0.5)
}

// A stamp is what external senders need to know of a packet.
type stamp struct {
	sentPS      int64
	deviationPS int64 // of its wait at other hops from the mean of its block, with hintFirstWait
	telemetry
}

// arriveExternal precedes the effects of a packet that its host sent at sentPS and that arrives now.
func (k *Kernel) arriveExternal(f *flow, sentPS, now int64) {
	k.onSend(f, sentPS)
	if k.watchesService {
		k.advanceService(now)
	}
	if k.traits.acksQueue && k.c.Record {
		k.sampleQueue(now)
	}
}

// onSend notifies an external sender of a packet that the host sends at atPS. It precedes all other effects of the
// packet.
func (k *Kernel) onSend(f *flow, atPS int64) {
	st := &k.stamps[f.base+f.head&f.mask]
	st.sentPS, st.deviationPS = atPS, 0
	if k.traits.hint == hintFirstWait && len(k.c.Feedback) > 0 {
		st.deviationPS = k.clocks[f.slot].deviationPS
		if f.head < f.timedFrom {
			st.deviationPS = k.c.Feedback[f.block].deviationPS()
		}
	}
	if (k.traits.byTime || k.traits.acksQueue) && len(k.r.Observed) > 0 && f.head == k.layout.start(f.head) {
		k.r.Observed[f.block].SentAt = k.sinceStart(f, atPS)
	}
	clock := &k.clocks[f.slot]
	if atPS < clock.tickPS {
		return
	}
	s := k.senders[f.slot]
	if s.tick(&k.params, atPS) {
		k.updateRate(f)
	}
	clock.tickPS = s.nextTick()
}

// updateRate adopts the rate of an external sender.
func (k *Kernel) updateRate(f *flow) {
	rateBps, lineBps := k.senders[f.slot].rate()
	f.gapPS = newWireTime(rateBps).ps(k.params.PayloadBytes + k.params.HeaderBytes)
	f.windowPackets = k.params.Packets(k.params.windowAt(rateBps, lineBps))
}

// advanceService decides the marks and the telemetry of packets whose service has started by now. It must be
// called before an arrival is counted, so that what has arrived is what these packets leave behind.
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
		if k.traits.telemetry {
			k.stamps[e.entry].telemetry = telemetry{e.startPS, e.before, left}
			continue
		}
		if left <= t.red.minBytes || !t.red.marks(left, t.draws[t.waiting&t.logMask]) {
			continue
		}
		k.acks[e.entry].flags |= ackMarked
		if len(k.r.Observed) > 0 {
			k.r.Observed[e.block].Marks |= 1 << (e.entry % markBits)
		}
		t.marked++
	}
}

// drawMark stores the random number of the packet logged last, and updates the maximum queue.
func (k *Kernel) drawMark(f *flow, packet uint32, now int64) {
	t := &k.target
	if len(t.draws) < len(t.log) {
		t.growDraws()
	}
	last := t.arrived - 1
	t.draws[last&t.logMask] = mixKey(k.clocks[f.slot].markKey, uint64(packet))
	first := last // in service
	if t.log[last&t.logMask].startPS > now {
		first = t.waiting - 1
	}
	if queue := t.bytes - t.log[first&t.logMask].before; queue > t.maxBytes {
		t.maxBytes, t.maxAtPS = queue, now
	}
}

// growDraws extends draws to the length of the log.
func (t *target) growDraws() {
	draws := make([]uint64, len(t.log))
	if old := uint64(len(t.draws)); old > 0 {
		for i := t.waiting; i != t.arrived; i++ {
			draws[i&t.logMask] = t.draws[i&(old-1)]
		}
	}
	t.draws = draws
}
