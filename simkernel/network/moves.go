package network

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
)

// Moves are what changes the paths of packets while a network runs: the choice of a link for each packet, and cables
// that go down, lose packets or change their rate.
//
// A flow's first path is that of Flows. At every switch a data packet is sent over the next link of that path (ECMP),
// or over one that Balance chooses of the links that lead nearer to its destination. ACKs return over the links of the
// first path. What reaches a switch whose link of the first path leads nowhere any more takes another one of those that
// Routes have, by weighted rendezvous hashing of flow and link. A sender stays at the NIC of its first path.
type Moves struct {
	Balance Balance
	GapNS   int64 // of Flowlet: a pause of more than this at a switch begins a new flowlet
	Seed    uint64
	Weights []float64 // by link, of the choice between routes of a flow; nil: all equal
	Routes  Routes
	Faults  []Fault
	Rates   []Rate
}

// A Balance is how a switch chooses a link for a data packet.
type Balance uint8

// The balances. All but ECMP reorder packets: receivers accept them in any order then.
const (
	// ECMP keeps a flow on its first path.
	ECMP Balance = iota
	// Flowlet chooses at random for each flowlet (LetFlow: Vanini et al., NSDI'17); the first keeps to the first path.
	Flowlet
	// Spray takes the links of a switch in turn.
	Spray
	// Adaptive takes the link whose port would be idle first, of equals the next in turn. What is dropped or paused there
	// counts as if it were sent.
	Adaptive
)

// Routes are the routing tables of switches. They do not change during Run.
type Routes interface {
	// Links returns the links of a switch that lead nearer to a host, and the number of their set, 0 to Sets() - 1; sets
	// of different links have different numbers. No links: there is no route.
	Links(state int, node, host int32) (set int32, links []int32)
	Sets() int
	// Starts returns when the states come into force, in ascending order, the first at 0.
	Starts() (ns []int64)
}

// A Fault is a time in which a link loses packets. With Share 1 the link is down: what is on it at any time in
// [FromNS, ToNS) is lost. Else a packet whose transmission starts then is lost with probability Share.
type Fault struct {
	Link         int32
	FromNS, ToNS int64
	Share        float64
}

// A Rate is the bandwidth of a link from a time on, at most that of the network's link.
type Rate struct {
	Link         int32
	FromNS       int64
	BandwidthBps int64
}

// recoverNS is the least retransmission timeout of a network with Moves and unlimited buffers: the InfiniBand local
// ACK timeout of exponent 10, 4.096 µs × 2^10.
const recoverNS = 4_194_304

// moves is the state of Moves.
type moves struct {
	Moves
	startPS []int64   // of the routes' states
	faults  [][]Fault // by link, in order of time; nil where there is none
	rates   [][]Rate
	busyPS  []int64     // Adaptive, by port: when it has sent all that has arrived, ACKs too
	turns   []int32     // by set of links: the place of the next in turn
	links   []LinkMoves // times are in ps
}

// A flowlet is the last packet of a flow at a switch, and where it went.
type flowlet struct {
	atPS int64
	link int32
}

type flowletKey struct {
	row  int64
	node int32
}

