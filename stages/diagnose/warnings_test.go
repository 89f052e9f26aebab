package diagnose

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/confidence"
	"parsimon/stages/exact"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// watched returns a TailWatch that has read, in two chunks, 200 flows of two hops over SmallNetwork: host 0 → tor → host 1
// if first says so, else host 2 → tor → host 3, with the given delays at the two hops.
func watched(t *testing.T, load func(int32) float64, first func(i int) bool,
	delays func(i int) [2]float64) *TailWatch {
	t.Helper()
	n := topologytest.SmallNetwork(t)
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e6}
	for _, l := range n.Links {
		loads.Links[l.ID] = route.LinkLoad{Flows: 1, Bytes: int64(load(l.ID) * float64(l.BandwidthBps) * 1e6 / 8e9)}
	}
	w := NewTailWatch(n, &loads, confidence.Tails{All: 5}, nil)
	var hops tables.Memory
	var out []tables.ContributionRow
	for i := range 200 {
		path := [2]int32{4, 7}
		if first(i) {
			path = [2]int32{0, 3}
		}
		for h, d := range delays(i) {
			out = append(out, tables.ContributionRow{Contribution: tables.Contribution{
				FlowRow: int64(i), Hop: int16(h), Hops: 2, LinkID: path[h], DelayNS: d,
			}})
		}
	}
	if err := tables.HopContributions.Write(&hops, out); err != nil {
		t.Fatal(err)
	}
	var rows []tables.SlowdownRow
	for i := range 200 {
		d := delays(i)
		rows = append(rows, tables.SlowdownRow{FlowID: int64(i), FlowRow: int64(i), SizeBytes: 500, StartNS: int64(i) * 1000,
			Hops: 2, IdealNS: 1, FCTNS: 20_000, Slowdown: 1 + d[0] + d[1]})
	}
	slow := &tables.Memory{}
	if err := tables.Slowdowns.Write(slow, rows); err != nil {
		t.Fatal(err)
	}
	for _, chunk := range [][2]int64{{0, 120}, {120, 80}} {
		if err := w.Watch(chunk[0], chunk[1], slow.Read(), hops.Read()); err != nil {
			t.Fatal(err)
		}
	}
	if w.flows != 200 {
		t.Fatalf("%d flows watched", w.flows)
	}
	return w
}

// Of the flows with a slowdown of 5 and more, the even ones, most of the delay is at hop 1.
func TestTailLink(t *testing.T) {
	load := func(int32) float64 { return 0 }
	first := func(i int) bool { return i%4 == 0 }
	w := watched(t, load, first, func(i int) [2]float64 {
		if i%2 == 1 {
			return [2]float64{3.5, 0.25}
		}
		return [2]float64{1, 3 + float64(i%4)/2}
	})
	if got := w.TailLink(); got != (TailLink{7, 4.0 / 9}) {
		t.Errorf("%+v", got)
	}
}

// Only flows that cross two loaded links, and many of them, are loaded twice.
func TestLoadedTwice(t *testing.T) {
	every := func(n int) func(int) bool { return func(i int) bool { return i%n == 0 } }
	hot := func(links ...int32) func(int32) float64 {
		return func(l int32) float64 {
			if slices.Contains(links, l) {
				return 0.65
			}
			return 0.55
		}
	}
	for _, c := range []struct {
		name  string
		load  func(int32) float64
		first func(int) bool
		want  string
	}{
		{"no loaded link", hot(), every(2), ""},
		{"both hops of one flow in ten", hot(0, 3), every(10), "10% of the flows cross two links"},
		{"both hops of one flow in a hundred", hot(0, 3), every(100), ""},
		{"one hop of them", hot(0), every(2), ""},
	} {
		watch := watched(t, c.load, c.first, func(int) [2]float64 { return [2]float64{3, 3} })
		found := watch.LoadedTwice()
		if len(found) != min(1, len(c.want)) || len(found) == 1 && !strings.HasPrefix(found[0].Text, c.want) {
			t.Errorf("%s: %+v, want %q", c.name, found, c.want)
		}
		if len(watch.Warnings()) > 0 {
			t.Errorf("%s: %+v", c.name, watch.Warnings())
		}
		rec := Record(found)
		if rec.NumRows() != int64(len(found)) {
			t.Errorf("%s: %d rows of %d", c.name, rec.NumRows(), len(found))
		}
		rec.Release()
	}
}

// Flows without a delay have no links at which the slowest of them wait.
func TestSpreadOfNoDelay(t *testing.T) {
	watch := watched(t, func(int32) float64 { return 0.55 }, func(i int) bool { return i%4 == 0 },
		func(int) [2]float64 { return [2]float64{} })
	if found := watch.SpreadOut(); found != nil {
		t.Errorf("%+v", found)
	}
}

