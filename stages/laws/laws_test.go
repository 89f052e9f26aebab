package laws

import (
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// star is a network of hosts 0 to n-1 at one switch, with 10 Gbps and 1 µs. Link 2i leaves host i, link 2i+1
// reaches it.
func star(t *testing.T, n int32) *topology.Network {
	t.Helper()
	nodes := []topology.Node{{ID: n, Kind: topology.KindSwitch}}
	var cables []topology.Cable
	for i := range n {
		nodes = append(nodes, topology.Node{ID: i, Kind: topology.KindHost})
		cables = append(cables, topology.Cable{A: i, B: n, BandwidthBps: 10e9, DelayNS: 1000})
	}
	net, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// report checks flows, and that the result is the same if they start at the time of a trace.
func report(t *testing.T, n *topology.Network, p simkernel.Params, flows []Flow) Report {
	t.Helper()
	r := reportAt(t, n, p, flows, 0)
	then := reportAt(t, n, p, flows, 1_769_850_000e9)
	if then != r {
		t.Errorf("%+v, and %+v for the times of a trace", r, then)
	}
	return r
}

func reportAt(t *testing.T, n *topology.Network, p simkernel.Params, flows []Flow, startNS int64) Report {
	t.Helper()
	flows = slices.Clone(flows)
	for i := range flows {
		flows[i].Row = int64(i)
		flows[i].StartNS = flows[i].StartNS + startNS
	}
	c := New(n, p)
	for run := range slices.Chunk(flows, 5) { // the checks go on from one run to the next
		if err := c.Begin(run); err != nil {
			t.Fatal(err)
		}
	}
	return c.Report()
}

// A packet of 1,000 B takes 838.4 ns on a link and 2,838.4 ns to the other host. Two flows of 10 packets from
// different hosts need 20 transmissions at the last link, of which the first ends 3.677 µs after the start.
func TestTooEarly(t *testing.T) {
	n := star(t, 3)
	p := simkernel.DefaultParams()
	first := []int32{0, 5}
	second := []int32{2, 5}
	const alone, both = 11_222, 11_222 + 8_384 // ns, rounded up: 2·1,000 + 838.4 + 10 or 20 times 838.4
	for _, c := range []struct {
		name  string
		flows []Flow
		off   int64 // ns; 0: no contradiction
	}{
		{"one flow alone", []Flow{{FCTNS: alone + 1, SizeBytes: 10_000, Path: first}}, 0},
		{"faster than its link", []Flow{{FCTNS: 9_000, SizeBytes: 10_000, Path: first}}, 2_222},
		{"one after the other", []Flow{{FCTNS: alone + 1, SizeBytes: 10_000, Path: first},
			{FCTNS: both + 1, SizeBytes: 10_000, Path: second}}, 0},
		{"both at the end", []Flow{{FCTNS: both + 1, SizeBytes: 10_000, Path: first},
			{FCTNS: both + 1, SizeBytes: 10_000, Path: second}}, 0},
		{"both too early", []Flow{{FCTNS: both - 1_000, SizeBytes: 10_000, Path: first},
			{FCTNS: both - 1_000, SizeBytes: 10_000, Path: second}}, 1_000},
		{"the later one waits for nothing", []Flow{{FCTNS: alone + 1, SizeBytes: 10_000, Path: first},
			{StartNS: 4_000, FCTNS: alone + 1, SizeBytes: 10_000, Path: second}}, 4_384},
		{"apart", []Flow{{FCTNS: alone + 1, SizeBytes: 10_000, Path: first},
			{StartNS: 8_384, FCTNS: alone + 1, SizeBytes: 10_000, Path: second}}, 0},
	} {
		r := report(t, n, p, c.flows)
		if r.Late.Flows != 0 || r.Flows != int64(len(c.flows)) || (r.Early.Flows > 0) != (c.off > 0) ||
			r.Early.WorstNS < c.off-2 || r.Early.WorstNS > c.off+2 {
			t.Errorf("%s: %+v, want %d ns too early", c.name, r, c.off)
		}
		if c.off > 0 && (r.Early.WorstShare <= MaterialShare || r.Early.WorstLink < 0) {
			t.Errorf("%s: %+v", c.name, r.Early)
		}
	}
}

// 32 hosts send 64 KB to one host at once: its link sends for 32·64·838.4 ns. While enough of them are
// present, it cannot be idle, and so they cannot be present for longer.
func TestTooLate(t *testing.T) {
	n := star(t, 33)
	p := simkernel.DefaultParams()
	const drained = 2_838 + 32*64*838 + 32*26 // ns
	burst := func(count int, fct int64) (flows []Flow) {
		for i := range count {
			flows = append(flows, Flow{FCTNS: fct, SizeBytes: 64_000, Path: []int32{int32(2 * i), 65}})
		}
		return flows
	}
	dcqcn := simkernel.ParamsOf(simkernel.DCQCN)
	with := func(size int64) []Flow { // its ACKs cross link 65
		return append(burst(32, drained*5/4), Flow{StartNS: 1, FCTNS: drained * 5 / 4, SizeBytes: size,
			Path: []int32{64, 1}})
	}
	spread := burst(32, drained*5/4)
	// each host also sends to another, which may be what its flow to the last one waits for
	for i := range spread {
		spread = append(spread, Flow{FCTNS: drained * 5 / 4, SizeBytes: 1_000_000,
			Path: []int32{int32(2 * i), int32(2*((i+1)%32) + 1)}})
	}
	for _, c := range []struct {
		name  string
		p     simkernel.Params
		flows []Flow
		least float64 // contradiction relative to the FCT; 0: none
	}{
		{"as soon as the link permits", p, burst(32, drained), 0},
		{"a quarter later", p, burst(32, drained*5/4), 0.15},
		{"too few to be sure", p, burst(8, drained*5/4), 0},
		{"few ACKs in between", p, with(1_000_000), 0.1},
		{"ACKs that take the time", p, with(10_000_000), 0},
		{"blocked at another link", p, spread, 0},
		{"ACKs that wait", dcqcn, burst(32, drained*5/4), 0},
	} {
		r := report(t, n, c.p, c.flows)
		if c.least == 0 && (r.Late.Flows != 0 || r.Late.WorstNS != 0) || r.Late.WorstShare < c.least ||
			r.Late.WorstShare > 0.25 {
			t.Errorf("%s: %+v, want %g", c.name, r.Late, c.least)
		}
		if c.least > 0 && (r.Late.WorstLink != 65 || r.Late.Flows < 20) {
			t.Errorf("%s: %+v, want link 65 and most flows", c.name, r.Late)
		}
	}
}

// Flows that cannot be checked are errors that name them.
func TestFaults(t *testing.T) {
	n := star(t, 2)
	for _, c := range []struct {
		flow Flow
		want string
	}{
		{Flow{Row: 7, StartNS: 4, FCTNS: 9, SizeBytes: 1, Path: []int32{0, 3}},
			"flow row 7 starts at 4 ns, before"},
		{Flow{Row: 8, StartNS: 5, FCTNS: 9, Path: []int32{0, 3}}, "flow row 8 has 0 bytes"},
		{Flow{Row: 9, StartNS: 5, FCTNS: 9, SizeBytes: 1, Path: []int32{0, 4}}, "flow row 9 crosses link 4 of 4"},
	} {
		checker := New(n, simkernel.DefaultParams())
		first := Flow{StartNS: 5, FCTNS: 9_999, SizeBytes: 1, Path: []int32{0, 3}}
		if err := checker.Begin([]Flow{first, c.flow}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if err := checker.Begin([]Flow{first}); err != nil {
			t.Fatal(err)
		}
		if err := checker.Begin([]Flow{c.flow}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("in a separate run: %v, want %q", err, c.want)
		}
		r := checker.Report()
		if r.Flows != 1 {
			t.Errorf("%d flows checked beside an invalid one", r.Flows)
		}
	}
}
