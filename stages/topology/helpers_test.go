package topology

import "testing"

// SmallClos is the paper's small topology: 2 pods × 16 racks × 8 hosts, 2 planes.
func SmallClos(oversubscription int) ClosSpec {
	return ClosSpec{
		Pods:           2,
		RacksPerPod:    16,
		HostsPerRack:   8,
		Planes:         2,
		SpinesPerPlane: 16 / oversubscription,
		HostBps:        10e9,
		FabricBps:      40e9,
		HostDelayNS:    1000,
		FabricDelayNS:  1000,
	}
}

// LargeClos is the paper's large topology: 8 pods × 48 racks × 16 hosts, 4 planes.
func LargeClos(oversubscription int) ClosSpec {
	c := SmallClos(1)
	c.Pods = 8
	c.RacksPerPod = 48
	c.HostsPerRack = 16
	c.Planes = 4
	c.SpinesPerPlane = 48 / oversubscription
	return c
}

// MustClos builds a Clos network, or fails the test.
func MustClos(t testing.TB, c ClosSpec) *Network {
	t.Helper()
	n, err := Clos(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Wire builds a small network. The first nodes are hosts, and the others are switches. Every cable has 10
// Gbps and 1 µs.
func Wire(t testing.TB, nodes, hosts int, cables ...[2]int32) *Network {
	t.Helper()
	var v []Node
	for i := range nodes {
		kind := KindSwitch
		if i < hosts {
			kind = KindHost
		}
		v = append(v, Node{ID: int32(i), Kind: kind, Pod: -1, Rack: -1})
	}
	var c []Cable
	for _, e := range cables {
		c = append(c, Cable{A: e[0], B: e[1], BandwidthBps: 10e9, DelayNS: 1000})
	}
	n, err := NewNetwork(v, c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// MustRouter builds a router, or fails the test.
func MustRouter(t testing.TB, n *Network, seed uint64) *Router {
	t.Helper()
	r, err := NewRouter(t.Context(), n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Clos builds the network of a description.
func Clos(spec ClosSpec) (*Network, error) {
	nodes, cables, err := spec.Parts()
	if err != nil {
		return nil, err
	}
	return NewNetwork(nodes, cables)
}
