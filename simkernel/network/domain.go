package network

import (
	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// A domain is a part of the network's nodes with their ports, simulated by one worker at a time.
type domain struct {
	net *Network
	id  int32
	rules
	calendar.Calendar
	portTable
	parts
	sorter  calendar.Sorter
	mail    mail
	pool    flowPool
	journal journal
	_       [64]byte // the next domain belongs to another worker
}

// parts are the features of a network in one domain. A feature that the network does not use is nil. The
// package comment lists the points at which each is called.
type parts struct {
	classes    *classQueues
	buffers    *sharedBuffers
	pfc        *pausing
	recovery   *retransmission
	tcp        *ackClocking
	paths      *forwarding
	deliveries *deliveryWatch
}

// init creates the parts that the network uses.
func (x *parts) init(d *domain) {
	n := d.net
	if n.classes != nil {
		x.classes = &classQueues{domain: d, turns: len(n.classes) > 1}
	}
	if n.buffers != nil {
		x.buffers = &sharedBuffers{domain: d}
	}
	if n.pausers != nil {
		x.pfc = &pausing{domain: d}
	}
	if n.recovery != nil {
		x.recovery = &retransmission{domain: d, net: n.recovery}
	}
	if n.traits.AckClocked {
		x.tcp = &ackClocking{domain: d}
	}
	if n.paths != nil {
		x.paths = &forwarding{domain: d, net: n.paths}
	}
	if n.frontier != nil {
		x.deliveries = &deliveryWatch{domain: d}
	}
}

// rules are the properties of the network that the simulation of each packet checks. They are the same in all
// domains.
type rules struct {
	traits              simkernel.Traits
	leastTickPS         int64  // from an ACK to the first tick of a timer that it starts
	againMask           uint32 // bits of items that are set in a packet that is retransmitted
	passMask, passNot   uint32 // packets with bits&passMask != passNot are counted in port.passes
	lateMask, lateNot   uint32 // counts of packets with bits&lateMask != lateNot are settled between epochs
	tagMask             uint32 // bits of items for the balance
	numberShift         uint8  // of items: where the number of a packet begins
	fullBytes, ackBytes int64  // on the wire
}

// setRules sets the rules that depend on the parts of the network.
func (n *Network) setRules() {
	r := &n.rules
	if n.recovery != nil {
		moved := n.paths.selective()
		n.recovery.irn = n.buffer.Selective && !n.traits.AckClocked && !moved
		n.recovery.selective = n.recovery.irn || moved
		r.againMask = calendar.AttemptMask
		r.lateMask = calendar.AttemptMask
	}
	if n.traits.Timers {
		s := simkernel.NewSender(n.params.Transport)
		s.Start(&n.params, simkernel.Limits{LineBps: simkernel.MinBps, WindowBytes: 1})
		s.OnAck(&n.params, &simkernel.AckInfo{Marked: true})
		r.leastTickPS = s.NextTick()
	}
	if n.paths != nil { // the packets of a flow meet ports of several domains at the same hop
		r.lateMask, r.lateNot, r.tagMask = calendar.FlagAck, calendar.FlagAck, n.paths.tagMask()
	}
	r.setPasses(len(n.classes) > 1)
}

// setPasses sets passMask and passNot so that they select all packets, or those that lateMask selects.
func (r *rules) setPasses(all bool) {
	if all {
		r.passMask = 0
		r.passNot = 1
		return
	}
	r.passMask = r.lateMask
	r.passNot = r.lateNot
}

// A portTable has the ports of a domain, and memory to serve one at a time.
type portTable struct {
	low                     int32  // they are net.ports[low:]
	ports                   []port // those of switches, by node, and then those of hosts
	first                   int32  // index in ports of the first of a host
	nics                    []nic
	in                      []calendar.Arrival
	dataScratch, ackScratch calendar.Fifo
	ackInfo                 simkernel.AckInfo
}

// mail has the packets for ports of other domains.
type mail struct {
	// to has, by domain, the calendar that accepts arrivals there, or mailed, which has no room, if they are
	// mailed. The calendar of another domain is never in toOwn, because another worker may be using it.
	to, toOwn []*calendar.Calendar
	// outbox[step % 2][domain] is read in the next step, while this domain fills the other half.
	outbox    [2][][]calendar.Arrival
	out       [][]calendar.Arrival // the half that is filled
	mailPS    int64                // the earliest arrival in it
	neighbors []int32              // domains that it shares cables with
}

// A journal has the data that a domain leaves for the coordinator, which reads it between epochs.
type journal struct {
	results  resultPart
	finished []finish // with recovery: flows delivered in this epoch
	late     []lateStat
	gone     []int32 // with recovery: the slots of packets and ACKs that have left the network in this epoch
	losses   Losses
	storming int64 // packets of senders that retransmit each packet more than stormRatio times
	work     int64 // items processed in this epoch
}

// Begin implements workers.Domain: it takes what neighbors sent in the last step.
func (d *domain) Begin(step, fromPS int64) {
	d.SetWindow(fromPS)
	d.mail.mailPS = never
	d.mail.out = d.mail.outbox[step&1]
	d.mail.to = d.mail.toOwn
	if d.net.alone {
		d.mail.to = d.net.calendars
	}
	for _, i := range d.mail.neighbors {
		d.mail.out[i] = d.mail.out[i][:0]
		for _, a := range d.net.domains[i].mail.outbox[step&1^1][d.id] {
			w := d.RoomAt(a.AtPS)
			if w != nil {
				*w = append(*w, a)
			} else {
				d.Insert(a)
			}
		}
	}
}

// Neighbors implements workers.Domain.
func (d *domain) Neighbors() []int32 { return d.mail.neighbors }

// TakeWork implements workers.Domain.
func (d *domain) TakeWork() int64 {
	work := d.journal.work
	d.journal.work = 0
	return work
}

// Run implements workers.Domain: it simulates the domain to toPS.
func (d *domain) Run(toPS int64) {
	for _, f := range d.pool.starting {
		d.admit(f)
	}
	d.pool.starting = d.pool.starting[:0]
	for {
		nextPS := d.NextPS()
		if nextPS >= toPS {
			return
		}
		d.SetWindow(nextPS)
		d.runWindow()
	}
}

// runWindow simulates the current window.
func (d *domain) runWindow() {
	work, some := d.Take()
	if !some {
		return
	}
	arrivals := work.Arrivals
	d.journal.work += int64(len(arrivals))
	if d.paths != nil {
		arrivals = d.paths.choosePorts(arrivals, work.Ports)
	}
	if d.pfc != nil {
		arrivals = d.pfc.takeToggles(arrivals, work.Ports)
	}
	d.sorter.SortByPort(arrivals, work.Ports)
	for g := range calendar.DueHosts {
		due := d.sorter.DueOf(g)
		if d.buffers == nil {
			d.runPorts(due)
		} else {
			for len(due) > 0 {
				due = due[d.buffers.runNode(&d.net.buffers[d.ports[due[0].Port].node], due):]
			}
		}
	}
	for g := range calendar.DueHosts {
		d.runNICs(d.sorter.DueOf(calendar.DueHosts + g))
	}
	d.Reuse(work)
}

// forward sends an item to a port of a domain.
func (d *domain) forward(far int32, a calendar.Arrival) {
	c := d.mail.to[far]
	if c != &d.net.mailed {
		c.Insert(a)
		return
	}
	box := &d.mail.out[far]
	*box = append(*box, a)
	d.mail.mailPS = min(d.mail.mailPS, a.AtPS)
}