// Slow flows that wait at three links on average are named; NIC waits do not count.
func TestSpread(t *testing.T) {
	n := methodtest.Clos(t)
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e6}
	for _, c := range []struct {
		delays []float64
		tails  confidence.Tails
		want   string
	}{
		{[]float64{90, 50, 50, 50}, confidence.Tails{All: 2, Bins: [4]float64{9, 9, 9, 9}}, "the slowest 1% of flows wait at 3.0 links"},
		{[]float64{90, 50, 50, 50}, confidence.Tails{All: 9, Bins: [4]float64{9, 2, 9, 9}}, "the slowest 1% of flows of 10-100 KB wait at 3.0"},
		{[]float64{90, 50, 50, 50}, confidence.Tails{All: 9, Bins: [4]float64{2, 9, 2, 2}}, ""},
		{[]float64{90, 50, 50}, confidence.Tails{}, ""},
		{[]float64{90, 0, 70, 1, 1}, confidence.Tails{}, ""},
		{[]float64{90}, confidence.Tails{}, ""},
	} {
		var slowdowns, hops tables.Memory
		var rows []tables.ContributionRow
		for h, ns := range c.delays {
			rows = append(rows, tables.ContributionRow{Contribution: tables.Contribution{
				Hop: int16(h), Hops: int16(len(c.delays)), LinkID: int32(h), DelayNS: ns,
			}})
		}
		err := errors.Join(tables.Slowdowns.Write(&slowdowns, []tables.SlowdownRow{{SizeBytes: 50_000, Slowdown: 3}}),
			tables.HopContributions.Write(&hops, rows))
		w := NewTailWatch(n, &loads, c.tails, nil)
		if err := errors.Join(err, w.Watch(0, 1, slowdowns.Read(), hops.Read())); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range w.SpreadOut() {
			got = x.Text
		}
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %q, want %q", c.delays, got, c.want)
		}
	}
}

