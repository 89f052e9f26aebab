package linkcase

import (
	"math/bits"

	"parsimon/simkernel"
)

// A flow is the state of an active flow. With transport DCTCP, it includes the sender.
//
// The window determines whether a flow may send, but not how much: the last packet may exceed it, as in ns-3.
// All packets of a flow but the last are therefore full, and the packets in flight can be counted. The window
// is closed with ceil(window / payload) packets or more.
//
// The ACKs of the flow's packets are written to a ring as soon as the packets have passed the target. They
// are read when the host next needs to know whether the flow may send. Most ACKs only open the window. Flags
// mark the others.
type flow struct {
	readyPS       int64  // the flow cannot send before
	ackPS         int64  // from a packet's departure from the target to its ACK at the host
	left          int64  // payload to send
	windowPackets int64  // the window is closed with this number of packets in flight
	gapPS         int64  // pacing: from a full packet's start to the next packet's
	reachPS       int64  // from a full packet's start at the host to its arrival at the target
	base          uint32 // the ring is acks[base : base+mask+1]
	mask          uint32
	head          uint32 // number of the next packet, modulo 2^32
	tail          uint32 // number of the first packet whose ACK has not been read
	endsWindow    int64  // ackEndsWindow if the ACK of the next packet ends a window

	row      int32
	nextSlot int32
	prevSlot int32
	dctcp    simkernel.DCTCPSender

	nicWaitPS    int64  // feedback of the block: NIC wait of each packet
	upstreamPS   int64  // feedback of the block: wait before the target
	downstreamPS int64  // feedback of the block: wait behind the target
	waitPS       int64  // sum of the waits of the block's packets here
	alonePS      int64  // when the target would have sent the flow alone; first hop: earliest send by pacing
	openPS       int64  // first hop: when the window last opened
	nextBlockAt  uint32 // number of the first packet of the next block
	block        uint32 // index of Case.Feedback and Result.Observed
	marks        uint16 // feedback of the block: marks
	unbound      bool   // first hop: the flow has no feedback and never waits for its window
	slot         int32
	firstBlock   uint32

	// These fields describe the flow alone at the slowest links before and behind the target: when its last
	// packet passed the link before the target, when the link behind began to send it, and the speed of that
	// link (0 if there is none).
	upPassedPS, downPassedPS int64
	upWire, downWire         simkernel.WireTime
}

// An ack is one ACK. at is the time at which the host receives it. The lowest bits of flags are flags, and
// the bits above them are the wait, in ps, of its packet behind the target plus that of the ACK. The packet
// left the target at at − wait − ackPS.
type ack struct {
	at    int64
	flags int64
}

const (
	ackMarked     = 1 // the packet was marked
	ackEndsWindow = 2 // the packet is the first beyond the noted snd_nxt: its ACK ends a window
	ackFlags      = ackMarked | ackEndsWindow
	ackShift      = 2
)

// A retiredSlot is the slot of a flow that has sent all of its bytes. Its last packet can still be marked
// until that packet's service starts, so its ring is still in use.
type retiredSlot struct {
	slot    int32
	startPS int64
}

// start starts the next flow of the case, which belongs to source s.
func (k *Kernel) start(s *source, startPS int64) {
	row := k.nextRow
	c := k.c
	slot := k.slot(startPS)
	f := &k.flows[slot]
	pathPS := c.PathDelayNS[row] * simkernel.PSPerNS
	base := f.base
	mask := f.mask
	*f = flow{
		readyPS:    startPS,
		ackPS:      2*pathPS - s.delayPS + k.returnPS(row),
		left:       c.SizeBytes[row],
		reachPS:    s.wire.PS(k.params.PayloadBytes+k.params.HeaderBytes) + s.delayPS,
		base:       base,
		mask:       mask,
		endsWindow: ackEndsWindow,
		row:        int32(row),
	}
	f.alonePS = startPS
	f.openPS = startPS
	f.upWire, f.downWire = slowestWire(c.UpstreamBps, row), slowestWire(c.DownstreamBps, row)
	full := k.params.PayloadBytes + k.params.HeaderBytes
	// no packet before
	f.upPassedPS, f.downPassedPS = startPS-f.upWire.PS(full), startPS-f.downWire.PS(full)-pathPS
	f.block = k.nextBlock
	f.firstBlock = k.nextBlock
	k.loadBlock(f)
	k.startSender(f, slot)
	s.add(k.flows, slot)

	k.advanceStart()
}

// returnPS returns the part of a flow's round trip that the case does not simulate.
func (k *Kernel) returnPS(row int) int64 {
	if len(k.c.ReturnNS) == 0 {
		return 0
	}
	return k.c.ReturnNS[row] * simkernel.PSPerNS
}

// earlyOf returns the time by which the last packet of a flow arrives earlier than a full one would (see
// Case.BetweenPS).
func (k *Kernel) earlyOf(row int32) int64 {
	if len(k.earlyPS) == 0 {
		return 0
	}
	return k.earlyPS[row]
}

// early computes earlyOf of a flow. The limit is the time from the start of the packet's transmission to its
// arrival, because the packet does not arrive before it is sent.
func (k *Kernel) early(c *Case, row int) int64 {
	last := k.params.LastBytes(c.SizeBytes[row])
	s := &k.sources[c.Source[row]]
	farthestPS := s.delayPS
	if !c.Behind {
		farthestPS = c.PathDelayNS[row] * simkernel.PSPerNS
	}
	shorter := k.params.PayloadBytes + k.params.HeaderBytes - last
	return min(int64(c.BetweenPS[row])*shorter, farthestPS+s.wire.PS(last))
}

