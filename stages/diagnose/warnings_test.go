package diagnose

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// watched returns a TailWatch that has read 200 flows of two hops over SmallNetwork, in two chunks. A flow
// goes from host 0 to host 1 if first returns true, otherwise from host 2 to host 3. delays returns its
// delays at the two hops.
func watched(t *testing.T, load func(int32) float64, first func(i int) bool,
	delays func(i int) [2]float64) *TailWatch {
	t.Helper()
	n := topologytest.SmallNetwork(t)
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e6}
	for _, l := range n.Links {
		loads.Links[l.ID] = route.LinkLoad{Flows: 1, Bytes: int64(load(l.ID) * float64(l.BandwidthBps) * 1e6 / 8e9)}
	}
	w := NewTailWatch(n, confidence.Tails{All: 5}, nil)
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
	w.twice = crossing(t, &loads, 200, out)
	var rows []tables.SlowdownRow
	for i := range 200 {
		d := delays(i)
		rows = append(rows, tables.SlowdownRow{FlowID: int64(i), FlowRow: int64(i), SizeBytes: 500,
			StartNS: int64(i) * 1000,
			Hops:    2, IdealNS: 1, FCTNS: 20_000, Slowdown: 1 + d[0] + d[1]})
	}
	slow := &tables.Memory{}
	if err := tables.Slowdowns.Write(slow, rows); err != nil {
		t.Fatal(err)
	}
	for _, chunk := range []step.Range{{Lo: 0, Hi: 120}, {Lo: 120, Hi: 200}} {
		in := Watched{Flows: chunk, Slowdowns: slow.Read(), Contributions: hops.Read()}
		if err := w.Watch(in); err != nil {
			t.Fatal(err)
		}
	}
	if w.flows != 200 {
		t.Fatalf("%d flows watched", w.flows)
	}
	return w
}

// The even flows have a slowdown of 5 or more. Most of their delay is at hop 1.
func TestTailLink(t *testing.T) {
	load := func(int32) float64 { return 0 }
	first := func(i int) bool { return i%4 == 0 }
	w := watched(t, load, first, func(i int) [2]float64 {
		if i%2 == 1 {
			return [2]float64{3.5, 0.25}
		}
		return [2]float64{1, 3 + float64(i%4)/2}
	})
	got := w.TailLink()
	if got != (TailLink{7, 4.0 / 9}) {
		t.Errorf("%+v", got)
	}
}

// A warning requires that many flows cross two loaded links.
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

// If no flow is delayed, the slowest flows wait at no link.
func TestSpreadOfNoDelay(t *testing.T) {
	watch := watched(t, func(int32) float64 { return 0.55 }, func(i int) bool { return i%4 == 0 },
		func(int) [2]float64 { return [2]float64{} })
	found := watch.SpreadOut()
	if found != nil {
		t.Errorf("%+v", found)
	}
}

