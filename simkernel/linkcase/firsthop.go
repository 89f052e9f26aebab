package linkcase

import (
	"math"
	"slices"

	"parsimon/simkernel"
)

// runFirstHop simulates a host's uplink. The host is the only queue and never marks. Without marks in the
// feedback, every rate stays at line rate. The arrival time of an ACK is known when its packet leaves.
func (k *Kernel) runFirstHop() {
	s := &k.sources[0]
	rest := int32(0) // packets until whole rounds are tried again
	for {
		if s.count == 0 {
			if k.nextPS == never {
				return
			}
			k.startFirstHop(s)
		}
		// All ACKs are known, including their marks.
		const end = 1 << 62
		slot := s.next
		at, known := k.ready(&k.flows[slot], s.freePS, end)
		if s.count > 1 {
			slot, at, _ = k.choose(s, end, at, known)
		}
		if k.nextPS <= at {
			k.startFirstHop(s)
			continue
		}
		if !k.sendFirstHop(s, slot, at) {
			return
		}
		f := &k.flows[slot]
		if f.unbound {
			f.tail = f.head // its ACKs change nothing
			rest--
			if rest < 0 && s.count > 0 && k.traits.Embedded && !k.sendRounds(s) {
				rest = s.count - 1
			}
		}
	}
}

// startFirstHop starts the next flow.
func (k *Kernel) startFirstHop(s *source) {
	k.start(s, k.nextPS)
	f := &k.flows[s.last]
	f.unbound = k.windowNeverBinds(f)
}

// sendFirstHop sends a packet of the flow in the given slot. It returns false if the packet would leave the
// host after the horizon.
func (k *Kernel) sendFirstHop(s *source, slot int32, at int64) bool {
	f := &k.flows[slot]
	payload := min(k.params.PayloadBytes, f.left)
	wire := payload + k.params.HeaderBytes
	leavePS := at + s.wire.PS(wire)
	if leavePS > horizonPS {
		return false
	}
	k.countFirstHop(at, 1, wire, leavePS-at)
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
		k.finish(s, retiredSlot{slot, 0}, leavePS+downstreamPS)
	}
	return true
}

// countFirstHop counts packets of one size that leave one after the other. The first leaves at atPS.
func (k *Kernel) countFirstHop(atPS, packets, wire, busyPS int64) {
	k.r.PacketsSent += packets
	k.busyPS += busyPS
	if wire > k.r.MaxQueueBytes {
		k.r.MaxQueueBytes = wire
		k.r.MaxQueueAtNS = k.firstNS + atPS/simkernel.PSPerNS
	}
}

// sendRounds sends the next full packets of the host's flows in whole rounds, if neither windows nor feedback
// delay them. The rounds end before the last packet of any flow, the start of the next flow, and the horizon.
// It returns false if there are no such rounds.
func (k *Kernel) sendRounds(s *source) bool {
	payload := k.params.PayloadBytes
	fullPS := s.wire.PS(k.params.PayloadBytes + k.params.HeaderBytes)
	n := int64(s.count)
	least := int64(math.MaxInt64)
	slot := s.next
	for turn := range n {
		f := &k.flows[slot]
		if !f.unbound || f.readyPS > s.freePS+turn*fullPS || f.gapPS > n*fullPS {
			return false
		}
		least = min(least, f.left)
		slot = f.nextSlot
	}
	beforePS := min(k.nextPS, horizonPS-fullPS+1)
	rounds := min((least-1)/payload, (beforePS-s.freePS+fullPS-1)/fullPS/n)
	if rounds <= 0 {
		return false
	}
	for turn := range n {
		f := &k.flows[s.next]
		firstPS := s.freePS + turn*fullPS
		lastPS := firstPS + (rounds-1)*n*fullPS
		f.left -= rounds * payload
		k.skip(f, 1, firstPS-f.alonePS)
		k.skip(f, rounds-1, n*fullPS-f.gapPS)
		f.tail = f.head
		f.downPassedPS = lastPS + fullPS
		f.readyPS = lastPS + f.gapPS
		f.alonePS = lastPS + f.gapPS
		s.served = f.row
		s.next = f.nextSlot
	}
	k.countFirstHop(s.freePS, rounds*n, k.params.PayloadBytes+k.params.HeaderBytes, rounds*n*fullPS)
	s.freePS += rounds * n * fullPS
	return true
}

// windowNeverBinds reports whether a flow of a first hop, the last one that has started, has no feedback and
// never waits for its window. Full packets leave at least one packet time apart, which bounds the number of
// packets in flight.
func (k *Kernel) windowNeverBinds(f *flow) bool {
	p := &k.params
	row := int(f.row)
	full := k.sources[0].wire.PS(p.PayloadBytes + p.HeaderBytes)
	limits := k.limitsOf(k.c, row)
	roundPS := 2*k.c.PathDelayNS[row]*simkernel.PSPerNS + k.returnPS(row)
	if f.downWire > k.sources[0].wire || limits.LineBps < float64(k.c.SourceBps[0]) ||
		!p.SteadyRTT(limits, roundPS+full) || roundPS/full+1 >= p.Packets(limits.WindowBytes) {
		return false
	}
	if len(k.c.Feedback) == 0 {
		return true
	}
	has := func(b simkernel.Block) bool { return b != simkernel.Block{} }
	return !slices.ContainsFunc(k.c.Feedback[f.firstBlock:k.nextBlock], has)
}
