package method_test

import (
	"context"
	"fmt"
	"log"

	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// The paper's method on a network of eight hosts: four flows, of which three end at the same host.
func Example() {
	ctx := context.Background()
	spec := topology.ClosSpec{
		Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 1, SpinesPerPlane: 1,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000,
	}
	nodes, cables, err := spec.Parts()
	check(err)
	network, err := topology.NewNetwork(nodes, cables)
	check(err)
	router, err := topology.NewRouter(ctx, network, 1)
	check(err)
	model := &method.Model{Network: network, Router: router, Params: simkernel.DefaultParams(), Seed: 1}

	hosts := network.Hosts()
	flows := []workload.Row{
		{ID: 1, Connection: 1, Src: hosts[0], Dst: hosts[7], SizeBytes: 100_000},
		{ID: 2, Connection: 2, Src: hosts[2], Dst: hosts[7], SizeBytes: 5_000},
		{ID: 3, Connection: 3, Src: hosts[4], Dst: hosts[7], SizeBytes: 20_000, StartNS: 10_000},
		{ID: 4, Connection: 4, Src: hosts[4], Dst: hosts[1], SizeBytes: 1_000, StartNS: 500_000},
	}
	found, err := method.Run(ctx, model, method.Estimate{Estimator: estimators.Independent}, flows)
	check(err)
	slowdowns, err := found.Slowdowns()
	check(err)
	for _, f := range slowdowns {
		fmt.Printf("flow %d: %d bytes, slowdown %.2f\n", f.FlowID, f.SizeBytes, f.Slowdown)
	}
	// Output:
	// flow 1: 100000 bytes, slowdown 1.32
	// flow 2: 5000 bytes, slowdown 1.12
	// flow 3: 20000 bytes, slowdown 1.82
	// flow 4: 1000 bytes, slowdown 1.00
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
