package network

import (
	"cmp"
	"math/bits"
	"slices"
)

// blockWindows is how many windows make a block. A domain keeps the work of the present block by window, and what is
// farther ahead by block.
const blockWindows = 64

// A domain is a part of the network's nodes with their ports, simulated by one worker at a time.
type domain struct {
	net   *Network
	id    int32
	low   int32  // its ports are net.ports[low:]
	ports []port // those of switches, by node, and then those of hosts
	first int32  // index in ports of the first of a host
	nics  []nic
	kinds []portKind // net.kinds

	telemetry           bool   // switches write telemetry into packets
	shared              bool   // switches have one queue for ACKs and data
	random              bool   // marks are random
	limited             bool   // switches have limited buffers
	lossless            bool   // with PFC
	classed             bool   // ports have queues by class
	recovers            bool   // senders recover from losses
	selective           bool   // receivers of transports with a rate take packets in any order
	irn                 bool   // senders recover as IRN
	clocked             bool   // senders are clocked by ACKs; they recover, too
	simple              bool   // neither telemetry nor shared, and nothing is lost, moves or waits for others
	moves               *moves // that of the network
	againMask           uint32 // bits of items that are set in a packet that is sent again
	lateMask, lateNot   uint32 // what packets with bits&lateMask != lateNot meet is counted between steps
	tagMask             uint32 // bits of items for the balance (conga.go)
	numberShift         uint8
	fullBytes, ackBytes int64

	window, startPS, endPS, lengthPS int64  // the present window
	perWindow                        uint64 // 2^64 / lengthPS

	// Work of the present block, in slot w % blockWindows. Bit w % blockWindows of busy is set if there is any.
	block   uint64
	busy    uint64
	windows [blockWindows]windowWork // with memory only where there is any
	unused  []windowWork             // memory
	later   []laterBlock             // blocks with work, in order
	recent  int                      // index in later of the block that was added to last
	spare   []arrival                // memory

	ends   []int32   // by port: scratch of sortByPort
	sorted []arrival // likewise
	taken  int32     // likewise: how many of sorted have been taken

	// outbox[step % 2][domain] are packets for ports of other domains. They are read in the next step, while this
	// domain fills the other half. mailPS is the earliest arrival among them.
	outbox    [2][][]arrival
	out       [][]arrival // the half that is filled
	mailPS    int64
	neighbors []int32 // domains that it shares cables with

	pool          flowPool
	starting      []*newFlow // flows of its hosts that start in this step
	needHops      int        // units of hop entries that they need
	results       resultPart
	foreseen      []delivery // of flows in this step, if flows wait for others
	coming        []arrival  // at hosts, in this step, if paths move, too
	finished      []finish   // with recovery: flows delivered in this step
	late          []lateStat
	gone          []int32 // with recovery: the slots of packets and ACKs that have left the network in this step
	losses        Losses
	flowlets      map[flowletKey]flowlet
	remote        map[congaKey]congaMetric
	flowletsUntil int // how many there can be until those that have ended are removed
	repaired      []int32
	work          int64 // items processed in this epoch

	in                      []arrival // scratch
	parted                  []arrival // scratch of sortWindow
	partEnds                []int32
	active                  []int32
	merging                 bool      // with PFC: what leaves is counted by settleLeaving
	leaving                 []leaving // with PFC: what has left and is not counted
	dataScratch, ackScratch fifo
	_                       [64]byte // the next domain is another worker's
}

// windowWork is what a domain has to do in a window.
type windowWork struct {
	arrivals []arrival // at its ports
	ports    []uint64  // bit u: port u may have something to send; superfluous bits are harmless
}

