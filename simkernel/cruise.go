package simkernel

// cruise is relay for plain packets, which nearly all are: not the last of their flow, which is the
// only one of its source, and the next packet of which waits for one ACK at most. It does for them
// what forward and plan do, in one loop that keeps to itself. It leaves before the first packet that
// is not plain; after one whose successor it could not plan (the source is then marked to be planned
// again, at once, for it still has the least key); and after one that found a deep queue: deep then
// says so, and now when.
//
// What the time goes to: a packet's key depends on a chain of loads and compares some 40 cycles
// long. Since the keys stand in order the processor can start on the next packet before it knows
// where this one's next key belongs, and it guesses that place; a wrong guess costs about as much as
// the rest. Selecting the least key without branches was slower: it makes one chain of all packets.
func (k *Kernel) cruise() (now int64, deep bool) {
	p, t := &k.picker, &k.target
	acks, log := k.acks, t.log
	header := k.params.HeaderBytes
	keys := &p.keys
	root := keys[p.front]
	for root < p.stop {
		now = p.base + root>>(p.bits&63)
		s := &k.sources[root&p.mask]
		if !s.plain || t.arrived == t.full {
			return 0, false
		}
		f := &k.flows[s.planned]
		payload := int64(s.payload)
		wire := payload + header
		startPS := max(now, t.freePS)
		departPS := startPS + t.wire.ps(wire)
		if departPS > horizonPS {
			return 0, false
		}

		// The packet passes through the target. (Whatever happens to it at other hops enters here: a
		// mark is another flag of its ACK, a wait is added to the ACK's time.)
		sent := f.sent + payload
		left := f.left - payload
		f.sent, f.left = sent, left
		entry := f.base + f.head&f.mask
		acks[entry] = ack{departPS + f.ackPS, sent<<ackFlagBits | f.noting}
		f.head++
		f.noting = 0
		log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry}
		t.arrived++
		t.bytes += wire
		t.busyPS += departPS - startPS
		t.waitPS += startPS - now
		t.freePS = departPS

		// When does the flow send again? Pacing is never faster than the link. See ready.
		s.freePS = now - s.delayPS
		s.served = f.row
		at := s.sendPS + f.gap.ps(wire)
		open := f.window - (sent - f.acked)
		a := &acks[f.base+f.tail&f.mask]
		at = max(at, a.at&((open-1)>>63)) // if the window is closed, not before that ACK
		f.readyPS = at
		plain := true
		if a.at <= at {
			if a.at > now+f.ackPS {
				plain = false
			} else {
				acked := a.end >> ackFlagBits
				open += acked - f.acked
				f.acked = acked
				f.tail++
				if a.end&ackFlags != 0 {
					k.heed(f, a.end)
					open = f.window - (sent - acked)
				}
				if open <= 0 || f.tail != f.head && acks[f.base+f.tail&f.mask].at <= at {
					plain = false
				}
			}
		}
		payload = min(k.params.PayloadBytes, left, open)
		arrival := at + s.wire.ps(payload+header) + s.delayPS - p.base
		if !plain || arrival > p.far {
			s.payload = 0
			s.plain = false
			return now, departPS-now > t.shallowPS
		}
		s.sendPS = at
		s.payload = int32(payload)
		s.plain = payload < left && f.head-f.tail <= f.mask && (f.noting == 0 || p.back-p.front != 1)

		key := arrival<<(p.bits&63) | int64(s.row)
		i := p.back
		for keys[i-1] > key {
			keys[i] = keys[i-1]
			i--
		}
		keys[i] = key
		p.front++
		p.back++
		keys[p.back] = noKey
		root = keys[p.front]
		if departPS-now > t.shallowPS {
			return now, true
		}
	}
	return 0, false
}