// Move makes the paths of the network's packets change. It is called before Run. Senders recover from losses then, also
// with unlimited buffers.
func (n *Network) Move(m Moves) error {
	if n.traits.Telemetry {
		return fmt.Errorf("transport %v compares what switches report of one path: paths cannot move", n.params.Transport)
	}
	if n.buffer.PFC {
		return errors.New("PFC counts packets by the links of their flows' paths: paths cannot move")
	}
	if n.traits.AckClocked {
		return fmt.Errorf("transport %v takes packets that overtake each other for losses: paths cannot move",
			n.params.Transport)
	}
	links := len(n.links)
	v := &moves{Moves: m, faults: make([][]Fault, links), rates: make([][]Rate, links), busyPS: make([]int64, links),
		links: make([]LinkMoves, links), turns: make([]int32, m.Routes.Sets())}
	for _, ns := range m.Routes.Starts() {
		v.startPS = append(v.startPS, psOf(ns))
	}
	for _, f := range m.Faults {
		if f.Link < 0 || int(f.Link) >= len(n.links) || f.ToNS <= f.FromNS || !(f.Share > 0 && f.Share <= 1) {
			return fmt.Errorf("link %d loses %v of the packets from %d to %d ns: no such link, time or share", f.Link, f.Share,
				f.FromNS, f.ToNS)
		}
		v.faults[f.Link] = append(v.faults[f.Link], f)
	}
	for _, r := range m.Rates {
		if r.Link < 0 || int(r.Link) >= len(n.links) || r.BandwidthBps < simkernel.MinBps ||
			r.BandwidthBps > n.links[r.Link].BandwidthBps {
			return fmt.Errorf("link %d has %d bps from %d ns on: no such link, or not 10,000 bps to its bandwidth", r.Link,
				r.BandwidthBps, r.FromNS)
		}
		v.rates[r.Link] = append(v.rates[r.Link], r)
	}
	for l := range n.links {
		slices.SortStableFunc(v.faults[l], func(a, b Fault) int { return cmp.Compare(a.FromNS, b.FromNS) })
		slices.SortStableFunc(v.rates[l], func(a, b Rate) int { return cmp.Compare(a.FromNS, b.FromNS) })
	}
	n.moves = v
	if n.recovery == nil {
		n.recovery = &recovery{net: n}
	}
	return nil
}

// psOf is a time of Moves in ps; what is not within the horizon is never.
func psOf(ns int64) int64 {
	if ns >= horizonPS/simkernel.PSPerNS {
		return never
	}
	return ns * simkernel.PSPerNS
}

// LinkMoves counts the data packets of a link of a network with Moves.
type LinkMoves struct {
	Sent      int64
	SentBytes int64 // with headers
	Lost      int64 // on the link, or because there was no route behind it
	WaitNS    int64 // sum of the waits for the link
	BusyNS    int64 // time in which they were sent
}

// Moved returns what a link has sent, after Run of a network with Moves.
func (n *Network) Moved(link int32) LinkMoves {
	m := n.moves.links[link]
	m.WaitNS, m.BusyNS = m.WaitNS/simkernel.PSPerNS, m.BusyNS/simkernel.PSPerNS
	return m
}

// selective reports whether receivers accept packets in any order, and senders resend only what was not received.
func (m *moves) selective() bool { return m != nil && m.Balance != ECMP }

// choosePorts is the part of runWindow that depends on Moves. In order of time it removes what was lost, gives what
// arrives at switches a port, and turns data that arrives at hosts, over any of their links, into ACKs, whose link is
// then below 0.
func (d *domain) choosePorts(arrivals []arrival) []arrival {
	slices.SortStableFunc(arrivals, compareArrivals)
	kept := arrivals[:0]
	for _, a := range arrivals {
		if a.link == startLink {
			kept = append(kept, a)
			continue
		}
		of, data := &d.moves.links[a.link], a.bits&flagAck == 0
		if data {
			of.Sent++
			of.SentBytes += d.wireBytes(&a.item)
			of.BusyNS += d.moves.sendTime(d.net, a.link, d.wireBytes(&a.item), d.leftPS(&a))
		}
		if !d.choosePort(&a) {
			d.gone = append(d.gone, d.net.flows.hops[a.hop].flow)
			if data {
				d.losses.Lost++
				of.Lost++
			}
			continue
		}
		if data && d.net.host[d.net.links[a.link].DstNode] {
			if !d.receiveInOrder(&a.item) {
				continue
			}
			a.link = ^a.link
		}
		kept = append(kept, a)
	}
	return kept
}

// leftPS returns when the last byte of what arrives was sent.
func (d *domain) leftPS(a *arrival) int64 {
	return a.atPS - d.net.links[a.link].DelayNS*simkernel.PSPerNS
}

