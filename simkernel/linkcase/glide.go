package linkcase

import "parsimon/simkernel"

// A flow glides while its packets leave the host one after the other at line rate, and no ACK can change
// that: none has a mark, and none comes so late that the window closes. The times at which the host sends the
// flow's packets are then known in advance. Of their ACKs, only those that end a window are read, for the
// state of the sender. Flows glide in cases without blocks. Most packets there belong to such flows.
//
// A glider has the state of a source's flow that glide uses. It is valid while the source glides.
type glider struct {
	// Packets that arrive at or after this time are prepared by turn. It is 0 if the source does not glide.
	turnPS int64
	// Packets that arrive at or after this time do not glide: they are the flow's last two, one may leave the
	// target after the horizon, or simkernel.MaxPackets packets have glided. In the last case, the flow joins
	// again.
	lastPS  int64
	step    int64  // from the key of a packet to that of the next one
	ackPS   int64  // flow.ackPS
	reachPS int64  // flow.reachPS
	slackPS int64  // longest wait that leaves the window open
	base    uint32 // flow.base
	mask    uint32 // flow.mask
	head    uint32 // number of the next packet. flow.head and more are updated by catchUp.
	ends    uint32 // number of the last packet sent whose ACK ends a window
}

// glide passes packets of gliding flows through the target, in the order of their arrivals. It returns before
// the first packet of a source that does not glide, or no longer does because the packet waits too long. It
// also returns, with deep set, after a packet that found a deep queue. now is then its time.
func (k *Kernel) glide() (now int64, deep bool) {
	p := &k.picker
	t := &k.target
	acks := k.acks
	log := t.log
	servicePS := t.wire.PS(t.wireMax)
	root := p.keys[p.front]
	for root < p.stop {
		now = p.base + root>>(p.bits&63)
		s := &k.sources[root&p.mask]
		g := &s.glider
		flags := int64(0)
		if now >= g.turnPS {
			if !s.turned {
				root = k.turn(s, root)
				if !s.glides {
					return now, false
				}
				continue
			}
			flags = ackEndsWindow
		}
		startPS := max(now, t.freePS)
		if startPS-now > g.slackPS {
			k.land(s)
			return now, false
		}
		departPS := startPS + servicePS
		entry := g.base + g.head&g.mask
		acks[entry] = ack{departPS + g.ackPS, flags}
		if flags != 0 {
			s.beginWindow(&k.flows[s.planned], departPS)
		}
		g.head++
		if t.arrived == t.full {
			t.trimLog(now)
			log = t.log
		}
		log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry, 0}
		t.arrived++
		t.bytes += t.wireMax
		t.busyPS += servicePS
		t.waitPS += startPS - now
		t.freePS = departPS
		root += g.step
		switch {
		case root < p.keys[p.front+1]:
			p.keys[p.front] = root
		case root < p.keys[p.front+2]:
			root = p.swap(root)
		default:
			root = p.push(root)
		}
		// A packet that does not wait is alone in the queue.
		if startPS > now && t.deep(departPS-now, now) {
			return now, true
		}
	}
	return now, false
}

