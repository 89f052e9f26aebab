// Package topologytest builds networks for tests.
package topologytest

import (
	"cmp"
	"testing"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// SmallClos is the paper's small topology: 2 pods × 16 racks × 8 hosts, 2 planes.
func SmallClos(oversubscription int) topology.ClosSpec {
	return topology.ClosSpec{Pods: 2, RacksPerPod: 16, HostsPerRack: 8, Planes: 2,
		SpinesPerPlane: 16 / oversubscription, HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000,
		FabricDelayNS: 1000}
}

// LargeClos is the paper's large topology: 8 pods × 48 racks × 16 hosts, 4 planes.
func LargeClos(oversubscription int) topology.ClosSpec {
	c := SmallClos(1)
	c.Pods = 8
	c.RacksPerPod = 48
	c.HostsPerRack = 16
	c.Planes = 4
	c.SpinesPerPlane = 48 / oversubscription
	return c
}

// MustClos builds a Clos network, or fails the test.
func MustClos(t testing.TB, c topology.ClosSpec) *topology.Network {
	t.Helper()
	nodes, cables, err := c.Parts()
	n, wrong := topology.NewNetwork(nodes, cables)
	if err := cmp.Or(err, wrong); err != nil {
		t.Fatal(err)
	}
	return n
}

// Wire builds a small network. The first nodes are hosts, and the others are switches. Every cable has 10
// Gbps and 1 µs.
func Wire(t testing.TB, nodes, hosts int, cables ...[2]int32) *topology.Network {
	t.Helper()
	var v []topology.Node
	for i := range nodes {
		kind := topology.KindSwitch
		if i < hosts {
			kind = topology.KindHost
		}
		v = append(v, topology.Node{ID: int32(i), Kind: kind, Pod: -1, Rack: -1})
	}
	n, err := topology.NewNetwork(v, names.Of(cables, func(e [2]int32) topology.Cable {
		return topology.Cable{A: e[0], B: e[1], BandwidthBps: 10e9, DelayNS: 1000}
	}))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// MustRouter builds a router, or fails the test.
func MustRouter(t testing.TB, n *topology.Network, seed uint64) *topology.Router {
	t.Helper()
	r, err := topology.NewRouter(t.Context(), n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// SmallNetwork is a rack of four hosts with ids 0 to 3, and a switch with id 4.
func SmallNetwork(t testing.TB) *topology.Network {
	t.Helper()
	return Wire(t, 5, 4, [2]int32{0, 4}, [2]int32{1, 4}, [2]int32{2, 4}, [2]int32{3, 4})
}
