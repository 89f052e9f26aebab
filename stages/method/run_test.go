package method_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// estimate runs an estimate, and fails the test if it cannot.
func estimate(t *testing.T, m *method.Model, e method.Estimate, flows []workload.Row) *method.Tables {
	t.Helper()
	found, err := method.Run(t.Context(), m, e, flows)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// slowdowns are the rows of table slowdowns of an estimate.
func slowdowns(t *testing.T, found *method.Tables) []tables.SlowdownRow {
	t.Helper()
	rows, err := found.Slowdowns()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// every lists the estimates that the laws are tested with.
func every() map[string]method.Estimate {
	all := map[string]method.Estimate{
		"flow, one pass":         {Estimator: estimators.Flow, Options: step.Options{Passes: 1}},
		"independent, clustered": {Estimator: estimators.Independent, Options: step.Options{ClusterError: 0.1}},
	}
	for _, name := range estimators.All() {
		all[name.String()] = method.Estimate{Estimator: name}
	}
	return all
}

// Every estimator has one row per flow, in the order of the flows, and no FCT below the ideal one. The
// contributions of a flow's hops add up to its delay. The rows do not depend on partitions.
func TestLawsOfEveryEstimator(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 4000)
	for name, e := range every() {
		t.Run(name, func(t *testing.T) {
			found := estimate(t, m, e, flows)
			rows := slowdowns(t, found)
			if len(rows) != len(flows) {
				t.Fatalf("%d rows for %d flows", len(rows), len(flows))
			}
			left := make([]float64, len(rows)) // delay that no hop contributes
			slowed := 0
			for i, r := range rows {
				if r.FlowID != flows[i].ID || r.FlowRow != int64(i) {
					t.Fatalf("row %d is flow %d in row %d", i, r.FlowID, r.FlowRow)
				}
				if r.FCTNS < r.IdealNS || r.Slowdown != float64(r.FCTNS)/float64(r.IdealNS) {
					t.Fatalf("flow %d: FCT %d, ideal FCT %d, slowdown %v", r.FlowID, r.FCTNS, r.IdealNS, r.Slowdown)
				}
				left[i] = float64(r.FCTNS - r.IdealNS - r.WindowNS*explained(e))
				if r.Slowdown > 1 {
					slowed++
				}
			}
			if slowed < 1000 {
				t.Fatalf("only %d flows are delayed: the test is too weak", slowed)
			}
			for _, partitions := range []int{2, 7, 64} {
				e := e
				e.Partitions = partitions
				samePlans(t, found, estimate(t, m, e, flows), partitions)
			}
			by := found.Writer(schema.LinkStats).Owner.Estimator
			if by != e.Estimator.String() {
				t.Errorf("the last step that writes link_stats belongs to %s, so questions about links find no rows of "+
					"this estimate (step.Copy)", by)
			}
			if found.Writer(schema.HopContributions).Owner.Estimator != e.Estimator.String() {
				return // it does not say where its flows wait
			}
			err := columns.Each(found.Table(schema.HopContributions).Read(), func(c *tables.ContributionRow) error {
				if c.WaitNS < 0 || c.DelayNS < c.WaitNS {
					return fmt.Errorf("flow row %d: hop %d contributes %v ns, of which %v are wait", c.FlowRow, c.Hop,
						c.DelayNS, c.WaitNS)
				}
				left[c.FlowRow] -= c.DelayNS
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, ns := range left {
				if math.Abs(ns) > 0.51 {
					t.Fatalf("flow row %d: hops contribute %v ns less than its delay", i, ns)
				}
			}
		})
	}
}

// explained is 1 if the delay by a window belongs to no hop, and 0 if the hops contribute all of the delay.
func explained(e method.Estimate) int64 {
	if e.Estimator == estimators.Independent {
		return 0
	}
	return 1
}

// samePlans compares the tables whose rows have an order that does not depend on partitions.
func samePlans(t *testing.T, want, got *method.Tables, partitions int) {
	t.Helper()
	for _, table := range []schema.Table{schema.Slowdowns, schema.LinkStats, schema.Intervals, schema.Warnings} {
		if want.Table(table) == nil {
			continue
		}
		a := text(want, table)
		b := text(got, table)
		if !slices.Equal(a, b) {
			t.Errorf("%d partitions: table %s has other rows", partitions, table.Name)
		}
	}
}

// text is the rows of a table.
func text(found *method.Tables, table schema.Table) []string {
	var rows []string
	for _, rec := range found.Table(table).Records {
		for i := range int(rec.NumRows()) {
			row := ""
			for _, c := range rec.Columns() {
				row += c.ValueStr(i) + " "
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Every link has a row in table link_stats, and its available bandwidth is at most its bandwidth. Every flow
// is at every hop of its path once.
func TestLinksOfEveryEstimator(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 4000)
	for name, e := range every() {
		found := estimate(t, m, e, flows)
		var sent, packets int64
		links := 0
		err := columns.Each(found.Table(schema.LinkStats).Read(), func(l *tables.LinkStat) error {
			links++
			sent += l.PacketsSent
			packets += l.Packets
			if l.AvailableBps > l.BandwidthBps || l.AvailableBps < l.BandwidthBps/10 {
				t.Errorf("%s: link %d: %d of %d bps available", name, l.LinkID, l.AvailableBps, l.BandwidthBps)
			}
			return nil
		})
		if err != nil || links != len(n.Links) {
			t.Errorf("%s: %d rows for %d links, %v", name, links, len(n.Links), err)
		}
		if sent < packets && e.ClusterError == 0 {
			t.Errorf("%s: %d packets sent of %d", name, sent, packets)
		}
	}
}

// Flows that are too far apart in time to delay each other have their ideal FCT, at every hop and end to end.
func TestSeparateFlowsAreIdeal(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(9, 9)), 500)
	for i := range flows {
		flows[i].StartNS = int64(i) * 10_000_000
	}
	for name, e := range every() {
		e.Partitions = 3
		for _, r := range slowdowns(t, estimate(t, m, e, flows)) {
			if r.Slowdown != 1 {
				t.Fatalf("%s: flow %d alone has slowdown %v", name, r.FlowID, r.Slowdown)
			}
		}
	}
}

// If the feedback were computed but not used, the second pass would equal the first.
func TestSecondPassChangesSlowdowns(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 2000)
	one := method.Estimate{Estimator: estimators.Flow, Options: step.Options{Passes: 1}}
	two := method.Estimate{Estimator: estimators.Flow}
	if slices.Equal(slowdowns(t, estimate(t, m, one, flows)), slowdowns(t, estimate(t, m, two, flows))) {
		t.Error("the second pass changes nothing")
	}
}

// The limit of the window counts once, not at every hop: a single flow whose window is below the
// bandwidth-delay product takes as long as packets and ACKs on the whole path allow.
func TestWindowIsChargedOnce(t *testing.T) {
	n := methodtest.Clos(t)
	p := simkernel.DefaultParams()
	p.SetWindow(5000)
	hosts := n.Hosts()
	flows := []workload.Row{{ID: 1, Connection: 1, Src: hosts[0], Dst: hosts[len(hosts)-1], SizeBytes: 200_000}}
	found := estimate(t, methodtest.Model(t, n, &p), method.Estimate{Estimator: estimators.Flow}, flows)
	got := slowdowns(t, found)[0]
	// Six hops of 1,000 ns each way; a full packet takes 838.4 ns at 10 Gbps (twice) and 209.6 at 40 (four
	// times), its ACK 48 and 12. Five packets are sent per round trip, 200 in all.
	roundTrip := 12*1000 + 2*838.4 + 4*209.6 + 2*48 + 4*12
	want := 39*roundTrip + float64(got.IdealNS) - 195*838.4
	if math.Abs(float64(got.FCTNS)/want-1) > 0.01 {
		t.Errorf("FCT %d ns, want about %v", got.FCTNS, want)
	}
}

// Flows of a few packets, whose last packet is short, are as late as in the simulation of the whole network.
// The short packet takes less time than a full one on every link, and catches up with the packet ahead of it.
// Delays by ACKs of the other direction, which a flow also has when it is alone, are excluded. They are up to
// 10% here.
func TestShortLastPackets(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(9, 9)), 12_000)
	random := rand.New(rand.NewPCG(9, 10))
	start := flows[0].StartNS
	for i := range flows { // 1 to 3 packets, the last of up to 200 bytes
		flows[i].SizeBytes = 1000*random.Int64N(3) + 1 + random.Int64N(200)
		if i%4 == 0 { // and full ones, which they wait for
			flows[i].SizeBytes = 8000
		}
		flows[i].StartNS = start + (flows[i].StartNS-start)/4
	}
	exact := slowdowns(t, estimate(t, m, method.Estimate{Estimator: estimators.Exact}, flows))
	byCases := slowdowns(t, estimate(t, m, method.Estimate{Estimator: estimators.Flow}, flows))
	var want, got, count [4]float64 // by number of packets
	for i := range flows {
		k := (flows[i].SizeBytes + 999) / 1000
		if k >= 4 {
			continue
		}
		want[k] += float64(exact[i].FCTNS - exact[i].IdealNS)
		got[k] += float64(byCases[i].FCTNS - byCases[i].IdealNS)
		count[k]++
	}
	for k := 1; k < 4; k++ {
		t.Logf("%d packets: mean delay %.0f ns, simulated %.0f", k, got[k]/count[k], want[k]/count[k])
		ratio := got[k] / want[k]
		if ratio < 0.9 || ratio > 1.05 {
			t.Errorf("%d packets: the mean delay is %.3f of the simulated one", k, ratio)
		}
	}
}

// ACK correction, by hand: 1,000 packets of 1,048 bytes on the wire keep a link busy for 838,400 ns.
func TestAvailableBandwidth(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	p := simkernel.DefaultParams()
	l := &route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	available := func() float64 { return float64(l.AvailableBps(&p, n.Links[0])) }
	got := available()
	if got != 1e10 {
		t.Errorf("no reverse flows, yet %v bps available", got)
	}
	for _, c := range []struct {
		spanNS int64
		want   float64
	}{
		{1e6, 1e10 - 1000*60*8*1000}, // the mean
		{0, 1e10 * (1 - 60.0/1048)},  // a burst is not acknowledged faster than it is sent
	} {
		l.Links[1] = route.LinkLoad{Flows: 10, Packets: 1000, Bytes: 1_000_000, FirstStartNS: 5,
			LastStartNS: 5 + c.spanNS}
		got := available()
		if math.Abs(got-c.want) > 1 {
			t.Errorf("span %d ns: available %v bps, want %v", c.spanNS, got, c.want)
		}
	}
	// With the times in which both directions send: ACKs come in a quarter of the link's own time.
	l.Simultaneous = true
	l.Links[0] = route.LinkLoad{Flows: 1, Packets: 2000, Bytes: 2_000_000}
	l.Links[1] = route.LinkLoad{Flows: 10, Packets: 1000, Bytes: 1_000_000, LastStartNS: 1e9,
		BothNS: 2 * 838_400 / 4}
	if got, want := available(), 1e10*(1-60.0/1108/4); math.Abs(got-want) > 1 {
		t.Errorf("available %v bps, want %v", got, want)
	}
	l.Simultaneous = false
	// One-byte packets: their ACKs outweigh them.
	l.Links[1] = route.LinkLoad{Flows: 1, Packets: 1000, Bytes: 1000}
	if got := available(); got != 1e9 {
		t.Errorf("available %v bps, want the floor", got)
	}
}

// Background has no users whose percentiles matter, but it delays other flows. If it were left out of the
// simulation, they would be too fast. If it had rows, percentiles would be those of the background.
func TestBackgroundFlowsLoadLinksWithoutRows(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(2, 3)), 1000)
	background := slices.Clone(flows)
	inFront := map[int64]bool{}
	for i := range background {
		background[i].Background = i%3 == 0
		inFront[background[i].ID] = i%3 != 0
	}
	for name, e := range every() {
		e.Options.Intervals = step.WithIntervals
		want := slices.DeleteFunc(slowdowns(t, estimate(t, m, e, flows)), func(r tables.SlowdownRow) bool {
			return !inFront[r.FlowID]
		})
		found := estimate(t, m, e, background)
		got := slowdowns(t, found)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, want the %d rows of the flows that are not background", name, len(got), len(want))
		}
	}
}

