package exact

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
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// simulated runs a simulation of the whole network and returns all of its tables.
func simulated(t *testing.T, n *topology.Network, flows arrow.Record) (fcts, hops, links *tables.Memory,
	loads *route.Loads) {
	t.Helper()
	p := simkernel.DefaultParams()
	_, loads = methodtest.Route(t, n, &p, flows)
	fcts = &tables.Memory{}
	hops = &tables.Memory{}
	links = &tables.Memory{}
	if _, err := Simulate(t.Context(), methodtest.Model(t, n, &p), methodtest.Table(flows).Read(),
		Options{Loads: loads},
		Tables{FCTs: fcts, Hops: hops, Links: links}); err != nil {
		t.Fatal(err)
	}
	return fcts, hops, links, loads
}

// The sampler returns the simulated FCTs, for any chunks of flows, and divides the complete delay among the
// hops.
func TestSampleExact(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(6, 6)), 3000)
	fcts, hops, _, _ := simulated(t, n, flows)
	fct := map[int64]int64{}
	delay := map[int64]float64{}
	row := methodtest.Ints64(fcts, "flow_row")
	ideal := methodtest.Ints64(fcts, "ideal_ns")
	for i, ns := range methodtest.Ints64(fcts, "fct_ns") {
		fct[row[i]] = ns
		delay[row[i]] = float64(ns - ideal[i])
	}
	slowdowns := &tables.Memory{}
	contributions := &tables.Memory{}
	s := NewSampler(methodtest.DCTCP(t, n))
	for _, chunk := range [][2]int64{{0, 1}, {1, 1700}, {1700, 3000}} {
		part := methodtest.Table(flows.NewSlice(chunk[0], chunk[1])).Read()
		err := s.Sample(context.Background(), slowdown.Chunk{FirstRow: chunk[0], Rows: chunk[1] - chunk[0],
			Flows: part},
			Simulated{FCTs: fcts.Read(), Hops: hops.Read()},
			slowdown.Sink{Slowdowns: slowdowns, Contributions: contributions})
		if err != nil {
			t.Fatalf("chunk %v: %v", chunk, err)
		}
	}
	count := len(methodtest.Ints64(slowdowns, "flow_row"))
	if count != 3000 {
		t.Fatalf("%d flows sampled, want 3000", count)
	}
	sampled := methodtest.Ints64(slowdowns, "fct_ns")
	for i, row := range methodtest.Ints64(slowdowns, "flow_row") {
		if int64(i) != row || sampled[i] != fct[row] {
			t.Fatalf("row %d: flow %d with an FCT of %d ns, simulated %d", i, row, sampled[i], fct[row])
		}
	}
	delayed := 0
	waits := methodtest.Floats64(contributions, "wait_ns")
	of := methodtest.Ints64(contributions, "flow_row")
	for i, ns := range methodtest.Floats64(contributions, "delay_ns") {
		if ns < waits[i] || waits[i] < 0 {
			t.Fatalf("a hop contributes %v ns, of them %v of waiting", ns, waits[i])
		}
		if ns > 0 {
			delayed++
		}
		delay[of[i]] -= ns
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

// The simulation's statistics of links agree with what packets meet at each hop.
func TestExactLinkStats(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(6, 7)), 3000)
	_, hops, links, loads := simulated(t, n, flows)
	wait := make([]int64, len(n.Links))
	marks := make([]int64, len(n.Links))
	for _, rec := range hops.Records {
		marked := columns.Int32s(rec, "packets_marked")
		for i, link := range columns.Int32s(rec, "link_id") {
			wait[link] += columns.Int64s(rec, "wait_ns")[i]
			marks[link] += int64(marked[i])
		}
	}
	rec := links.Records[0]
	marked := int64(0)
	if int(rec.NumRows()) != len(n.Links) {
		t.Fatalf("%d rows for %d links", rec.NumRows(), len(n.Links))
	}
	for i, link := range columns.Int32s(rec, "link_id") {
		sent := columns.Int64s(rec, "packets_sent")[i]
		queue := columns.Int64s(rec, "max_queue_bytes")[i]
		at := columns.Int64s(rec, "max_queue_at_ns")[i]
		mean := columns.Float64s(rec, "mean_wait_ns")[i] * float64(sent)
		if sent != loads.Links[link].Packets ||
			mean < float64(wait[link])-1 || mean > float64(wait[link])+1 {
			t.Errorf("link %d: %d packets wait %v ns; its flows' %d packets wait %d", link, sent, mean,
				loads.Links[link].Packets, wait[link])
		}
		got := columns.Int64s(rec, "packets_marked")[i]
		if got != marks[link] {
			t.Errorf("link %d: %d packets marked, by flow %d", link, got, marks[link])
		}
		short := wait[link] > 0 && (queue < 1048 || at < loads.FirstStartNS)
		if short || n.FromHost(link) && queue != min(sent, 1)*1048 {
			t.Errorf("link %d: longest queue of %d bytes at %d ns", link, queue, at)
		}
		marked += marks[link]
	}
	if marked == 0 {
		t.Error("no packet was marked")
	}
}

// Tables that contradict each other or the network are errors that name the flow.
func TestSampleExactRefuses(t *testing.T) {
	n := methodtest.Clos(t)
	flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(6, 8)), 50)
	fcts, hops, _, _ := simulated(t, n, flows)
	changed := func(c *tables.Memory, table schema.Table, name string, change func(v []int64)) *tables.Memory {
		rec := c.Records[0]
		values := append([]int64(nil), columns.Int64s(rec, name)...)
		change(values)
		cols := append([]arrow.Array(nil), rec.Columns()...)
		cols[table.Index(name)] = columns.Of(values)
		return &tables.Memory{Records: []arrow.Record{array.NewRecord(rec.Schema(), cols, rec.NumRows())}}
	}
	cases := map[string]struct{ fcts, hops *tables.Memory }{
		"of the 4 hops": {fcts, &tables.Memory{Records: []arrow.Record{hops.Records[0].NewSlice(1,
			hops.Records[0].NumRows())}}},
		"on this path":   {changed(fcts, schema.ExactFCTs, "ideal_ns", func(v []int64) { v[3]++ }), hops},
		"an FCT of -1":   {changed(fcts, schema.ExactFCTs, "fct_ns", func(v []int64) { v[3] = -1 }), hops},
		"below 0 at hop": {fcts, changed(hops, schema.ExactHops, "last_wait_ns", func(v []int64) { v[5] = -7 })},
	}
	for want, c := range cases {
		err := NewSampler(methodtest.DCTCP(t, n)).Sample(context.Background(),
			slowdown.Chunk{Rows: 50, Flows: methodtest.Table(flows).Read()},
			Simulated{FCTs: c.fcts.Read(), Hops: c.hops.Read()},
			slowdown.Sink{Slowdowns: &tables.Memory{}, Contributions: &tables.Memory{}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "flow") {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
