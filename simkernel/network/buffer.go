package network

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// BufferParams describe the buffers of switches and the recovery of senders from losses.
type BufferParams struct {
	SwitchBytes int64 `json:"switch_bytes"` // shared by the ports of a switch; above 0
	// Alpha is the parameter of dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). A packet
	// is dropped if its port would then hold more than Alpha times the free bytes of the buffer.
	Alpha float64 `json:"alpha"`
	// ReservedBytes is the part of the buffer that each port has exclusively, for each class. Alpha applies
	// to the rest of the buffer, and to what a port holds beyond its reserve. With PFC it is the reserve of a
	// link, for each lossless class. 0 means pfcReserve.
	ReservedBytes int64 `json:"reserved_bytes,omitempty"`
	// RetransmitNS is the retransmission timeout. If no ACK for new data arrives for this time, a sender
	// retransmits from the first unacknowledged packet. It doubles with each consecutive timeout. 0 means the
	// longest time that a packet of the flow can take, so that only lost packets are retransmitted (the rule
	// of IRN's RTO_high: Mittal et al., SIGCOMM'18, §3.1).
	RetransmitNS int64 `json:"retransmit_ns,omitempty"`

	// Selective makes senders retransmit only lost packets (recovery.go), instead of going back.
	Selective bool `json:"selective,omitempty"`

	// PFC makes switches pause senders (pfc.go) instead of dropping their packets.
	PFC       bool  `json:"pfc,omitempty"`
	XOFFBytes int64 `json:"xoff_bytes,omitempty"` // of the packets of a link; 0: dynamic, by Alpha
	// of a link's packets, more on faster links; 0: fits each
	HeadroomBytes int64 `json:"headroom_bytes,omitempty"`
	// The watchdog drops the packets of a switch's queue that was paused for WatchdogNS. The port then
	// ignores pauses of its class for RestoreNS. 0 means no watchdog.
	WatchdogNS int64 `json:"watchdog_ns,omitempty"`
	RestoreNS  int64 `json:"restore_ns,omitempty"`
}

// IsZero reports whether buffers are unlimited.
func (b BufferParams) IsZero() bool { return b == BufferParams{} }

// DefaultAlpha is the common setting of switches for lossy traffic.
const DefaultAlpha = 1

// Validate returns an error for the first value that cannot be simulated with packets as in p. The reader of
// a scenario checks the ranges of Alpha and RetransmitNS.
func (b *BufferParams) Validate(p *simkernel.Params) error {
	switch {
	case b.SwitchBytes < p.PayloadBytes+p.HeaderBytes:
		return fmt.Errorf("buffer is %d bytes, must hold a packet of %d", b.SwitchBytes,
			p.PayloadBytes+p.HeaderBytes)
	case b.SwitchBytes > 1<<60:
		return fmt.Errorf("buffer is %d bytes, must be at most 2^60", b.SwitchBytes)
	case b.ReservedBytes < 0 || b.ReservedBytes > 1<<40:
		return fmt.Errorf("reserved is %d bytes, must be 0 to 2^40", b.ReservedBytes)
	case !b.PFC && float64(p.PayloadBytes+p.HeaderBytes) > b.Alpha*float64(b.SwitchBytes):
		return fmt.Errorf("alpha is %v, which of a buffer of %d bytes never admits a packet of %d", b.Alpha,
			b.SwitchBytes, p.PayloadBytes+p.HeaderBytes)
	}
	return b.checkPFC(p.PayloadBytes + p.HeaderBytes)
}

// A PlaceError is an error in the settings of switches at a node or for a class. The other field is -1.
type PlaceError struct {
	Node, Class int
	Err         error
}

func (e *PlaceError) Error() string {
	return fmt.Sprintf("%v (node %d, class %d)", e.Err, e.Node, e.Class)
}

