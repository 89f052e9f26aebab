package exact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

func simulateExactly(t *testing.T, n *topology.Network, flows []arrow.Record, o Options) (fcts,
	hops *tables.Memory, stats Stats) {
	t.Helper()
	return simulateModel(t, methodtest.DCTCP(t, n), flows, o)
}

func simulateModel(t *testing.T, m *step.Model, flows []arrow.Record, o Options) (fcts, hops *tables.Memory,
	stats Stats) {
	t.Helper()
	fcts = &tables.Memory{}
	hops = &tables.Memory{}
	stats, err := Simulate(t.Context(), m, (&tables.Memory{Records: flows}).Read(), o,
		Tables{FCTs: fcts, Hops: hops})
	if err != nil {
		t.Fatal(err)
	}
	return fcts, hops, stats
}

// withBuffers returns a model with limited buffers.
func withBuffers(t *testing.T, n *topology.Network, b network.BufferParams) *step.Model {
	m := methodtest.DCTCP(t, n)
	m.Buffers = b
	return m
}

// The simulation of the whole network has the same rows for any number of domains and any batches of flows.
// Every flow appears once, and once at every hop of its path, and is never faster than ideal.
func TestExactLaws(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(4, 4)), 1600)
	fcts, hops, stats := simulateExactly(t, n, []arrow.Record{flows}, Options{Workers: 1})
	if stats.Flows != 1600 || len(methodtest.Ints64(fcts, "flow_id")) != 1600 {
		t.Fatalf("%d flows reported, %d rows", stats.Flows, len(methodtest.Ints64(fcts, "flow_id")))
	}
	ids := slices.Sorted(slices.Values(methodtest.Ints64(fcts, "flow_id")))
	if !slices.Equal(ids, columns.Int64s(flows, "flow_id")) {
		t.Error("the flows reported are not the flows given")
	}
	var want int
	queued := false
	for _, r := range fcts.Records {
		for i, fct := range columns.Int64s(r, "fct_ns") {
			if fct < columns.Int64s(r, "ideal_ns")[i] {
				t.Fatalf("flow %d is faster than ideal", columns.Int64s(r, "flow_id")[i])
			}
			queued = queued || fct > columns.Int64s(r, "ideal_ns")[i]
			want += int(columns.Named(r, "hops").(*array.Int16).Value(i))
		}
	}
	if !queued {
		t.Error("no flow met another")
	}
	got := len(methodtest.Ints64(hops, "flow_row"))
	if got != want {
		t.Errorf("%d rows of exact_hops for %d hops", got, want)
	}
	for _, domains := range []int{2, 3, 8} {
		f, h, _ := simulateExactly(t, n, []arrow.Record{flows.NewSlice(0, 7), flows.NewSlice(7, 1201),
			flows.NewSlice(1201, 1600)}, Options{Workers: domains})
		if !slices.Equal(methodtest.Ints64(f, "fct_ns"), methodtest.Ints64(fcts, "fct_ns")) ||
			!slices.Equal(methodtest.Ints64(f, "flow_row"), methodtest.Ints64(fcts, "flow_row")) ||
			!slices.Equal(methodtest.Ints64(h, "wait_ns"), methodtest.Ints64(hops, "wait_ns")) {
			t.Errorf("%d domains: rows differ", domains)
		}
	}
}

// Flows that do not count are simulated but not reported, also if start times are counted from 1970.
func TestExactCounts(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(4, 5)), 3000)
	start := slices.Clone(columns.Int64s(flows, "start_ns"))
	for i := range start {
		start[i] += 1_790_000_000_000_000_000
	}
	cols := flows.Columns()
	cols[schema.Flows.Index("start_ns")] = columns.Of(start)
	flows = array.NewRecord(flows.Schema(), cols, flows.NumRows())
	o := Options{Workers: 2, Counts: func(ns int64) bool { return ns >= start[1000] && ns < start[2000] }}
	fcts, _, stats := simulateExactly(t, n, []arrow.Record{flows}, o)
	rows := slices.Sorted(slices.Values(methodtest.Ints64(fcts, "flow_row")))
	if stats.Flows != 1000 || rows[0] != 1000 || rows[999] != 1999 {
		t.Errorf("%d flows, rows %d to %d", stats.Flows, rows[0], rows[len(rows)-1])
	}
}

