package linkcase

import "parsimon/simkernel"

// This file connects Kernel to senders that are not embedded in flow. Their flows take the general path
// (forward and plan): cruise assumes DCTCP.

// limitsOf returns what bounds the sender of a flow, a row of the case.
func (k *Kernel) limitsOf(c *Case, row int) simkernel.Limits {
	path := simkernel.Path{}
	if len(c.Hops) > 0 {
		path.Hops = int(c.Hops[row])
	}
	if k.needsPaths {
		path.SlowestBps, path.RoundTripNS = c.SlowestBps[row], c.RoundTripNS[row]
	}
	return k.params.Limits(float64(c.SourceBps[c.Source[row]]), path)
}

// startSender starts the sender of a new flow.
func (k *Kernel) startSender(f *flow, slot int32) {
	f.slot = slot
	limits := k.limitsOf(k.c, int(f.row))
	if k.traits.Embedded {
		f.dctcp.Start(&k.params, limits)
		k.setRate(f)
		return
	}
	if k.traits.IgnoresWindowEnds {
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

// A senderClock is what a flow with an external sender needs besides.
type senderClock struct {
	limits    simkernel.Limits
	tickPS    int64  // an ACK from here on is passed to the sender in any case
	lastAckPS int64  // time of the last ACK read
	markKey   uint64 // of random marks

	reduced    float64 // of the ACKs of a block, with telemetry: sum of Reduction, and their number
	reductions uint32
	block      uint32
}

// onAckExternal passes the ACK read last, received at its clock's lastAckPS, to the flow's sender.
func (k *Kernel) onAckExternal(f *flow, flags int64) {
	s := k.senders[f.slot]
	h := &k.ackScratch
	st := &k.stamps[f.base+(f.tail-1)&f.mask]
	clock := &k.clocks[f.slot]
	h.NowPS, h.RTTPS = clock.lastAckPS, clock.lastAckPS-st.sentPS
	h.SentBytes, h.Marked = k.sent(f), flags&ackMarked != 0
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

// telemetry sets the telemetry of k.ackScratch: the target's, as of the packet whose ACK was read last, and the
// reduction by other links.
func (k *Kernel) telemetry(f *flow, st *stamp) {
	h := &k.ackScratch
	h.Links = h.Links[:0]
	if k.c.Kind == Behind {
		h.Links = append(h.Links, st.telemetry)
		h.Links[0].Bps = float64(k.c.TargetBps)
	}
	h.Feedback = 0
	if len(k.c.Feedback) > 0 {
		h.Feedback = float64(k.c.Feedback[k.blockOf(f, f.tail-1)].Denied) / simkernel.ShareUnit
	}
}

// blockOf returns the block of a packet of the flow, an index of Case.Feedback and Result.Observed.
func (k *Kernel) blockOf(f *flow, packet uint32) uint32 {
	return f.firstBlock + uint32(k.layout.Of(int64(packet)))
}

// recordReduction records by how much the target reduces the flow's rate, as of the last ACK: the mean over the ACKs of
// a block so far.
func (k *Kernel) recordReduction(f *flow, share float64) {
	c, block := &k.clocks[f.slot], k.blockOf(f, f.tail-1)
	if c.block != block {
		c.block, c.reductions, c.reduced = block, 0, 0
	}
	c.reduced += share
	c.reductions++
	k.r.Observed[block].Denied = uint16(c.reduced/float64(c.reductions)*simkernel.ShareUnit + 0.5)
}

// A stamp is what external senders need to know of a packet.
type stamp struct {
	sentPS    int64
	draw      uint64 // with random marks: its random number
	telemetry simkernel.Telemetry
}

// onSend notifies an external sender of a packet that the host sends at atPS. It precedes all other effects of the
// packet.
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

// updateRate adopts the rate of an external sender.
func (k *Kernel) updateRate(f *flow) {
	rateBps, _ := k.senders[f.slot].Rate()
	f.gapPS = simkernel.NewWireTime(rateBps).PS(k.params.PayloadBytes + k.params.HeaderBytes)
	f.windowPackets = k.params.Packets(k.clocks[f.slot].limits.WindowAt(rateBps))
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
		if k.traits.Telemetry {
			k.stamps[e.entry].telemetry = simkernel.Telemetry{AtPS: e.startPS, SentBytes: e.before, LeftBytes: left}
			continue
		}
		if left <= t.red.MinBytes || !t.red.Marks(left, k.stamps[e.entry].draw) {
			continue
		}
		k.acks[e.entry].flags |= ackMarked
		if len(k.r.Observed) > 0 {
			k.r.Observed[e.block].Marks |= 1 << (e.entry % simkernel.MarkBits)
		}
		t.marked++
	}
}

// drawMark stores the random number of the packet logged last, and updates the maximum queue.
func (k *Kernel) drawMark(f *flow, packet uint32, now int64) {
	t := &k.target
	first := t.arrived - 1 // in service
	last := &t.log[first&t.logMask]
	k.stamps[last.entry].draw = simkernel.MixKey(k.clocks[f.slot].markKey, uint64(packet))
	if last.startPS > now {
		first = t.waiting - 1
	}
	if queue := t.bytes - t.log[first&t.logMask].before; queue > t.maxBytes {
		t.maxBytes, t.maxAtPS = queue, now
	}
}
