package simkernel

import "math/bits"

// A flow is an active flow: what it has to send, what is out, and its DCTCP sender.
//
// The window says whether a flow may send, never how much: the last packet may reach beyond it, as
// ns-3's does. So every packet but the last of a flow is full, what is out can be counted in packets,
// and the window is closed from window / payload packets on, rounded up.
//
// The ACKs of its packets stand in a ring as soon as the packets are through the target, and are
// taken when the host next wants to know whether it may send. Most ACKs only open the window; those
// that say more are flagged.
type flow struct {
	readyPS       int64  // the flow cannot send before
	ackPS         int64  // from a packet's departure from the target to its ACK at the host
	left          int64  // payload still to send
	windowPackets int64  // packets: with so many out the window is closed
	gapPS         int64  // pacing: from a full packet's start to the next packet's
	reachPS       int64  // from a full packet's start at the host to its arrival at the target
	base          uint32 // the ring is acks[base : base+mask+1]
	mask          uint32
	head          uint32 // number of the next packet, modulo 2^32
	tail          uint32 // number of the first packet whose ACK has not been taken
	endsWindow    int64  // ackEndsWindow if the ACK of the next packet ends a window

	row      int32
	nextSlot int32
	prevSlot int32
	downPS   int64 // from a packet's departure from the target to its delivery
	dctcp    dctcp

	nicWaitPS    int64  // what holds the next packet at the host, once it could be sent
	upstreamPS   int64  // what the packets of the block wait on their way to the target
	downstreamPS int64  // what they wait behind it
	waitPS       int64  // sum of the waits of the block's packets here, for others' packets
	alonePS      int64  // when the target would have sent the flow's packets so far, had it been alone there; FirstHop: when pacing lets it send
	openPS       int64  // FirstHop: when the window last opened; Behind: when the packet leaves the feeder
	nextBlockAt  uint32 // the number of the first packet of the next block
	block        uint32 // the block, an index of Case.Elsewhere and Result.Here
	marks        uint16 // the block's marks elsewhere
	slot         int32  // its own
	markKey      uint64 // DCQCN: of its draws
	tickPS       int64  // an ACK from then on is told to the sender in any case
	lastAckPS    int64  // when the last ACK taken was back
	firstBlock   uint32
	_            [2]byte // to 256: see source
}

// An ack is one ACK: when it is back at the host, and, from the lowest bit on, its flags and the ps
// that its packet waited elsewhere. Less those and ackPS, at is when the packet left the target.
type ack struct {
	at    int64
	flags int64
}

const (
	ackMarked     = 1 // the packet was marked
	ackEndsWindow = 2 // the first packet beyond the noted snd_nxt: its ACK ends a window
	ackFlags      = ackMarked | ackEndsWindow
	ackShift      = 2
)

// A retiredSlot is the slot of a flow that has sent everything. Its last packet, and so its ring, can
// be marked until that packet's service starts.
type retiredSlot struct {
	slot    int32
	startPS int64
}

// start takes up the next flow of the case, which starts at startPS and is of the source.
func (k *Kernel) start(s *source, startPS int64) {
	row := k.nextRow
	c := k.c
	slot := k.slot(startPS)
	f := &k.flows[slot]
	pathPS := c.PathDelayNS[row] * psPerNS
	base, mask := f.base, f.mask
	*f = flow{
		readyPS:    startPS,
		downPS:     pathPS - s.delayPS,
		ackPS:      2*pathPS - s.delayPS + k.returnPS(row),
		left:       c.SizeBytes[row],
		reachPS:    s.wire.ps(k.params.PayloadBytes+k.params.HeaderBytes) + s.delayPS,
		base:       base,
		mask:       mask,
		endsWindow: ackEndsWindow,
		row:        int32(row),
	}
	f.alonePS, f.openPS = startPS, startPS
	f.block, f.firstBlock = k.nextBlock, k.nextBlock
	k.loadBlock(f)
	k.startSender(f, slot, float64(c.SourceBps[s.row]))
	s.add(k.flows, slot)

	k.advanceStart()
}

// returnPS is the part of a flow's round trip that the case does not simulate.
func (k *Kernel) returnPS(row int) int64 {
	if len(k.c.ReturnNS) == 0 {
		return 0
	}
	return k.c.ReturnNS[row] * psPerNS
}

// advanceStart makes the next flow the one after it. Flows that start after the horizon never do.
func (k *Kernel) advanceStart() {
	if k.blocks {
		k.nextBlock += uint32(Blocks(k.params.Packets(k.c.SizeBytes[k.nextRow])))
	}
	k.nextRow++
	k.nextPS = unbounded
	if starts := k.c.StartNS; k.nextRow < len(starts) {
		if ns := starts[k.nextRow] - k.firstNS; ns <= horizonPS/psPerNS {
			k.nextPS = ns * psPerNS
		}
	}
}