// run simulates the domain from fromPS to toPS.
func (d *domain) run(step, fromPS, toPS int64) {
	d.setWindow(fromPS / d.lengthPS)
	d.mailPS = never
	d.out = d.outbox[step&1]
	for _, i := range d.neighbors {
		d.out[i] = d.out[i][:0]
		for _, a := range d.net.domains[i].outbox[step&1^1][d.id] {
			if w := d.arrivalsAt(a.atPS); w != nil {
				*w = append(*w, a)
			} else {
				d.insert(a)
			}
		}
	}
	for _, f := range d.starting {
		d.admit(f)
	}
	d.starting = d.starting[:0]
	for {
		nextPS := d.nextPS()
		if nextPS >= toPS {
			return
		}
		d.setWindow(nextPS / d.lengthPS)
		d.runWindow()
	}
}

// nextPS returns a time before which there is nothing to do, in the window of the first thing.
func (d *domain) nextPS() int64 {
	switch {
	case d.busy != 0:
		ahead := bits.TrailingZeros64(d.busy >> (uint64(d.window) % blockWindows))
		return (d.window + int64(ahead)) * d.lengthPS
	case len(d.later) > 0:
		return d.later[0].firstPS
	}
	return never
}

// setWindow makes w the present window. No earlier window may have work left. The work of its block is scheduled before
// anything that is inserted now, so that equal arrivals keep their order.
func (d *domain) setWindow(w int64) {
	d.window, d.startPS, d.endPS = w, w*d.lengthPS, (w+1)*d.lengthPS
	d.block = uint64(w) / blockWindows
	if len(d.later) == 0 || d.later[0].number != d.block {
		return
	}
	work := d.later[0].work
	d.later = slices.Delete(d.later, 0, 1)
	for _, a := range work {
		if a.hop == laterPort {
			d.schedule(a.port, a.atPS)
		} else {
			d.insert(a)
		}
	}
	d.spare = work[:0]
}

// runWindow simulates the present window.
func (d *domain) runWindow() {
	slot := uint64(d.window) % blockWindows
	if d.busy>>slot&1 == 0 {
		return
	}
	present := d.windows[slot]
	arrivals, ports := present.arrivals, present.ports
	d.busy &^= 1 << slot
	d.work += int64(len(arrivals))
	if d.moves != nil {
		arrivals = d.choosePorts(arrivals, ports)
	}
	if d.lossless {
		arrivals = d.takeToggles(arrivals, ports)
	}
	d.sortByPort(arrivals, ports)
	if d.limited {
		d.runNodes(ports)
	} else {
		for i, word := range ports {
			ports[i] = 0
			for ; word != 0; word &= word - 1 {
				u := int32(i*64 + bits.TrailingZeros64(word))
				p, in := &d.ports[u], d.arrivalsOf(u)
				if u >= d.first {
					d.runNIC(u, p, &d.nics[u-d.first], in)
				} else if !d.simple || !p.idle() {
					d.runPort(u, p, in)
				} else if k := d.serveInTurn(p, in); k < len(in) || d.classed {
					if d.classed {
						d.servedInTurn(p, in[:k])
					}
					if in = in[k:]; len(in) > 0 {
						d.runPort(u, p, in)
					}
				}
			}
		}
	}
	d.unused = append(d.unused, windowWork{arrivals[:0], ports})
}

// sortByPort sorts the arrivals of a window into d.sorted, by port, and keeps the order of equals. Those of a port with
// work end at its d.ends and begin where those of the port with work before it end.
func (d *domain) sortByPort(arrivals []arrival, work []uint64) {
	ends := d.ends
	for i := range arrivals {
		u := arrivals[i].port - d.low
		ends[u]++
		work[u/64] |= 1 << (u % 64)
	}
	at := int32(0)
	for i, word := range work {
		for ; word != 0; word &= word - 1 {
			u := i*64 + bits.TrailingZeros64(word)
			ends[u], at = at, at+ends[u]
		}
	}
	d.sorted, d.taken = slices.Grow(d.sorted[:0], len(arrivals))[:len(arrivals)], 0
	sorted := d.sorted
	for i := range arrivals {
		a := &arrivals[i]
		u := a.port - d.low
		sorted[ends[u]] = *a
		ends[u]++
	}
}

