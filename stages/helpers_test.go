package stages

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// captured is a table in memory, as a sink and as a stream.
type captured struct {
	recs []arrow.Record
	at   int
}

// Write keeps a copy: stages reuse the memory behind a batch.
func (c *captured) Write(rec arrow.Record) error {
	cols := make([]arrow.Array, rec.NumCols())
	for i, col := range rec.Columns() {
		var err error
		if cols[i], err = array.Concatenate([]arrow.Array{col}, memory.DefaultAllocator); err != nil {
			return err
		}
	}
	c.recs = append(c.recs, array.NewRecord(rec.Schema(), cols, rec.NumRows()))
	return nil
}

func (c *captured) Next(...string) (arrow.Record, error) {
	if c.at == len(c.recs) {
		return nil, io.EOF
	}
	c.at++
	c.recs[c.at-1].Retain()
	return c.recs[c.at-1], nil
}

func (c *captured) Close() error { return nil }

func (c *captured) rewound() *captured { return &captured{recs: c.recs} }

func ints64(c *captured, name string) (out []int64) {
	for _, r := range c.recs {
		out = append(out, columns.Int64s(r, name)...)
	}
	return out
}

func floats64(c *captured, name string) (out []float64) {
	for _, r := range c.recs {
		out = append(out, columns.Float64s(r, name)...)
	}
	return out
}

// rewound returns the same table, to be read from its beginning.
// randomFlows returns a batch of table flows between random hosts.
func randomFlows(n *topology.Network, rng *rand.Rand, count int) arrow.Record {
	hosts := n.Hosts()
	var rows []workload.Row
	clock := int64(5_000_000)
	for i := range count {
		a, b := rng.IntN(len(hosts)), rng.IntN(len(hosts)-1)
		if b >= a {
			b++
		}
		clock += rng.Int64N(4000)
		rows = append(rows, workload.Row{ID: int64(i * 3), Src: hosts[a], Dst: hosts[b],
			SizeBytes: 1 + int64(math.Exp(rng.Float64()*13)), StartNS: clock, Labels: workload.Labels{Service: "web", VNet: "web"}})
	}
	return flowRecord(rows...)
}

// flowRecord is a batch of table flows.
func flowRecord(rows ...workload.Row) arrow.Record {
	return columns.RecordOf(schema.Flows, rows, func(r workload.Row) columns.Row {
		return columns.Row{"flow_id": r.ID, "src": r.Src, "dst": r.Dst, "size_bytes": r.SizeBytes, "start_ns": r.StartNS,
			"service": r.Service, "vnet": r.VNet, "synthetic_start": r.Synthetic}
	})
}

// testRouter is a router with seed 1.
func testRouter(t *testing.T, n *topology.Network) *topology.Router {
	t.Helper()
	r, err := topology.NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// routed routes flows in memory.
func routed(t *testing.T, n *topology.Network, p *simkernel.Params,
	flows arrow.Record) (hops *captured, loads *Loads) {
	t.Helper()
	var loadRows captured
	hops = &captured{}
	_, err := Route(context.Background(), testRouter(t, n), p, &captured{recs: []arrow.Record{flows}}, 0, 0, hops, &loadRows,
		RouteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if loads, err = ReadLoads(n, &loadRows); err != nil {
		t.Fatal(err)
	}
	return hops, loads
}

// testClos returns a network of 24 hosts in two pods.
func testClos(t *testing.T) *topology.Network {
	t.Helper()
	return topologytest.MustClos(t, topology.ClosSpec{Pods: 2, RacksPerPod: 3, HostsPerRack: 4, Planes: 2,
		SpinesPerPlane: 2, HostBps: 1e10, FabricBps: 4e10, HostDelayNS: 1000, FabricDelayNS: 1000})
}

// tinyClos is 2 pods × 2 racks × 2 hosts, 2 planes, 1 spine each.
func tinyClos() topology.ClosSpec {
	c := topologytest.SmallClos(2)
	c.RacksPerPod, c.HostsPerRack = 2, 2
	return c
}
