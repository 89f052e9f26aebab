package network

import (
	"testing"

	"parsimon/simkernel/network/calendar"
)

// The estimate of a port's rate sums its busy time, and takes an eighth away every 20 µs. In steps of an
// eighth of 160 µs, it is by hand:
//
//	a port that is always busy    after k × 20 µs: 7 × (1 - (7/8)^k), and up to 1 more until the next 20 µs
//	busy until 50 µs              at 60 µs: ((7/8 + 1) × 7/8 + 1/2) × 7/8 = 1.87, at 80 µs 1.64
func TestRateOfAPortByHand(t *testing.T) {
	const us = 1_000_000
	at := func(busyPS int64, pauses int32, nowPS ...int64) (last uint32) {
		m := balancing{busyPS: []int64{busyPS}, pauses: []int32{pauses}, rate: make([]dre, 1)}
		for _, ps := range nowPS {
			last = m.utilization(0, ps)
		}
		return last
	}
	for _, c := range []struct {
		busyPS, nowPS int64
		want          uint32
	}{
		{never, 0, 0}, {never, 19*us + 999_999, 0}, {never, 21 * us, 0}, {never, 22*us + 499_999, 0},
		{never, 22*us + 500_000, 1},                                            // 0.875 + 0.125
		{never, 80 * us, 2},                                                    // 7 × (1 - 0.586) = 2.90
		{never, 81 * us, 2}, {never, 82*us + 100_000, 3}, {never, 160 * us, 4}, // 4.59
		{never, 4000 * us, 6}, {never, 4000*us + 1, 7}, {never, 4019 * us, 7},
		{50 * us, 60 * us, 1}, {50 * us, 80 * us, 1}, {55 * us, 59 * us, 2},
		{50 * us, 100 * us, 1}, {50 * us, 160 * us, 0}, // 1.44, 0.96
	} {
		got := at(c.busyPS, 0, c.nowPS)
		if got != c.want {
			t.Errorf("busy until %d ps: at %d ps %d, want %d", c.busyPS, c.nowPS, got, c.want)
		}
		got = at(c.busyPS, 0, c.nowPS/3, c.nowPS/2, c.nowPS)
		if got != c.want {
			t.Errorf("busy until %d ps, asked three times: at %d ps %d, want %d", c.busyPS, c.nowPS, got, c.want)
		}
		if at(c.busyPS, 1, c.nowPS) != 0 {
			t.Errorf("a paused port has a rate at %d ps", c.nowPS)
		}
	}
}

// A packet carries the highest metric of the ports on its path. Its ACK stores it at the first switch, by
// the last switch and the place of the link there.
func TestMetricsOfPaths(t *testing.T) {
	n := fanOut(t, Balancing{Balance: CONGA, GapNS: 1000})
	m := &n.paths.balance
	d := &n.domains[0]
	oneFlow(n)
	a := fromHost(n, 5, 4000)
	a.Bits |= 3<<(recoveryShift+congaBits) | 3<<recoveryShift
	before := a.Bits
	for _, c := range []struct {
		nowPS int64
		want  uint32
	}{{81_000_000, 3}, {160_000_000, 4}} { // the metrics of the port are 2 and 4
		a.Bits = before
		a.AtPS = c.nowPS
		m.busyPS[a.Port] = never
		m.measure(d, a)
		want := before&^(congaMax<<recoveryShift) | c.want<<recoveryShift
		if a.Bits != want {
			t.Errorf("at %d ps: %b, want %b", c.nowPS, a.Bits, want)
		}
	}
	// The ACK arrives at leaf 4 and at a spine, where nothing is stored, and then at leaf 0.
	a.Bits |= calendar.FlagAck
	for _, link := range []int32{15, 9} {
		a.Link = link
		m.measure(d, a)
	}
	if len(d.paths.remote) != 0 {
		t.Errorf("metrics at other switches: %v", d.paths.remote)
	}
	a.Link = 3
	m.measure(d, a)
	got := d.paths.remote[congaKey{0, 4, 3}]
	if len(d.paths.remote) != 1 || got != (congaMetric{4, a.AtPS}) {
		t.Errorf("%v", d.paths.remote)
	}
}

// oneFlow puts a flow from host 5 to host 6 of fanOut into slot 0, over the second spine.
func oneFlow(n *Network) {
	d := &n.domains[0]
	d.pool.starting = []*newFlow{{}}
	d.pool.needUnits = units(4)
	n.reserve(&d.pool)
	n.flows.info[0] = flowInfo{firstHop: 0, hops: 4}
	path := []int32{0, 4, 10, 14}
	for h, l := range path {
		ahead := l
		if h+1 < len(path) {
			ahead = path[h+1]
		}
		n.flows.hops[h] = hop{to: [2]int32{n.portOf[ahead], n.portOf[path[0]]}}
	}
	n.flows.hops[3].to[forward] = n.portOf[15] // the NIC of the destination
}