// arrivalsOf returns what arrives at a port in the present window, in order. It is called for each port with work, in
// their order.
func (d *domain) arrivalsOf(u int32) []arrival {
	in := d.sorted[d.taken:d.ends[u]]
	d.taken, d.ends[u] = d.ends[u], 0
	sortArrivals(in)
	return in
}

// slotAt returns the slot of the window of a time, which is not before the present window; false if that is in a later
// block.
func (d *domain) slotAt(atPS int64) (slot uint64, ok bool) {
	ahead := uint64(atPS - d.startPS)
	w, _ := bits.Mul64(ahead, d.perWindow)
	if w*uint64(d.lengthPS) > ahead { // perWindow is rounded up
		w--
	}
	w += uint64(d.window)
	return w % blockWindows, w/blockWindows == d.block
}

// arrivalsAt returns the arrivals in the window of a time, to add to them in a loop that takes no call for most; nil if
// that is in a later block or has no work yet.
func (d *domain) arrivalsAt(atPS int64) *[]arrival {
	slot, ok := d.slotAt(atPS)
	if !ok || d.busy>>slot&1 == 0 {
		return nil
	}
	return &d.windows[slot].arrivals
}

// workIn returns the work of a slot's window, to add to it.
func (d *domain) workIn(slot uint64) *windowWork {
	if d.busy>>slot&1 == 0 {
		d.begin(slot)
	}
	return &d.windows[slot]
}

// schedule schedules work for a port at a time.
func (d *domain) schedule(u int32, atPS int64) {
	if slot, ok := d.slotAt(atPS); ok {
		d.workIn(slot).ports[uint64(u)/64] |= 1 << (uint64(u) % 64)
	} else {
		d.pushLater(arrival{item: item{atPS: atPS, hop: laterPort}, port: u})
	}
}

// begin gives a slot the memory that was used last, which is in the cache.
func (d *domain) begin(slot uint64) {
	d.busy |= 1 << slot
	if last := len(d.unused) - 1; last >= 0 {
		d.windows[slot], d.unused = d.unused[last], d.unused[:last]
		return
	}
	d.windows[slot] = windowWork{ports: make([]uint64, (len(d.ports)+63)/64)}
}

// insert adds what will arrive at a port of this domain.
func (d *domain) insert(a arrival) {
	if slot, ok := d.slotAt(a.atPS); ok {
		w := d.workIn(slot)
		w.arrivals = append(w.arrivals, a)
	} else {
		d.pushLater(a)
	}
}

// forward sends what has left a port of a kind to the next.
func (d *domain) forward(p *port, k *portKind, a arrival) {
	if p.bits&portNear != 0 {
		d.insert(a)
		return
	}
	box := &d.out[k.far]
	*box = append(*box, a)
	d.mailPS = min(d.mailPS, a.atPS)
}

// A laterBlock is the work of a block of windows: arrivals, or, with hop laterPort, the time when a port has something
// to do.
type laterBlock struct {
	number  uint64
	firstPS int64 // the earliest time among them
	work    []arrival
}

const laterPort = -1

func (d *domain) pushLater(a arrival) {
	number := uint64(a.atPS / (blockWindows * d.lengthPS))
	i, found := d.recent, d.recent < len(d.later) && d.later[d.recent].number == number
	if !found {
		i, found = slices.BinarySearchFunc(d.later, number, func(b laterBlock, number uint64) int {
			return cmp.Compare(b.number, number)
		})
		d.recent = i
	}
	if !found {
		d.later = slices.Insert(d.later, i, laterBlock{number, a.atPS, d.spare})
		d.spare = nil
	}
	b := &d.later[i]
	b.firstPS = min(b.firstPS, a.atPS)
	b.work = append(b.work, a)
}
