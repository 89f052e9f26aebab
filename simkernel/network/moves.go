package network

import (
	"math"
	"math/bits"
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
	At      []Balance // by node, in place of Balance: ECMP, Flowlet, Spray or Adaptive; nil: Balance at all
	GapNS   int64     // of Flowlet and CONGA: a pause of more than this at a switch begins a new flowlet
	Seed    uint64
	Weights []float64 // by link, of the choice between routes of a flow; nil: all equal
	Routes  Routes
	Faults  []Fault
	Rates   []Rate
	// RepairNS is how long the two ends of a cable that went down, or came up, take to stop or begin using it, before the
	// routes of others change; 0: they change with the routes.
	RepairNS int64
	// InOrder: receivers of transports with a rate take packets in order only, and their senders go back N.
	InOrder bool
}

// A Balance is how a switch chooses a link for a data packet.
type Balance uint8

// The balances. All but ECMP reorder packets: receivers accept them in any order then, unless Moves.InOrder.
const (
	// ECMP keeps a flow on its first path.
	ECMP Balance = iota
	// Flowlet chooses at random for each flowlet (LetFlow: Vanini et al., NSDI'17); the first keeps to the first path.
	Flowlet
	// Spray takes the links of a switch in turn.
	Spray
	// Adaptive takes the link whose port would be idle first, of equals the next in turn. What is dropped there counts as
	// if it were sent. With PFC a port sends nothing as long as one of its classes is paused.
	Adaptive
	// Random takes one of the links for each packet.
	Random
	// PLB is ECMP whose senders choose another path after congested rounds and timeouts.
	PLB
	// CONGA chooses for each flowlet, at the first switch of a flow, the path with the least congestion.
	CONGA
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

// recoverNS is the least retransmission timeout of a network with Moves and unlimited buffers: the InfiniBand local
// ACK timeout of exponent 10, 4.096 µs × 2^10.
const (
	recoverNS    = 4_194_304
	recoverTrips = 8 // queues may hold several bandwidth-delay products
)

// moves is the state of Moves.
type moves struct {
	Moves
	startPS []int64       // of the routes' states
	faults  [][]linkFault // by link, in order of time; nil where there is none
	rates   [][]Rate
	wires   []simkernel.WireTime // by link, without rates
	busyPS  []int64              // Adaptive and CONGA, by port: when it has sent all that has arrived, ACKs too
	pauses  []int32              // likewise: classes that are paused, and since when there are any
	sincePS []int64
	turns   []int32         // by set of links: the place of the next in turn
	rate    []dre           // CONGA, by port
	links   []LinkMoves     // BusyNS is in ps, WaitNS not set
	waits   []simkernel.Sum // by link: of its packets, in ps
}

// pathMemory is what a domain needs to choose paths.
type pathMemory struct {
	moves         *moves // that of the network
	flowlets      map[flowletKey]flowlet
	flowletsUntil int // how many there can be until those that have ended are removed
	remote        map[congaKey]congaMetric
	repaired      []int32 // scratch
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
// with unlimited buffers. Who reads Moves checks them: bursts, rates and delays are in range, one of Balance and At is
// ECMP, At has none of senders or of whole paths, and packets whose transport has telemetry are not sprayed.
func (n *Network) Move(m Moves) {
	if m.At == nil {
		m.At = slices.Repeat([]Balance{m.Balance}, len(n.host))
	}
	links := len(n.links)
	v := &moves{Moves: m, faults: make([][]linkFault, links), rates: make([][]Rate, links), busyPS: make([]int64, links),
		links: slices.Repeat([]LinkMoves{{SlotNS: 1000}}, links), turns: make([]int32, m.Routes.Sets()),
		waits: make([]simkernel.Sum, links), rate: make([]dre, links), pauses: make([]int32, links), sincePS: make([]int64, links)}
	for _, ns := range m.Routes.Starts() {
		v.startPS = append(v.startPS, psOf(ns))
	}
	v.addFaults(n)
	n.moves = v
	if n.recovery == nil {
		n.recover()
	}
	if v.tagMask() != 0 {
		n.numberShift += tagBits
	}
}

// psOf is a time of Moves in ps; what is not within the horizon is never.
func psOf(ns int64) int64 {
	if ns >= horizonPS/simkernel.PSPerNS {
		return never
	}
	return ns * simkernel.PSPerNS
}

// LoadSlots is how many slots of time the bytes of a link are counted in at most.
const LoadSlots = 128

// LinkMoves counts the data packets of a link of a network with Moves.
type LinkMoves struct {
	Sent      int64
	SentBytes [LoadSlots]int64 // with headers, by slot of SlotNS, which is doubled when there are not enough
	SlotNS    int64
	Lost      int64   // on the link, or because there was no route behind it
	WaitNS    float64 // whole: sum of the waits for the link
	BusyNS    int64   // time in which they were sent
}

// send counts a packet that has left at a time.
func (m *LinkMoves) send(leftPS, bytes, tookPS int64) {
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

// Moved returns what a link has sent, after Run of a network with Moves.
func (n *Network) Moved(link int32) LinkMoves {
	m := n.moves.links[link]
	m.WaitNS = n.moves.waits[link].PSToNS().Float64()
	m.BusyNS /= simkernel.PSPerNS
	return m
}

// selective reports whether receivers accept packets in any order, and senders resend only what was not received.
func (m *moves) selective() bool {
	return m != nil && !m.InOrder && slices.ContainsFunc(m.At, func(b Balance) bool { return b != ECMP })
}

// choosePorts is the part of runWindow that depends on Moves. In order of time it removes what was lost, gives what
// arrives at switches a port, and turns data that arrives at hosts, over any of their links, into ACKs, whose link is
// then below 0.
func (d *domain) choosePorts(arrivals []arrival, work *portSet) []arrival {
	d.sortWindow(arrivals)
	kept := arrivals[:0]
	for _, a := range arrivals {
		if a.link == startLink || a.hop == pauseHop {
			d.moves.notePause(&a)
			kept = append(kept, a)
			continue
		}
		of, data := &d.moves.links[a.link], a.bits&flagAck == 0
		if data {
			leftPS, bytes := d.leftPS(&a), d.wireBytes(&a.item)
			of.send(leftPS, bytes, d.moves.sendTime(a.link, bytes, leftPS))
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
			if d.clocked { // the ACK waits in the NIC, if at all
				u := a.port - d.low
				d.receiveClocked(&d.nics[u-d.first], &a.item, &d.ports[u].data)
				work.add(u)
				continue
			}
			if !d.receiveInOrder(&a.item) {
				continue
			}
			a.link = ^a.link
		}
		kept = append(kept, a)
	}
	return kept
}

// clock is the time up to which a port has sent.
func (m *moves) clock(port int32, nowPS int64) int64 {
	if m.pauses[port] > 0 {
		return m.sincePS[port]
	}
	return nowPS
}

// notePause follows the pauses of a port.
func (m *moves) notePause(a *arrival) {
	if a.hop != pauseHop {
		return
	}
	m.utilization(a.port, a.atPS)
	if pauses := &m.pauses[a.port]; a.bits&1 == 0 {
		if *pauses--; *pauses == 0 {
			m.busyPS[a.port] += a.atPS - m.sincePS[a.port]
		}
	} else if *pauses++; *pauses == 1 {
		m.sincePS[a.port] = a.atPS
	}
}

// leftPS returns when the last byte of what arrives was sent, if it was under the latest delay that it can have had.
func (d *domain) leftPS(a *arrival) int64 {
	left := a.atPS - d.net.links[a.link].DelayNS*simkernel.PSPerNS
	if d.moves != nil {
		for _, r := range d.moves.rates[a.link] {
			if by := a.atPS - r.DelayNS*simkernel.PSPerNS; r.DelayNS > 0 && psOf(r.FromNS) <= by {
				left = by
			}
		}
	}
	return left
}

// choosePort chooses the port of what arrives over a link; false if it is lost. A packet's place among the hops of its
// flow stays within those of the first path, however long its own is.
func (d *domain) choosePort(a *arrival) bool {
	n, t, m := d.net, &d.net.flows, d.moves
	slot, node, ack := t.hops[a.hop].flow, n.links[a.link].DstNode, a.bits&flagAck != 0
	info := &t.info[slot]
	first, last := info.firstHop, info.firstHop+info.hops
	if m.faults[a.link] != nil && m.isLost(d, a, info.key, arriving) {
		return false
	}
	if n.host[node] {
		a.hop, a.port = last, n.portOf[a.link^1]
		if ack {
			a.hop, a.port = first, t.hops[first].to[backward]
		}
		return true
	}
	host := n.ports[t.hops[last-1].to[forward]].node
	if ack {
		a.hop, host = max(a.hop, first+1), n.ports[t.hops[first].to[backward]].node
	} else {
		a.hop = min(a.hop, last-1)
	}
	onFirst := n.ports[a.port].node == node // the packet is on the first path
	state := 0
	for state+1 < len(m.startPS) && m.startPS[state+1] <= a.atPS {
		state++
	}
	if !onFirst || state > 0 || !ack && m.At[node] != ECMP || m.avoids(n.ports[a.port].link, a.atPS) {
		set, links := m.Routes.Links(state, node, host)
		links = m.repaired(d, links, a.atPS)
		if len(links) == 0 {
			return false
		}
		stays := int32(-1)
		if onFirst && slices.Contains(links, n.ports[a.port].link) {
			stays = n.ports[a.port].link
		}
		a.port = n.portOf[m.choose(d, a, info, set, links, stays)]
	}
	if m.Balance == CONGA {
		m.measure(d, a)
	}
	if m.At[node] == Adaptive || m.Balance == CONGA {
		busyPS, link := max(m.busyPS[a.port], m.clock(a.port, a.atPS)), n.ports[a.port].link
		m.busyPS[a.port] = busyPS + m.sendTime(link, d.wireBytes(&a.item), busyPS)
	}
	return true
}

// avoids reports whether the ends of a link's cable know that it is down.
func (m *moves) avoids(link int32, atPS int64) bool {
	if m.RepairNS == 0 {
		return false
	}
	knowPS := atPS - psOf(m.RepairNS)
	down := func(f linkFault) bool { return f.Share == 1 && psOf(f.FromNS) <= knowPS && knowPS < psOf(f.ToNS) }
	return slices.ContainsFunc(m.faults[link], down) || slices.ContainsFunc(m.faults[link^1], down)
}

// repaired are those links of a switch that it does not avoid.
func (m *moves) repaired(d *domain, links []int32, atPS int64) []int32 {
	if m.RepairNS == 0 {
		return links
	}
	avoided := func(l int32) bool { return m.avoids(l, atPS) }
	d.repaired = slices.DeleteFunc(append(d.repaired[:0], links...), avoided)
	return d.repaired
}

// choose chooses one of the links of a set. stays is that of the flow's first path; -1: it is not among them.
func (m *moves) choose(d *domain, a *arrival, info *flowInfo, set int32, links []int32, stays int32) int32 {
	node := d.net.links[a.link].DstNode
	ack, label, balance := a.bits&flagAck != 0, uint64(a.bits&d.tagMask), m.At[node]
	switch {
	case len(links) == 1:
		return links[0]
	case !ack && (balance == Flowlet || balance == CONGA && m.congaLeaf(d, a)):
		return m.flowletLink(d, a, info, links, stays)
	case !ack && balance == PLB && label > 0:
		return m.byHash(simkernel.MixKey(info.key, label), links)
	case !ack && balance == Random:
		return links[m.hash(info.key, uint64(a.bits&^flagMarked), node)%uint64(len(links))]
	case ack || balance != Spray && balance != Adaptive:
		if stays >= 0 {
			return stays
		}
		return m.byHash(info.key, links)
	}
	at := m.turns[set] % int32(len(links))
	if balance == Adaptive {
		best := int64(never)
		for i := range links {
			k := (m.turns[set] + int32(i)) % int32(len(links))
			port := d.net.portOf[links[k]]
			if wait := max(0, m.busyPS[port]-m.clock(port, a.atPS)); wait < best {
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
		number, before := uint64(a.bits&^d.tagMask>>flagBits), f.link
		if !known {
			before = stays
		}
		f.link = links[m.hash(info.key, number, node)%uint64(len(links))]
		switch {
		case m.Balance == CONGA:
			f.link = m.leastCongested(d, a, links, before, f.link)
		case stays >= 0 && number == 0:
			f.link = stays
		}
	}
	f.atPS = a.atPS
	if m.Balance == CONGA {
		place := uint32(slices.Index(links, f.link)) << congaBits
		a.bits = a.bits&^(d.tagMask&^(congaMax<<recoveryShift)) | place<<recoveryShift&d.tagMask
	}
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

// addThrough adds all numbers up to one.
func (s *packetSet) addThrough(number int64) {
	for s.base <= number {
		s.add(s.base)
	}
}

// next returns the first number from one on that is not in the set.
func (s *packetSet) next(number int64) int64 {
	number = max(number, s.base)
	for i := number/64 - s.base/64; i < int64(len(s.bits)); i++ {
		if missing := ^s.bits[i] >> (number % 64); missing != 0 {
			return number + int64(bits.TrailingZeros64(missing))
		}
		number = number&^63 + 64
	}
	return number
}

// highest returns the k-th highest number, 0 if there are fewer from base on.
func (s *packetSet) highest(k int64) int64 {
	for i := len(s.bits) - 1; i >= 0; i-- {
		first := s.base&^63 + int64(i)*64
		word := s.bits[i]
		if i == 0 {
			word &^= 1<<(s.base%64) - 1
		}
		for ; word != 0; k-- {
			top := int64(bits.Len64(word)) - 1
			if k == 1 {
				return first + top
			}
			word &^= 1 << top
		}
	}
	return 0
}

// missing returns how many numbers from one to below another are not in the set.
func (s *packetSet) missing(from, to int64) int64 {
	from = max(from, s.base)
	count := max(0, to-from)
	for from < to {
		i := from/64 - s.base/64
		if i >= int64(len(s.bits)) {
			break
		}
		word := s.bits[i] >> (from % 64)
		if rest := to - from; rest < 64 {
			word &= 1<<rest - 1
		}
		count -= int64(bits.OnesCount64(word))
		from = from&^63 + 64
	}
	return count
}

// Balances whose packets carry a tag of tagBits above the attempt.
//
// PLB (Qureshi et al., SIGCOMM'22): the tag is the flow label that switches hash with the flow. A sender counts
// rounds, each as long as all packets in flight at its start take to be acknowledged. A round is congested if half
// of its ACKs or more are marked. After plbRoundsLimit congested rounds in a row, or plbIdleRounds where nothing is in
// flight, and after each timeout, the sender takes the next label. The constants are the defaults of Linux
// (tcp_plb_cong_thresh 128 of 256, tcp_plb_rehash_rounds 12, tcp_plb_idle_rehash_rounds 3). That PLB is suspended
// after a timeout is not modeled.
//
// CONGA (Alizadeh et al., SIGCOMM'14), simplified. Every switch port estimates its rate (dre). A data packet carries
// its place among the links of its first switch, congaPlaces of them, and the highest metric of congaBits that it
// has met at a port. Its ACK returns both, and the first switch keeps the metric by last switch and place; it is
// halved every congaAgePS without another. (In CONGA any packet of the reverse direction returns it, and how it fades
// after 10 ms is not stated.) A flowlet takes the link whose maximum of own and returned metric is the least: of equals
// its former one, else by hash. Other switches keep to the first path, or choose by hash.
const (
	plbRoundsLimit = 12
	plbIdleRounds  = 3

	congaBits   = 3
	congaPlaces = 1 << (tagBits - congaBits)
	congaMax    = 1<<congaBits - 1
	congaAgePS  = 10e9
	// The estimator's time constant is 160 µs, Tdre / alpha.
	dreTauPS   = 160e6
	dreEveryPS = dreTauPS / 8
)

// plbRounds is PLB of a sender.
type plbRounds struct {
	label        uint32
	acks, marks  int32 // of the present round
	congested    int32 // rounds in a row
	untilPackets int64 // the round ends with the ACK of a packet from this one on
}

// repath processes an ACK.
func (d *domain) repath(f *recoveryFlow, number int64, marked bool) {
	if d.moves == nil || d.moves.Balance != PLB {
		return
	}
	p := &f.plb
	if p.acks++; marked {
		p.marks++
	}
	if number < p.untilPackets {
		return
	}
	if p.congested++; 2*p.marks < p.acks {
		p.congested = 0
	}
	if idle := number+1 >= f.next; p.congested >= plbRoundsLimit || idle && p.congested >= plbIdleRounds {
		p.label++
		p.congested = 0
	}
	p.acks, p.marks, p.untilPackets = 0, 0, f.next
}

// tagMask is the bits of items that a balance uses.
func (m *moves) tagMask() uint32 {
	if m.Balance == PLB || m.Balance == CONGA {
		return (1<<tagBits - 1) << recoveryShift
	}
	return 0
}

// A dre is CONGA's discounting rate estimator of a port: the time in which it has sent, of which an eighth goes every
// dreEveryPS.
type dre struct {
	sentPS float64 // to the last multiple of dreEveryPS
	morePS int64   // and since then
	atPS   int64   // counted so far
}

// utilization is the rate of a port, as a share of the link's, in steps of 1 / 2^congaBits.
func (m *moves) utilization(port int32, nowPS int64) uint32 {
	r, busyPS := &m.rate[port], m.busyPS[port]
	if m.pauses[port] > 0 {
		busyPS = 0
	}
	if r.sentPS+float64(r.morePS) == 0 && busyPS <= r.atPS {
		r.atPS = nowPS
	}
	for r.atPS < nowPS {
		endPS := (r.atPS/dreEveryPS + 1) * dreEveryPS
		toPS := min(nowPS, endPS)
		r.morePS += max(0, min(toPS, busyPS)-r.atPS)
		if r.atPS = toPS; toPS == endPS {
			r.sentPS, r.morePS = (r.sentPS+float64(r.morePS))*(1-float64(dreEveryPS)/dreTauPS), 0
		}
	}
	return uint32(min(congaMax, (r.sentPS+float64(r.morePS))/dreTauPS*(congaMax+1)))
}

// A congaKey is a path from a flow's first switch, by the place of its link there, to its last.
type congaKey struct {
	node, last int32
	place      uint32
}

type congaMetric struct {
	value uint32
	atPS  int64
}

// congaEnds are the first and the last switch of an item's flow.
func (d *domain) congaEnds(it *item) (first, last int32) {
	n, t := d.net, &d.net.flows
	info := &t.info[t.hops[it.hop].flow]
	uplink := n.ports[t.hops[info.firstHop].to[backward]].link
	downlink := n.ports[t.hops[info.firstHop+info.hops-1].to[forward]].link ^ 1
	return n.links[uplink].DstNode, n.links[downlink].SrcNode
}

// congaLeaf reports whether a data packet is at the first switch of its flow.
func (m *moves) congaLeaf(d *domain, a *arrival) bool {
	first, _ := d.congaEnds(&a.item)
	return first == d.net.links[a.link].DstNode
}

// measure counts what a switch sends to the chosen port: data carries the metric on, and an ACK leaves it at the first
// switch of its flow.
func (m *moves) measure(d *domain, a *arrival) {
	metric := m.utilization(a.port, a.atPS)
	if a.bits&flagAck == 0 {
		carried := a.bits >> recoveryShift & congaMax
		a.bits = a.bits&^(congaMax<<recoveryShift) | max(carried, metric)<<recoveryShift
		return
	}
	node := d.net.links[a.link].DstNode
	if first, last := d.congaEnds(&a.item); first == node {
		if d.remote == nil {
			d.remote = map[congaKey]congaMetric{}
		}
		tag := a.bits & d.tagMask >> recoveryShift
		d.remote[congaKey{node, last, tag >> congaBits}] = congaMetric{tag & congaMax, a.atPS}
	}
}

// leastCongested is the link of a new flowlet. before is that of its flow's last one, or of its first path; other is
// chosen by hash.
func (m *moves) leastCongested(d *domain, a *arrival, links []int32, before, other int32) int32 {
	node, last := d.congaEnds(&a.item)
	places := min(len(links), congaPlaces)
	least, of := uint32(congaMax), [congaPlaces]uint32{}
	for i, l := range links[:places] {
		r := d.remote[congaKey{node, last, uint32(i)}]
		of[i] = max(m.utilization(d.net.portOf[l], a.atPS), r.value>>((a.atPS-r.atPS)/congaAgePS))
		least = min(least, of[i])
	}
	at := slices.Index(links, before)
	if at < 0 || at >= places || of[at] > least {
		at = slices.Index(links, other)
	}
	for of[at%places] > least {
		at++
	}
	return links[at%places]
}
