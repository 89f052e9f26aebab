package network

import (
	"math"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// twoSwitches is hosts 0 and 1 at switches 2 and 3. Host 1 has a cable of 3 µs, host 0 one of 1 µs. Links 4
// and 5 join the switches.
func twoSwitches(middle Link) netExample {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, false, false}}
	e.links = []Link{{0, 2, 10e9, 1000}, {2, 0, 10e9, 1000}, {1, 3, 10e9, 3000}, {3, 1, 10e9, 3000},
		{2, 3, middle.BandwidthBps, middle.DelayNS}, {3, 2, middle.BandwidthBps, middle.DelayNS}}
	return e
}

// Nothing reaches the next port earlier than the smallest packet: an ACK, a payload of one byte, or a pause
// frame of 64 bytes. If windows were longer, a port would miss arrivals.
func TestShortestTimeToTheNextPort(t *testing.T) {
	pfc := BufferParams{SwitchBytes: 1 << 20, Alpha: 1, PFC: true}
	for _, c := range []struct {
		ack, header int64
		b           BufferParams
		wantPS      int64 // 1 µs, and 800 ps for a byte
	}{
		{60, 48, BufferParams{}, 1_000_000 + 49*800},
		{60, 100, BufferParams{}, 1_000_000 + 60*800},
		{0, 48, BufferParams{}, 1_000_000},
		{300, 200, BufferParams{}, 1_000_000 + 201*800},
		{300, 200, pfc, 1_000_000 + 64*800},
		{60, 200, pfc, 1_000_000 + 60*800},
	} {
		e := twoSwitches(Link{0, 0, 40e9, 5000})
		e.params.AckBytes = c.ack
		e.params.HeaderBytes = c.header
		n := newExampleNetwork(t, &e, c.b, 1)
		got := n.lookaheadPS(e.links[0])
		if got != c.wantPS {
			t.Errorf("%+v: %d ps", c, got)
		}
	}
}

// A step is as long as the shortest time between domains, and a multiple of all windows, which are at most as
// long as the shortest time within their domain. Values are worked out by hand: 1 µs + 39,200 ps at host 0,
// 3 µs + 39,200 ps at host 1. Between the switches it is 5 µs + 130,667 ps at 3 Gbps.
func TestLengthsOfStepsAndWindows(t *testing.T) {
	slow := Link{0, 0, 3e9, 5000}
	equal := Link{0, 0, 10e9, 1000}
	apart := []int32{0, 1, 0, 1}
	one := []int32{0, 0, 0, 0}
	for _, c := range []struct {
		name     string
		middle   Link
		domainOf []int32
		waits    bool
		stepPS   int64
		windows  []int64
	}{
		// 5,130,667 is 4.9 × 1,039,200, so the window is an eighth, and 1.7 × 3,039,200, so it is a half.
		{"two domains", slow, apart, false, 5_130_664, []int64{5_130_664 / 8, 5_130_664 / 2}},
		{"equal times", equal, apart, false, 1_039_200, []int64{1_039_200, 1_039_200}},
		{"one domain", slow, one, false, 8 * 1_039_200, []int64{1_039_200}},
		{"one domain, and flows wait", slow, one, true, 1_039_200, []int64{1_039_200}},
		{"no window is longer than a step", Link{0, 0, 10e9, 1e6}, []int32{0, 1, 2, 2}, false, 1_039_200,
			[]int64{1_039_200, 1_039_200, 1_039_200}},
	} {
		e := twoSwitches(c.middle)
		n := newExampleNetwork(t, &e, BufferParams{}, 1)
		if c.waits {
			n.WaitFor()
		}
		n.domains = make([]domain, slices.Max(c.domainOf)+1)
		got := n.setSteps(c.domainOf)
		if n.stepPS != c.stepPS || !slices.Equal(got, c.windows) {
			t.Errorf("%s: steps of %d ps, windows of %v, want %d and %v", c.name, n.stepPS, got, c.stepPS, c.windows)
		}
	}
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true},
		links: []Link{{0, 1, 10e9, 1e9}, {1, 0, 10e9, 1e9}}}
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.domains = make([]domain, 1)
	n.setSteps([]int32{0, 0})
	if n.stepPS != 8*calendar.LongestPS {
		t.Errorf("a cable of a second: steps of %d ps", n.stepPS)
	}
}

