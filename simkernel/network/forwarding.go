package network

import (
	"cmp"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// Forwarding describes how switches forward packets if they do more than follow the paths of Flows: they
// balance loads, and cables fail, lose packets or change their rate.
//
// The first path of a flow is that of Flows. Each switch sends a data packet over the next link of that path
// (ECMP), or over a link that Balance chooses among those that lead nearer to the destination. ACKs return
// over the links of the first path. If a switch's link of the first path no longer leads anywhere, the switch
// uses another link of Routes, chosen by weighted rendezvous hashing of flow and link. A sender stays at the
// NIC of its first path.
type Forwarding struct {
	Seed   uint64
	Routes Routes
	Balancing
	faults.Failures
}

// Routes are the routing tables of switches. They do not change during Run.
type Routes interface {
	// Links returns the links of a switch that lead nearer to a host, and the number of their set, 0 to
	// Sets() - 1. Different sets have different numbers. Without a route there are no links.
	Links(state int, node, host int32) (set int32, links []int32)
	Sets() int
	// Starts returns the times at which the states come into force, in ascending order. The first is 0.
	Starts() (ns []int64)
}

// paths is the state of Forwarding.
type paths struct {
	Forwarding
	startPS  []int64 // of the routes' states
	balance  balancing
	failures *faults.State
	traffic  []LinkTraffic   // by link: BusyNS is in ps, WaitNS not set
	waits    []simkernel.Sum // by link: of its packets, in ps
}

// forwarding chooses the ports of packets in a domain.
type forwarding struct {
	domain        *domain
	net           *paths
	flowlets      map[flowletKey]flowlet
	flowletsUntil int // how many there can be until those that have ended are removed
	remote        map[congaKey]congaMetric
	unavoided     []int32 // scratch
}

// Forward sets how switches forward packets. It must be called before Run. Senders then recover from losses,
// even with unlimited buffers. The caller must have checked the values: bursts, rates and delays are in
// range, one of Balance and At is ECMP, At has neither balances of senders nor of whole paths, and packets of
// a transport with telemetry are not sprayed.
func (n *Network) Forward(f Forwarding) {
	if f.At == nil {
		f.At = slices.Repeat([]Balance{f.Balance}, len(n.host))
	}
	links := len(n.links)
	n.paths = &paths{
		Forwarding: f,
		traffic:    slices.Repeat([]LinkTraffic{{SlotNS: 1000}}, links),
		waits:      make([]simkernel.Sum, links),
	}
	n.paths.balance = balancing{
		Balancing: &n.paths.Balancing,
		seed:      f.Seed,
		busyPS:    make([]int64, links),
		pauses:    make([]int32, links),
		sincePS:   make([]int64, links),
		turns:     make([]uint32, f.Routes.Sets()),
		rate:      make([]dre, links),
	}
	bps := make([]int64, links)
	for l, link := range n.links {
		bps[l] = link.BandwidthBps
	}
	n.paths.failures = faults.New(&n.paths.Failures, f.Seed, bps)
	for _, ns := range f.Routes.Starts() {
		n.paths.startPS = append(n.paths.startPS, faults.PS(ns))
	}
	if n.recovery == nil {
		n.recover()
	}
	if n.paths.tagMask() != 0 {
		n.numberShift += calendar.TagBits
	}
}

// LoadSlots is the maximum number of time slots in which the bytes of a link are counted.
const LoadSlots = 128

// LinkTraffic counts the data packets of a link of a network with Forwarding.
type LinkTraffic struct {
	Sent      int64
	SentBytes [LoadSlots]int64 // with headers, by slot of SlotNS, which is doubled when there are not enough
	SlotNS    int64
	Lost      int64   // on the link, or because there was no route behind it
	WaitNS    float64 // whole: sum of the waits for the link
	BusyNS    int64   // time in which they were sent
}

// send counts a packet whose last byte left at leftPS and whose transmission took tookPS.
func (m *LinkTraffic) send(leftPS, bytes, tookPS int64) {
	slot := leftPS / simkernel.PSPerNS / m.SlotNS
	for ; slot >= LoadSlots; slot /= 2 {
		for i, sum := range m.SentBytes {
			m.SentBytes[i] = 0
			m.SentBytes[i/2] += sum
		}
		m.SlotNS *= 2
	}
	m.SentBytes[slot] += bytes
	m.Sent++
	m.BusyNS += tookPS
}

// Traffic returns the packets and bytes that a link has sent, after Run of a network with Forwarding.
func (n *Network) Traffic(link int32) LinkTraffic {
	t := n.paths.traffic[link]
	t.WaitNS = n.paths.waits[link].PSToNS().Float64()
	t.BusyNS /= simkernel.PSPerNS
	return t
}

// choosePorts processes the arrivals of a window in order of time. It removes lost packets and ACKs, and
// chooses the port for arrivals at a switch. A host receives its data here, regardless of the link. The
// remaining arrivals are the ACKs that its NIC must send (arrival.IsAnswer).
func (w *forwarding) choosePorts(arrivals []calendar.Arrival, work *calendar.PortSet) []calendar.Arrival {
	d := w.domain
	d.sorter.SortWindow(arrivals, d.StartPS, d.LengthPS)
	kept := arrivals[:0]
	for _, a := range arrivals {
		if a.IsControl() {
			w.net.balance.notePause(&a)
			kept = append(kept, a)
			continue
		}
		of := &w.net.traffic[a.Link]
		data := a.Bits&calendar.FlagAck == 0
		if data {
			leftPS := w.leftPS(&a)
			bytes := d.wireBytes(&a.Item)
			of.send(leftPS, bytes, w.net.failures.SendTime(a.Link, bytes, leftPS))
		}
		if !w.choosePort(&a) {
			d.journal.gone = append(d.journal.gone, d.net.flows.hops[a.Hop].flow)
			if data {
				d.journal.losses.Lost++
				of.Lost++
			}
			continue
		}
		if data && d.net.host[d.net.links[a.Link].DstNode] {
			if d.tcp != nil { // the ACK waits in the NIC, if at all
				u := a.Port - d.low
				d.tcp.receiveClocked(&d.nics[u-d.first], &a.Item, &d.ports[u].data)
				work.Add(u)
				continue
			}
			if !d.recovery.receiveInOrder(&a.Item) {
				continue
			}
			a.Link |= calendar.AnswerBit
		}
		kept = append(kept, a)
	}
	return kept
}

// leftPS returns when the last byte of what arrives was sent.
func (w *forwarding) leftPS(a *calendar.Arrival) int64 {
	return w.net.failures.LeftPS(a.Link, w.domain.net.links[a.Link].DelayNS, a.AtPS)
}

// isLost reports whether an arrival over a link was lost on it.
func (w *forwarding) isLost(a *calendar.Arrival, key uint64, by faults.Asker) bool {
	return w.net.failures.IsLost(&faults.Transit{
		Link: a.Link, Key: key, Bytes: w.domain.wireBytes(&a.Item), LeftPS: w.leftPS(a), ArrivesPS: a.AtPS,
	}, by)
}

// choosePort chooses the port for an arrival over a link, and reports whether the arrival was not lost. A
// packet's index of flowTable.hops stays within those of its flow's first path, even if its path is longer.
func (w *forwarding) choosePort(a *calendar.Arrival) bool {
	d := w.domain
	n := d.net
	t := &d.net.flows
	m := w.net.failures
	b := &w.net.balance
	slot := t.hops[a.Hop].flow
	node := n.links[a.Link].DstNode
	ack := a.Bits&calendar.FlagAck != 0
	info := &t.info[slot]
	first := info.firstHop
	last := info.firstHop + info.hops
	if m.CanLose(a.Link) && w.isLost(a, info.key, faults.Arriving) {
		return false
	}
	if n.host[node] {
		a.Hop = last
		a.Port = n.portOf[a.Link^1]
		if ack {
			a.Hop = first
			a.Port = t.hops[first].to[backward]
		}
		return true
	}
	host := n.ports[t.hops[last-1].to[forward]].node
	if ack {
		a.Hop = max(a.Hop, first+1)
		host = n.ports[t.hops[first].to[backward]].node
	} else {
		a.Hop = min(a.Hop, last-1)
	}
	onFirst := n.ports[a.Port].node == node // the packet is on the first path
	state := 0
	for state+1 < len(w.net.startPS) && w.net.startPS[state+1] <= a.AtPS {
		state++
	}
	if !onFirst || state > 0 || !ack && b.At[node] != ECMP || m.Avoids(n.ports[a.Port].link, a.AtPS) {
		set, links := w.net.Routes.Links(state, node, host)
		links = w.repaired(links, a.AtPS)
		if len(links) == 0 {
			return false
		}
		stays := int32(-1)
		if onFirst && slices.Contains(links, n.ports[a.Port].link) {
			stays = n.ports[a.Port].link
		}
		a.Port = n.portOf[b.choose(d, a, info, set, links, stays)]
	}
	if b.Balance == CONGA {
		b.measure(d, a)
	}
	if b.At[node] == Adaptive || b.Balance == CONGA {
		busyPS := max(b.busyPS[a.Port], b.clock(a.Port, a.AtPS))
		link := n.ports[a.Port].link
		b.busyPS[a.Port] = busyPS + m.SendTime(link, d.wireBytes(&a.Item), busyPS)
	}
	return true
}

// repaired returns the links of a switch except those that it avoids.
func (w *forwarding) repaired(links []int32, atPS int64) []int32 {
	if w.net.RepairNS == 0 {
		return links
	}
	avoided := func(l int32) bool { return w.net.failures.Avoids(l, atPS) }
	w.unavoided = slices.DeleteFunc(append(w.unavoided[:0], links...), avoided)
	return w.unavoided
}

// label stores in a packet that a host sends the data that switches need.
func (w *forwarding) label(slot int32, s *sender, it *calendar.Item) {
	d := w.domain
	if d.tagMask != 0 {
		it.Bits |= d.net.recovery.flows[slot].plb.label << recoveryShift & d.tagMask
	}
	if d.traits.Telemetry { // the path may be shorter than that of the packet before, which had the same place
		clear(s.external.telemetryOf(&d.rules, it.Bits))
	}
}

// adopt applies a change to a link.
func (l *Link) adopt(r *faults.Rate) {
	l.BandwidthBps = cmp.Or(r.BandwidthBps, l.BandwidthBps)
	l.DelayNS = cmp.Or(r.DelayNS, l.DelayNS)
}

// initRates schedules the first change of a port's rate.
func (m *paths) initRates(n *Network, p *port) {
	link := n.links[p.link]
	rates := m.failures.RatesOf(p.link)
	for i := range rates {
		link.adopt(&rates[i])
		n.kindOf(link)
		p.bits |= portChanges
	}
	if p.bits&portChanges != 0 {
		p.rateAtPS = faults.PS(rates[0].FromNS)
		p.changeAtPS = p.rateAtPS
	}
}

// changeRate applies the change of a port's rate that is due at p.rateAtPS.
func (w *forwarding) changeRate(p *port) {
	nowPS := p.rateAtPS
	rates := w.net.failures.RatesOf(p.link)
	p.kind = w.kindAt(p.link, nowPS)
	p.rateAtPS = never
	next := slices.IndexFunc(rates, func(r faults.Rate) bool { return faults.PS(r.FromNS) > nowPS })
	if next >= 0 {
		p.rateAtPS = faults.PS(rates[next].FromNS)
		p.changeAtPS = p.rateAtPS
		p.bits |= portChanges
	}
}

// kindAt returns the kind of a link's port at a time.
func (w *forwarding) kindAt(id int32, atPS int64) *portKind {
	d := w.domain
	link := d.net.links[id]
	rates := w.net.failures.RatesOf(id)
	for i := 0; i < len(rates) && faults.PS(rates[i].FromNS) <= atPS; i++ {
		link.adopt(&rates[i])
	}
	return d.net.kinds[d.net.kind(link)]
}

// worst returns a link with the lowest bandwidth and the longest delay that the link has at any time.
func (n *Network) worst(link int32) Link {
	l := n.links[link]
	if n.paths != nil {
		for _, r := range n.paths.failures.RatesOf(link) {
			l.BandwidthBps = min(l.BandwidthBps, cmp.Or(r.BandwidthBps, l.BandwidthBps))
			l.DelayNS = max(l.DelayNS, r.DelayNS)
		}
	}
	return l
}
