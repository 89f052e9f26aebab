package network

import (
	"math"
	"math/bits"
)

// netScheduleWindows is how many windows ahead work can be scheduled. Work farther ahead is scheduled for the last
// of them and rescheduled there.
const netScheduleWindows = 64

// A netDomain is a subset of the network's nodes with their ports, simulated by one worker at a time.
type netDomain struct {
	net       *Network
	id        int32
	ports     []netPort
	telemetry bool // switches write telemetry into packets
	shared    bool // switches have one queue for ACKs and data

	window, startPS, endPS, lengthPS int64 // the present window

	// Ports with work: bit u%64 of scheduled[w%netScheduleWindows<<scheduleShift + u/64] for port u in window w.
	// Superfluous bits are harmless. Bit w%netScheduleWindows of busy is set if any is set in window w.
	scheduled     []uint64
	scheduleShift uint
	busy          uint64
	far           [netScheduleWindows][]int32 // the same for far links that deliver packets in a window

	// outbox[step % 2][domain] are packets for ports of other domains. They are read in the next window, while this
	// domain fills the other half.
	outbox [2][][]netMail

	finished []netFinish // flows delivered in this window
	drained  []int32     // slots of flows whose last ACK was received in this window
}

type netMail struct {
	item netItem
	port int32
}

func (d *netDomain) init(n *Network, id int32) {
	d.net, d.id, d.ports = n, id, n.ports
	d.shared, d.telemetry = n.params.Transport.AcksQueue(), n.params.Transport.HasTelemetry()
	d.outbox[0] = make([][]netMail, len(n.domains))
	d.outbox[1] = make([][]netMail, len(n.domains))
	d.scheduleShift = uint(bits.Len(uint(len(n.ports)-1) / 64))
	d.scheduled = make([]uint64, netScheduleWindows<<d.scheduleShift)
	d.window, d.lengthPS = -1, n.windowPS
}

// setWindow makes w the present window. No earlier window may have work left.
func (d *netDomain) setWindow(w int64) {
	d.window, d.startPS, d.endPS = w, w*d.lengthPS, (w+1)*d.lengthPS
}

// run simulates the present window.
func (d *netDomain) run() {
	n := d.net
	out := d.outbox[n.step&1]
	for i := range out {
		out[i] = out[i][:0]
	}
	for i := range n.domains {
		for _, m := range n.domains[i].outbox[n.step&1^1][d.id] {
			d.deliver(m.port, m.item)
		}
	}
	slot := uint64(d.window) % netScheduleWindows
	if d.busy>>slot&1 == 0 {
		return
	}
	d.busy &^= 1 << slot
	for i, word := range d.scheduled[slot<<d.scheduleShift:][:1<<d.scheduleShift] {
		if word == 0 {
			continue
		}
		d.scheduled[slot<<d.scheduleShift+uint64(i)] = 0
		for ; word != 0; word &= word - 1 {
			u := int32(i*64 + bits.TrailingZeros64(word))
			if p := &d.ports[u]; p.nic < 0 && d.shared {
				d.runSharedPort(u, p)
			} else if p.nic < 0 {
				d.runPort(u, p)
			} else {
				d.runNIC(u, p, &n.nics[p.nic])
			}
		}
	}
	for _, u := range d.far[slot] {
		d.runFar(u)
	}
	d.far[slot] = d.far[slot][:0]
}

// nextWindow returns the first window after the present one with work for this domain or, because of it, for
// another.
func (d *netDomain) nextWindow() int64 {
	for _, box := range d.outbox[d.net.step&1] {
		if len(box) > 0 {
			return d.window + 1
		}
	}
	if d.busy == 0 {
		return math.MaxInt64
	}
	next := d.window + 1
	fromNext := bits.RotateLeft64(d.busy, -int(uint64(next)%netScheduleWindows))
	return next + int64(bits.TrailingZeros64(fromNext))
}

// scheduleSlot returns the slot of the window to schedule work for a time in, which is not before the present
// window.
func (d *netDomain) scheduleSlot(atPS int64) uint64 {
	ahead := atPS - d.startPS
	if ahead >= 3*d.lengthPS {
		return uint64(d.window+min(ahead/d.lengthPS, netScheduleWindows-1)) % netScheduleWindows
	}
	w := d.window
	if ahead >= d.lengthPS {
		w++
	}
	if ahead >= 2*d.lengthPS {
		w++
	}
	return uint64(w) % netScheduleWindows
}

// schedule schedules work for a port at a time.
func (d *netDomain) schedule(u int32, atPS int64) {
	slot := d.scheduleSlot(atPS)
	d.busy |= 1 << slot
	d.scheduled[slot<<d.scheduleShift+uint64(u)/64] |= 1 << (uint64(u) % 64)
}

// deliver puts an item into the queue of a port of this domain, which it reaches at it.atPS.
func (d *netDomain) deliver(u int32, it netItem) {
	ring := it.flags & netAck
	if d.shared && it.hop&(1<<d.net.flows.shift-1) != 0 { // at a switch
		ring = 0
	}
	d.ports[u].rings[ring].push(it, &d.net.flows)
	d.schedule(u, it.atPS)
}

// forward sends an item that has left port u and reaches port to at it.atPS.
func (d *netDomain) forward(u int32, p *netPort, to int32, it netItem) {
	if p.near {
		d.deliver(to, it)
	} else {
		d.forwardFar(u, p, to, it)
	}
}

// forwardFar is forward for a link that leaves the domain or is far.
func (d *netDomain) forwardFar(u int32, p *netPort, to int32, it netItem) {
	if !p.farLink {
		d.mail(p.farDomain, to, it)
		return
	}
	p.transit.push(it, &d.net.flows)
	if p.transit.tail-p.transit.head == 1 {
		d.scheduleFar(u, it.atPS)
	}
}

// mail sends an item to a port of another domain.
func (d *netDomain) mail(domain, to int32, it netItem) {
	box := &d.outbox[d.net.step&1][domain]
	*box = append(*box, netMail{it, to})
}

// scheduleFar schedules the delivery of a far link's first packet, which arrives at atPS: in the window before, the
// link must deliver it.
func (d *netDomain) scheduleFar(u int32, atPS int64) {
	slot := d.scheduleSlot(atPS - d.lengthPS)
	d.busy |= 1 << slot
	d.far[slot] = append(d.far[slot], u)
}

// runFar delivers the packets of a far link that arrive in the next window.
func (d *netDomain) runFar(u int32) {
	p, t := &d.ports[u], &d.net.flows
	for ; p.transit.head != p.transit.tail; p.transit.head++ {
		it := *p.transit.at(p.transit.head)
		if it.atPS >= d.endPS+d.lengthPS {
			d.scheduleFar(u, it.atPS)
			return
		}
		var to int32
		if it.flags&netAck != 0 {
			to = t.hops[it.hop+1].backward
		} else {
			to = t.hops[it.hop-1].forward
		}
		if p.farDomain == d.id {
			d.deliver(to, it)
		} else {
			d.mail(p.farDomain, to, it)
		}
	}
}
