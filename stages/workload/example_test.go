package workload_test

import (
	"context"
	"fmt"
	"log"

	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

func ExampleSizeCDF_Size() {
	sizes, err := workload.ParseSizeCDF("example", []byte("1000 50  # half of the flows have at most 1,000 "+
		"bytes\n100000 100\n"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sizes.Size(0.25), sizes.Size(0.75), sizes.Mean())
	// Output: 1000 50501 25750.25
}

func ExampleGenerate() {
	spec := topology.ClosSpec{
		Pods: 1, RacksPerPod: 2, HostsPerRack: 4, Planes: 1, SpinesPerPlane: 1,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000,
	}
	nodes, cables, err := spec.Parts()
	if err != nil {
		log.Fatal(err)
	}
	net, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		log.Fatal(err)
	}
	router, err := topology.NewRouter(context.Background(), net, 1)
	if err != nil {
		log.Fatal(err)
	}
	sizes, err := workload.NewSizeCDF([]workload.SizePoint{{Bytes: 1000, Percent: 100}})
	if err != nil {
		log.Fatal(err)
	}
	w := &workload.Workload{
		MaxLoad: 0.5, DurationNS: 1_000_000,
		Services: []workload.Service{{Name: "web", Sizes: sizes, Sigma: 1, Share: 1}},
	}
	flows := rowCount(0)
	plan, err := workload.Generate(context.Background(), router, w, 1, &flows)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("expected %.0f flows/s, generated %d in 1 ms\n", plan.ServiceFlowsPerSecond[0], flows)
	// Output: expected 5000000 flows/s, generated 5202 in 1 ms
}
