package route

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// kept is a sink that copies the columns of batches, by name.
type kept struct {
	t     testing.TB
	table schema.Table
	ints  map[string][]int64
	rows  int
	sizes []int64
}

func newKept(t testing.TB, table schema.Table) *kept {
	return &kept{t: t, table: table, ints: map[string][]int64{}}
}

func (k *kept) Write(rec arrow.Record) error {
	if !rec.Schema().Equal(k.table.Arrow()) {
		k.t.Fatalf("schema %v", rec.Schema())
	}
	k.rows += int(rec.NumRows())
	k.sizes = append(k.sizes, rec.NumRows())
	for _, c := range k.table.Columns {
		switch c.Type.ID() {
		case arrow.INT16:
			for _, x := range columns.Named(rec, c.Name).(*array.Int16).Int16Values() {
				k.ints[c.Name] = append(k.ints[c.Name], int64(x))
			}
		case arrow.INT32:
			for _, x := range columns.Int32s(rec, c.Name) {
				k.ints[c.Name] = append(k.ints[c.Name], int64(x))
			}
		case arrow.INT64:
			k.ints[c.Name] = append(k.ints[c.Name], columns.Int64s(rec, c.Name)...)
		}
	}
	return nil
}

// flowBatches is table flows in batches of a given number of rows.
type flowBatches struct {
	rows []workload.Row
	each int
}

func (b *flowBatches) Next(...string) (rec arrow.Record, err error) {
	if len(b.rows) == 0 {
		return nil, io.EOF
	}
	rows := b.rows[:min(len(b.rows), b.each)]
	b.rows = b.rows[len(rows):]
	return flowRecord(rows...), nil
}

// flowRecord returns a batch of table flows.
func flowRecord(rows ...workload.Row) arrow.Record {
	return columns.RecordOf(schema.Flows, rows, func(r workload.Row) columns.Row {
		return columns.Row{"flow_id": r.ID, "src": r.Src, "dst": r.Dst, "size_bytes": r.SizeBytes,
			"start_ns": r.StartNS,
			"service":  r.Service, "vnet": r.VNet, "synthetic_start": r.Synthetic,
			"connection_id": r.ID, "background": r.Background}
	})
}

func (b *flowBatches) Close() error { return nil }

// model returns the model of a router's network, with the default transport.
func model(r *topology.Router) *step.Model {
	return &step.Model{Network: r.Net, Router: r, Params: simkernel.DefaultParams(), Seed: 1}
}

type sinkFunc func(arrow.Record) error

func (f sinkFunc) Write(rec arrow.Record) error { return f(rec) }