// choosePort chooses the port of what arrives over a link; false if it is lost. A packet's place among the hops of its
// flow stays within those of the first path, however long its own is.
func (d *domain) choosePort(a *arrival) bool {
	n, t, m := d.net, &d.net.flows, d.moves
	slot, node, ack := t.hops[a.hop].flow, n.links[a.link].DstNode, a.bits&flagAck != 0
	info := &t.info[slot]
	first, last := info.firstHop, info.firstHop+info.hops
	if m.faults[a.link] != nil && m.isLost(d, a, info.key) {
		return false
	}
	if n.host[node] {
		a.hop, a.port = last, n.portOf[a.link^1]
		if ack {
			a.hop, a.port = first, t.hops[first].backward
		}
		return true
	}
	host := n.ports[t.hops[last-1].forward].node
	if ack {
		a.hop, host = max(a.hop, first+1), n.ports[t.hops[first].backward].node
	} else {
		a.hop = min(a.hop, last-1)
	}
	onFirst := n.ports[a.port].node == node // the packet is on the first path
	state := 0
	for state+1 < len(m.startPS) && m.startPS[state+1] <= a.atPS {
		state++
	}
	if !onFirst || state > 0 || !ack && m.Balance != ECMP {
		set, links := m.Routes.Links(state, node, host)
		if len(links) == 0 {
			return false
		}
		stays := int32(-1)
		if onFirst && slices.Contains(links, n.ports[a.port].link) {
			stays = n.ports[a.port].link
		}
		a.port = n.portOf[m.choose(d, a, info, set, links, stays)]
	}
	if m.Balance == Adaptive {
		busyPS, link := max(m.busyPS[a.port], a.atPS), n.ports[a.port].link
		m.busyPS[a.port] = busyPS + m.sendTime(n, link, d.wireBytes(&a.item), busyPS)
	}
	return true
}

// choose chooses one of the links of a set. stays is that of the flow's first path; -1: it is not among them.
func (m *moves) choose(d *domain, a *arrival, info *flowInfo, set int32, links []int32, stays int32) int32 {
	switch {
	case len(links) == 1:
		return links[0]
	case a.bits&flagAck != 0 || m.Balance == ECMP:
		if stays >= 0 {
			return stays
		}
		return m.byHash(info.key, links)
	case m.Balance == Flowlet:
		return m.flowletLink(d, a, info, links, stays)
	}
	at := m.turns[set] % int32(len(links))
	if m.Balance == Adaptive {
		best := int64(never)
		for i := range links {
			k := (m.turns[set] + int32(i)) % int32(len(links))
			if wait := max(0, m.busyPS[d.net.portOf[links[k]]]-a.atPS); wait < best {
				at, best = k, wait
			}
		}
	}
	m.turns[set] = (at + 1) % int32(len(links))
	return links[at]
}

// flowletLink returns the link of a packet's flowlet.
func (m *moves) flowletLink(d *domain, a *arrival, info *flowInfo, links []int32, stays int32) int32 {
	node, gapPS := d.net.links[links[0]].SrcNode, psOf(m.GapNS)
	key := flowletKey{info.row, node}
	f, known := d.flowlets[key]
	if !known || a.atPS-f.atPS > gapPS || !slices.Contains(links, f.link) {
		number := uint64(a.bits >> flagBits)
		f.link = links[m.hash(info.key, number, node)%uint64(len(links))]
		if stays >= 0 && number == 0 {
			f.link = stays
		}
	}
	f.atPS = a.atPS
	if !known && len(d.flowlets) >= d.flowletsUntil { // what has ended is as if it were not known
		for k, old := range d.flowlets {
			if a.atPS-old.atPS > gapPS {
				delete(d.flowlets, k)
			}
		}
		d.flowletsUntil = max(1024, 2*len(d.flowlets))
	}
	if d.flowlets == nil {
		d.flowlets = map[flowletKey]flowlet{}
	}
	d.flowlets[key] = f
	return f.link
}

// byHash is weighted rendezvous hashing (Schindelhauer and Schomaker, SPAA'05): of hashes u in (0, 1) the link with the
// least -ln(u) / weight.
func (m *moves) byHash(key uint64, links []int32) int32 {
	best, least := links[0], math.Inf(1)
	for _, l := range links {
		weight := 1.0
		if m.Weights != nil {
			weight = m.Weights[l]
		}
		if x := -math.Log(unit(m.hash(key, 0, l))) / weight; x < least {
			best, least = l, x
		}
	}
	return best
}