// What follows from the scenario alone: loads, the transport and its constants.
func TestWarningsBeforeLinkCases(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	whole := func(n *topology.Network, p *simkernel.Params, loads *route.Loads) []Warning {
		return OfWholeNetwork(n, p, network.BufferParams{}, nil, loads)
	}
	for _, c := range []struct {
		name   string
		by     func(*topology.Network, *simkernel.Params, *route.Loads) []Warning
		load   float64
		change func(p *simkernel.Params)
		want   string
	}{
		{"nothing", ReasonsForWholeNetwork, 0.5, func(*simkernel.Params) {}, ""},
		{"overload", ReasonsForWholeNetwork, 0.93, func(*simkernel.Params) {}, "overload"},
		{"overload of what is true", whole, 0.93, func(*simkernel.Params) {}, ""},
		{"more than fits", whole, 1.1, func(*simkernel.Params) {}, "overload"},
		{"another transport", ReasonsForWholeNetwork, 0.5, func(p *simkernel.Params) { p.Transport = simkernel.HPCC }, "transport"},
		{"wide windows", ReasonsForWholeNetwork, 0.5, func(p *simkernel.Params) { p.WindowBytes = 500_000 }, "transport"},
		{"large ACKs", ReasonsForWholeNetwork, 0.5, func(p *simkernel.Params) { p.AckBytes = 500 }, "transport"},
		{"large ACKs of what is true", whole, 0.5, func(p *simkernel.Params) { p.AckBytes = 500 }, ""},
		{"long path", whole, 0.5, func(*simkernel.Params) { n.Links[0].DelayNS = 1e6 }, "long path"}, // and of the next
		{"long path by link cases", ReasonsForWholeNetwork, 0.5, func(*simkernel.Params) {}, "long path"},
		{"long path of TCP", whole, 0.5, func(p *simkernel.Params) { p.Transport = simkernel.CUBIC }, ""},
	} {
		p := simkernel.DefaultParams()
		c.change(&p)
		loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e6}
		bytes := int64(c.load * float64(n.Links[0].BandwidthBps) * 1e6 / 8e9)
		loads.Links[0] = route.LinkLoad{Flows: 1, Bytes: bytes, Packets: p.Packets(bytes), LastStartNS: 1e6}
		loads.Links[1] = route.LinkLoad{Flows: 1, Bytes: 1000, Packets: 1, LastStartNS: 1e6}
		got := ""
		for _, x := range append(c.by(n, &p, &loads), InputWarnings(n, &p, &loads, nil)...) {
			got += x.Kind
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Remarks about the flows are warnings whatever estimates them, as are long links, the longest first; neither is one of
// link cases.
func TestInputWarnings(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	for id := range n.Links {
		n.Links[id].DelayNS = int64(id) * 600_000
		loads.Links[id].Flows = int64(id % 3)
	}
	p, got := simkernel.DefaultParams(), ""
	for _, w := range InputWarnings(n, &p, &loads, []string{"a row may be cut"}) {
		if got += fmt.Sprintf("%s %d, ", w.Kind, w.Link); OfLinkCases(w.Kind) {
			t.Errorf("%s is of link cases", w.Kind)
		}
	}
	if got != "long path 7, long path 5, long path 4, long path 2, long path 1, flows -1, " {
		t.Error(got)
	}
}

// The delays of slow flows are more than 64 bits of ps hold.
func TestTailLinkOfLongDelays(t *testing.T) {
	const days = 10 * 86400e9
	w := watched(t, func(int32) float64 { return 0.5 }, func(int) bool { return true },
		func(int) [2]float64 { return [2]float64{3 * days, days} })
	if got := w.TailLink(); got.Share != 0.75 {
		t.Errorf("%+v", got)
	}
}

// Warning buffers tells when drops and pauses raise a percentile: by how many flows are hit, how long their packets wait
// where the buffer is full at that time, whatever port fills it, the timeout of a lost last packet, and how long a link is
// paused on the way to another port.
func TestOverflow(t *testing.T) {
	n := topologytest.Wire(t, 6, 4, [2]int32{0, 4}, [2]int32{1, 4}, [2]int32{4, 5}, [2]int32{2, 5}, [2]int32{3, 5})
	to2, beside := []int32{0, 4, 7}, []int32{0, 4, 9} // links of paths to host 2, whose port is full, and to host 3
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e7}
	for id := range loads.Links {
		loads.Links[id].Flows = 1
	}
	const fct, tripNS = 100_000, 2 * 3 * 1000
	p := simkernel.DefaultParams()
	lossy := network.BufferParams{SwitchBytes: 400_000, Alpha: 1}
	lossless := network.BufferParams{SwitchBytes: 400_000, Alpha: 1, PFC: true}
	bytes := func(ns int64) float64 { return float64(ns*n.Links[7].BandwidthBps) / 8e9 }
	room := exact.Rooms(n, p, lossy)[7] * 8e9 / n.Links[7].BandwidthBps
	timeout := float64(2 * 3 * room) // all links are as fast
	stated := lossy
	stated.RetransmitNS = 40_000
	for _, c := range []struct {
		name    string
		buffer  network.BufferParams
		path    []int32
		flows   int   // of 1000 that wait for the longest queue
		longest int64 // ns
		lastIs  bool  // the last packet does, too
		atNS    float64
		other   int64   // queue of the other port, ns
		rise    float64 // of p99; below 0: at least
	}{
		{"there is room", lossy, to2, 500, room - 1, false, 0, 0, 0},
		{"few flows", lossy, to2, 2, room + 90_000, false, 0, 0, float64(room+90_000+tripNS) / fct}, // p99.9
		{"a fiftieth", lossy, to2, 20, room + 20_000, false, 0, 0, float64(room+20_000+tripNS) / fct},
		{"at another time", lossy, to2, 20, room + 20_000, false, 5e6, 0, 0},
		{"another port takes a third", lossy, to2, 20, room * 3 / 4, false, 0, room, float64(room*3/4+tripNS) / fct},
		{"another port takes little", lossy, to2, 20, room * 3 / 4, false, 0, room / 4, 0},
		{"last packets", lossy, to2, 20, room + 1, true, 0, 0, (float64(room+tripNS) + timeout) / fct},
		{"last packets, stated timeout", stated, to2, 20, room + 1, true, 0, 0, float64(room+tripNS+40_000) / fct},
		{"PFC, to the full port", lossless, to2, 500, 4 * room, true, 0, 0, 0},
		{"PFC, beside it", lossless, beside, 500, 4 * room, false, 0, 0, -0.5},
		{"PFC, beside it at another time", lossless, beside, 500, 4 * room, false, 5e6, 0, 0},
	} {
		var stats, slowdowns, hops tables.Memory
		var flows []tables.SlowdownRow
		var at []tables.ContributionRow
		for i := range 1000 {
			flows = append(flows, tables.SlowdownRow{FlowRow: int64(i), SizeBytes: 50_000, FCTNS: fct, Slowdown: 2})
			for h, link := range c.path {
				r := tables.ContributionRow{Contribution: tables.Contribution{FlowRow: int64(i), Hop: int16(h), Hops: 3, LinkID: link}}
				if i < c.flows && h == 2 {
					r.LongestNS = c.longest
					if c.lastIs {
						r.WaitNS = float64(r.LongestNS)
					}
				}
				at = append(at, r)
			}
		}
		queue := func(link int32, ns int64) tables.LinkStat {
			return tables.LinkStat{LinkID: link, LinkCounters: tables.LinkCounters{MaxQueueBytes: int64(bytes(ns)),
				CrowdedAtNS: []float64{c.atNS}, CrowdedBytes: []float64{bytes(ns)}}}
		}
		rows := []tables.LinkStat{queue(7, c.longest)}
		if c.other > 0 {
			rows = append(rows, queue(9, c.other))
		}
		err := errors.Join(tables.LinkStats.Write(&stats, rows), tables.Slowdowns.Write(&slowdowns, flows),
			tables.HopContributions.Write(&hops, at))
		o, overflowErr := NewOverflow(n, &p, c.buffer, exact.Rooms(n, p, c.buffer), &loads, OwnColumns, stats.Read())
		w := NewTailWatch(n, &loads, confidence.Tails{}, o)
		if err := errors.Join(err, overflowErr, w.Watch(0, 1000, slowdowns.Read(), hops.Read())); err != nil {
			t.Fatal(err)
		}
		got := o.warnings(n)
		if c.rise == 0 {
			if len(got) > 0 {
				t.Errorf("%s: %+v", c.name, got)
			}
			continue
		}
		if len(got) != 1+int(min(1, c.other)) || got[0].Link != 7 || c.rise > 0 && math.Abs(got[0].Measure-c.rise) > 2*0.002*(1+c.rise) ||
			got[0].Measure < -c.rise || !strings.Contains(got[0].Text, "of 1000 flows, and may raise p") {
			t.Errorf("%s: %+v, want a rise of %g", c.name, got, c.rise)
		}
	}
}

// A cable that holds more in flight than its port's buffer is named where senders go back, and only there; so is one
// that sends more before a pause than a buffer holds.
func TestLongCables(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	long := int32(slices.IndexFunc(n.Links, func(l topology.Link) bool { return !n.FromHost(l.ID) }))
	for _, l := range []int32{long, long ^ 1} {
		n.Links[l].DelayNS = 2_000_000
	}
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	loads.Links[long].Flows = 7
	b := network.BufferParams{SwitchBytes: 400_000, Alpha: 1}
	p := simkernel.DefaultParams()
	p.SetWindow(simkernel.AutoWindow)
	got := goBackWarnings(n, &p, b, &loads)
	if len(got) != 1 || got[0].Link != long || !strings.Contains(got[0].Text, "holds 200000 there") {
		t.Errorf("%+v", got)
	}
	if err := exact.CheckWholeNetwork(n, p, b, nil, &loads); err != nil {
		t.Error(err)
	}
	tcp, selective, stated := simkernel.ParamsOf(simkernel.CUBIC), b, p
	selective.Selective = true
	stated.SetWindow(18_000)
	for i, x := range [][]Warning{goBackWarnings(n, &tcp, b, &loads), goBackWarnings(n, &p, selective, &loads),
		goBackWarnings(n, &stated, b, &loads), goBackWarnings(n, &p, network.BufferParams{}, &loads)} {
		if len(x) > 0 {
			t.Errorf("%d: %+v", i, x)
		}
	}
	b.PFC = true
	short := headroomWarnings(n, p, network.BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true}, nil)
	if len(short) != 1 || !strings.Contains(short[0].Text, "PFC is not lossless") || headroomWarnings(n, p, b, nil) != nil &&
		!(short[0].Measure < headroomWarnings(n, p, b, nil)[0].Measure) {
		t.Errorf("%+v", short)
	}
	err := exact.CheckWholeNetwork(n, p, b, nil, &loads)
	if err == nil || !strings.Contains(err.Error(), n.LinkName(long)) && !strings.Contains(err.Error(), n.LinkName(long^1)) {
		t.Errorf("PFC without room: %v", err)
	}
}

