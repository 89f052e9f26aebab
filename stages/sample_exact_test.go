package stages

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// simulated is a whole-network simulation with all of its tables.
func simulated(t *testing.T, n *topology.Network, flows arrow.Record) (fcts, hops, links *captured, loads *Loads) {
	t.Helper()
	p := simkernel.DefaultParams()
	_, loads = routed(t, n, &p, flows)
	fcts, hops, links = &captured{}, &captured{}, &captured{}
	if _, err := Exact(context.Background(), n, testRouter(t, n), p, &captured{recs: []arrow.Record{flows}}, ExactOptions{Loads: loads},
		ExactTables{FCTs: fcts, Hops: hops, Links: links}, nil); err != nil {
		t.Fatal(err)
	}
	return fcts, hops, links, loads
}

// Estimator WholeNetwork has the simulated FCTs, in any chunks of flows, and divides the whole delay among the hops.
func TestSampleExact(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(6, 6)), 3000)
	fcts, hops, _, _ := simulated(t, n, flows)
	fct, delay := map[int64]int64{}, map[int64]float64{}
	row := ints64(fcts, "flow_row")
	for i, ns := range ints64(fcts, "fct_ns") {
		fct[row[i]], delay[row[i]] = ns, float64(ns-ints64(fcts, "ideal_ns")[i])
	}
	slowdowns, contributions := &captured{}, &captured{}
	s := NewSampler(n, simkernel.DefaultParams())
	for _, chunk := range [][2]int64{{0, 1}, {1, 1700}, {1700, 3000}} {
		err := s.SampleExact(context.Background(), chunk[0], chunk[1]-chunk[0],
			&captured{recs: []arrow.Record{flows.NewSlice(chunk[0], chunk[1])}}, fcts.rewound(), hops.rewound(), slowdowns,
			contributions)
		if err != nil {
			t.Fatalf("chunk %v: %v", chunk, err)
		}
	}
	if sampled := len(ints64(slowdowns, "flow_row")); sampled != 3000 {
		t.Fatalf("%d flows sampled, want 3000", sampled)
	}
	for i, row := range ints64(slowdowns, "flow_row") {
		if int64(i) != row || ints64(slowdowns, "fct_ns")[i] != fct[row] {
			t.Fatalf("row %d: flow %d with an FCT of %d ns, simulated %d", i, row, ints64(slowdowns, "fct_ns")[i], fct[row])
		}
	}
	delayed := 0
	waits := floats64(contributions, "wait_ns")
	for i, ns := range floats64(contributions, "delay_ns") {
		if ns < waits[i] || waits[i] < 0 {
			t.Fatalf("a hop contributes %v ns, of them %v of waiting", ns, waits[i])
		}
		if ns > 0 {
			delayed++
		}
		delay[ints64(contributions, "flow_row")[i]] -= ns
	}
	for row, left := range delay {
		if left > 0.5 || left < -0.5 {
			t.Fatalf("flow %d: %v ns of its delay are at no hop", row, left)
		}
	}
	if delayed < 1000 {
		t.Fatalf("only %d hops delay a flow", delayed)
	}
}

// What the simulation says of links is what their packets met, hop by hop.
func TestExactLinkStats(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(6, 7)), 3000)
	_, hops, links, loads := simulated(t, n, flows)
	wait, marks := make([]int64, len(n.Links)), make([]int64, len(n.Links))
	for _, rec := range hops.recs {
		marked := columns.Int32s(rec, "packets_marked")
		for i, link := range columns.Int32s(rec, "link_id") {
			wait[link] += columns.Int64s(rec, "wait_ns")[i]
			marks[link] += int64(marked[i])
		}
	}
	rec, marked := links.recs[0], int64(0)
	if int(rec.NumRows()) != len(n.Links) {
		t.Fatalf("%d rows for %d links", rec.NumRows(), len(n.Links))
	}
	for i, link := range columns.Int32s(rec, "link_id") {
		sent := columns.Int64s(rec, "packets_sent")[i]
		queue, at := columns.Int64s(rec, "max_queue_bytes")[i], columns.Int64s(rec, "max_queue_at_ns")[i]
		if mean := columns.Float64s(rec, "mean_wait_ns")[i] * float64(sent); sent != loads.Links[link].Packets ||
			mean < float64(wait[link])-1 || mean > float64(wait[link])+1 {
			t.Errorf("link %d: %d packets wait %v ns; its flows' %d packets wait %d", link, sent, mean,
				loads.Links[link].Packets, wait[link])
		}
		if got := columns.Int64s(rec, "packets_marked")[i]; got != marks[link] {
			t.Errorf("link %d: %d packets marked, by flow %d", link, got, marks[link])
		}
		if wait[link] > 0 && (queue < 1048 || at < loads.FirstStartNS) || n.FromHost(link) && queue != 0 {
			t.Errorf("link %d: longest queue of %d bytes at %d ns", link, queue, at)
		}
		marked += marks[link]
	}
	if marked == 0 {
		t.Error("no packet was marked")
	}
}

// Tables that contradict each other, or the network, are errors that name the flow.
func TestSampleExactRefuses(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(6, 8)), 50)
	fcts, hops, _, _ := simulated(t, n, flows)
	changed := func(c *captured, table schema.Table, name string, change func(v []int64)) *captured {
		rec := c.recs[0]
		values := append([]int64(nil), columns.Int64s(rec, name)...)
		change(values)
		cols := append([]arrow.Array(nil), rec.Columns()...)
		cols[table.Index(name)] = columns.Of(values)
		return &captured{recs: []arrow.Record{array.NewRecord(rec.Schema(), cols, rec.NumRows())}}
	}
	cases := map[string]struct{ fcts, hops *captured }{
		"of the 4 hops":  {fcts.rewound(), &captured{recs: []arrow.Record{hops.recs[0].NewSlice(1, hops.recs[0].NumRows())}}},
		"on this path":   {changed(fcts, schema.ExactFCTs, "ideal_ns", func(v []int64) { v[3]++ }), hops.rewound()},
		"an FCT of -1":   {changed(fcts, schema.ExactFCTs, "fct_ns", func(v []int64) { v[3] = -1 }), hops.rewound()},
		"below 0 at hop": {fcts.rewound(), changed(hops, schema.ExactHops, "last_wait_ns", func(v []int64) { v[5] = -7 })},
	}
	for want, c := range cases {
		err := NewSampler(n, simkernel.DefaultParams()).SampleExact(context.Background(), 0, 50,
			&captured{recs: []arrow.Record{flows}}, c.fcts, c.hops, &captured{}, &captured{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "flow") {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