// Rooms returns, by link, the number of bytes that can wait at its port before a packet is dropped, if
// nothing waits at the other ports of its switch. With PFC, it is the number before another switch is paused,
// because this delays flows that do not cross the port. If only hosts send to the port, it is the number for
// all ports of the switch together. With PFC, the value of a host's link is the number of its bytes that can
// wait before the host is paused. It must be called with limited buffers only.
func (n *Network) Rooms() []int64 {
	bySwitch := make([]int64, len(n.host))
	byHosts := make([]int64, len(n.host))
	rooms := make([]int64, len(n.links))
	alpha := make([]float64, len(n.host)) // of all hosts together
	for l, link := range n.links {
		v := link.DstNode
		if !n.buffer.PFC || n.host[v] {
			continue
		}
		u := &n.pausers[(l^1)*len(n.classes)]
		rooms[l] = u.reserve + cmp.Or(n.buffer.XOFFBytes, int64(loneQueue(u.alpha, n.buffers[v].poolBytes)))
		if n.host[link.SrcNode] {
			byHosts[v] = byHosts[v] + u.reserve + n.buffer.XOFFBytes
			alpha[v] = alpha[v] + u.alpha
		} else {
			bySwitch[v] = min(rooms[l], cmp.Or(bySwitch[v], rooms[l]))
		}
	}
	for l, link := range n.links {
		switch v := link.SrcNode; {
		case !n.buffer.PFC:
			rooms[l] = n.buffer.ReservedBytes + int64(loneQueue(n.buffer.Alpha, n.buffers[v].poolBytes))
		case n.host[v]:
		case bySwitch[v] > 0 && (n.host[link.DstNode] || byHosts[v] == 0):
			rooms[l] = bySwitch[v]
		default:
			rooms[l] = byHosts[v]
			if n.buffer.XOFFBytes == 0 {
				rooms[l] += int64(loneQueue(alpha[v], n.buffers[v].poolBytes))
			}
		}
	}
	return rooms
}

// loneQueue returns the number of bytes of a buffer that a queue with a dynamic threshold may use if all
// other queues are empty.
func loneQueue(alpha float64, bytes int64) float64 { return alpha / (1 + alpha) * float64(bytes) }

// A buffer is the buffer of one switch.
type buffer struct {
	low, high int32 // its ports in domain.ports
	usedBytes int64
	peakBytes int64
	freeBytes int64   // how many can be in it so that no packet finds its port, or its link, above the threshold
	alpha     float64 // the least of its queues

	poolBytes int64 // without what is reserved
	// With PFC.
	sharedBytes int64 // of the pool
	pausing     int32 // senders that must pause
}

// admits reports whether a switch's port has room for a data packet.
func (s *sharedBuffers) admits(b *buffer, p *port, it *calendar.Item, wireBytes int64) bool {
	d := s.domain
	n := d.net
	alpha := d.net.buffer.Alpha
	held := p.heldBytes
	if d.classes != nil {
		class := d.classOf(it)
		alpha = n.alphaOf(&n.classes[class])
		held = p.classes.queues[class].heldBytes
	}
	free := n.buffer.SwitchBytes - b.usedBytes
	part := held + wireBytes
	if n.buffer.ReservedBytes > 0 {
		free = b.poolBytes - s.sharedBytes(b)
		part = part - n.buffer.ReservedBytes
	}
	return min(part, wireBytes) <= max(0, free) && float64(part) <= alpha*float64(max(0, free))
}

// sharedBytes returns the number of bytes that the ports of a switch hold beyond their reserves.
func (s *sharedBuffers) sharedBytes(b *buffer) (bytes int64) {
	d := s.domain
	for u := b.low; u < b.high; u++ {
		p := &d.ports[u]
		if d.classes == nil {
			bytes += max(0, p.heldBytes-d.net.buffer.ReservedBytes)
			continue
		}
		for q := range p.classes.queues {
			bytes += max(0, p.classes.queues[q].heldBytes-d.net.buffer.ReservedBytes)
		}
	}
	return bytes
}