// A disagreement about few flows, or about a percentile that is not printed, is not named.
func TestDisagreements(t *testing.T) {
	row := func(bin string, flows int64, q, by float64) confidence.Interval {
		return confidence.Interval{SizeBin: bin, Flows: flows, Quantile: q, Estimate: 2, Method: &confidence.MethodPart{Disagreement: by}}
	}
	for _, c := range []struct {
		name string
		rows []confidence.Interval
		want string
	}{
		{"the worst", []confidence.Interval{row(sizebin.All, 9000, 0.5, 0.11), row("<10 KB", 9000, 0.99, -0.3)}, "p99 of all flows of <10 KB is estimated at 2.000"},
		{"few beyond", []confidence.Interval{row(sizebin.All, 900, 0.99, 0.5)}, ""},
		{"small bin", []confidence.Interval{row("<10 KB", 1000, 0.99, 0.5)}, ""},
		{"p50 of a bin", []confidence.Interval{row("<10 KB", 9000, 0.5, 0.5)}, ""},
		{"of a service", []confidence.Interval{{By: confidence.ByService, SizeBin: sizebin.All, Flows: 9000, Quantile: 0.5, Method: &confidence.MethodPart{Disagreement: 1}}}, ""},
	} {
		got := Disagreements(c.rows)
		if len(got) != min(1, len(c.want)) || len(got) == 1 && !strings.HasPrefix(got[0].Text, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
