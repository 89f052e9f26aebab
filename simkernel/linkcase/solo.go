package linkcase

import "parsimon/simkernel"

// solo is runQueue while only one flow is active at the target: there is no other arrival to compare with, so most
// of the state stays in local variables. Packets pass the target from the planned one on, which arrives now. solo
// returns the source's next key; ok is false if it has done nothing.
//
// It does what forward and plan do, for DCTCP. It ends before the flow's last packet, before a packet that does
// not fit in the target's log or in the ring of ACKs, where startNext is due, where plan finds a mark undecided, and
// at the end of a window where a train may begin.
func (k *Kernel) solo(s *source, f *flow, now int64) (key int64, ok bool) {
	t, p := &k.target, &k.picker
	acks := k.acks
	full := k.params.PayloadBytes
	wire := full + k.params.HeaderBytes
	servicePS, fullPS := t.wire.PS(wire), s.wire.PS(wire)
	stopPS := p.base + p.stop>>(p.bits&63)
	reachPS, ackPS := fullPS+s.delayPS, f.ackPS
	base, mask, head, tail := f.base, f.mask, f.head, f.tail
	left, sendPS, at, fed := f.left, s.sendPS, now, s.fed
	gapPS, window, endsWindow := f.gapPS, f.windowPackets, f.endsWindow
	nicWaitPS, upstreamPS, downstreamPS, marks := f.nicWaitPS, f.upstreamPS, f.downstreamPS, int64(f.marks)
	upPassedPS, downPassedPS, downFullPS := f.upPassedPS, f.downPassedPS, f.downWire.PS(wire)
	freePS := t.freePS
	maybeTrain := false
	idle := int64(0) // packets that found the target idle and are not in its counters yet
	runStopPS, feederPS := min(stopPS, horizonPS-servicePS), int64(0)
	if s.feeder >= 0 {
		feederPS = k.feeders[s.feeder].wire.PS(wire)
	}
	leastPS := max(servicePS, feederPS, f.upWire.PS(wire), downFullPS)
	for left > full && head-tail <= mask {
		// A run: packets of the block that leave everyPS after each other and find every link idle, as long as no ACK that
		// is back by the next one has a flag, and the next one does not wait for its window. The last goes on below.
		if everyPS := gapPS + nicWaitPS; f.nextBlockAt-head > 1 && marks == 0 && freePS <= now &&
			now == sendPS+reachPS+upstreamPS && wire <= t.maxBytes && downPassedPS+downFullPS <= now+servicePS &&
			everyPS >= leastPS && everyPS <= reachPS+upstreamPS+ackPS && window <= int64(mask) {
			before := head
		run:
			for head+1 != f.nextBlockAt && left-full > full && now+everyPS < runStopPS {
				nextPS, read := sendPS+everyPS, tail
				for read != head {
					a := &acks[base+read&mask]
					if a.at > nextPS {
						break
					}
					if a.flags&ackFlags != 0 || int64(head+1-read) >= window && a.at+nicWaitPS > nextPS {
						break run
					}
					read++
				}
				if int64(head+1-read) >= window {
					break
				}
				acks[base+head&mask] = ack{now + servicePS + ackPS + downstreamPS, endsWindow | downstreamPS<<ackShift}
				endsWindow = 0
				tail, sendPS = read, nextPS
				now += everyPS
				left -= full
				head++
			}
			if head != before {
				idle += int64(head - before)
				freePS = now - everyPS + servicePS
				downPassedPS, upPassedPS = freePS, now
				if s.feeder >= 0 {
					k.feeders[s.feeder].freePS = now + feederPS
				}
			}
		}
		// The packet passes the target.
		departPS := max(now, freePS) + servicePS
		if departPS > horizonPS {
			break
		}
		place := head & mask
		if freePS <= now && wire <= t.maxBytes {
			idle++
		} else {
			if idle > 0 {
				t.passIdle(idle, wire, servicePS, freePS)
				f.alonePS = freePS
				idle = 0
			}
			if t.arrived == t.full {
				break
			}
			startPS := departPS - servicePS
			aheadPS := max(now, f.alonePS)
			f.alonePS = aheadPS + servicePS
			f.waitPS += startPS - aheadPS
			t.append(logEntry{startPS, t.bytes, base + place, f.block}, wire)
			t.busyPS += servicePS
			t.waitPS += startPS - now
			t.freePS = departPS
		}
		if s.feeder < 0 {
			upPassedPS = now
		}
		downPassedPS = max(departPS, downPassedPS+downFullPS) // see behindTarget
		behindPS := downPassedPS - departPS + downstreamPS
		acks[base+place] = ack{
			departPS + ackPS + behindPS,
			endsWindow | marks>>(place%simkernel.MarkBits)&ackMarked | behindPS<<ackShift,
		}
		if idle == 0 && t.deep(departPS-now, now) {
			t.onDeepQueue(acks, k.r.Observed, now)
		}
		freePS = departPS
		endsWindow = 0
		left -= full
		head++
		ok = true
		if head == f.nextBlockAt && k.blocks {
			f.head = head
			k.advanceBlock(f)
			nicWaitPS, upstreamPS, downstreamPS, marks = f.nicWaitPS, f.upstreamPS, f.downstreamPS, int64(f.marks)
		}

		// When does the flow send again? See ready: pacing is never faster than the link.
		at = sendPS + gapPS + nicWaitPS
		decidedPS := now + ackPS
		for tail != head {
			a := &acks[base+tail&mask]
			if a.at > at {
				if int64(head-tail) < window {
					break
				}
				at = a.at
			}
			if a.at-a.flags>>ackShift > decidedPS {
				goto undecided
			}
			if int64(head-tail) >= window {
				at = max(at, a.at+nicWaitPS)
			}
			tail++
			if flags := a.flags & ackFlags; flags != 0 {
				f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
				k.onAckEmbedded(f, flags)
				gapPS, window, endsWindow = f.gapPS, f.windowPackets, f.endsWindow
				maybeTrain = flags == ackEndsWindow && gapPS == fullPS && nicWaitPS|upstreamPS|downstreamPS|marks == 0
			}
		}
		s.freePS = sendPS + fullPS
		sendPS = at
		next := min(full, left) + k.params.HeaderBytes
		if left < full {
			at += s.wire.PS(next) - fullPS - k.earlyOf(f.row)
		}
		at = max(at+reachPS+upstreamPS, upPassedPS+f.upWire.PS(next), now)
		fed = false
		if at >= stopPS {
			break
		}
		if s.feeder >= 0 {
			fd := &k.feeders[s.feeder]
			upPassedPS = at
			at = max(at, fd.freePS-(feederPS-fd.wire.PS(next))) // see feed
			fd.freePS = at + feederPS
			fed = true
			if at >= stopPS {
				break
			}
		}
		if maybeTrain {
			break
		}
		now = at
	}
	if ok {
		f.readyPS = sendPS - nicWaitPS
		s.known, s.fed = fed || at-p.base <= p.far, fed
		s.plain = s.known && left > full && head-tail <= mask && endsWindow == 0
		f.upPassedPS, f.downPassedPS = upPassedPS, downPassedPS
		k.endSolo(s, f, idle, freePS, head, tail, left, endsWindow)
		s.sendPS = sendPS
		f.openPS = at // if fed
		key = p.key(s, at)
	}
	return key, ok

undecided:
	f.readyPS = at - nicWaitPS
	s.freePS = sendPS + fullPS
	f.upPassedPS, f.downPassedPS = upPassedPS, downPassedPS
	k.endSolo(s, f, idle, freePS, head, tail, left, endsWindow)
	return k.plan(s, now), true
}

// endSolo stores the state that solo has in local variables.
func (k *Kernel) endSolo(s *source, f *flow, idle, freePS int64, head, tail uint32, left, endsWindow int64) {
	if idle > 0 {
		wire := k.params.PayloadBytes + k.params.HeaderBytes
		k.target.passIdle(idle, wire, k.target.wire.PS(wire), freePS)
		f.alonePS = freePS
	}
	f.head, f.tail, f.left, f.endsWindow = head, tail, left, endsWindow
	s.served = f.row
}