// slowestWire returns the WireTime of a flow's link in a column, or 0 if there is none.
func slowestWire(bps []int64, row int) simkernel.WireTime {
	if len(bps) == 0 || bps[row] == 0 {
		return 0
	}
	return simkernel.NewWireTime(float64(bps[row]))
}

// behindTarget returns the time, beyond propagation, that a packet needs from the target, which it leaves at
// departPS, to its destination. It follows the flow's packets at the slowest link, and waits for those of
// other flows. The slowest link starts to send it after the previous packet, which is full. This does not
// depend on the size of the packet. A short last packet may thus arrive later by the time that it saves,
// without being late.
func (f *flow) behindTarget(departPS, fullBytes int64) int64 {
	f.downPassedPS = max(departPS, f.downPassedPS+f.downWire.PS(fullBytes))
	return f.downPassedPS - departPS + f.downstreamPS
}

// advanceStart moves to the next flow of the case. Flows that start after the horizon are never started.
func (k *Kernel) advanceStart() {
	if k.blocks {
		k.nextBlock += uint32(k.layout.Blocks(k.params.Packets(k.c.SizeBytes[k.nextRow])))
	}
	k.nextRow++
	k.nextPS = never
	starts := k.c.StartNS
	if k.nextRow < len(starts) {
		ns := starts[k.nextRow] - k.firstNS
		if ns <= horizonPS/simkernel.PSPerNS {
			k.nextPS = ns * simkernel.PSPerNS
		}
	}
}

// ready returns the earliest time, not before free, at which the flow can send. It reads the ACKs that are
// due by then. If one of them belongs to a packet whose service has not started by now, the mark of the
// packet is undecided. Then known is false and the time is a lower bound. In either case the time is kept in
// readyPS until the flow sends, because a call for an earlier time would see ACKs as read that have not yet
// returned.
func (k *Kernel) ready(f *flow, free, now int64) (at int64, known bool) {
	at = max(free, f.readyPS+f.nicWaitPS)
	decided := now + f.ackPS
	if k.traits.DelayBased {
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
			flags := a.flags & ackFlags
			if !k.traits.Embedded {
				c := &k.clocks[f.slot]
				c.lastAckPS = max(c.lastAckPS, a.at)
				if flags != 0 || c.lastAckPS >= c.tickPS {
					k.onAckExternal(f, flags)
				}
			} else if flags != 0 {
				k.onAckEmbedded(f, flags)
			}
		}
		if int64(f.head-f.tail) < f.windowPackets {
			f.readyPS = at - f.nicWaitPS
			return at, true
		}
		// The window is closed, so packets are in flight.
		at = max(at, k.acks[f.base+f.tail&f.mask].at)
	}
}

// onAckEmbedded passes the ACK that was read last, which ends a window or has a mark, to the flow's dctcp.
// Other ACKs change nothing, because the end of a cut matters only together with a mark or the end of a
// window.
func (k *Kernel) onAckEmbedded(f *flow, flags int64) {
	sent := k.sent(f)
	acked := sent - int64(f.head-f.tail)*k.params.PayloadBytes
	if f.dctcp.Update(&k.params, acked, sent, flags&ackMarked != 0) {
		k.setRate(f)
	}
	if flags&ackEndsWindow != 0 {
		f.endsWindow = ackEndsWindow
	}
}

// sent returns the number of payload bytes that the flow has sent.
func (k *Kernel) sent(f *flow) int64 { return k.c.SizeBytes[f.row] - f.left }

// setRate sets the pacing and the window of a flow to those of its embedded sender.
func (k *Kernel) setRate(f *flow) {
	f.gapPS = simkernel.NewWireTime(f.dctcp.RateBps).PS(k.params.PayloadBytes + k.params.HeaderBytes)
	f.windowPackets = k.params.Packets(f.dctcp.Window())
}

// growRing moves the flow's ring to the end of acks, with twice its size, and updates the target's log.
func (k *Kernel) growRing(f *flow) {
	oldBase := f.base
	oldMask := f.mask
	f.base = uint32(len(k.acks))
	f.mask = 2*oldMask + 1
	k.acks = append(k.acks, make([]ack, f.mask+1)...)
	// The ring is full, so each old position belongs to exactly one packet.
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

// slot returns a free slot for a flow that starts at now, in ps. It first frees the retired slots whose last
// packet has started service by then.
func (k *Kernel) slot(now int64) int32 {
	for k.retiredAt < len(k.retired) && k.retired[k.retiredAt].startPS <= now {
		k.free = append(k.free, k.retired[k.retiredAt].slot)
		k.retiredAt++
	}
	if k.retiredAt == len(k.retired) {
		k.retired = k.retired[:0]
		k.retiredAt = 0
	}
	n := len(k.free)
	if n > 0 {
		slot := k.free[n-1]
		k.free = k.free[:n-1]
		return slot
	}
	packets := uint64(k.params.Packets(k.params.NominalWindow()))
	// A ring has at least one block, so that the position of a packet in the ring determines its bit of
	// Block.Marks.
	ring := uint32(1) << min(6, max(simkernel.MaxBlockBits, bits.Len64(packets-1)))
	k.flows = append(k.flows, flow{base: uint32(len(k.acks)), mask: ring - 1})
	k.acks = append(k.acks, make([]ack, ring)...)
	if !k.traits.Embedded {
		k.stamps = append(k.stamps, make([]stamp, ring)...)
	}
	return int32(len(k.flows) - 1)
}
