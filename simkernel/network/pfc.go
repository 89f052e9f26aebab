package network

import (
	"cmp"
	"fmt"
	"slices"

	"parsimon/simkernel"
)

// Priority flow control (IEEE 802.1Qbb) of one class, all data, as in the HPCC simulator. A switch counts the packets
// that wait in it by the link that they came over:
//
//	SwitchBytes ─┬─ reserve of each link: pfcReserve
//	             ├─ headroom of each link
//	             └─ shared pool
//
// A packet takes what is left of its link's reserve, and of the pool. Where the pool part of its link is above the
// threshold it takes headroom, and is dropped if that is full. At the threshold the switch pauses the sender of the
// link, and resumes it when a packet of the link has left, no headroom is taken and the pool part is pfcHysteresis
// or more below the threshold, or 0. The threshold is XOFFBytes, or dynamic: Alpha × what is free in the pool, and
// as many times more as the link is faster than the slowest link of a host.
//
// The frame that says so takes the time to send pauseBytes and the propagation delay. It waits for no packet, and
// delays none. A paused port, of a switch or a NIC, ends the packet that it sends and starts no other but ACKs that
// have a queue of their own. Pauses have no end of their own: a watchdog is not modelled.
//
// Order of events: what leaves a switch at a time is counted before thresholds are compared; a pause that arrives at
// the time when a packet would be sent holds it back.
const (
	pfcReserve    = 4096
	pfcHysteresis = 3072
	pauseBytes    = 64
	// pfcTimeoutNS is the default retransmission timeout with PFC, where only broken headroom loses packets and a pause
	// can last: the InfiniBand local ACK timeout of exponent 14, 4.096 µs × 2^14, the usual one of RDMA NICs.
	pfcTimeoutNS = 67_108_864
)

// DefaultPFCAlpha is Alpha of the HPCC simulator for links as fast as those of hosts.
const DefaultPFCAlpha = 1.0 / 8

// A pauser is PFC at a port: what its node counts of the packets that came over the other direction of its cable, and
// the pauses of what it sends.
type pauser struct {
	bytes     int64 // in the reserve and in the pool
	headBytes int64 // in the headroom
	headroom  int64
	alpha     float64
	told      bool // the sender is to pause

	toggles  []toggle // that have arrived, or will in the present window
	sincePS  int64
	pausedPS int64 // sum of the pauses that are over
}

// A toggle is the begin or the end of a pause.
type toggle struct {
	atPS  int64
	pause bool
}

// pauseHop as item.hop marks a toggle on its way to a port; its bits are 1 for a pause, 0 for its end.
const pauseHop = -3

// A leaving is a packet that came over a link (the other direction of port over) and leaves the switch.
type leaving struct {
	atPS, bytes int64
	over        int32
}

// poolPart returns what the packets of a link have of the pool.
func (u *pauser) poolPart() int64 { return max(0, u.bytes-pfcReserve) }

// add counts a packet outside of the headroom.
func (b *buffer) add(u *pauser, bytes int64) {
	b.sharedBytes -= u.poolPart()
	u.bytes += bytes
	b.sharedBytes += u.poolPart()
}

// remove counts a packet that leaves: of the headroom first.
func (b *buffer) remove(u *pauser, bytes int64) {
	head := min(u.headBytes, bytes)
	u.headBytes -= head
	b.add(u, head-bytes)
}

// checkPFC reports the first value of PFC that cannot be simulated.
func (b *BufferParams) checkPFC(packetBytes int64) error {
	switch {
	case !b.PFC && (b.XOFFBytes != 0 || b.HeadroomBytes != 0):
		return fmt.Errorf("PFC is off, and has a threshold of %d bytes and a headroom of %d", b.XOFFBytes, b.HeadroomBytes)
	case b.XOFFBytes < 0 || b.XOFFBytes > b.SwitchBytes:
		return fmt.Errorf("PFC threshold is %d bytes, must be within the switch buffer of %d", b.XOFFBytes, b.SwitchBytes)
	case b.HeadroomBytes < 0 || b.HeadroomBytes > 0 && b.HeadroomBytes < packetBytes || b.HeadroomBytes > b.SwitchBytes:
		return fmt.Errorf("PFC headroom is %d bytes, must hold a packet of %d and be within the switch buffer of %d",
			b.HeadroomBytes, packetBytes, b.SwitchBytes)
	}
	return nil
}

