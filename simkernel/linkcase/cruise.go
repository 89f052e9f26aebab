package linkcase

import "parsimon/simkernel"

// cruise is runQueue for plain packets, which are the vast majority of those that do not glide. For a plain
// packet, the source has one active flow, the packet is not its last (so it is full), and the ACKs that are
// due before the flow's next packet leave its window open. cruise does the work of forward and plan for them
// in one loop. It returns before the first packet that is not plain. It also returns after a packet whose
// successor it could not plan. The source still has the smallest key and is planned again immediately.
// Finally, it returns after a packet that found a deep queue: then deep is set, and now is its time.
// Selecting the smallest key without branches was slower, because it makes one dependency chain of all
// packets.
func (k *Kernel) cruise() (now int64, deep bool) {
	p := &k.picker
	t := &k.target
	acks := k.acks
	log := t.log
	full := k.params.PayloadBytes
	header := k.params.HeaderBytes
	wire := full + header
	servicePS := t.wire.PS(wire)
	lastPS := horizonPS - servicePS
	keys := &p.keys
	blocks := k.blocks
	var departPS int64
	root := keys[p.front]
	if root >= p.stop {
		return 0, false
	}
	s, f := k.at(root)
	for s.plain && t.arrived != t.full {
		now = p.base + root>>(p.bits&63)
		startPS := max(now, t.freePS)
		if startPS > lastPS {
			break
		}
		departPS = startPS + servicePS

		// The packet passes the target. Feedback is applied here: a mark sets a flag of the ACK, and a wait
		// delays it.
		left := f.left - full
		f.left = left
		place := f.head & f.mask
		entry := f.base + place
		back := ack{departPS + f.ackPS, f.endsWindow}
		if blocks {
			marked := int64(f.marks>>(place%simkernel.MarkBits)) & ackMarked
			downstreamPS := f.behindTarget(departPS, wire)
			back = ack{back.at + downstreamPS, back.flags | marked | downstreamPS<<ackShift}
			alonePS := max(now, f.alonePS)
			f.alonePS = alonePS + servicePS
			f.waitPS += startPS - alonePS
			f.upPassedPS = now
		}
		acks[entry] = back
		f.endsWindow = 0
		log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry, f.block}
		f.head++
		if blocks && f.head == f.nextBlockAt {
			k.advanceBlock(f)
		}
		t.arrived++
		t.bytes += wire
		t.busyPS += servicePS
		t.waitPS += startPS - now
		t.freePS = departPS

		// When can the flow send its next packet? Pacing is never faster than the link. See ready.
		s.freePS = s.sendPS + f.reachPS - s.delayPS
		s.served = f.row
		ready := s.sendPS + f.gapPS
		out := int64(f.head - f.tail)
		a := &acks[f.base+f.tail&f.mask]
		ready = max(ready, a.at&((f.windowPackets-1-out)>>63)) // with a closed window, not before that ACK
		f.readyPS = ready
		at := ready
		if blocks {
			at += f.nicWaitPS
		}
		for a.at <= at {
			flags := a.flags
			if a.at-flags>>ackShift > now+f.ackPS {
				goto unplanned
			}
			f.tail++
			out--
			flags &= ackFlags
			if flags != 0 {
				k.onAckEmbedded(f, flags)
			}
			if out >= f.windowPackets {
				goto unplanned
			}
			if out == 0 {
				break
			}
			a = &acks[f.base+f.tail&f.mask]
		}
		reachPS := f.reachPS
		next := wire
		if left < full {
			next = left + header
			reachPS = s.wire.PS(next) + s.delayPS - k.earlyOf(f.row)
		}
		arrival := max(at+reachPS, now)
		if blocks {
			arrival = max(at+reachPS+f.upstreamPS, now+f.upWire.PS(next))
		}
		arrival -= p.base
		if arrival > p.far {
			goto unplanned
		}
		s.sendPS = at
		s.plain = left > full && f.head-f.tail <= f.mask
		if f.endsWindow != 0 && s.plain && !blocks {
			k.join(s, f, arrival+p.base)
		}

		key := arrival<<(p.bits&63) | int64(s.row)
		root = key
		if key < keys[p.front+1] { // the next packet is the same flow's
			if f.endsWindow != 0 && s.plain {
				root = k.train(s, f, key)
			}
			keys[p.front] = root
		} else {
			root = p.push(key)
			s, f = k.at(root)
		}
		if t.deep(departPS-now, now) {
			return now, true
		}
		if root >= p.stop {
			break
		}
	}
	return 0, false