// A flowlet takes the link for which the maximum of the metrics here and beyond is least. Among equal ones it
// stays, or else takes that of its hash, or the next one. A metric that was returned is halved every 10 ms.
func TestLeastCongestedLink(t *testing.T) {
	const ms = 1_000_000_000
	links := []int32{2, 4, 6}
	for _, c := range []struct {
		name          string
		remote        [3]uint32
		busy          int32 // a link whose port is always busy; -1: none
		ageMS         int64 // of the metrics
		before, other int32
		want          int32
	}{
		{"the least", [3]uint32{3, 2, 4}, -1, 0, 2, 6, 4},
		{"the first of equal ones after the hash", [3]uint32{2, 2, 4}, -1, 0, 6, 6, 2},
		{"that of the hash", [3]uint32{2, 2, 4}, -1, 0, 6, 4, 4},
		{"it stays", [3]uint32{2, 2, 4}, -1, 0, 2, 4, 2},
		{"it stays at the last", [3]uint32{2, 4, 2}, -1, 0, 6, 2, 6},
		{"its link is gone", [3]uint32{2, 2, 4}, -1, 0, 8, 4, 4},
		{"the port here is busy", [3]uint32{3, 2, 4}, 4, 0, 4, 6, 2},
		{"halved once", [3]uint32{3, 2, 4}, -1, 10, 2, 6, 2},
		{"not halved yet", [3]uint32{3, 2, 4}, -1, 9, 2, 6, 4},
		{"halved twice", [3]uint32{7, 4, 3}, -1, 29, 2, 4, 6},
		{"all are full", [3]uint32{7, 7, 7}, -1, 0, 4, 2, 4},
	} {
		n := fanOut(t, Balancing{Balance: CONGA, GapNS: 1000})
		oneFlow(n)
		w := n.domains[0].paths
		w.remote = map[congaKey]congaMetric{}
		const nowPS = 50 * ms
		for i, value := range c.remote {
			w.remote[congaKey{0, 4, uint32(i)}] = congaMetric{value, nowPS - c.ageMS*ms}
		}
		if c.busy >= 0 {
			n.paths.balance.busyPS[n.portOf[c.busy]] = never
		}
		got := n.paths.balance.leastCongested(&n.domains[0], fromHost(n, 1, nowPS), links, c.before, c.other)
		if got != c.want {
			t.Errorf("%s: link %d, want %d", c.name, got, c.want)
		}
	}
}

// With more links than places, the further ones are not used: nothing would return their metrics.
func TestPlacesOfCONGA(t *testing.T) {
	n := fanOut(t, Balancing{Balance: CONGA, GapNS: 1000})
	oneFlow(n)
	w := n.domains[0].paths
	w.remote = map[congaKey]congaMetric{}
	links := make([]int32, congaPlaces+2)
	for i := range links {
		links[i] = 2
		w.remote[congaKey{0, 4, uint32(i)}] = congaMetric{1, 0}
	}
	copy(links[15:], []int32{4, 6, 12})
	w.remote[congaKey{0, 4, 15}] = congaMetric{}
	w.remote[congaKey{0, 4, 16}] = congaMetric{}
	for _, c := range [][3]int32{{2, 2, 4}, {6, 6, 4}, {12, 12, 4}, {4, 2, 4}} {
		got := n.paths.balance.leastCongested(&n.domains[0], fromHost(n, 1, 0), links, c[0], c[1])
		if got != c[2] {
			t.Errorf("before link %d, by hash %d: link %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// The first switch writes the place of a flowlet's link into the tag, beside the metric.
func TestPlaceOfAFlowlet(t *testing.T) {
	n := fanOut(t, Balancing{Balance: CONGA, GapNS: 1000})
	oneFlow(n)
	for place, link := range []int32{2, 4, 6} {
		w := n.domains[0].paths
		w.flowlets = map[flowletKey]flowlet{{7, 0}: {0, link}}
		a := fromHost(n, 9, 5)
		a.Bits |= 5<<(recoveryShift+congaBits) | 6<<recoveryShift
		got := n.paths.balance.flowletLink(&n.domains[0], a, &flowInfo{row: 7}, []int32{2, 4, 6}, 2)
		want := 9<<n.numberShift | uint32(place)<<(recoveryShift+congaBits) | 6<<recoveryShift
		if got != link || a.Bits != want {
			t.Errorf("link %d: link %d, tag %#x, want %#x", link, got, a.Bits, want)
		}
	}
}
