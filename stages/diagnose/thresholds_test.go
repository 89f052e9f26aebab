package diagnose

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// smallLoads are loads of SmallNetwork: 100 packets of 1,000 bytes on link 0 within 100 µs, which is a load
// of 80%, and one packet on the reverse of link 2.
func smallLoads(n *topology.Network) *route.Loads {
	l := &route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: 100_000}
	l.Links[0] = route.LinkLoad{Flows: 1, Bytes: 100_000, Packets: 100, LastStartNS: 100_000}
	l.Links[3] = route.LinkLoad{Flows: 1, Bytes: 1000, Packets: 1, LastStartNS: 100_000}
	return l
}

// kinds are the kinds and measures of warnings.
func kinds(all []Warning) string {
	var s []string
	for _, w := range all {
		s = append(s, fmt.Sprintf("%s %.4f > %.4g at %d", w.Kind, w.Measure, w.Threshold, w.Link))
	}
	return strings.Join(s, ", ")
}

// The offered load includes headers: 80% of payload is 83.84%. A warning at another load, or about another
// link, would send the user to the wrong estimator.
func TestOfferedLoad(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := &step.Model{Network: n, Params: simkernel.DefaultParams()}
	loads := smallLoads(n)
	for least, want := range map[float64]string{
		0.8383: "overload 0.8384 > 0.8383 at 0", 0.8385: "",
		// Link 3 has 1,000 bytes in 100 µs, and headers.
		0.008: "overload 0.8384 > 0.008 at 0, overload 0.0084 > 0.008 at 3",
	} {
		got := kinds(Overloads(m, loads, least))
		if got != want {
			t.Errorf("from %v on: %q, want %q", least, got, want)
		}
	}
	text := Overloads(m, loads, 0.8)[0].Text
	if !strings.Contains(text, "is offered 84% of what it can send") {
		t.Error(text)
	}
	// ACKs of 48% of the bandwidth leave half of it.
	loads.Links[1] = route.LinkLoad{Flows: 1, Bytes: 1_000, Packets: 1000, LastStartNS: 100_000}
	avail := float64(loads.AvailableBps(&m.Params, n.Links[0]))
	want := fmt.Sprintf("overload %.4f > 0.95 at 0", 0.8384*1e10/avail)
	reasons := ReasonsForWholeNetwork(m, loads)
	got := kinds(reasons[:1])
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Two hosts of a rack have a round trip of 5,772 ns, in which 7,215 bytes are sent. Windows of more than
// ten times that and ACKs of more than a tenth of a packet cause warnings, the window first.
func TestConstantsOfTheTransport(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for _, c := range []struct {
		window, ack int64
		want        string
	}{
		{72_150, 60, ""}, {72_160, 60, "transport 10.0014 > 10 at -1"}, {18_000, 104, ""},
		{18_000, 105, "transport 0.1002 > 0.1 at -1"}, {800_000, 105, "transport 109.5140 > 10 at -1"},
	} {
		p := simkernel.DefaultParams()
		p.WindowBytes = c.window
		p.AckBytes = c.ack
		loads := smallLoads(n)
		loads.Links[1] = loads.Links[3] // whose ACKs are on link 0
		got := kinds(unusualTransport(&step.Model{Network: n, Params: p}, loads))
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
	p := simkernel.DefaultParams()
	p.AckBytes = 500
	loads := smallLoads(n)
	loads.Links[1] = loads.Links[3]
	large := unusualTransport(&step.Model{Network: n, Params: p}, loads)
	if len(large) != 1 || !strings.HasPrefix(large[0].Text, "ACKs have 48% of the size of full data packets") {
		t.Errorf("%+v", large)
	}
	got := kinds([]Warning{Unsettled()})
	if got != "unsettled NaN > NaN at -1" {
		t.Error(got)
	}
	// ACKs matter where they are: on a link whose reverse has no flows there are none.
	none := unusualTransport(&step.Model{Network: n, Params: p}, smallLoads(n))
	if none != nil {
		t.Errorf("without ACKs on a link with flows: %+v", none)
	}
}

// crossing returns the flows that cross two loaded links of SmallNetwork, given their hops.
func crossing(t *testing.T, loads *route.Loads, flows int64, hops []tables.ContributionRow) flowSet {
	t.Helper()
	var table tables.Memory
	var rows []tables.Hop
	for _, h := range hops {
		at := tables.FlowAtHop{LinkID: h.LinkID, FlowRow: h.FlowRow, Hop: h.Hop}
		rows = append(rows, tables.Hop{LocalHop: tables.LocalHop{FlowAtHop: at}})
	}
	if err := tables.Hops.Write(&table, rows); err != nil {
		t.Fatal(err)
	}
	read := func(step.Range) schema.Batches { return table.Read() }
	twice, err := crossTwice(topologytest.SmallNetwork(t), loads, flows, 1, read)
	if err != nil {
		t.Fatal(err)
	}
	return twice
}

// tail runs a TailWatch over flows of SmallNetwork, without tails.
func tail(t *testing.T, loads *route.Loads, flows []tables.SlowdownRow,
	hops []tables.ContributionRow) *TailWatch {
	t.Helper()
	n := topologytest.SmallNetwork(t)
	w := NewTailWatch(n, confidence.Tails{}, nil)
	w.twice = crossing(t, loads, int64(len(flows)), hops)
	var slow, at tables.Memory
	err := tables.Slowdowns.Write(&slow, flows)
	if err == nil {
		err = tables.HopContributions.Write(&at, hops)
	}
	if err == nil {
		rows := step.Range{Hi: int64(len(flows))}
		err = w.Watch(Watched{Flows: rows, Slowdowns: slow.Read(), Contributions: at.Read()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Windows that make 1% of the sum of FCTs cause a warning, which names the flow that suffers most.
func TestSmallWindows(t *testing.T) {
	for lost, want := range map[int64]string{
		199: "",
		200: "the window is smaller than the paths of 2% of the flows need, which makes 1% of all FCT, most from " +
			"host 2 to host 3;",
	} {
		var flows []tables.SlowdownRow
		for i := range int64(100) {
			flows = append(flows, tables.SlowdownRow{FlowRow: i, Dst: 1, FCTNS: 1000, Slowdown: 2})
		}
		flows[3].WindowNS = 800
		flows[3].Src = 2
		flows[3].Dst = 3
		flows[4].WindowNS = lost
		got := tail(t, &route.Loads{Links: make([]route.LinkLoad, 8)}, flows, nil).Warnings()
		ok := len(got) == 0
		if want != "" {
			ok = kinds(got) == "window 0.0100 > 0.01 at -1" && strings.HasPrefix(got[0].Text, want)
		}
		if !ok {
			t.Errorf("%d ns: %+v, want %q", 800+lost, got, want)
		}
	}
}

// Links are loaded from 60% on. More than 2% of the flows have to cross two of them.
func TestFlowsThatCrossLoadedLinks(t *testing.T) {
	for _, c := range []struct {
		crossing int
		bytes    int64
		want     string
	}{
		{4, 75_000, ""}, {5, 75_000, "loaded twice 0.0250 > 0.02 at -1"}, {5, 74_999, ""},
	} {
		loads := &route.Loads{Links: make([]route.LinkLoad, 8), LastStartNS: 100_000}
		for id := range loads.Links {
			loads.Links[id] = route.LinkLoad{Flows: 1, Bytes: c.bytes}
		}
		var flows []tables.SlowdownRow
		var hops []tables.ContributionRow
		for i := range 200 {
			flows = append(flows, tables.SlowdownRow{FlowRow: int64(i), FCTNS: 1000, Slowdown: 2})
			for h := range min(2, 1+c.crossing/(i+1)) {
				hops = append(hops, tables.ContributionRow{Contribution: tables.Contribution{
					FlowRow: int64(i), Hop: int16(h), LinkID: int32(7 * h),
				}})
			}
		}
		got := kinds(tail(t, loads, flows, hops).LoadedTwice())
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The number of links at which a flow waits is that of equal waits: (1 + 1 + 1)² / 3 and (2 + 1)² / 5, on
// average 2.4. The slow flows have delays of 3 and 1 µs at two links, so the first has three quarters.
func TestLinksOfSlowFlows(t *testing.T) {
	var hops []tables.ContributionRow
	for row, delays := range [][]float64{{9, 1, 1, 1}, {0, 2, 1}, {7}} {
		for h, ns := range delays {
			hops = append(hops, tables.ContributionRow{Contribution: tables.Contribution{
				FlowRow: int64(row), Hop: int16(h), LinkID: int32(h), DelayNS: ns,
			}})
		}
	}
	flows := []tables.SlowdownRow{{FCTNS: 1, Slowdown: 3}, {FlowRow: 1, FCTNS: 1, Slowdown: 3},
		{FlowRow: 2, FCTNS: 1, Slowdown: 3}}
	w := tail(t, &route.Loads{Links: make([]route.LinkLoad, 8)}, flows, hops)
	got := kinds(w.SpreadOut())
	if got != "spread 2.4000 > 2 at -1" {
		t.Error(got)
	}
	link := w.TailLink()
	if link.Link != 0 || math.Abs(link.Share-16.0/22) > 1e-12 {
		t.Errorf("%+v", link)
	}
	// Flows that are not late are not slow, for any tail.
	for i := range flows {
		flows[i].Slowdown = 1
	}
	w = tail(t, &route.Loads{Links: make([]route.LinkLoad, 8)}, flows, hops)
	link = w.TailLink()
	if link.Share != 0 || w.SpreadOut() != nil {
		t.Errorf("%+v, %+v", link, w.SpreadOut())
	}
	hops[0].LinkID = 8
	var at, slow tables.Memory
	if err := tables.HopContributions.Write(&at, hops); err != nil {
		t.Fatal(err)
	}
	if err := tables.Slowdowns.Write(&slow, flows); err != nil {
		t.Fatal(err)
	}
	err := w.Watch(Watched{Flows: step.Range{Hi: 3}, Slowdowns: slow.Read(), Contributions: at.Read()})
	if err == nil || !strings.Contains(err.Error(), "flow row 0 crosses link 8, of 8 links") {
		t.Errorf("error %v", err)
	}
}

// A disagreement of a tenth counts, if ten flows are beyond the percentile. The text says in which direction.
func TestDisagreementsByHand(t *testing.T) {
	row := func(bin string, flows int64, q, by float64) confidence.Interval {
		m := &confidence.MethodPart{Disagreement: by}
		return confidence.Interval{SizeBin: bin, Flows: flows, Quantile: q, Estimate: 2, Method: m}
	}
	for _, c := range []struct {
		rows []confidence.Interval
		want string
	}{
		{[]confidence.Interval{row(sizebin.All, 10_000, 0.999, 0.11)},
			"p99.9 of all flows is estimated at 2.000, and is 2.220 by the link cases where they wait longest " +
				"(+11%): the estimate is probably too low there"},
		{[]confidence.Interval{row(sizebin.All, 1001, 0.99, 0.1), row(sizebin.All, 1001, 0.99, -0.3),
			row(sizebin.All, 5000, 0.9, 0.2)},
			"p99 of all flows is estimated at 2.000, and is 1.400 by the link cases where they wait longest (-30%): " +
				"the estimate is probably too high there"},
		{[]confidence.Interval{row(sizebin.All, 20, 0.5, 0.1)}, "p50 of all flows is estimated"},
		{[]confidence.Interval{row(sizebin.All, 19, 0.5, 0.5)}, ""},
		{[]confidence.Interval{row(sizebin.All, 5000, 0.5, 0.099)}, ""},
		{[]confidence.Interval{row(">1 MB", confidence.FewInBin+1, 0.99, 0.2)},
			"p99 of all flows of >1 MB is estimated"},
		{[]confidence.Interval{row(">1 MB", confidence.FewInBin, 0.99, 0.2)}, ""},
	} {
		got := Disagreements(c.rows)
		if len(got) != min(1, len(c.want)) || len(got) == 1 && !strings.HasPrefix(got[0].Text, c.want) {
			t.Errorf("%+v, want %q", got, c.want)
		}
	}
}

// Delays of 500 µs or more, those of a cable of 100 km, are long. Links without flows and remarks have no
// measure.
func TestLongDelays(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	n.Links[0].DelayNS = 499_999
	n.Links[3].DelayNS = 500_000
	n.Links[5].DelayNS = 900_000
	m := &step.Model{Network: n, Params: simkernel.DefaultParams()}
	got := InputWarnings(m, smallLoads(n), []string{"a note"})
	if kinds(got) != "long path 500000.0000 > 5e+05 at 3, flows NaN > NaN at -1" {
		t.Error(kinds(got))
	}
}

// The load of flows that wait for others refers to the time until the last has finished, which is not the
// last to start.
func TestEndOfTheLastFlow(t *testing.T) {
	var slow tables.Memory
	err := tables.Slowdowns.Write(&slow, []tables.SlowdownRow{{StartNS: 5, FCTNS: 100},
		{StartNS: 20, FCTNS: 10}})
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int64]int64{0: 105, 104: 105, 200: 200} {
		got, err := lastEnd(slow.Read(), from)
		if err != nil || got != want {
			t.Errorf("from %d on: %d, %v", from, got, err)
		}
	}
}
