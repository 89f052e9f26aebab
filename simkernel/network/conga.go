package network

import (
	"slices"

	"parsimon/simkernel/network/calendar"
)

// CONGA (Alizadeh et al., SIGCOMM'14), simplified. Each switch port estimates its rate (dre). A data packet
// carries two values in its tag: the index of its link among those of its first switch, one of congaPlaces,
// and the highest metric of congaBits among the ports on its path. Its ACK returns both. The first switch
// stores the metric by last switch and index, and halves it after every congaAgePS without a new one. (In
// CONGA, any packet of the reverse direction returns the metric, and its decay after 10 ms is not specified.)
//
// A flowlet takes the link for which the maximum of the local and the returned metric is smallest. Among
// equal links it takes its previous link, otherwise one by hash. Other switches use the first path, or choose
// by hash.
const (
	congaBits   = 3
	congaPlaces = 1 << (calendar.TagBits - congaBits)
	congaMax    = 1<<congaBits - 1
	congaAgePS  = 10e9
	// The estimator's time constant is 160 µs, Tdre / alpha.
	dreTauPS   = 160e6
	dreEveryPS = dreTauPS / 8
)

// A dre is CONGA's discounting rate estimator of a port. It sums the time in which the port has sent, and
// reduces the sum by an eighth every dreEveryPS.
type dre struct {
	sentPS float64 // up to the last multiple of dreEveryPS
	morePS int64   // since then
	atPS   int64   // the time up to which the port is counted
}

// A congaKey is a path from the first switch of a flow to its last. place is the index of the link at the
// first switch.
type congaKey struct {
	node, last int32
	place      uint32
}

type congaMetric struct {
	value uint32
	atPS  int64
}

// utilization returns the rate of a port in steps of 1 / 2^congaBits of its bandwidth.
func (m *balancing) utilization(port int32, nowPS int64) uint32 {
	r := &m.rate[port]
	busyPS := m.busyPS[port]
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
		r.atPS = toPS
		if toPS == endPS {
			r.sentPS = (r.sentPS + float64(r.morePS)) * (1 - float64(dreEveryPS)/dreTauPS)
			r.morePS = 0
		}
	}
	return uint32(min(congaMax, (r.sentPS+float64(r.morePS))/dreTauPS*(congaMax+1)))
}

// congaEnds returns the first and the last switch of an item's flow.
func (w *forwarding) congaEnds(it *calendar.Item) (first, last int32) {
	d := w.domain
	n := d.net
	t := &d.net.flows
	info := &t.info[t.hops[it.Hop].flow]
	uplink := n.ports[t.hops[info.firstHop].to[backward]].link
	downlink := n.ports[t.hops[info.firstHop+info.hops-1].to[forward]].link ^ 1
	return n.links[uplink].DstNode, n.links[downlink].SrcNode
}

// congaLeaf reports whether a data packet is at the first switch of its flow.
func (m *balancing) congaLeaf(d *domain, a *calendar.Arrival) bool {
	first, _ := d.paths.congaEnds(&a.Item)
	return first == d.net.links[a.Link].DstNode
}

// measure updates the metrics for an item that a switch sends to the chosen port. Data carries the metric on,
// and an ACK delivers it at the first switch of its flow.
func (m *balancing) measure(d *domain, a *calendar.Arrival) {
	metric := m.utilization(a.Port, a.AtPS)
	if a.Bits&calendar.FlagAck == 0 {
		carried := a.Bits >> recoveryShift & congaMax
		a.Bits = a.Bits&^(congaMax<<recoveryShift) | max(carried, metric)<<recoveryShift
		return
	}
	node := d.net.links[a.Link].DstNode
	first, last := d.paths.congaEnds(&a.Item)
	if first == node {
		if d.paths.remote == nil {
			d.paths.remote = map[congaKey]congaMetric{}
		}
		tag := a.Bits & d.tagMask >> recoveryShift
		d.paths.remote[congaKey{node, last, tag >> congaBits}] = congaMetric{tag & congaMax, a.AtPS}
	}
}

// leastCongested returns the link of a new flowlet. before is the link of the flow's previous flowlet, or of
// its first path. other is chosen by hash.
func (m *balancing) leastCongested(d *domain, a *calendar.Arrival, links []int32, before, other int32) int32 {
	node, last := d.paths.congaEnds(&a.Item)
	places := min(len(links), congaPlaces)
	least := uint32(congaMax)
	of := [congaPlaces]uint32{}
	for i, l := range links[:places] {
		r := d.paths.remote[congaKey{node, last, uint32(i)}]
		of[i] = max(m.utilization(d.net.portOf[l], a.AtPS), r.value>>((a.AtPS-r.atPS)/congaAgePS))
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
