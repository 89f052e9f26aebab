// Package methodtest has helpers that tests of the parts of the method share.
package methodtest

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// Table is a table of one batch.
func Table(rec arrow.Record) *tables.Memory {
	return &tables.Memory{Records: []arrow.Record{rec}}
}

// Ints64 returns a column of a table.
func Ints64(c *tables.Memory, name string) (out []int64) {
	for _, r := range c.Records {
		out = append(out, columns.Int64s(r, name)...)
	}
	return out
}

// Floats64 returns a column of a table.
func Floats64(c *tables.Memory, name string) (out []float64) {
	for _, r := range c.Records {
		out = append(out, columns.Float64s(r, name)...)
	}
	return out
}

// RandomFlows returns a batch of table flows between random hosts.
func RandomFlows(n *topology.Network, rng *rand.Rand, count int) arrow.Record {
	return FlowRecord(RandomRows(n, rng, count)...)
}

// RandomRows returns flows between random hosts, in the order of their starts.
func RandomRows(n *topology.Network, rng *rand.Rand, count int) []workload.Row {
	hosts := n.Hosts()
	var rows []workload.Row
	clock := int64(5_000_000)
	for i := range count {
		a := rng.IntN(len(hosts))
		b := rng.IntN(len(hosts) - 1)
		if b >= a {
			b++
		}
		clock += rng.Int64N(4000)
		rows = append(rows, workload.Row{ID: int64(i * 3), Connection: int64(i * 3), Src: hosts[a], Dst: hosts[b],
			SizeBytes: 1 + int64(math.Exp(rng.Float64()*13)), StartNS: clock,
			Labels: workload.Labels{Service: "web", VNet: "web"}})
	}
	return rows
}

// FlowRecord is a batch of table flows.
func FlowRecord(rows ...workload.Row) arrow.Record {
	return columns.RecordOf(schema.Flows, rows, func(r workload.Row) columns.Row {
		return columns.Row{"flow_id": r.ID, "src": r.Src, "dst": r.Dst, "size_bytes": r.SizeBytes,
			"start_ns": r.StartNS, "service": r.Service, "vnet": r.VNet, "synthetic_start": r.Synthetic,
			"connection_id": r.ID, "background": r.Background}
	})
}

// Router is a router with seed 1.
func Router(t testing.TB, n *topology.Network) *topology.Router {
	t.Helper()
	r, err := topology.NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Model is a model of a network, with seed 1.
func Model(t testing.TB, n *topology.Network, p *simkernel.Params) *step.Model {
	t.Helper()
	return &step.Model{Network: n, Router: Router(t, n), Params: *p, Seed: 1}
}

// DCTCP is a model of a network with the default transport.
func DCTCP(t testing.TB, n *topology.Network) *step.Model {
	t.Helper()
	p := simkernel.DefaultParams()
	return Model(t, n, &p)
}

// Loads returns table link_loads of a chunk, from the number of flows of each link.
func Loads(flows ...int64) *tables.Memory {
	type row struct {
		LinkID int32 `col:"link_id"`
		Chunk  int32 `col:"chunk"`
		route.LinkLoad
	}
	var rows []row
	for id, n := range flows {
		rows = append(rows, row{LinkID: int32(id), LinkLoad: route.LinkLoad{Flows: n}})
	}
	var loads tables.Memory
	if err := columns.TableOf[row](schema.LinkLoads).Write(&loads, rows); err != nil {
		panic(err)
	}
	return &loads
}

// Route routes flows in memory.
func Route(t testing.TB, n *topology.Network, p *simkernel.Params, flows arrow.Record) (*tables.Memory,
	*route.Loads) {
	t.Helper()
	hops := &tables.Memory{}
	linkLoads := &tables.Memory{}
	in := route.Chunk{Flows: Table(flows).Read()}
	_, err := route.Flows(context.Background(), Model(t, n, p), in, route.Sink{Hops: hops, Loads: linkLoads})
	if err != nil {
		t.Fatal(err)
	}
	loads, err := route.ReadLoads(n, linkLoads.Read())
	if err != nil {
		t.Fatal(err)
	}
	return hops, loads
}

// Clos returns a network of 24 hosts in two pods.
func Clos(t testing.TB) *topology.Network {
	t.Helper()
	return topologytest.MustClos(t, topology.ClosSpec{Pods: 2, RacksPerPod: 3, HostsPerRack: 4, Planes: 2,
		SpinesPerPlane: 2, HostBps: 1e10, FabricBps: 4e10, HostDelayNS: 1000, FabricDelayNS: 1000})
}

// SmallClos is 2 pods × 2 racks × 2 hosts, 2 planes, 1 spine each.
func SmallClos() topology.ClosSpec {
	c := topologytest.SmallClos(2)
	c.RacksPerPod = 2
	c.HostsPerRack = 2
	return c
}