// Check finds scenarios that cannot be simulated before a simulation starts.
func TestCheckWholeNetwork(t *testing.T) {
	n := methodtest.Clos(t)
	for _, c := range []struct {
		spanNS int64
		want   string
	}{{network.MaxNS, ""}, {network.MaxNS + 1, "flows start within"}} {
		err := Check(methodtest.DCTCP(t, n), &route.Loads{LastStartNS: c.spanNS})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for i := range n.Links[:2] {
		n.Links[i].DelayNS = 0
	}
	if err := Check(methodtest.DCTCP(t, n), &route.Loads{}); err == nil ||
		!strings.Contains(err.Error(), "delay") {
		t.Errorf("a link without delay: %v", err)
	}
}

// A flow alone in the network has its ideal FCT, which is also the ideal FCT of the estimates.
func TestExactLoneFlow(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(8, 8)), 40)
	for i := range 40 {
		one := flows.NewSlice(int64(i), int64(i+1))
		fcts, hops, _ := simulateExactly(t, n, []arrow.Record{one}, Options{})
		var paths, others tables.Memory
		out := route.Sink{Hops: &others, Paths: &paths, Loads: &others}
		in := route.Chunk{Flows: methodtest.Table(one).Read()}
		if _, err := route.Flows(t.Context(), methodtest.DCTCP(t, n), in, out); err != nil {
			t.Fatal(err)
		}
		want := methodtest.Ints64(&paths, "ideal_ns")[0]
		fct := methodtest.Ints64(fcts, "fct_ns")[0]
		ideal := methodtest.Ints64(fcts, "ideal_ns")[0]
		if fct != ideal || ideal != want {
			t.Errorf("flow %d: FCT %d, ideal %d, ideal of the estimate %d", i, fct, ideal, want)
		}
		// A short last packet can catch up with the full packet before it. A flow of one packet cannot.
		w := methodtest.Ints64(hops, "wait_ns")
		if columns.Int64s(one, "size_bytes")[0] <= 1000 && slices.Max(w) != 0 {
			t.Errorf("flow %d is alone and waits: %v", i, w)
		}
	}
}

// A buffer as large as the most bytes that a switch can have held changes no row. A small one drops packets,
// but all flows finish and the result is reproducible.
func TestExactSwitchBuffer(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(4, 4)), 1000)
	wantFCTs, wantHops, stats := simulateExactly(t, n, []arrow.Record{flows}, Options{})
	if stats.DeepestSwitchBytes < 2000 {
		t.Fatalf("no switch held more than %d bytes", stats.DeepestSwitchBytes)
	}
	same := func(a, b *tables.Memory) bool {
		return slices.EqualFunc(a.Records, b.Records, func(x,
			y arrow.Record) bool {
			return array.RecordEqual(x, y)
		})
	}
	large := withBuffers(t, n, network.BufferParams{SwitchBytes: stats.DeepestSwitchBytes, Alpha: 1024})
	fcts, hops, did := simulateModel(t, large, []arrow.Record{flows}, Options{})
	if !same(fcts, wantFCTs) || !same(hops, wantHops) || did.Losses.Dropped != 0 ||
		did.DeepestSwitchBytes > stats.DeepestSwitchBytes {
		t.Errorf("buffer of the most that a switch can have held: %+v, unlimited: %+v", did, stats)
	}
	small := withBuffers(t, n, network.BufferParams{SwitchBytes: 8000, Alpha: 1})
	fcts, _, did = simulateModel(t, small, []arrow.Record{flows}, Options{})
	l := did.Losses
	if l.Dropped == 0 || l.Sent != l.Delivered+l.Dropped+l.Discarded || did.MostDropped == 0 ||
		did.Flows != stats.Flows || did.DeepestSwitchBytes > 8000 {
		t.Errorf("small buffer: %+v", did)
	}
	again, _, _ := simulateModel(t, small, []arrow.Record{flows}, Options{})
	if !same(again, fcts) {
		t.Error("a small buffer: other rows the second time")
	}
}

// Flows of a class of higher priority are faster, whether the class is chosen by service or by virtual
// network. Table link_classes has the drops of each class.
func TestExactClasses(t *testing.T) {
	n := methodtest.Clos(t)
	rows := columns.Append[workload.Row](nil, methodtest.RandomFlows(n, rand.New(rand.NewPCG(4, 6)), 3000))
	for i := range rows {
		rows[i].Service = []string{"bulk", "rpc", "other"}[i%3]
		rows[i].VNet = []string{"", "", "fast"}[i%3]
	}
	flows := methodtest.FlowRecord(rows...)
	classes, err := step.SettleClasses([]step.TrafficClass{{Name: "fast", Queue: 5, Services: []string{"rpc"},
		VNets: []string{"fast"}}})
	if err != nil {
		t.Fatal(err)
	}
	small := network.BufferParams{SwitchBytes: 20_000, Alpha: 1, RetransmitNS: 1_000_000}
	_, loads := methodtest.Route(t, n, ptr(simkernel.DefaultParams()), flows)
	run := func(classes []step.TrafficClass) (slow [2]float64, links *tables.Memory, stats Stats) {
		fcts := &tables.Memory{}
		links = &tables.Memory{}
		m := withBuffers(t, n, small)
		m.Classes = classes
		stats, err := Simulate(t.Context(), m, methodtest.Table(flows).Read(), Options{Loads: loads},
			Tables{FCTs: fcts, Classes: links})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range fcts.Records {
			for i, row := range columns.Int64s(r, "flow_row") {
				slow[min(1, row%3)] += columns.Float64s(r, "slowdown")[i]
			}
		}
		return slow, links, stats
	}
	before, _, _ := run(nil)
	after, links, stats := run(classes)
	if after[1] > 0.9*before[1] || after[0] < before[0] {
		t.Errorf("sums of slowdowns of queue 0 and 5: %v, without classes %v", after, before)
	}
	drops := int64(0)
	for _, d := range methodtest.Ints64(links, "drops") {
		drops += d
	}
	if drops != stats.Losses.Dropped || drops == 0 || len(methodtest.Ints64(links, "drops")) != 2*len(n.Links) {
		t.Errorf("%d drops in link_classes, %d in all", drops, stats.Losses.Dropped)
	}
}

func ptr[T any](x T) *T { return &x }
