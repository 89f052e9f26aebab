package topology_test

import (
	"context"
	"fmt"

	"parsimon/stages/topology"
)

// A router chooses one of the shortest paths for each flow.
func ExampleRouter_Path() {
	spec := topology.ClosSpec{Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 2, SpinesPerPlane: 1,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000}
	nodes, cables, _ := spec.Parts()
	n, _ := topology.NewNetwork(nodes, cables)
	r, _ := topology.NewRouter(context.Background(), n, 1)
	path, _ := r.Path(42, 0, 7, nil)
	for _, link := range path {
		to, _ := n.Node(n.Links[link].Dst)
		fmt.Println(n.Links[link].Tier, to.Name)
	}
	// Output:
	// host-tor pod0-tor0
	// tor-fabric pod0-fabric0
	// fabric-spine plane0-spine0
	// spine-fabric pod1-fabric0
	// fabric-tor pod1-tor1
	// tor-host pod1-rack1-host1
}