// ready finds the first moment from free on at which the flow can send. It takes the ACKs that are
// due by then. If one of them was not yet in service at the target by now, its mark is open: then the
// moment is not known, and only a lower bound. Either way the moment stands until the flow sends, and
// is kept: a look at an earlier one would find ACKs taken that are not back yet.
func (k *Kernel) ready(f *flow, free, now int64) (at int64, known bool) {
	at = max(free, f.readyPS+f.nicWaitPS)
	decided := now + f.ackPS
	if k.traits.delayBased {
		decided = never
	}
	for {
		for f.tail != f.head {
			a := &k.acks[f.base+f.tail&f.mask]
			if a.at > at {
				break
			}
			if a.at-a.flags>>ackShift > decided {
				f.readyPS = at - f.nicWaitPS
				return at, false
			}
			if int64(f.head-f.tail) >= f.windowPackets {
				f.openPS = max(f.openPS, a.at)
				at = max(at, a.at+f.nicWaitPS)
			}
			f.tail++
			f.lastAckPS = max(f.lastAckPS, a.at)
			if flags := a.flags & ackFlags; flags != 0 || f.lastAckPS >= f.tickPS {
				if k.traits.embedded {
					k.onAckEmbedded(f, flags)
				} else {
					k.onAckExternal(f, flags)
				}
			}
		}
		if int64(f.head-f.tail) < f.windowPackets {
			f.readyPS = at - f.nicWaitPS
			return at, true
		}
		// The window is closed, so packets are out.
		at = max(at, k.acks[f.base+f.tail&f.mask].at)
	}
}

// onAckEmbedded tells the sender of the ACK taken last, which ends a window or carries a mark. Others would
// change nothing: the end of a cut is looked at only together with a mark or the end of a window.
func (k *Kernel) onAckEmbedded(f *flow, flags int64) {
	sent := k.sent(f)
	acked := sent - int64(f.head-f.tail)*k.params.PayloadBytes
	if f.dctcp.update(&k.params, acked, sent, flags&ackMarked != 0) {
		k.setRate(f)
	}
	if flags&ackEndsWindow != 0 {
		f.endsWindow = ackEndsWindow
	}
}

// sent is the payload that the flow has sent so far.
func (k *Kernel) sent(f *flow) int64 { return k.c.SizeBytes[f.row] - f.left }

// setRate takes over the sender's rate.
func (k *Kernel) setRate(f *flow) {
	f.gapPS = newWireTime(f.dctcp.rateBps).ps(k.params.PayloadBytes + k.params.HeaderBytes)
	f.windowPackets = k.params.Packets(f.dctcp.window(&k.params))
}

// growRing doubles the flow's ring, at the end of acks, and lets the target's log know.
func (k *Kernel) growRing(f *flow) {
	oldBase, oldMask := f.base, f.mask
	f.base = uint32(len(k.acks))
	f.mask = 2*oldMask + 1
	k.acks = append(k.acks, make([]ack, f.mask+1)...)
	// The ring is full, so every old place is the place of one packet.
	moved := func(old uint32) uint32 { return f.tail + (old-oldBase-f.tail)&oldMask }
	if len(k.stamps) > 0 {
		k.stamps = append(k.stamps, make([]stamp, f.mask+1)...)
		for i := range oldMask + 1 {
			k.stamps[f.base+moved(oldBase+i)&f.mask] = k.stamps[oldBase+i]
		}
	}
	for i := range oldMask + 1 {
		k.acks[f.base+moved(oldBase+i)&f.mask] = k.acks[oldBase+i]
	}
	t := &k.target
	for i := t.waiting; i != t.arrived; i++ {
		e := &t.log[i&t.logMask]
		if e.entry >= oldBase && e.entry <= oldBase+oldMask {
			e.entry = f.base + moved(e.entry)&f.mask
		}
	}
}

// slot returns a slot for a flow that starts now.
func (k *Kernel) slot(now int64) int32 {
	for k.retiredAt < len(k.retired) && k.retired[k.retiredAt].startPS <= now {
		k.free = append(k.free, k.retired[k.retiredAt].slot)
		k.retiredAt++
	}
	if k.retiredAt == len(k.retired) {
		k.retired, k.retiredAt = k.retired[:0], 0
	}
	if n := len(k.free); n > 0 {
		slot := k.free[n-1]
		k.free = k.free[:n-1]
		return slot
	}
	packets := uint64(k.params.Packets(k.params.WindowBytes))
	// At least a block of them, so that a packet's place says which bit of a block's marks is its own.
	ring := uint32(1) << min(6, max(blockBits, bits.Len64(packets-1)))
	k.flows = append(k.flows, flow{base: uint32(len(k.acks)), mask: ring - 1})
	k.acks = append(k.acks, make([]ack, ring)...)
	if !k.traits.embedded {
		k.stamps = append(k.stamps, make([]stamp, ring)...)
	}
	return int32(len(k.flows) - 1)
}

// spend gives back the slot of a flow whose last packet is in service from startPS on.
func (k *Kernel) retire(slot int32, startPS int64) {
	k.retired = append(k.retired, retiredSlot{slot, startPS})
}

// freeSlots gives back all slots, the least on top.
func (k *Kernel) freeSlots() {
	k.retired, k.retiredAt = k.retired[:0], 0
	k.free = k.free[:0]
	for i := len(k.flows) - 1; i >= 0; i-- {
		k.free = append(k.free, int32(i))
	}
}
