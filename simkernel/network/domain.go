package network

import "parsimon/simkernel"

// A domain is a part of the network's nodes with their ports, simulated by one worker at a time.
type domain struct {
	net *Network
	id  int32
	rules
	calendar
	portTable
	sorter
	mail
	pool flowPool
	journal
	pathMemory
	sharing
	_ [64]byte // the next domain is another worker's
}

// rules are what each packet asks of its network. They are the same in all domains.
type rules struct {
	telemetry           bool   // switches write telemetry into packets
	shared              bool   // switches have one queue for ACKs and data
	random              bool   // marks are random
	ticks               bool   // senders have timers
	limited             bool   // switches have limited buffers
	lossless            bool   // with PFC
	classed             bool   // ports have queues by class
	turns               bool   // of several classes
	recovers            bool   // senders recover from losses
	selective           bool   // receivers of transports with a rate take packets in any order
	irn                 bool   // senders recover as IRN
	clocked             bool   // senders are clocked by ACKs; they recover, too
	foresees            bool   // flows wait for others
	plain               bool   // of NICs: see runNICs
	leastTickPS         int64  // from an ACK to the first tick of a timer that it starts
	againMask           uint32 // bits of items that are set in a packet that is sent again
	passMask, passNot   uint32 // domain.passes counts packets with bits&passMask != passNot
	lateMask, lateNot   uint32 // what packets with bits&lateMask != lateNot meet is counted between epochs
	tagMask             uint32 // bits of items for the balance (moves.go)
	numberShift         uint8  // of items: where the number of a packet begins
	fullBytes, ackBytes int64  // on the wire
}

// setRules sets the rules, all but those that New and what it is prepared for have set.
func (n *Network) setRules() {
	r := &n.rules
	r.shared, r.random, r.telemetry = n.traits.AcksQueue, n.traits.RandomMarks, n.traits.Telemetry
	r.lossless, r.clocked, r.classed = n.pausers != nil, n.traits.AckClocked, n.classes != nil
	r.limited, r.recovers, r.ticks = n.buffers != nil, n.recovery != nil, n.traits.Timers
	moved := n.moves.selective()
	r.irn = n.buffer.Selective && !r.clocked && !moved
	r.selective = r.irn || moved
	r.foresees = n.frontier != nil
	r.plain = !r.classed && !r.clocked
	if r.ticks {
		s := simkernel.NewSender(n.params.Transport)
		s.Start(&n.params, simkernel.Limits{LineBps: simkernel.MinBps, WindowBytes: 1})
		s.OnAck(&n.params, &simkernel.AckInfo{Marked: true})
		r.leastTickPS = s.NextTick()
	}
	r.turns = len(n.classes) > 1
	if r.recovers {
		r.againMask, r.lateMask = attemptMask, attemptMask
	}
	if n.moves != nil { // the packets of a flow meet ports of several domains at the same hop
		r.lateMask, r.lateNot, r.tagMask = flagAck, flagAck, n.moves.tagMask()
	}
	r.setPasses(r.turns)
}

// setPasses sets passMask and passNot to those of late packets, or of all.
func (r *rules) setPasses(all bool) {
	if r.passMask, r.passNot = r.lateMask, r.lateNot; all {
		r.passMask, r.passNot = 0, 1
	}
}

// A portTable is the ports of a domain, and memory to serve one at a time.
type portTable struct {
	low                     int32  // they are net.ports[low:]
	ports                   []port // those of switches, by node, and then those of hosts
	first                   int32  // index in ports of the first of a host
	nics                    []nic
	in                      []arrival
	dataScratch, ackScratch fifo
	ackInfo                 simkernel.AckInfo
}

// mail is the packets for ports of other domains.
type mail struct {
	// to has by domain the calendar that takes what will arrive there; mailed, which has no room, if this is mailed.
	// Another domain's is never in toOwn, for another worker may be in it.
	to, toOwn []*calendar
	// outbox[step % 2][domain] is read in the next step, while this domain fills the other half.
	outbox    [2][][]arrival
	out       [][]arrival // the half that is filled
	mailPS    int64       // the earliest arrival in it
	neighbors []int32     // domains that it shares cables with
}

// A journal is what a domain leaves to the coordinator, which reads it between epochs.
type journal struct {
	results  resultPart
	foreseen []delivery // of flows in this epoch, if flows wait for others
	coming   []arrival  // at hosts, in this epoch, if paths move, too
	finished []finish   // with recovery: flows delivered in this epoch
	late     []lateStat
	gone     []int32 // with recovery: the slots of packets and ACKs that have left the network in this epoch
	losses   Losses
	storming int64 // packets that senders sent again after more than stormRatio for each of theirs
	work     int64 // items processed in this epoch
}

// beginStep takes what neighbors sent in the last one.
func (d *domain) beginStep(step, fromPS int64) {
	d.setWindow(fromPS / d.lengthPS)
	d.mailPS = never
	d.out, d.to = d.outbox[step&1], d.toOwn
	if d.net.alone {
		d.to = d.net.calendars
	}
	for _, i := range d.neighbors {
		d.out[i] = d.out[i][:0]
		for _, a := range d.net.domains[i].outbox[step&1^1][d.id] {
			if w := d.roomAt(a.atPS); w != nil {
				*w = append(*w, a)
			} else {
				d.insert(a)
			}
		}
	}
}

// run simulates the domain to toPS.
func (d *domain) run(toPS int64) {
	for _, f := range d.pool.starting {
		d.admit(f)
	}
	d.pool.starting = d.pool.starting[:0]
	for {
		nextPS := d.nextPS()
		if nextPS >= toPS {
			return
		}
		d.setWindow(nextPS / d.lengthPS)
		d.runWindow()
	}
}

// runWindow simulates the present window.
func (d *domain) runWindow() {
	slot := uint64(d.window) % blockWindows
	if d.busy>>slot&1 == 0 {
		return
	}
	present := d.windows[slot]
	arrivals := present.arrivals
	d.busy &^= 1 << slot
	d.windows[slot] = windowWork{}
	d.work += int64(len(arrivals))
	if d.moves != nil {
		arrivals = d.choosePorts(arrivals, present.ports)
	}
	if d.lossless {
		arrivals = d.takeToggles(arrivals, present.ports)
	}
	d.sortByPort(arrivals, present.ports)
	for g := range dueHosts {
		if due := d.dueOf(g); !d.limited {
			d.runPorts(due)
		} else {
			for len(due) > 0 {
				due = due[d.runNode(&d.net.buffers[d.ports[due[0].port].node], due):]
			}
		}
	}
	for g := range dueHosts {
		d.runNICs(d.dueOf(dueHosts + g))
	}
	d.unused = append(d.unused, windowWork{present.arrivals[:0], present.ports})
}

// forward sends what will arrive at a port of a domain.
func (d *domain) forward(far int32, a arrival) {
	if c := d.to[far]; c != &d.net.mailed {
		c.insert(a)
		return
	}
	box := &d.out[far]
	*box = append(*box, a)
	d.mailPS = min(d.mailPS, a.atPS)
}