// A sweep estimates without intervals. If its rows were others, it would rank failures by the difference
// between two ways of writing the same estimate. Column window_ns needs the hops, and no sweep reads it.
func TestRowsWithoutIntervals(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	flows := methodtest.RandomRows(n, rand.New(rand.NewPCG(3, 4)), 1000)
	for i := range flows {
		flows[i].Background = i%3 == 0
		flows[i].Service = fmt.Sprint("service ", i%5)
	}
	for name, e := range every() {
		rows := func(intervals step.Intervals) []tables.SlowdownRow {
			e.Options.Intervals = intervals
			all := slowdowns(t, estimate(t, m, e, flows))
			slices.SortFunc(all, func(a, b tables.SlowdownRow) int { return cmp.Compare(a.FlowRow, b.FlowRow) })
			for i := range all {
				all[i].WindowNS = 0
			}
			return all
		}
		got := rows(step.WithoutIntervals)
		want := rows(step.WithIntervals)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows differ from the %d with intervals", name, len(got), len(want))
		}
	}
}

// Messages of one connection arrive on one path, as its packets do. If each took a separate path, ECMP would
// spread a connection over all links.
func TestMessagesTakeThePathOfTheirConnection(t *testing.T) {
	n := methodtest.Clos(t)
	m := methodtest.DCTCP(t, n)
	hosts := n.Hosts()
	var flows []workload.Row
	for i := range int64(60) {
		flows = append(flows, workload.Row{
			ID: i, Connection: 7, Src: hosts[0], Dst: hosts[len(hosts)-1], SizeBytes: 1000, StartNS: i * 50_000,
		})
	}
	for name, e := range every() {
		paths := map[string]bool{}
		links := map[int64]string{}
		found := estimate(t, m, e, flows)
		hops := found.Table(schema.Hops)
		if found.Writer(schema.ExactHops) != nil {
			hops = found.Table(schema.ExactHops)
		}
		type hop struct {
			FlowRow int64 `col:"flow_row"`
			Link    int32 `col:"link_id"`
		}
		err := columns.Each(hops.Read(), func(h *hop) error {
			links[h.FlowRow] += fmt.Sprint(h.Link, " ")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range links {
			paths[path] = true
		}
		if len(links) != 60 || len(paths) != 1 {
			t.Errorf("%s: %d flows take %d paths, want 60 on one", name, len(links), len(paths))
		}
	}
}
