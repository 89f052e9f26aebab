package linkcase

import "parsimon/simkernel"

// maxRounds bounds a step of roundsFirstHop, and with it the work that is lost if another flow allows fewer.
const maxRounds = 64

// roundsFirstHop serves whole rounds of a first hop with several active flows in one step: every flow sends one
// packet per round, back to back with the others, without ever waiting for its window or its pacing. This is
// the common case without marks in the feedback. It returns false if there are less than two such rounds from
// s.freePS on.
func (k *Kernel) roundsFirstHop(s *source) bool {
	wire := k.params.PayloadBytes + k.params.HeaderBytes
	fullPS, n := s.wire.PS(wire), int64(s.count)
	packets := (min(k.nextPS, horizonPS-fullPS) - s.freePS + fullPS - 1) / fullPS
	rounds := min(maxRounds, packets/n)
	slot := s.next
	for i := range n {
		f := &k.flows[slot]
		if rounds = k.roundsOf(f, s.freePS+i*fullPS, n*fullPS, fullPS, rounds); rounds < 2 {
			return false
		}
		slot = f.nextSlot
	}
	for i := range n {
		f := &k.flows[slot]
		k.sendRounds(f, s.freePS+i*fullPS, n*fullPS, fullPS, rounds)
		k.rekey(s, slot)
		s.served = f.row
		slot = f.nextSlot
	}
	k.countFirstHop(s.freePS, rounds*n, wire, rounds*n*fullPS)
	s.freePS += rounds * n * fullPS
	return true
}

// roundsOf returns in how many rounds, limit at most, the flow can send a full packet other than its last at atPS and
// every periodPS after that, whatever the ACKs say. It changes nothing.
func (k *Kernel) roundsOf(f *flow, atPS, periodPS, fullPS, limit int64) int64 {
	window := f.windowPackets
	if f.gapPS != fullPS || f.readyPS > atPS || f.nicWaitPS != 0 || f.marks != 0 || window > int64(f.mask) {
		return 0
	}
	limit = min(limit, (f.left-1)/k.params.PayloadBytes)
	// Packets in flight must not be marked, and be acknowledged when window packets after them are sent.
	for j := f.tail; j != f.head; j++ {
		a := &k.acks[f.base+j&f.mask]
		if a.flags&ackMarked != 0 {
			return 0
		}
		if round := max(0, window-int64(f.head-j)); a.at > atPS+round*periodPS {
			limit = min(limit, round)
		}
	}
	// So must the packets sent in these rounds. None may wait for the flow's packets at its slowest link.
	downPS := f.downWire.PS(k.params.PayloadBytes + k.params.HeaderBytes)
	if downPS > periodPS || f.downPassedPS+downPS > atPS+fullPS+f.upstreamPS {
		return 0
	}
	maxDownstreamPS := window*periodPS - fullPS - f.ackPS
	if f.upstreamPS+f.downstreamPS > maxDownstreamPS {
		limit = min(limit, window)
	}
	if len(k.c.Feedback) == 0 {
		return limit
	}
	end, upstreamPS := f.nextBlockAt, f.upstreamPS
	for b := f.block + 1; int64(end-f.head) < limit; b++ {
		e, round := &k.c.Feedback[b], int64(end-f.head)
		previousPS := upstreamPS
		upstreamPS = int64(e.UpstreamNS) * simkernel.PSPerNS
		if e.NICWaitNS != 0 || e.Marks != 0 || previousPS+downPS > upstreamPS+periodPS {
			return round
		}
		if upstreamPS+int64(e.WaitNS)*simkernel.PSPerNS > maxDownstreamPS {
			limit = min(limit, round+window)
		}
		end = k.layout.End(end)
	}
	return limit
}

// sendRounds sends a full packet of the flow at atPS and every periodPS after that, as roundsOf allows.
func (k *Kernel) sendRounds(f *flow, atPS, periodPS, fullPS, rounds int64) {
	acks, full := k.acks, k.params.PayloadBytes
	base, mask, head, tail := f.base, f.mask, f.head, f.tail
	left, endsWindow, behindPS := f.left, f.endsWindow, f.upstreamPS+f.downstreamPS
	alonePS, waitPS := f.alonePS, f.waitPS
	for range rounds {
		for tail != head {
			a := &acks[base+tail&mask]
			if a.at > atPS {
				break
			}
			if int64(head-tail) >= f.windowPackets {
				f.openPS = max(f.openPS, a.at)
			}
			tail++
			if flags := a.flags & ackFlags; flags != 0 {
				f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
				k.onAckEmbedded(f, flags)
				endsWindow = f.endsWindow
			}
		}
		acks[base+head&mask] = ack{atPS + fullPS + f.ackPS + behindPS, endsWindow}
		f.downPassedPS = atPS + fullPS + f.upstreamPS
		endsWindow = 0
		waitPS += atPS - max(alonePS, f.openPS)
		alonePS = atPS + f.gapPS
		left -= full
		head++
		if head == f.nextBlockAt && k.blocks {
			f.head, f.waitPS = head, waitPS
			k.advanceBlock(f)
			waitPS, behindPS = 0, f.upstreamPS+f.downstreamPS
		}
		atPS += periodPS
	}
	f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
	f.alonePS, f.waitPS, f.readyPS = alonePS, waitPS, alonePS
}