// join lets the flow of a source glide, if it can, from its planned packet on. This packet is plain and
// arrives at arrivalPS.
//
// The time between packets must be at most tripPS, a round trip without service. Then all ACKs that the host
// receives before it sends a packet belong to packets that have left the target before the previous packet
// arrives there, so that their marks are decided.
func (k *Kernel) join(s *source, f *flow, arrivalPS int64) {
	p := &k.picker
	t := &k.target
	payload := k.params.PayloadBytes
	servicePS := t.wire.PS(t.wireMax)
	tripPS := f.reachPS + f.ackPS                              // a round trip without service
	packets := min((f.left-1)/payload-1, simkernel.MaxPackets) // without the last one and the one before
	if packets < 2 || t.maxPackets == 0 || p.many || p.back-p.front == pickFew ||
		f.dctcp.RateBps != f.dctcp.LineBps || f.gapPS > min(tripPS, p.far/2, maxShallowPS) ||
		f.windowPackets > int64(f.mask)+1 || arrivalPS != s.sendPS+f.reachPS {
		return
	}
	slackPS := min(f.windowPackets*f.gapPS-tripPS-servicePS, maxShallowPS)
	if slackPS < 0 {
		return
	}
	// The packet with number i + windowPackets must not wait for the ACK of packet i.
	opensPS := s.sendPS + f.windowPackets*f.gapPS
	turnPS := arrivalPS
	ends := f.head
	for i := f.tail; i != f.head; i++ {
		a := &k.acks[f.base+i&f.mask]
		if a.flags&ackMarked != 0 || a.at > opensPS-int64(f.head-i)*f.gapPS {
			return
		}
		if a.flags != 0 {
			ends = i
			turnPS = a.at + f.reachPS
		}
	}
	g := &s.glider
	g.lastPS = min(arrivalPS+packets*f.gapPS, horizonPS-servicePS-slackPS)
	g.turnPS = min(turnPS, g.lastPS)
	g.ends = ends
	g.step = f.gapPS << p.bits
	g.ackPS = f.ackPS
	g.reachPS = f.reachPS
	g.slackPS = slackPS
	g.base = f.base
	g.mask = f.mask
	g.head = f.head
	s.glides = true
	s.plain = false
}

// beginWindow notes that the source's planned packet, which leaves the target at departPS, is one whose ACK
// ends a window.
func (s *source) beginWindow(f *flow, departPS int64) {
	g := &s.glider
	f.endsWindow = 0
	s.turned = false
	g.ends = g.head
	g.turnPS = min(departPS+g.ackPS+g.reachPS, g.lastPS)
}

// turn prepares the planned packet of a source, which arrives at or after turnPS. The packet is the first one
// after the end of a window, or no longer glides. turn may pass packets, and returns the smallest key after
// them.
func (k *Kernel) turn(s *source, key int64) int64 {
	if !s.glides {
		return key
	}
	g := &s.glider
	p := &k.picker
	f := &k.flows[s.planned]
	if p.base+key>>p.bits >= g.lastPS {
		k.land(s)
		return key
	}
	k.readEnd(s, f)
	key = k.alone(s, f, key)
	p.keys[p.front] = key
	g.head = f.head
	s.turned = true
	if p.base+key>>p.bits >= g.lastPS {
		k.land(s)
		return key
	}
	k.coast(key)
	return p.keys[p.front]
}

// alone passes whole round trips of a gliding flow in one step, if no packet of another source arrives before
// they end. key is that of the flow's planned packet. alone returns the key of the packet after them. Unlike
// train, it need not examine earlier packets.
func (k *Kernel) alone(s *source, f *flow, key int64) int64 {
	p := &k.picker
	t := &k.target
	now := p.base + key>>p.bits
	servicePS := t.wire.PS(t.wireMax)
	beforePS := min(p.base+min(p.stop, p.keys[p.front+1])>>p.bits-1, s.lastPS)
	tripPS := f.reachPS + servicePS + f.ackPS
	if now < t.freePS || servicePS > f.gapPS || beforePS-now < tripPS {
		return key
	}
	trip := (tripPS + f.gapPS - 1) / f.gapPS
	rounds := (beforePS - now) / f.gapPS / trip
	if rounds == 0 {
		return key
	}
	f.tail = f.head - uint32(trip-1)
	return k.passRounds(s, f, key, rounds, trip)
}

// readEnd reads the ACK that ends a window, if it has not been read, before the host sends the next packet.
func (k *Kernel) readEnd(s *source, f *flow) {
	k.catchUp(s, f)
	if f.endsWindow == 0 {
		f.tail = s.ends + 1
		k.onAckEmbedded(f, ackEndsWindow)
	}
}