// drawnFlows draws flows of various sizes.
func drawnFlows(t testing.TB, r *topology.Router, flows int64) (rows []workload.Row) {
	t.Helper()
	sizes, err := workload.ReadSizeCDF(filepath.Join("..", "..", "datasets", "sizes", "webserver.txt"))
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{MaxLoad: 0.5, Flows: flows,
		Services: []workload.Service{{Name: "web", Sizes: sizes, Sigma: 2, Share: 1}}}
	_, err = workload.Generate(t.Context(), r, w, 1, sinkFunc(func(rec arrow.Record) error {
		rows = columns.Append(rows, rec)
		for i := range rows {
			rows[i].Service = "web"
			rows[i].VNet = ""
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRouteLaws(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	for id := range n.Links {
		n.Links[id].DelayNS += int64(id / 2 % 3) // flows with as many hops have other columns
	}
	r := topologytest.MustRouter(t, n, 1)
	flows := drawnFlows(t, r, 30_000)
	m := model(r)
	p := &m.Params
	p.SetWindow(4000) // smaller than the paths need
	const firstRow = 1_000_000
	hops := newKept(t, schema.Hops)
	loads := newKept(t, schema.LinkLoads)
	alone := newKept(t, schema.FlowPaths)
	stats, err := Flows(context.Background(), m, Chunk{3, firstRow, &flowBatches{flows, 7_001}},
		Sink{hops, alone, loads})
	if err != nil {
		t.Fatal(err)
	}

	// The rows are the links of all paths, each once, with the columns of the flow.
	byFlow := make([][]int64, len(flows)) // hop → row of hops
	h := hops.ints
	for k := range hops.rows {
		f := h["flow_row"][k] - firstRow
		if byFlow[f] == nil {
			byFlow[f] = slices.Repeat([]int64{-1}, int(h["hops"][k]))
		}
		byFlow[f][h["hop"][k]] = int64(k)
		if k > 0 && (h["link_id"][k] < h["link_id"][k-1] || h["link_id"][k] == h["link_id"][k-1] &&
			h["flow_row"][k] <= h["flow_row"][k-1]) {
			t.Fatalf("row %d is out of order", k)
		}
	}
	total := 0
	packetHops := int64(0)
	limited := int64(0)
	trips := NewRoundTrips(n, p)
	type load struct{ flows, bytes, packets, first, last int64 }
	want := map[int64]*load{}
	var path []int32
	for f := range flows {
		if path, err = r.Path(flows[f].ID, flows[f].Src, flows[f].Dst, path[:0]); err != nil {
			t.Fatal(err)
		}
		if len(byFlow[f]) != len(path) {
			t.Fatalf("flow %d has %d hops, its path %d", f, len(byFlow[f]), len(path))
		}
		var pathDelay, pathSend int64
		for _, l := range path {
			pathDelay += n.Links[l].DelayNS
			pathSend += p.SendNS(p.PayloadBytes+p.HeaderBytes, n.Links[l].BandwidthBps) + p.SendNS(p.AckBytes,
				n.Links[topology.Reverse(l)].BandwidthBps)
		}
		bps := bandwidths(n, path)
		var before int64
		for hop, l := range path {
			k := byFlow[f][hop]
			if k < 0 {
				t.Fatalf("flow %d has no hop %d", f, hop)
			}
			got := []int64{h["link_id"][k], h["flow_id"][k], h["hops"][k], h["size_bytes"][k], h["start_ns"][k],
				h["first_link"][k], h["delay_to_link_ns"][k], h["path_delay_ns"][k],
				h["path_send_ns"][k], h["upstream_bps"][k], h["downstream_bps"][k], h["between_ps"][k]}
			up, down := slowestLinks(bps, hop)
			expect := []int64{int64(l), flows[f].ID, int64(len(path)), flows[f].SizeBytes, flows[f].StartNS,
				int64(path[0]), before, pathDelay, pathSend, up, down, int64(betweenPS(bps, hop))}
			if !slices.Equal(got, expect) {
				t.Fatalf("flow %d, hop %d: %v, want %v", f, hop, got, expect)
			}
			before += n.Links[l].DelayNS
			w := want[int64(l)]
			if w == nil {
				w = &load{first: flows[f].StartNS}
				want[int64(l)] = w
			}
			w.flows++
			w.bytes += flows[f].SizeBytes
			w.packets += p.Packets(flows[f].SizeBytes)
			w.last = flows[f].StartNS
		}
		var ideal simkernel.IdealPath
		ideal.Reset(p)
		for _, l := range path {
			ideal.Add(n.Links[l].BandwidthBps, n.Links[l].DelayNS)
		}
		size := flows[f].SizeBytes
		a := alone.ints
		got := []int64{a["flow_row"][f], a["first_link"][f], a["hops"][f], a["slowest_hop"][f], a["ideal_ns"][f],
			a["window_ns"][f], a["round_trip_ns"][f]}
		expect := []int64{firstRow + int64(f), int64(path[0]), int64(len(path)), int64(slowestHop(bps)),
			ideal.FCTNS(size), p.WindowDelayNS(ideal.Path(), size), trips.PathNS(path)}
		if !slices.Equal(got, expect) {
			t.Fatalf("flow %d alone: %v, want %v", f, got, expect)
		}
		limited += min(1, a["window_ns"][f])
		total += len(path)
		packetHops += int64(len(path)) * p.Packets(flows[f].SizeBytes)
	}
	if alone.rows != len(flows) || limited == 0 {
		t.Errorf("%d paths of %d flows, %d with too small a window", alone.rows, len(flows), limited)
	}
	if hops.rows != total || stats.PacketHops != packetHops {
		t.Errorf("%d rows, stats %+v; want %d hops and %d packet-hops", hops.rows, stats, total, packetHops)
	}
	if len(want) != loads.rows {
		t.Errorf("%d links with loads, want %d", loads.rows, len(want))
	}
	for k := range loads.rows {
		c := loads.ints
		got := load{c["flows"][k], c["bytes"][k], c["packets"][k], c["first_start_ns"][k], c["last_start_ns"][k]}
		w := want[c["link_id"][k]]
		if w == nil || *w != got || c["chunk"][k] != 3 || k > 0 &&
			c["link_id"][k] <= c["link_id"][k-1] {
			t.Fatalf("load of link %d: %+v, want %+v", c["link_id"][k], got, w)
		}
	}

	// The rows do not depend on the batches of the input. A second run has the same rows.
	again := newKept(t, schema.Hops)
	in := Chunk{3, firstRow, &flowBatches{flows, 1_000_000}}
	out := Sink{again, nil, newKept(t, schema.LinkLoads)}
	if _, err := Flows(context.Background(), m, in, out); err != nil {
		t.Fatal(err)
	}
	for name, col := range hops.ints {
		if !slices.Equal(col, again.ints[name]) {
			t.Errorf("column %s depends on the batches of the input", name)
		}
	}
	for _, rows := range again.sizes[:len(again.sizes)-1] {
		if rows != tables.SmallBatch {
			t.Errorf("a batch of %d rows", rows)
		}
	}
}

func TestRouteRefusesAndCounts(t *testing.T) {
	n := topologytest.Wire(t, 6, 3, [2]int32{0, 3}, [2]int32{1, 3}, [2]int32{2, 4}, [2]int32{3, 5},
		[2]int32{4, 5})
	if err := n.Fail(4, 5); err != nil {
		t.Fatal(err)
	}
	r := topologytest.MustRouter(t, n, 1)
	table := func(rows ...[4]int64) *flowBatches {
		b := &flowBatches{each: 10}
		for _, x := range rows {
			b.rows = append(b.rows, workload.Row{ID: x[0], Src: int32(x[1]), Dst: int32(x[2]), SizeBytes: x[3],
				StartNS: 5})
		}
		return b
	}
	for _, c := range []struct {
		row         [4]int64
		unreachable step.Unreachable
		want        string
	}{
		{[4]int64{7, 0, 2, 10}, step.RefuseUnreachable, "flow 7: no path from host 0 (host 0) to host 2 (host 2)"},
		{[4]int64{7, 0, 9, 10}, step.CountUnreachable, "flow 7 from node 0 to node 9: no node has the id 9"},
		{[4]int64{7, 0, 0, 10}, step.CountUnreachable, "same host"},
		{[4]int64{7, 0, 3, 10}, step.CountUnreachable, "not a host"},
		{[4]int64{7, 0, 1, 0}, step.CountUnreachable, "flow 7: size of 0 bytes"},
	} {
		hops := newKept(t, schema.Hops)
		loads := newKept(t, schema.LinkLoads)
		m := model(r)
		m.Unreachable = c.unreachable
		in := Chunk{Flows: table([4]int64{1, 0, 1, 10}, c.row)}
		_, err := Flows(context.Background(), m, in, Sink{hops, nil, loads})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.row, err, c.want)
		}
		if hops.rows+loads.rows != 0 {
			t.Errorf("%v: rows were written before the error", c.row)
		}
	}
	hops := newKept(t, schema.Hops)
	loads := newKept(t, schema.LinkLoads)
	in := table([4]int64{1, 0, 2, 10}, [4]int64{2, 0, 1, 1001}, [4]int64{3, 2, 1, 10})
	counting := model(r)
	simultaneous := model(r)
	counting.Unreachable = step.CountUnreachable
	simultaneous.Acks = step.SimultaneousAcks
	stats, err := Flows(context.Background(), counting, Chunk{Flows: in}, Sink{hops, nil, loads})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Unreachable != 2 || stats.PacketHops != 4 || hops.rows != 2 {
		t.Errorf("%+v, %d rows", stats, hops.rows)
	}
	if !slices.Equal(hops.ints["flow_row"], []int64{1, 1}) {
		t.Errorf("rows of the flows: %v", hops.ints["flow_row"])
	}
	// Flows of 1,048 B on the wire, which take 838 ns: two from host 0 at 100 ns, and one back at 1,000 ns.
	hops = newKept(t, schema.Hops)
	loads = newKept(t, schema.LinkLoads)
	in = table([4]int64{1, 0, 1, 1000}, [4]int64{2, 0, 1, 1000}, [4]int64{3, 1, 0, 1000})
	in.rows[0].StartNS = 100
	in.rows[1].StartNS = 100
	in.rows[2].StartNS = 1000
	_, err = Flows(context.Background(), simultaneous, Chunk{Flows: in}, Sink{hops, nil, loads})
	if err != nil {
		t.Fatal(err)
	}
	both := loads.ints["both_ns"]
	if !slices.Equal(both, []int64{776, 776, 776, 776}) {
		t.Errorf("times in which both directions send: %v", both)
	}
	// No flows.
	if stats, err = Flows(context.Background(), model(r), Chunk{Flows: table()},
		Sink{hops, nil, loads}); err != nil ||
		stats != (Stats{}) {
		t.Errorf("no flows: %+v, %v", stats, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Flows(ctx, model(r), Chunk{Flows: table([4]int64{2, 0, 1, 1})},
		Sink{hops, nil, loads}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkRoute(b *testing.B) {
	n := topologytest.MustClos(b, topologytest.LargeClos(2))
	r := topologytest.MustRouter(b, n, 1)
	flows := drawnFlows(b, r, 131_072)
	var hops int64
	discard := sinkFunc(func(arrow.Record) error { return nil })
	count := sinkFunc(func(rec arrow.Record) error { hops += rec.NumRows(); return nil })
	b.ReportAllocs()
	for b.Loop() {
		hops = 0
		if _, err := Flows(context.Background(), model(r), Chunk{Flows: &flowBatches{flows, 65_536}},
			Sink{count, discard, discard}); err != nil {
			b.Fatal(err)
		}
	}
	per := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(131_072/per/1e6, "Mflows/s")
	b.ReportMetric(float64(hops)/per/1e6, "Mhops/s")
}

// smallRow is a flow from host 0 to host 3 of SmallNetwork.
func smallRow(id, size int64) workload.Row {
	return workload.Row{ID: id, Dst: 3, SizeBytes: size}
}

// rowsOf returns column flow_row.
func rowsOf(c *tables.Memory) (rows []int64) {
	for _, r := range c.Records {
		rows = append(rows, columns.Int64s(r, "flow_row")...)
	}
	return rows
}
