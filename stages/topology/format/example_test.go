package format_test

import (
	"fmt"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

const exampleCables = `device_a,port_a,device_b,port_b,speed,length
web1,eth0,leaf1,Ethernet1,25G,3m
web2,eth0,leaf2,Ethernet1,25G,3m
leaf1,Ethernet49,spine1,Ethernet1,100G,30m
leaf2,Ethernet49,spine1,Ethernet2,100G,30m
leaf2,Ethernet49,spine1,Ethernet2,100G,30m
`

// Load reports every fault with its line. Options.Repair lists the faults to repair.
func ExampleLoadData() {
	l, _ := format.LoadData("cables.csv", []byte(exampleCables), format.Options{})
	for _, f := range l.Faults {
		fmt.Println(f)
	}
	l, _ = format.LoadData("cables.csv", []byte(exampleCables),
		format.Options{Repair: []topology.FaultKind{topology.FaultDoubled}})
	fmt.Println(l.Hosts, "hosts,", l.Switches, "switches,", l.Cables, "cables")
	fmt.Println(l.Notes[2])
	// Output:
	// topology cables.csv: line 6: leaf2:Ethernet49 – spine1:Ethernet2 is listed before (line 5)
	// 2 hosts, 3 switches, 4 cables
	// roles: 2 tor (next to hosts), 1 spine (farthest, 2 cables away), inferred from the distance to the hosts
}