// coast passes packets while all sources glide, none of the packets can find a deep queue (target.deep), and
// none can wait too long to glide. It does not write their ACKs and log entries. These ACKs and log entries
// are never read: before a flow stops gliding, glide passes as many packets of it as its window has, and the
// target becomes idle. key is that of the first packet.
func (k *Kernel) coast(key int64) {
	p := &k.picker
	t := &k.target
	endPS := k.coastsUntil(p.base + key>>p.bits)
	if endPS == 0 {
		return
	}
	servicePS := t.wire.PS(t.wireMax)
	freePS := t.freePS
	packets := int64(0)
	for now := p.base + key>>p.bits; now < endPS; now = p.base + key>>(p.bits&63) {
		s := &k.sources[key&p.mask]
		g := &s.glider
		startPS := max(now, freePS)
		freePS = startPS + servicePS
		t.waitPS += startPS - now
		if now >= g.turnPS {
			f := &k.flows[s.planned]
			k.readEnd(s, f)
			s.beginWindow(f, freePS)
		}
		g.head++
		packets++
		key += g.step
		switch {
		case key < p.keys[p.front+1]:
			p.keys[p.front] = key
		case key < p.keys[p.front+2]:
			key = p.swap(key)
		default:
			key = p.push(key)
		}
	}
	t.skip(packets, freePS-servicePS, servicePS)
}

// coastsUntil returns the time at which coast, from now on, must end, or 0 if it must not begin. If each of n
// sources has one packet in n packet times at most, an idle target becomes idle again within n packet times.
// Until then, at most n - 1 packets wait, so a maximum of n - 1 packets or more is not exceeded.
func (k *Kernel) coastsUntil(now int64) int64 {
	p := &k.picker
	t := &k.target
	n := int64(p.back - p.front)
	servicePS := t.wire.PS(t.wireMax)
	waitPS := (n - 1) * servicePS
	if n == 1 || now < t.freePS || t.maxBytes < (n-1)*t.wireMax || waitPS+servicePS > t.deepPS {
		return 0
	}
	endPS := p.base + p.stop>>p.bits
	windowPS := int64(0)
	for i := p.front; i != p.back; i++ {
		s := &k.sources[p.keys[i]&p.mask]
		f := &k.flows[s.planned]
		if !s.glides || s.slackPS < waitPS || f.gapPS < waitPS+servicePS {
			return 0
		}
		endPS = min(endPS, s.lastPS)
		windowPS = max(windowPS, f.windowPackets*f.gapPS)
	}
	endPS -= windowPS
	if endPS-now < windowPS {
		return 0
	}
	return endPS
}

// catchUp applies the packets that a flow has sent while gliding to the flow and its source.
func (k *Kernel) catchUp(s *source, f *flow) {
	n := int64(s.glider.head - f.head)
	if n == 0 {
		return
	}
	f.head = s.glider.head
	f.left -= n * k.params.PayloadBytes
	s.sendPS += n * f.gapPS
	f.readyPS = s.sendPS
	s.freePS = s.sendPS - f.gapPS + f.reachPS - s.delayPS
	s.served = f.row
}

// land ends the gliding of a source. Its planned packet becomes a plain one.
func (k *Kernel) land(s *source) {
	f := &k.flows[s.planned]
	k.catchUp(s, f)
	s.glides = false
	s.turned = false
	s.glider.turnPS = 0
	// The ACK of the packet a window before has been received, as have all earlier ones.
	tail := f.head - uint32(f.windowPackets) + 1
	if f.endsWindow == 0 && int32(tail-s.glider.ends) > 0 {
		tail = s.glider.ends
	}
	if int32(tail-f.tail) > 0 {
		f.tail = tail
	}
	for f.tail != f.head {
		a := &k.acks[f.base+f.tail&f.mask]
		if a.at > s.sendPS {
			break
		}
		f.tail++
		if a.flags != 0 {
			k.onAckEmbedded(f, a.flags)
		}
	}
	s.plain = f.left > k.params.PayloadBytes && f.head-f.tail <= f.mask
}

// landAll ends the gliding of all sources.
func (k *Kernel) landAll() {
	p := &k.picker
	for i := p.front; i != p.back; i++ {
		s := &k.sources[p.keys[i]&p.mask]
		if s.glides {
			k.land(s)
		}
	}
}
