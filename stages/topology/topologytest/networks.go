// Package topologytest holds networks for tests.
package topologytest

import (
	"os"
	"path/filepath"
	"testing"

	"parsimon/stages/topology"
)

// SmallClos is the paper's small topology: 2 pods × 16 racks × 8 hosts, 2 planes.
func SmallClos(oversubscription float64) topology.ClosSpec {
	return topology.ClosSpec{Pods: 2, RacksPerPod: 16, HostsPerRack: 8, Planes: 2, Oversubscription: oversubscription,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000}
}

// LargeClos is the paper's large topology: 8 pods × 48 racks × 16 hosts, 4 planes.
func LargeClos(oversubscription float64) topology.ClosSpec {
	c := SmallClos(oversubscription)
	c.Pods, c.RacksPerPod, c.HostsPerRack, c.Planes = 8, 48, 16, 4
	return c
}

// TinyClos is 2 pods × 2 racks × 2 hosts, 2 planes, 1 spine each.
func TinyClos() topology.ClosSpec {
	c := SmallClos(2)
	c.RacksPerPod, c.HostsPerRack = 2, 2
	return c
}

// MustClos builds a Clos network, or fails the test.
func MustClos(t testing.TB, c topology.ClosSpec) *topology.Network {
	t.Helper()
	n, err := topology.Clos(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// SharedReference returns a file of the reference data, which some machines keep beside the
// repository. Where it is missing the test is skipped.
func SharedReference(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Repository(t), "..", "shared", "reference"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("reference data is missing: %v", err)
	}
	return path
}

// Wire makes a small network. The first nodes are hosts, the others switches; every cable has 10 Gbps
// and 1 µs.
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
	var c []topology.Cable
	for _, e := range cables {
		c = append(c, topology.Cable{A: e[0], B: e[1], BandwidthBps: 10e9, DelayNS: 1000})
	}
	n, err := topology.NewNetwork(v, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// MustRouter builds a router, or fails the test.
func MustRouter(t testing.TB, n *topology.Network, seed uint64) *topology.Router {
	t.Helper()
	r, err := topology.NewRouter(n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// SmallNetwork is a rack of four hosts, ids 0 to 3, and a switch, 4.
func SmallNetwork(t *testing.T) *topology.Network {
	t.Helper()
	nodes := []topology.Node{{ID: 4, Kind: topology.KindTor, Pod: -1, Rack: -1}}
	var cables []topology.Cable
	for h := range int32(4) {
		nodes = append(nodes, topology.Node{ID: h, Kind: topology.KindHost, Pod: -1, Rack: -1})
		cables = append(cables, topology.Cable{A: h, B: 4, BandwidthBps: 1e10, DelayNS: 1000})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Repository returns the root of the repository, the directory of go.mod.
func Repository(t testing.TB) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == filepath.Dir(abs) {
			t.Fatal("no go.mod in any parent directory")
		}
	}
}