// The ports of a domain are adjacent: those of switches, by node, and then those of hosts. Each buffer has
// its ports, and each domain knows the domains that it shares cables with.
func TestPortsByDomain(t *testing.T) {
	e := twoSwitches(Link{0, 0, 40e9, 5000})
	n := newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, 1)
	n.setRules()
	n.layOut([]int32{0, 1, 1, 0})
	var links []int32
	for u := range n.ports {
		p := &n.ports[u]
		links = append(links, p.link)
		if n.portOf[p.link] != int32(u) || p.node != e.links[p.link].SrcNode ||
			p.markKey != simkernel.MarkKey(e.params.Seed, p.link) || p.rateAtPS != never {
			t.Errorf("port %d: %+v", u, p.portRest)
		}
	}
	if !slices.Equal(links, []int32{3, 5, 0, 1, 4, 2}) { // of nodes 3, 3, 0, and 2, 2, 1
		t.Errorf("ports of links %v", links)
	}
	for i, neighbor := range []int32{1, 0} {
		d := &n.domains[i]
		if d.id != int32(i) || d.low != int32(3*i) || d.first != 2 || len(d.ports) != 3 || len(d.nics) != 1 ||
			!slices.Equal(d.mail.neighbors, []int32{neighbor}) || d.mail.mailPS != never {
			t.Errorf("domain %d: ports from %d on, hosts from %d on, %d ports, neighbors %v", i, d.low, d.first,
				len(d.ports), d.mail.neighbors)
		}
	}
	for node, ports := range map[int32][2]int32{2: {0, 2}, 3: {0, 2}} {
		b := &n.buffers[node]
		if b.low != ports[0] || b.high != ports[1] {
			t.Errorf("switch %d has ports %d to %d of its domain", node, b.low, b.high)
		}
	}
}

// The times of a port, by hand: a full packet of 1,048 bytes takes 838.4 ns at 10 Gbps, an ACK 48 ns.
func TestTimesOfAPort(t *testing.T) {
	e := twoSwitches(Link{0, 0, 40e9, 5000})
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.setRules()
	n.layOut([]int32{0, 1, 1, 0})
	k := n.kind(e.links[2])
	if k.sendPS != [2]int64{838_400, 48_000} || k.delayPS != 3_000_000 || k.far != 0 || k.bps != 10e9 ||
		k.rule.MinBytes != 30_000 {
		t.Errorf("%+v", k)
	}
}

// More domains than workers, up to four for each, are made if each has 4,000 links or more. A domain has 16
// links or more.
func TestNumberOfDomains(t *testing.T) {
	for _, c := range []struct{ links, workers, want int }{
		{1 << 20, 1, 1}, {1 << 20, 0, 1}, {1 << 20, 2, 8}, {15, 4, 1}, {47, 4, 2}, {48, 4, 3}, {64, 4, 4},
		{64, 5, 4}, {15_999, 2, 2}, {16_000, 2, 4}, {24_000, 2, 6}, {32_000, 2, 8}, {31_999, 2, 6}, {64_000, 2, 8},
	} {
		n := &Network{links: make([]Link, c.links)}
		got := n.domainsFor(c.workers)
		if got != c.want {
			t.Errorf("%+v: %d domains", c, got)
		}
	}
}

// The work of a link is its share of the bandwidth, and four times its share of the packets and ACKs of the
// first flows. The ACKs of a packet count at the other direction of its links.
func TestWorkOfLinks(t *testing.T) {
	e := twoSwitches(Link{0, 0, 20e9, 5000})
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	got := n.shares([]newFlow{{size: 2500, path: []int32{0, 4, 3}}, {size: 1000, path: []int32{2, 5, 1}}})
	// Of 80 Gbps. There are 12 packets and 12 ACKs, and one more so that the sum is not 0.
	for l, want := range []float64{
		10.0/80 + 4*4.0/25, 10.0/80 + 4*4.0/25, 10.0/80 + 4*4.0/25, 10.0/80 + 4*4.0/25, 20.0/80 + 4*4.0/25,
		20.0/80 + 4*4.0/25,
	} {
		if math.Abs(got[l]-want) > 1e-12 {
			t.Errorf("link %d: %v, want %v", l, got[l], want)
		}
	}
	got = n.shares([]newFlow{{size: 2500, path: []int32{0, 4}}})
	for l, want := range []float64{
		10.0/80 + 4*3.0/13, 10.0/80 + 4*3.0/13, 10.0 / 80, 10.0 / 80, 20.0/80 + 4*3.0/13, 20.0/80 + 4*3.0/13,
	} {
		if math.Abs(got[l]-want) > 1e-12 {
			t.Errorf("one flow, link %d: %v, want %v", l, got[l], want)
		}
	}
}
