package linkcase

import "parsimon/simkernel"

// runFirstHop simulates a host's uplink. The host is the only queue and never marks: without marks in the feedback
// every rate stays at line rate. The time of an ACK is known when its packet leaves.
func (k *Kernel) runFirstHop() {
	s, unbound := &k.sources[0], len(k.c.Feedback) == 0 && k.windowNeverBinds()
	for {
		if s.count == 0 {
			if k.nextPS == unbounded {
				return
			}
			k.start(s, k.nextPS)
		}
		// Every ACK is known, and its mark.
		const end = 1 << 62
		slot := s.next
		at, known := k.ready(&k.flows[slot], s.freePS, end)
		if s.count > 1 {
			slot, at, _ = k.choose(s, end, at, known)
		}
		if k.nextPS <= at {
			k.start(s, k.nextPS)
			continue
		}
		if !k.sendFirstHop(s, slot, at) {
			return
		}
		if f := &k.flows[slot]; unbound {
			f.tail = f.head // its ACKs change nothing
			if s.count == 1 && k.traits.Embedded {
				k.sendBackToBack(s, f)
			}
		}
	}
}

// sendFirstHop sends a packet of the flow in the slot. It returns false if the packet would leave the host after
// the horizon.
func (k *Kernel) sendFirstHop(s *source, slot int32, at int64) bool {
	f := &k.flows[slot]
	payload := min(k.params.PayloadBytes, f.left)
	wire := payload + k.params.HeaderBytes
	leavePS := at + s.wire.PS(wire)
	if leavePS > horizonPS {
		return false
	}
	k.r.PacketsSent++
	k.busyPS += leavePS - at
	if wire > k.r.MaxQueueBytes {
		k.r.MaxQueueBytes, k.r.MaxQueueAtNS = wire, k.firstNS+at/simkernel.PSPerNS
	}
	f.left -= payload
	if f.head-f.tail > f.mask {
		k.growRing(f)
	}
	if !k.traits.Embedded {
		k.onSend(f, at)
	}
	upstreamPS := f.upstreamPS
	if f.left == 0 {
		upstreamPS -= k.earlyOf(f.row)
	}
	place := f.head & f.mask
	downstreamPS := upstreamPS + f.behindTarget(leavePS+upstreamPS, k.params.PayloadBytes+k.params.HeaderBytes)
	marked := int64(f.marks>>(place%simkernel.MarkBits)) & ackMarked
	k.acks[f.base+place] = ack{leavePS + f.ackPS + downstreamPS, f.endsWindow | marked}
	f.waitPS += at - max(f.alonePS, f.openPS)
	f.endsWindow = 0
	s.freePS = leavePS
	f.readyPS = at + f.gapPS
	f.alonePS = f.readyPS
	s.next = f.nextSlot
	s.served = f.row
	f.head++
	if f.head == f.nextBlockAt && k.blocks && f.left > 0 {
		k.advanceBlock(f)
	}
	if f.left == 0 {
		k.finish(s, retiredSlot{slot, 0}, leavePS+downstreamPS, 0)
	}
	return true
}

// sendBackToBack sends the next full packets of the host's only flow, which neither its window nor feedback delays:
// those before its last one, before the next flow starts, and before the horizon.
func (k *Kernel) sendBackToBack(s *source, f *flow) {
	payload, fullPS := k.params.PayloadBytes, s.wire.PS(k.params.PayloadBytes+k.params.HeaderBytes)
	beforePS := min(k.nextPS, horizonPS-fullPS+1)
	n := min((f.left-1)/payload, (beforePS-s.freePS+fullPS-1)/fullPS)
	if n <= 0 || f.readyPS > s.freePS || k.blocks && f.readyPS < s.freePS {
		return
	}
	f.left -= n * payload
	k.skip(f, n)
	f.tail = f.head
	k.r.PacketsSent += n
	k.busyPS += n * fullPS
	s.freePS += n * fullPS
	f.downPassedPS = s.freePS
	f.readyPS = s.freePS - fullPS + f.gapPS
	f.alonePS = f.readyPS
}

// windowNeverBinds reports whether no flow of a first hop can ever wait for its window. Full packets leave at
// least one packet time apart, which bounds the number of packets in flight at a flow's turn.
func (k *Kernel) windowNeverBinds() bool {
	p := &k.params
	for _, bps := range k.c.DownstreamBps {
		if bps > 0 && bps < k.c.SourceBps[0] {
			return false
		}
	}
	full := k.sources[0].wire.PS(p.PayloadBytes + p.HeaderBytes)
	for row, delayNS := range k.c.PathDelayNS {
		limits, roundPS := k.limitsOf(k.c, row), 2*delayNS*simkernel.PSPerNS+k.returnPS(row)
		if limits.LineBps < float64(k.c.SourceBps[0]) || !p.SteadyRTT(limits, roundPS+full) ||
			roundPS/full+1 >= p.Packets(limits.WindowBytes) {
			return false
		}
	}
	return true
}