unplanned:
	s.known = false
	s.plain = false
	return now, t.deep(departPS-now, now)
}

// at returns the source of a key and the flow of its planned packet.
func (k *Kernel) at(key int64) (*source, *flow) {
	s := &k.sources[key&k.picker.mask]
	return s, &k.flows[s.planned]
}

// train passes whole round trips of a flow at line rate in one step. It returns the key of the packet after
// them. key is that of the planned packet, the first one after the end of a window. If the packets since the
// last such packet, whose ACK has ended the window, were equally spaced and did not wait, so will be the next
// ones. This holds up to the flow's last packet, a block with feedback, or the next event of another source.
// Each packet finds the target idle, and each round trip ends a window.
func (k *Kernel) train(s *source, f *flow, key int64) int64 {
	p := &k.picker
	t := &k.target
	payload := k.params.PayloadBytes
	gapPS := f.gapPS
	trip := int64(f.head-f.tail) + 1
	wire := payload + k.params.HeaderBytes
	now := p.base + key>>p.bits
	servicePS := t.wire.PS(wire)
	beforePS := min(p.base+min(p.stop, p.keys[p.front+1])>>p.bits, horizonPS-servicePS)
	packets := min((f.left-1)/payload-1, (beforePS-1-now)/gapPS)
	if packets < 2*trip || f.dctcp.RateBps != f.dctcp.LineBps || now != s.sendPS+f.reachPS || now < t.freePS ||
		max(servicePS, f.upWire.PS(wire), f.downWire.PS(wire)) > gapPS {
		return key
	}
	backPS := now + servicePS + f.ackPS
	for i := int64(1); i <= trip; i++ { // from the packet before to the one whose ACK has ended the window
		want := ack{at: backPS - i*gapPS}
		if i == trip {
			want.flags = ackEndsWindow
		}
		if k.acks[f.base+(f.head-uint32(i))&f.mask] != want {
			return key
		}
	}
	rounds := k.withoutFeedback(f, packets) / trip
	if rounds <= 0 {
		return key
	}
	return k.passRounds(s, f, key, rounds, trip)
}

// passRounds passes whole round trips of a flow at line rate, whose packets find the target idle. A round
// trip has trip packets. The ACK of the first one ends a window when the others have been sent. key is that
// of the first packet. passRounds returns the key of the packet after them.
func (k *Kernel) passRounds(s *source, f *flow, key, rounds, trip int64) int64 {
	p := &k.picker
	t := &k.target
	payload := k.params.PayloadBytes
	servicePS := t.wire.PS(t.wireMax)
	gapPS := f.gapPS
	now := p.base + key>>p.bits
	packets := rounds * trip
	for range rounds {
		f.left -= trip * payload
		k.onAckEmbedded(f, ackEndsWindow)
	}
	k.skip(f, packets, 0)
	f.tail += uint32(packets)
	backPS := now + servicePS + f.ackPS
	for i := int64(1); i < trip; i++ {
		k.acks[f.base+(f.head-uint32(i))&f.mask] = ack{at: backPS + (packets-i)*gapPS}
	}
	lastPS := now + (packets-1)*gapPS
	t.skip(packets, lastPS, servicePS)
	f.upPassedPS = lastPS
	f.downPassedPS = t.freePS
	f.alonePS = t.freePS
	s.sendPS += packets * gapPS
	s.freePS = s.sendPS - gapPS + f.reachPS - s.delayPS
	s.served = f.row
	f.readyPS = s.sendPS
	return key + packets*gapPS<<p.bits
}

// withoutFeedback returns the number of the flow's next packets, at most limit, that have no feedback and
// whose successor has none.
func (k *Kernel) withoutFeedback(f *flow, limit int64) int64 {
	if len(k.c.Feedback) == 0 {
		return limit
	}
	end := f.head
	for b := f.block; int64(end-f.head) <= limit && k.c.Feedback[b] == (simkernel.Block{}); b++ {
		end = k.layout.End(end)
	}
	return min(int64(end-f.head)-1, limit)
}
