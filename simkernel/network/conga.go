package network

import "slices"

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