// initPools divides the buffers of switches without PFC. It returns an error for the first buffer that is too
// small.
func (n *Network) initPools() error {
	queues := make([]int64, len(n.host))
	alpha := n.buffer.Alpha
	for _, link := range n.links {
		queues[link.SrcNode] += max(1, int64(len(n.classes)))
	}
	for i := range n.classes {
		alpha = min(alpha, n.alphaOf(&n.classes[i]))
	}
	for v := range n.buffers {
		b := &n.buffers[v]
		b.poolBytes = n.buffer.SwitchBytes - queues[v]*n.buffer.ReservedBytes
		if !n.host[v] && alpha*float64(b.poolBytes) < float64(n.fullBytes) {
			return &PlaceError{v, -1,
				fmt.Errorf("buffer is %d bytes: of %d reserved for each of %d queues, the rest never admits a packet of %d", n.buffer.SwitchBytes, n.buffer.ReservedBytes, queues[v], n.fullBytes)}
		}
		b.alpha, b.freeBytes = alpha, int64(loneQueue(alpha, b.poolBytes))-1
	}
	return nil
}

// The ports of a switch with a limited buffer depend on each other, also within a window. However, this
// matters only if a packet may be dropped. If all arrivals of a window fit even if nothing leaves, the ports
// are simulated one by one, like ports without a limit. Otherwise arrivals of all ports are admitted in order
// of time. Even then a port's services are simulated only when the decision depends on them.

// sharedBuffers are the limited buffers of the switches of a domain.
type sharedBuffers struct {
	domain  *domain
	active  []calendar.DuePort // ports of the current switch with work
	leveled bool               // there may be a new maximum of the bytes in the buffer
	levels  []level            // if so: changes of these bytes
}

// A level is a change of the bytes in a buffer.
type level struct{ atPS, bytes int64 }

// runNode simulates the ports of a switch, which are the first of those with work, and returns their number.
func (s *sharedBuffers) runNode(b *buffer, due []calendar.DuePort) int {
	d := s.domain
	last := 1
	for last < len(due) && due[last].Port < b.high {
		last++
	}
	s.active = due[:last]
	all := d.sorter.Sorted[due[0].From:d.sorter.Ends[due[last-1].Port]]
	fromBytes := b.usedBytes
	mostBytes := b.usedBytes
	for i := range all {
		// without a branch: ACKs are not foreseen
		mostBytes += d.fullBytes & (int64(all[i].Bits&calendar.FlagAck) - 1)
	}
	s.leveled = mostBytes > b.peakBytes
	s.levels = s.levels[:0]
	d.setPasses(s.leveled || d.classes != nil && d.classes.turns)
	if b.pausing > 0 || mostBytes > b.freeBytes && !s.fits(b, mostBytes) {
		s.runMerged(b, all)
	} else {
		d.runPorts(s.active)
	}
	if s.leveled {
		s.notePeak(b, fromBytes)
	}
	return last
}

// fits reports whether each port has room for its arrivals in the window, and the buffer for mostBytes, even
// if nothing leaves. It may report false although there is room.
func (s *sharedBuffers) fits(b *buffer, mostBytes int64) bool {
	d := s.domain
	free := float64(b.poolBytes - mostBytes)
	if d.pfc == nil && free > 0 {
		for _, o := range s.active {
			most := d.ports[o.Port].heldBytes + int64(d.sorter.Ends[o.Port]-o.From)*d.fullBytes
			if float64(most) > b.alpha*free {
				return false
			}
		}
		return true
	}
	return false
}

// levelParts is the number of parts of a window that are examined separately.
const levelParts = 64

// notePeak updates the maximum number of bytes in a buffer, which contained the given number when the window
// began. Arrivals precede departures at the same time.
func (s *sharedBuffers) notePeak(b *buffer, bytes int64) {
	d := s.domain
	var more, all [levelParts]int64
	part := func(l level) uint64 {
		part, _ := bits.Mul64(uint64(l.atPS-d.StartPS)*levelParts, d.PerWindow)
		return min(part, levelParts-1)
	}
	for _, l := range s.levels {
		k := part(l)
		more[k] += max(0, l.bytes)
		all[k] += l.bytes
	}
	var of []level
	for k := range all {
		if bytes+more[k] > b.peakBytes {
			of = of[:0]
			for _, l := range s.levels {
				if part(l) == uint64(k) {
					of = append(of, l)
				}
			}
			slices.SortFunc(of, func(x, y level) int {
				return cmp.Or(cmp.Compare(x.atPS, y.atPS), cmp.Compare(y.bytes, x.bytes))
			})
			now := bytes
			for _, l := range of {
				now += l.bytes
				b.peakBytes = max(b.peakBytes, now)
			}
		}
		bytes += all[k]
	}
}