// headroom returns that of packets of a link: by default all that can arrive over it after the threshold was passed,
// which is what is sent in a round trip of propagation and pause frame, the packet in transmission at either end, and
// the one that passed it.
func (n *Network) headroom(link Link) int64 {
	if n.buffer.HeadroomBytes > 0 {
		return n.buffer.HeadroomBytes
	}
	ps := 2*link.DelayNS*simkernel.PSPerNS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(pauseBytes)
	return int64(float64(ps)*float64(link.BandwidthBps)/8e12) + 1 + 3*n.fullBytes
}

// initPFC divides the buffers of switches, and reports the first that is too small. A buffer that cannot hold the
// default headroom gives it half of what the reserves leave: such a switch drops what arrives after a pause.
func (n *Network) initPFC() error {
	reserve, headroom := make([]int64, len(n.host)), make([]int64, len(n.host))
	alpha, slowest := make([]float64, len(n.host)), int64(never)
	for _, link := range n.links {
		if n.host[link.SrcNode] {
			slowest = min(slowest, link.BandwidthBps)
		}
	}
	n.pausers = make([]pauser, len(n.links))
	for l, link := range n.links {
		u := &n.pausers[l^1] // at the port of the other direction
		u.headroom = n.headroom(link)
		u.alpha = n.buffer.Alpha * max(1, float64(link.BandwidthBps)/float64(slowest))
		v := link.DstNode
		reserve[v] += pfcReserve
		headroom[v] += u.headroom
		if alpha[v] == 0 || u.alpha < alpha[v] {
			alpha[v] = u.alpha
		}
	}
	share := make([]float64, len(n.host)) // of the default headroom
	for v := range n.buffers {
		b, left := &n.buffers[v], n.buffer.SwitchBytes-reserve[v]
		share[v], b.poolBytes = 1, left-headroom[v]
		if b.poolBytes < n.fullBytes && n.buffer.HeadroomBytes == 0 && left >= 2*n.fullBytes {
			share[v], b.poolBytes = float64(left/2)/float64(headroom[v]), left-left/2
		}
		if !n.host[v] && b.poolBytes < n.fullBytes {
			return fmt.Errorf("switch buffer is %d bytes: the %d ports of node %d have %d bytes of reserve and PFC headroom, "+
				"which leave no packet", n.buffer.SwitchBytes, reserve[v]/pfcReserve, v, reserve[v]+headroom[v])
		}
		b.freeBytes = int64(alpha[v]/(1+alpha[v])*float64(b.poolBytes)) - 1
		if x := n.buffer.XOFFBytes; x > 0 {
			b.freeBytes = min(x, b.poolBytes) - 1
		}
	}
	for l, link := range n.links {
		u := &n.pausers[l^1]
		u.headroom = int64(float64(u.headroom) * share[link.DstNode])
	}
	return nil
}

// pfcThreshold returns the threshold of a link's part of the pool, of which so many bytes are free.
func (n *Network) pfcThreshold(u *pauser, freeBytes int64) float64 {
	if n.buffer.XOFFBytes > 0 {
		return float64(n.buffer.XOFFBytes)
	}
	return u.alpha * float64(freeBytes)
}

// crosses reports whether a packet that is counted now can pause its sender, or not find room. Counters that are too
// high, since packets have left that are counted, err on the safe side.
func (n *Network) crosses(b *buffer, u *pauser, bytes int64) bool {
	part := max(0, u.bytes+bytes-pfcReserve)
	free := b.poolBytes - b.sharedBytes + u.poolPart() - part
	return part > 0 && (free < 0 || float64(part) >= n.pfcThreshold(u, free))
}

