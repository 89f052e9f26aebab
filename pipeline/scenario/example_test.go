package scenario_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"parsimon/pipeline/scenario"
)

// Scenarios with the same topology, workload, transport and seed have the same id. Their names do not matter.
func Example() {
	dir, err := os.MkdirTemp("", "scenario")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "two-racks.yaml")
	check(os.WriteFile(file, []byte(`name: two racks
topology:
  clos: {pods: 1, racks_per_pod: 2, hosts_per_rack: 4, planes: 1, spines_per_plane: 1,
    host_bandwidth: 10Gbps, host_delay: 1us, fabric_bandwidth: 40Gbps, fabric_delay: 1us}
workload:
  max_load: 30%
  flows_count: 1000
  services:
    - {name: web, matrix: uniform, sizes: 10KB, arrivals: poisson}
`), 0o644))
	ids := map[string]string{}
	for _, set := range []scenario.Setting{
		{Key: "name", Value: "another name"},
		{Key: "workload.max_load", Value: "60%"},
		{Key: "workload.max_load", Value: "0.3"},
	} {
		s, err := scenario.LoadWith(file, []scenario.Setting{set})
		check(err)
		c, err := s.Settle()
		check(err)
		id := scenario.IDOf(c.Canonical)
		if ids[id] == "" {
			ids[id] = set.String()
		}
		fmt.Printf("%-22s %d hosts, as with %s\n", set, len(c.Network.Hosts()), ids[id])
	}
	_, err = scenario.LoadWith(file, []scenario.Setting{{Key: "workload.max_load", Value: "130%"}})
	fmt.Println(err != nil)
	// Output:
	// name=another name      8 hosts, as with name=another name
	// workload.max_load=60%  8 hosts, as with workload.max_load=60%
	// workload.max_load=0.3  8 hosts, as with name=another name
	// true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
