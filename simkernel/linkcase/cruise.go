package linkcase

import "parsimon/simkernel"

// cruise is runQueue for plain packets, which nearly all are: the source has one active flow, the packet is not
// its last (so it is full), and the ACKs due before the flow's next packet leave its window open. cruise does the
// work of forward and plan for them in one loop. It returns before the first packet that is not plain; after a packet
// whose successor it could not plan (its source, which still has the least key, is then planned again at once); and
// after a packet that found a deep queue: then row is its flow's and now its time. Else row is below 0.
// Selecting the least key without branches was slower: it makes one dependency chain of all packets.
func (k *Kernel) cruise() (now int64, row int32) {
	p, t := &k.picker, &k.target
	acks, log := k.acks, t.log
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
		return 0, -1
	}
	s, f := k.at(root)
	for s.plain && t.arrived != t.full {
		now = p.base + root>>(p.bits&63)
		startPS := max(now, t.freePS)
		if startPS > lastPS {
			break
		}
		departPS = startPS + servicePS

		// The packet passes the target. Feedback enters here: a mark is a flag of the ACK, a wait delays it.
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

		// When can the flow send again? Pacing is never faster than the link. See ready.
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
			if flags &= ackFlags; flags != 0 {
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
		reachPS, next := f.reachPS, wire
		if left < full {
			next = left + header
			reachPS = s.wire.PS(next) + s.delayPS - k.earlyOf(f.row)
		}
		arrival := max(at+reachPS, now)
		if blocks {
			arrival = max(at+reachPS+f.upstreamPS, now+f.upWire.PS(next))
		}
		if arrival -= p.base; arrival > p.far {
			goto unplanned
		}
		s.sendPS = at
		s.plain = left > full && f.head-f.tail <= f.mask

		key := arrival<<(p.bits&63) | int64(s.row)
		if root = key; key < keys[p.front+1] { // the next packet is the same flow's
			if f.endsWindow != 0 && s.plain {
				root = k.train(s, f, key)
			}
			keys[p.front] = root
		} else {
			root = p.push(key)
			s, f = k.at(root)
		}
		if t.deep(departPS-now, now) {
			return now, k.sources[key&p.mask].served
		}
		if root >= p.stop {
			break
		}
	}
	return 0, -1

unplanned:
	s.known = false
	s.plain = false
	if t.deep(departPS-now, now) {
		return now, s.served
	}
	return now, -1
}

// at returns the source of a key and the flow of its planned packet.
func (k *Kernel) at(key int64) (*source, *flow) {
	s := &k.sources[key&k.picker.mask]
	return s, &k.flows[s.planned]
}

// train passes whole round trips of a flow at line rate in one step, and returns the key of the packet after them. key
// is the planned packet's, the first one after the end of a window. If the packets since the last such one, whose ACK
// has ended the window, were equally spaced and met nothing, then so are the next ones, up to the flow's last packet, a
// block with feedback, or the next event of another source: each finds the target idle, and each round trip ends a
// window.
func (k *Kernel) train(s *source, f *flow, key int64) int64 {
	p, t := &k.picker, &k.target
	payload, gapPS, trip := k.params.PayloadBytes, f.gapPS, int64(f.head-f.tail)+1
	wire := payload + k.params.HeaderBytes
	now, servicePS := p.base+key>>p.bits, t.wire.PS(wire)
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
	packets = rounds * trip
	for range rounds {
		f.left -= trip * payload
		k.onAckEmbedded(f, ackEndsWindow)
	}
	k.skip(f, packets)
	f.tail += uint32(packets)
	for i := int64(1); i < trip; i++ {
		k.acks[f.base+(f.head-uint32(i))&f.mask] = ack{at: backPS + (packets-i)*gapPS}
	}
	lastPS := now + (packets-1)*gapPS
	t.arrived += uint64(packets)
	t.waiting, t.full = t.arrived, t.arrived+t.logMask
	t.log[(t.arrived-1)&t.logMask] = logEntry{startPS: lastPS, before: t.bytes + (packets-1)*wire}
	t.bytes += packets * wire
	t.busyPS += packets * servicePS
	t.freePS = lastPS + servicePS
	f.upPassedPS, f.downPassedPS, f.alonePS = lastPS, t.freePS, t.freePS
	s.sendPS += packets * gapPS
	s.freePS += packets * gapPS
	f.readyPS = s.sendPS
	return key + packets*gapPS<<p.bits
}

// withoutFeedback returns how many of the flow's next packets, limit at most, have no feedback, and neither has the one
// after them.
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

// skip advances the flow by packets that have not waited.
func (k *Kernel) skip(f *flow, packets int64) {
	f.head += uint32(packets)
	if k.blocks && f.head >= f.nextBlockAt {
		k.recordBlock(f, f.nextBlockAt-k.layout.Start(f.nextBlockAt-1))
		f.block = k.blockOf(f, f.head)
		k.loadBlock(f)
	}
}