// takeIn counts a packet that arrives at a switch with PFC; false if there is no room for it.
func (d *domain) takeIn(b *buffer, a *arrival, bytes int64) bool {
	n := d.net
	over := n.portOf[a.link^1]
	u := n.ports[over].pfc
	if b.told > 0 || b.usedBytes+bytes > b.peakBytes || n.crosses(b, u, bytes) {
		d.serveActive(a.atPS)
		d.settleLeaving(b)
	}
	part := max(0, u.bytes+bytes-pfcReserve)
	free := b.poolBytes - b.sharedBytes
	switch above := float64(part) > n.pfcThreshold(u, free) || part-u.poolPart() > free; {
	case part == 0 || !above:
		b.add(u, bytes)
	case u.headBytes+bytes <= u.headroom:
		u.headBytes += bytes
	default:
		return false
	}
	part, free = u.poolPart(), b.poolBytes-b.sharedBytes
	if !u.told && (u.headBytes > 0 || part > 0 && float64(part) >= n.pfcThreshold(u, free)) {
		u.told = true
		b.told++
		d.tell(over, toggle{a.atPS, true})
	}
	return true
}

// tell sends a toggle to the sender over the other direction of a port's cable.
func (d *domain) tell(over int32, t toggle) {
	p := &d.net.ports[over]
	k := &d.kinds[p.kind()]
	it := item{atPS: t.atPS + k.wire.PS(pauseBytes) + k.delayPS, hop: pauseHop}
	if t.pause {
		it.bits = 1
	}
	d.forward(p, d.net.portOf[p.link^1], it)
}

// leaves counts a packet that leaves a switch: when the order of events is known (settleLeaving), or at once where no
// sender can be paused.
func (d *domain) leaves(node, over int32, bytes, nowPS int64) {
	if d.merging {
		d.leaving = append(d.leaving, leaving{nowPS, bytes, over})
		return
	}
	d.net.buffers[node].remove(d.net.ports[over].pfc, bytes)
}

// settleLeaving counts what has left, in order of time, and resumes senders.
func (d *domain) settleLeaving(b *buffer) {
	left := d.leaving
	slices.SortFunc(left, func(x, y leaving) int {
		return cmp.Or(cmp.Compare(x.atPS, y.atPS), cmp.Compare(x.over, y.over))
	})
	for len(left) > 0 {
		k := 0
		for ; k < len(left) && left[k].atPS == left[0].atPS; k++ {
			b.remove(d.net.ports[left[k].over].pfc, left[k].bytes)
		}
		for _, l := range left[:k] {
			u := d.net.ports[l.over].pfc
			part, free := u.poolPart(), b.poolBytes-b.sharedBytes
			if u.told && u.headBytes == 0 && (part == 0 || float64(part+pfcHysteresis) <= d.net.pfcThreshold(u, free)) {
				u.told = false
				b.told--
				d.tell(l.over, toggle{l.atPS, false})
			}
		}
		left = left[k:]
	}
	d.leaving = d.leaving[:0]
}

// takeToggles is the part of runWindow that depends on PFC: it gives ports the pauses that arrive, and returns what
// else does.
func (d *domain) takeToggles(arrivals []arrival, work []uint64) []arrival {
	kept := arrivals[:0]
	for _, a := range arrivals {
		if a.hop != pauseHop {
			kept = append(kept, a)
			continue
		}
		u := a.port - d.low
		p := &d.ports[u]
		p.pfc.toggles = append(p.pfc.toggles, toggle{a.atPS, a.bits != 0})
		slices.SortStableFunc(p.pfc.toggles, func(x, y toggle) int { return cmp.Compare(x.atPS, y.atPS) })
		p.bits |= portChanges
		p.changeAtPS = p.pfc.toggles[0].atPS
		work[u/64] |= 1 << (u % 64)
	}
	return kept
}

// toggle begins or ends a pause of a port.
func (d *domain) toggle(p *port) {
	u := p.pfc
	t := u.toggles[0]
	u.toggles = u.toggles[:copy(u.toggles, u.toggles[1:])]
	switch paused := p.bits&portPaused != 0; {
	case t.pause && !paused:
		p.bits |= portPaused
		u.sincePS = t.atPS
	case !t.pause && paused:
		p.bits &^= portPaused
		u.pausedPS += t.atPS - u.sincePS
		p.freePS = max(p.freePS, t.atPS)
	}
	if len(u.toggles) > 0 {
		p.bits |= portChanges
		p.changeAtPS = u.toggles[0].atPS
	}
}

// PausedNS returns how long the sending end of a link was paused, after Run.
func (n *Network) PausedNS(link int32) int64 {
	if n.pausers == nil {
		return 0
	}
	return n.pausers[link].pausedPS / simkernel.PSPerNS
}
