package simkernel

// solo is runQueue while one source is active, with one flow, which sends at most its last packet but one: there is no
// other arrival to compare with, so the state of source and flow stays in local variables. Packets pass the target
// from the planned one on, which arrives now. solo returns the source's next key; ok is false if it has done
// nothing.
//
// It does what forward and plan do. It ends before the flow's last packet, before a packet that does not fit in the
// log or in the ring of ACKs, before the next flow starts, and where plan would find a mark undecided.
func (k *Kernel) solo(s *source, now int64) (key int64, ok bool) {
	t, p, f := &k.target, &k.picker, &k.flows[s.planned]
	acks, log := k.acks, t.log
	full := k.params.PayloadBytes
	wire := full + k.params.HeaderBytes
	servicePS, fullPS := t.wire.ps(wire), s.wire.ps(wire)
	stopPS := p.base + p.stop>>(p.bits&63) // runQueue must look up there
	base, mask, head, tail := f.base, f.mask, f.head, f.tail
	left, sendPS, alonePS, waitPS := f.left, s.sendPS, f.alonePS, f.waitPS
	var fd *feeder
	if s.feeder >= 0 {
		fd = &k.feeders[s.feeder]
	}
	fed := s.fed
	at := now
	for {
		startPS := max(now, t.freePS)
		departPS := startPS + servicePS
		if left <= full || t.arrived == t.full || head-tail > mask || departPS > horizonPS {
			break
		}
		ok = true
		left -= full
		place := head & mask
		entry := base + place
		marked := int64(f.marks>>(place%blockPackets)) & ackMarked
		acks[entry] = ack{departPS + f.ackPS + f.downstreamPS, f.endsWindow | marked | f.downstreamPS<<ackShift}
		f.endsWindow = 0
		alonePS = max(now, alonePS)
		waitPS += startPS - alonePS
		alonePS += servicePS
		log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry, f.block}
		t.arrived++
		t.bytes += wire
		t.busyPS += servicePS
		t.waitPS += startPS - now
		t.freePS = departPS
		if departPS-now > t.shallowPS && (startPS > now || wire > t.maxBytes) {
			t.onDeepQueue(acks, k.r.Observed, now)
		}
		head++
		if head == f.nextBlockAt && k.blocks {
			f.head, f.waitPS = head, waitPS
			k.advanceBlock(f)
			waitPS = 0
		}

		// When does the flow send again? See ready: pacing is never faster than the link.
		at = sendPS + f.gapPS + f.nicWaitPS
		decided := now + f.ackPS
		for {
			a := &acks[base+tail&mask]
			if tail == head || a.at > at {
				if int64(head-tail) < f.windowPackets {
					break
				}
				at = max(at, a.at)
				continue
			}
			if a.at-a.flags>>ackShift > decided {
				f.readyPS = at - f.nicWaitPS
				f.head, f.tail, f.left, f.alonePS, f.waitPS = head, tail, left, alonePS, waitPS
				s.freePS, s.served = sendPS+fullPS, f.row
				return k.plan(s, now), true
			}
			if int64(head-tail) >= f.windowPackets {
				f.openPS = max(f.openPS, a.at)
				at = max(at, a.at+f.nicWaitPS)
			}
			tail++
			if flags := a.flags & ackFlags; flags != 0 {
				f.head, f.tail, f.left = head, tail, left
				k.onAckEmbedded(f, flags)
			}
		}
		s.freePS = sendPS + fullPS
		sendPS = at
		if left >= full {
			at += fullPS
		} else {
			at += s.wire.ps(left + k.params.HeaderBytes)
		}
		at = max(at+s.delayPS+f.upstreamPS, now)
		fed = false
		if at >= stopPS {
			break
		}
		if fd != nil {
			at = max(at, fd.freePS)
			fd.freePS = at + fd.wire.ps(min(full, left)+k.params.HeaderBytes)
			f.openPS = at
			fed = true
			if at >= stopPS {
				break
			}
		}
		now = at
	}
	if !ok {
		return 0, false
	}
	f.head, f.tail, f.left, f.alonePS, f.waitPS = head, tail, left, alonePS, waitPS
	f.readyPS = sendPS - f.nicWaitPS
	s.sendPS, s.served = sendPS, f.row
	s.known, s.fed = fed || at-p.base <= p.far, fed
	s.plain = s.known && left > full && head-tail <= mask && f.endsWindow == 0
	return p.key(s, at), true
}
