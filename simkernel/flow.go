package simkernel

import "math/bits"

// A flow is an active flow: what it has sent, what was acknowledged, and its DCTCP sender.
//
// The ACKs of its packets stand in a ring as soon as the packets are through the target, and are
// taken when the host next wants to know whether it may send. Most ACKs only open the window; those
// that say more are flagged.
type flow struct {
	readyPS int64 // the flow cannot send before
	ackPS   int64 // from a packet's departure from the target to its ACK at the host
	window  int64
	sent    int64 // payload, so far
	acked   int64 // payload, by the ACKs taken so far
	left    int64 // payload still to send
	gap     wireTime
	base    uint32 // the ring is acks[base : base+mask+1]
	mask    uint32
	head    uint32 // number of the next packet, modulo 2^32
	tail    uint32 // number of the first packet whose ACK has not been taken
	noting  int64  // ackNoted if the ACK of the next packet ends a window

	row      int32
	nextSlot int32
	prevSlot int32
	downPS   int64 // from a packet's departure from the target to its delivery
	dctcp    dctcp
	_        [88]byte // to 256: see source
}

// An ack is one ACK: when it is back at the host, and the payload it acknowledges with its flags.
type ack struct {
	at  int64
	end int64 // payload through this packet << ackFlagBits | flags
}

const (
	ackMarked   = 1 // the packet was marked
	ackNoted    = 2 // the first packet beyond the noted snd_nxt: its ACK ends a window
	ackFlagBits = 2
	ackFlags    = 1<<ackFlagBits - 1
)

// A spentSlot is the slot of a flow that has sent everything. Its last packet, and so its ring, can
// be marked until that packet's service starts.
type spentSlot struct {
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
		readyPS: startPS,
		downPS:  pathPS - s.delayPS,
		ackPS:   2*pathPS - s.delayPS,
		left:    c.SizeBytes[row],
		gap:     s.wire,
		base:    base,
		mask:    mask,
		noting:  ackNoted,
		row:     int32(row),
	}
	f.dctcp.start(float64(c.SourceBps[s.row]))
	f.window = f.dctcp.window(&k.params)
	s.add(k.flows, slot)

	k.advanceStart()
}

// advanceStart makes the next flow the one after it. Flows that start after the horizon never do.
func (k *Kernel) advanceStart() {
	k.nextRow++
	k.nextPS = unbounded
	if starts := k.c.StartNS; k.nextRow < len(starts) {
		if ns := starts[k.nextRow] - k.firstNS; ns <= horizonPS/psPerNS {
			k.nextPS = ns * psPerNS
		}
	}
}

// ready finds the first moment from free on at which the flow can send, and the payload it then
// sends. It takes the ACKs that are due by then. If one of them was not yet in service at the target
// by now, its mark is open: then payload is 0, and the moment only a lower bound. Either way the
// moment stands until the flow sends, and is kept: a look at an earlier one would find ACKs taken
// that are not back yet.
func (k *Kernel) ready(f *flow, free, now int64) (at, payload int64) {
	at = max(free, f.readyPS)
	known := now + f.ackPS
	for {
		for f.tail != f.head {
			a := &k.acks[f.base+f.tail&f.mask]
			if a.at > at {
				break
			}
			if a.at > known {
				f.readyPS = at
				return at, 0
			}
			f.tail++
			f.acked = a.end >> ackFlagBits
			if a.end&ackFlags != 0 {
				k.heed(f, a.end)
			}
		}
		if open := f.window - (f.sent - f.acked); open > 0 {
			f.readyPS = at
			return at, min(k.params.PayloadBytes, f.left, open)
		}
		// The window is closed, so packets are out.
		at = k.acks[f.base+f.tail&f.mask].at
	}
}

// heed tells the sender of an ACK that ends a window or carries a mark. Others would change nothing:
// the end of a cut is looked at only together with a mark or the end of a window.
func (k *Kernel) heed(f *flow, end int64) {
	if f.dctcp.onACK(&k.params, f.acked, f.sent, end&ackMarked != 0) {
		f.gap = newWireTime(f.dctcp.rateBps)
		f.window = f.dctcp.window(&k.params)
	}
	if end&ackNoted != 0 {
		f.noting = ackNoted
	}
}

// growRing doubles the flow's ring, at the end of acks, and lets the target's log know.
func (k *Kernel) growRing(f *flow) {
	oldBase, oldMask := f.base, f.mask
	f.base = uint32(len(k.acks))
	f.mask = 2*oldMask + 1
	k.acks = append(k.acks, make([]ack, f.mask+1)...)
	// The ring is full, so every old place is the place of one packet.
	moved := func(old uint32) uint32 { return f.tail + (old-oldBase-f.tail)&oldMask }
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
	for k.spentAt < len(k.spent) && k.spent[k.spentAt].startPS <= now {
		k.free = append(k.free, k.spent[k.spentAt].slot)
		k.spentAt++
	}
	if k.spentAt == len(k.spent) {
		k.spent, k.spentAt = k.spent[:0], 0
	}
	if n := len(k.free); n > 0 {
		slot := k.free[n-1]
		k.free = k.free[:n-1]
		return slot
	}
	packets := uint64(k.params.Packets(k.params.WindowBytes)) + 1
	ring := uint32(1) << min(6, max(3, bits.Len64(packets-1)))
	k.flows = append(k.flows, flow{base: uint32(len(k.acks)), mask: ring - 1})
	k.acks = append(k.acks, make([]ack, ring)...)
	return int32(len(k.flows) - 1)
}

// spend gives back the slot of a flow whose last packet is in service from startPS on.
func (k *Kernel) spend(slot int32, startPS int64) {
	k.spent = append(k.spent, spentSlot{slot, startPS})
}

// freeAll gives back all slots, the least on top.
func (k *Kernel) freeAll() {
	k.spent, k.spentAt = k.spent[:0], 0
	k.free = k.free[:0]
	for i := len(k.flows) - 1; i >= 0; i-- {
		k.free = append(k.free, int32(i))
	}
}