func (m *moves) hash(key, number uint64, of int32) uint64 {
	return simkernel.MixKey(simkernel.MixKey(simkernel.MixKey(m.Seed, key), number), uint64(of))
}

// unit is a hash as a number in (0, 1).
func unit(hash uint64) float64 { return (float64(hash>>11) + 0.5) / (1 << 53) }

// isLost reports whether what arrives over a link was lost on it.
func (m *moves) isLost(d *domain, a *arrival, key uint64) bool {
	n := d.net
	leftPS := d.leftPS(a)
	fromPS := leftPS - m.sendTime(n, a.link, d.wireBytes(&a.item), leftPS)
	for i := range m.faults[a.link] {
		switch f := &m.faults[a.link][i]; {
		case psOf(f.FromNS) > a.atPS:
			return false
		case f.Share == 1:
			if psOf(f.ToNS) > fromPS {
				return true
			}
		case psOf(f.FromNS) <= fromPS && fromPS < psOf(f.ToNS):
			if unit(m.hash(^key, uint64(a.bits&^flagMarked), a.link)) < f.Share {
				return true
			}
		}
	}
	return false
}

// sendTime returns the time that a link takes for so many bytes, the last of which leaves at leftPS.
func (m *moves) sendTime(n *Network, link int32, bytes, leftPS int64) int64 {
	rates := m.rates[link]
	for i := len(rates) - 1; i >= 0; i-- {
		if ps := simkernel.NewWireTime(float64(rates[i].BandwidthBps)).PS(bytes); psOf(rates[i].FromNS) <= leftPS-ps {
			return ps
		}
	}
	return simkernel.NewWireTime(float64(n.links[link].BandwidthBps)).PS(bytes)
}

// initRates prepares a port for the changes of its rate.
func (m *moves) initRates(n *Network, p *port) {
	for _, r := range m.rates[p.link] {
		link := n.links[p.link]
		link.BandwidthBps = r.BandwidthBps
		n.kindOf(link)
		p.bits |= portChanges
	}
	if p.bits&portChanges != 0 {
		p.changeAtPS = psOf(m.rates[p.link][0].FromNS)
	}
}

// changeRate gives a port the rate that it has from p.changeAtPS on.
func (d *domain) changeRate(p *port) {
	link := d.net.links[p.link]
	for _, r := range d.moves.rates[p.link] {
		if psOf(r.FromNS) > p.changeAtPS {
			p.changeAtPS = psOf(r.FromNS)
			p.bits |= portChanges
			return
		}
		link.BandwidthBps = r.BandwidthBps
		p.bits = d.net.kindIndex[d.net.kind(link)]<<portBits | p.bits&(1<<portBits-1)
	}
}

// A packetSet is a set of numbers of packets: all below base, and those whose bits are set in words from base on.
type packetSet struct {
	base int64
	bits []uint64 // of the numbers from base &^ 63 on
}

func (s *packetSet) reset() { s.base, s.bits = 0, s.bits[:0] }

func (s *packetSet) has(number int64) bool {
	word := number/64 - s.base/64
	return number < s.base || word < int64(len(s.bits)) && s.bits[word]>>(number%64)&1 != 0
}

// add adds a number, and moves base to the first that is not in the set.
func (s *packetSet) add(number int64) {
	if s.has(number) {
		return
	}
	for number/64-s.base/64 >= int64(len(s.bits)) {
		s.bits = append(s.bits, 0)
	}
	s.bits[number/64-s.base/64] |= 1 << (number % 64)
	for s.has(s.base) {
		if s.base++; s.base%64 == 0 {
			s.bits = s.bits[:copy(s.bits, s.bits[1:])]
		}
	}
}

// slowestBps is the least bandwidth that a link has at any time.
func (n *Network) slowestBps(link int32) int64 {
	bps := n.links[link].BandwidthBps
	if n.moves != nil {
		for _, r := range n.moves.rates[link] {
			bps = min(bps, r.BandwidthBps)
		}
	}
	return bps
}
