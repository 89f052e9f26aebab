package topology_test

import (
	"fmt"

	"parsimon/stages/topology"
)

const exampleCables = `device_a,port_a,device_b,port_b,speed,length
web1,eth0,leaf1,Ethernet1,25G,3m
web2,eth0,leaf2,Ethernet1,25G,3m
leaf1,Ethernet49,spine1,Ethernet1,100G,30m
leaf2,Ethernet49,spine1,Ethernet2,100G,30m
leaf2,Ethernet49,spine1,Ethernet2,100G,30m
`

// Load reports every fault with its line; Options.Repair says which faults to repair.
func ExampleLoadData() {
	l, _ := topology.LoadData("cables.csv", []byte(exampleCables), topology.Options{})
	for _, f := range l.Faults {
		fmt.Println(f)
	}
	l, _ = topology.LoadData("cables.csv", []byte(exampleCables), topology.Options{Repair: []topology.FaultKind{topology.FaultDoubled}})
	fmt.Println(l.Hosts, "hosts,", l.Switches, "switches,", l.Cables, "cables")
	fmt.Println(l.Notes[2])
	// Output:
	// topology cables.csv: line 6: leaf2:Ethernet49 – spine1:Ethernet2 is listed before (line 5)
	// 2 hosts, 3 switches, 4 cables
	// roles: 2 tor (next to hosts), 1 spine (farthest, 2 cables away), inferred from the distance to the hosts
}

// A router gives each flow one of the shortest paths.
func ExampleRouter_Path() {
	n, _ := topology.Clos(topology.ClosSpec{Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 2, SpinesPerPlane: 1,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000})
	r, _ := topology.NewRouter(n, 1)
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