// Slow flows that wait at three links on average cause a warning. NIC waits do not count.
func TestSpread(t *testing.T) {
	n := methodtest.Clos(t)
	for _, c := range []struct {
		delays []float64
		tails  confidence.Tails
		want   string
	}{
		{[]float64{90, 50, 50, 50}, confidence.Tails{All: 2, Bins: [4]float64{9, 9, 9, 9}},
			"the slowest 1% of flows wait at 3.0 links"},
		{[]float64{90, 50, 50, 50}, confidence.Tails{All: 9, Bins: [4]float64{9, 2, 9, 9}},
			"the slowest 1% of flows of 10-100 KB wait at 3.0"},
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
		err := errors.Join(tables.Slowdowns.Write(&slowdowns,
			[]tables.SlowdownRow{{SizeBytes: 50_000, Slowdown: 3}}),
			tables.HopContributions.Write(&hops, rows))
		w := NewTailWatch(n, c.tails, nil)
		in := Watched{Flows: step.Range{Hi: 1}, Slowdowns: slowdowns.Read(), Contributions: hops.Read()}
		if err := errors.Join(err, w.Watch(in)); err != nil {
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

// Warnings that depend on the scenario only: loads, the transport and its constants.
func TestWarningsBeforeLinkCases(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	whole := func(m *step.Model, loads *route.Loads) []Warning {
		return Overloads(m, loads, 1)
	}
	for _, c := range []struct {
		name   string
		by     func(*step.Model, *route.Loads) []Warning
		load   float64
		change func(p *simkernel.Params)
		want   string
	}{
		{"nothing", ReasonsForWholeNetwork, 0.5, func(*simkernel.Params) {}, ""},
		{"overload", ReasonsForWholeNetwork, 0.93, func(*simkernel.Params) {}, "overload"},
		{"overload of what is true", whole, 0.93, func(*simkernel.Params) {}, ""},
		{"more than fits", whole, 1.1, func(*simkernel.Params) {}, "overload"},
		{"another transport", ReasonsForWholeNetwork, 0.5,
			func(p *simkernel.Params) { p.Transport = simkernel.HPCC }, "transport"},
		{"wide windows", ReasonsForWholeNetwork, 0.5, func(p *simkernel.Params) { p.WindowBytes = 500_000 },
			"transport"},
		{"large ACKs", ReasonsForWholeNetwork, 0.5, func(p *simkernel.Params) { p.AckBytes = 500 }, "transport"},
		{"large ACKs of what is true", whole, 0.5, func(p *simkernel.Params) { p.AckBytes = 500 }, ""},
		// The delay also applies to the next rows.
		{"long path", whole, 0.5, func(*simkernel.Params) { n.Links[0].DelayNS = 1e6 }, "long path"},
		{"long path by link cases", ReasonsForWholeNetwork, 0.5, func(*simkernel.Params) {}, "long path"},
		{"long path of TCP", whole, 0.5, func(p *simkernel.Params) { p.Transport = simkernel.CUBIC }, ""},
	} {
		p := simkernel.DefaultParams()
		c.change(&p)
		m := &step.Model{Network: n, Params: p}
		loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 1e6}
		bytes := int64(c.load * float64(n.Links[0].BandwidthBps) * 1e6 / 8e9)
		loads.Links[0] = route.LinkLoad{Flows: 1, Bytes: bytes, Packets: p.Packets(bytes), LastStartNS: 1e6}
		loads.Links[1] = route.LinkLoad{Flows: 1, Bytes: 1000, Packets: 1, LastStartNS: 1e6}
		got := ""
		for _, x := range append(c.by(m, &loads), InputWarnings(m, &loads, nil)...) {
			got += x.Kind
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Every estimator reports remarks about the flows and long links, the longest first. Neither is specific to
// link cases.
func TestInputWarnings(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	for id := range n.Links {
		n.Links[id].DelayNS = int64(id) * 600_000
		loads.Links[id].Flows = int64(id % 3)
	}
	p := simkernel.DefaultParams()
	got := ""
	for _, w := range InputWarnings(&step.Model{Network: n, Params: p}, &loads, []string{"a row may be cut"}) {
		got += fmt.Sprintf("%s %d, ", w.Kind, w.Link)
		if OfLinkCases(w.Kind) {
			t.Errorf("%s is of link cases", w.Kind)
		}
	}
	if got != "long path 7, long path 5, long path 4, long path 2, long path 1, flows -1, " {
		t.Error(got)
	}
}

// The sum of the delays of slow flows in ps can exceed 64 bits.
func TestTailLinkOfLongDelays(t *testing.T) {
	const days = 10 * 86400e9
	w := watched(t, func(int32) float64 { return 0.5 }, func(int) bool { return true },
		func(int) [2]float64 { return [2]float64{3 * days, days} })
	got := w.TailLink()
	if got.Share != 0.75 {
		t.Errorf("%+v", got)
	}
}

// A disagreement about few flows, or about a percentile that is not printed, causes no warning.
func TestDisagreements(t *testing.T) {
	row := func(bin string, flows int64, q, by float64) confidence.Interval {
		return confidence.Interval{SizeBin: bin, Flows: flows, Quantile: q, Estimate: 2,
			Method: &confidence.MethodPart{Disagreement: by}}
	}
	for _, c := range []struct {
		name string
		rows []confidence.Interval
		want string
	}{
		{"the worst", []confidence.Interval{row(sizebin.All, 9000, 0.5, 0.11), row("<10 KB", 9000, 0.99, -0.3)},
			"p99 of all flows of <10 KB is estimated at 2.000"},
		{"few beyond", []confidence.Interval{row(sizebin.All, 900, 0.99, 0.5)}, ""},
		{"small bin", []confidence.Interval{row("<10 KB", 1000, 0.99, 0.5)}, ""},
		{"p50 of a bin", []confidence.Interval{row("<10 KB", 9000, 0.5, 0.5)}, ""},
		{"of a service", []confidence.Interval{{By: confidence.ByService, SizeBin: sizebin.All, Flows: 9000,
			Quantile: 0.5, Method: &confidence.MethodPart{Disagreement: 1}}}, ""},
	} {
		got := Disagreements(c.rows)
		if len(got) != min(1, len(c.want)) || len(got) == 1 && !strings.HasPrefix(got[0].Text, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Link 0 is a link: only a warning about none has no link in its row.
func TestLinkOfAWarningInItsRow(t *testing.T) {
	rec := Record([]Warning{{Kind: "overload"}, {Kind: "flows", Link: -1}})
	defer rec.Release()
	links := rec.Column(schema.Warnings.Index("link_id"))
	if links.ValueStr(0) != "0" || !links.IsNull(1) {
		t.Errorf("links %v", links)
	}
}

// Percentages in texts are those of their numbers. Each is large enough to show an error of 1%.
func TestPercentagesInTexts(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	p.AckBytes = 1000
	loads := smallLoads(n)
	loads.Links[1] = loads.Links[3]
	var limited []tables.SlowdownRow
	var hops []tables.ContributionRow
	for i := range int64(100) {
		row := tables.SlowdownRow{FlowRow: i, Src: 2, Dst: 3, FCTNS: 1000, Slowdown: 2}
		if i < 90 {
			row.WindowNS = 900
		}
		limited = append(limited, row)
		for h := range int16(2) {
			hops = append(hops, tables.ContributionRow{Contribution: tables.Contribution{FlowRow: i, Hop: h,
				LinkID: int32(h)}})
		}
	}
	full := &route.Loads{Links: make([]route.LinkLoad, 8), LastStartNS: 100_000}
	for id := range full.Links {
		full.Links[id] = route.LinkLoad{Flows: 1, Bytes: 100_000}
	}
	w := tail(t, full, limited, hops)
	disagrees := []confidence.Interval{{SizeBin: sizebin.All, Flows: 1000, Quantile: 0.9, Estimate: 2,
		Method: &confidence.MethodPart{Disagreement: 0.7}}}
	acks := unusualTransport(&step.Model{Network: n, Params: p}, loads)
	for want, found := range map[string][]Warning{
		"ACKs have 95% of the size of full data packets": acks,
		"the window is smaller than the paths of 90% of the flows need, which makes 81% of all FCT, most from " +
			"host 2 to host 3;": w.Warnings(),
		"100% of the flows cross two links that are loaded above 60%:": w.LoadedTwice(),
		"p90 of all flows is estimated at 2.000, and is 3.400 by the link cases where they wait longest " +
			"(+70%):": Disagreements(disagrees),
	} {
		if len(found) != 1 || !strings.HasPrefix(found[0].Text, want) {
			t.Errorf("%+v, want %q", found, want)
		}
	}
}

// Of equal ones, the first is named: a text does not depend on how many follow.
func TestTheFirstOfEqualOnesIsNamed(t *testing.T) {
	loads := &route.Loads{Links: make([]route.LinkLoad, 8)}
	var flows []tables.SlowdownRow
	var hops []tables.ContributionRow
	for i := range int64(2) {
		flows = append(flows, tables.SlowdownRow{FlowRow: i, Src: int32(2 * i), Dst: int32(2*i + 1), FCTNS: 1000,
			Slowdown: 3, WindowNS: 500})
		for h := range int16(4) {
			hops = append(hops, tables.ContributionRow{Contribution: tables.Contribution{FlowRow: i, Hop: h,
				LinkID: int32(h), DelayNS: 7}})
		}
	}
	w := tail(t, loads, flows, hops)
	if w.TailLink() != (TailLink{0, 0.25}) {
		t.Errorf("%+v", w.TailLink())
	}
	spread := w.SpreadOut()
	if len(spread) != 1 || !strings.HasPrefix(spread[0].Text, "the slowest 1% of flows of <10 KB wait at 3.0") {
		t.Errorf("%+v", spread)
	}
	windows := w.Warnings()
	if len(windows) != 1 || !strings.Contains(windows[0].Text, "most from host 0 to host 1;") {
		t.Errorf("%+v", windows)
	}
	var rows []confidence.Interval
	for _, q := range []float64{0.5, 0.9} {
		rows = append(rows, confidence.Interval{SizeBin: sizebin.All, Flows: 1000, Quantile: q, Estimate: 2,
			Method: &confidence.MethodPart{Disagreement: 0.2}})
	}
	found := Disagreements(rows)
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, "p50 of all flows") {
		t.Errorf("%+v", found)
	}
}
