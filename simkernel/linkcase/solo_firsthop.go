package linkcase

import "parsimon/simkernel"

// soloFirstHop is runFirstHop while the host has one active flow, whose next packet is sent at atPS: most of the
// state stays in local variables. It ends before the flow's last packet, before a packet that does not fit in the
// ring of ACKs, before the next flow starts, and at the end of a window where a train may begin. It returns false if
// it has done nothing.
func (k *Kernel) soloFirstHop(s *source, f *flow, atPS int64) bool {
	acks := k.acks
	full, wire := k.params.PayloadBytes, k.params.PayloadBytes+k.params.HeaderBytes
	fullPS := s.wire.PS(wire)
	stopPS := min(k.nextPS, horizonPS-fullPS+1)
	base, mask, head, tail, left := f.base, f.mask, f.head, f.tail, f.left
	gapPS, window, endsWindow := f.gapPS, f.windowPackets, f.endsWindow
	nicWaitPS, marks := f.nicWaitPS, int64(f.marks)
	alonePS, openPS, waitPS := f.alonePS, f.openPS, f.waitPS
	firstPS, packets := atPS, int64(0)
	for maybeTrain := false; left > full && head-tail <= mask && atPS < stopPS && !maybeTrain; {
		place := head & mask
		marked := marks >> (place % simkernel.MarkBits) & ackMarked
		leavePS := atPS + fullPS
		behindPS := f.upstreamPS + f.behindTarget(leavePS+f.upstreamPS, wire)
		acks[base+place] = ack{leavePS + f.ackPS + behindPS, endsWindow | marked}
		endsWindow = 0
		waitPS += atPS - max(alonePS, openPS)
		s.freePS = leavePS
		alonePS = atPS + gapPS
		left -= full
		packets++
		head++
		if head == f.nextBlockAt && k.blocks {
			f.head, f.waitPS = head, waitPS
			k.advanceBlock(f)
			waitPS = 0
			nicWaitPS, marks = f.nicWaitPS, int64(f.marks)
		}
		atPS = alonePS + nicWaitPS // see ready: pacing is never faster than the link
		for tail != head {
			a := &acks[base+tail&mask]
			if a.at > atPS {
				if int64(head-tail) < window {
					break
				}
				atPS = a.at
			}
			if int64(head-tail) >= window {
				openPS = max(openPS, a.at)
				atPS = max(atPS, a.at+nicWaitPS)
			}
			tail++
			if flags := a.flags & ackFlags; flags != 0 {
				f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
				k.onAckEmbedded(f, flags)
				gapPS, window, endsWindow = f.gapPS, f.windowPackets, f.endsWindow
				maybeTrain = flags == ackEndsWindow && gapPS == fullPS && nicWaitPS|f.upstreamPS|f.downstreamPS|marks == 0
			}
		}
	}
	if packets == 0 {
		return false
	}
	k.countFirstHop(firstPS, packets, wire, packets*fullPS)
	f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
	f.alonePS, f.openPS, f.waitPS = alonePS, openPS, waitPS
	f.readyPS = atPS - nicWaitPS
	s.served = f.row
	return true
}

// trainFirstHop is train for a first hop: it sends the packets in one step that the host's only active flow sends
// back to back, the first of them at atPS. It returns false if there is no train.
func (k *Kernel) trainFirstHop(s *source, f *flow, atPS int64) bool {
	payload := k.params.PayloadBytes
	full := payload + k.params.HeaderBytes
	fullPS := s.wire.PS(full)
	if f.dctcp.RateBps != f.dctcp.LineBps || f.gapPS != fullPS || f.downWire > s.wire {
		return false
	}
	packets := k.trainLength(f, (min(k.nextPS, horizonPS-fullPS)-atPS+fullPS-1)/fullPS)
	if packets < trainLeast {
		return false
	}
	backPS := atPS + fullPS + f.ackPS
	trip := (backPS - atPS + fullPS - 1) / fullPS
	out := int64(f.head - f.tail)
	if out == 0 || trip > int64(f.mask)+1 || trip > f.windowPackets || !k.trainAcks(f, packets, trip, backPS, fullPS) {
		return false
	}
	k.countFirstHop(atPS, packets, full, packets*fullPS)
	f.waitPS += atPS - max(f.alonePS, f.openPS)
	k.skip(f, uint32(packets))
	f.tail = f.head - uint32(min(trip, out+packets))
	f.left -= packets * payload
	f.endsWindow = 0
	lastPS := atPS + (packets-1)*fullPS
	s.freePS = lastPS + fullPS
	f.downPassedPS = s.freePS
	f.readyPS = lastPS + f.gapPS
	f.alonePS = f.readyPS
	s.served = f.row
	return true
}