// runMerged simulates the active ports of a switch and admits arrivals in order of time.
func (s *sharedBuffers) runMerged(b *buffer, all []calendar.Arrival) {
	d := s.domain
	for _, o := range s.active {
		d.sorter.Ends[o.Port] = 0
	}
	if d.pfc != nil {
		d.pfc.merging = true
	}
	d.sorter.SortWindow(all, d.StartPS, d.LengthPS)
	for i := range all {
		a := &all[i]
		p := &d.ports[a.Port-d.low]
		if a.Bits&calendar.FlagAck != 0 {
			p.put(d, a)
			continue
		}
		bytes := d.wireBytes(&a.Item)
		if d.pfc != nil {
			if !d.pfc.takeIn(b, p, a, bytes) {
				s.drop(p, &a.Item)
				continue
			}
		} else if !s.admits(b, p, &a.Item, bytes) {
			// Departures since then only make room. A packet that fits without this room therefore fits.
			s.serveActive(a.AtPS)
			if !s.admits(b, p, &a.Item, bytes) {
				s.drop(p, &a.Item)
				continue
			}
		}
		s.hold(b, p, &a.Item, bytes, a.AtPS)
		p.put(d, a)
	}
	s.serveActive(d.EndPS)
	if d.pfc != nil {
		d.pfc.settleLeaving(b)
		d.pfc.merging = false
	}
	for _, o := range s.active {
		p := &d.ports[o.Port]
		p.data.Trim()
		p.acks.Trim()
		p.noteWaits()
		d.runQueued(o.Port, p, nil)
	}
}

// serveActive starts the services of the active ports that begin before untilPS.
func (s *sharedBuffers) serveActive(untilPS int64) {
	d := s.domain
	for _, o := range s.active {
		p := &d.ports[o.Port]
		if d.classes != nil {
			d.classes.serveClasses(p, untilPS)
		} else if p.bits&portChanges != 0 || p.freePS < untilPS && (!p.data.Empty() || !p.acks.Empty()) {
			d.serve(p, &p.data, &p.acks, untilPS)
		}
	}
}

// hold adds the bytes of a data packet to those that a switch's port holds. Negative bytes release room.
func (s *sharedBuffers) hold(b *buffer, p *port, it *calendar.Item, bytes, atPS int64) {
	d := s.domain
	if d.classes != nil {
		p.classes.queues[d.classOf(it)].heldBytes += bytes
	}
	p.heldBytes += bytes
	b.usedBytes += bytes
	if s.leveled {
		s.levels = append(s.levels, level{atPS, bytes})
	}
}

// passes counts a packet that arrives at a port and is served without waiting.
func (s *sharedBuffers) passes(bytes, arrivedPS, servedPS int64) {
	s.levels = append(s.levels, level{arrivedPS, bytes}, level{servedPS, -bytes})
}

// holdAll adds data that arrives at a port and fits.
func (s *sharedBuffers) holdAll(b *buffer, p *port, arrivals []calendar.Arrival) {
	d := s.domain
	for i := range arrivals {
		a := &arrivals[i]
		if a.Bits&calendar.FlagAck == 0 {
			bytes := d.wireBytes(&a.Item)
			s.hold(b, p, &a.Item, bytes, a.AtPS)
			if d.pfc != nil {
				b.add(d.pfc.pauserOf(a.Link^1, d.classOf(&a.Item)), bytes)
			}
		}
	}
}

// drop discards a data packet at a switch's port.
func (s *sharedBuffers) drop(p *port, it *calendar.Item) {
	d := s.domain
	p.dropped++
	if d.classes != nil {
		p.classes.queues[d.classOf(it)].dropped++
	}
	d.journal.losses.Dropped++
	d.journal.gone = append(d.journal.gone, d.net.flows.hops[it.Hop].flow)
}
