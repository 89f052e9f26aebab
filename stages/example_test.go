package stages

import (
	"context"
	"fmt"
	"log"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// Estimator Flow with two passes on two flows that start at the same time and end at the same host.
func Example() {
	ctx, p := context.Background(), simkernel.DefaultParams()
	spec := topology.ClosSpec{
		Pods: 2, RacksPerPod: 2, HostsPerRack: 2, Planes: 1, SpinesPerPlane: 1,
		HostBps: 10e9, FabricBps: 40e9, HostDelayNS: 1000, FabricDelayNS: 1000,
	}
	nodes, cables, err := spec.Parts()
	check(err)
	net, err := topology.NewNetwork(nodes, cables)
	check(err)
	hosts := net.Hosts()
	flows := &captured{}
	check(workload.RowTable.Write(flows, []workload.Row{{ID: 1, Src: hosts[0], Dst: hosts[7], SizeBytes: 100_000},
		{ID: 2, Src: hosts[2], Dst: hosts[7], SizeBytes: 5_000}}))

	// route: flows → hops, and what each link carries
	router, err := topology.NewRouter(context.Background(), net, 1)
	check(err)
	hops, loadRows := &captured{}, &captured{}
	_, err = Route(ctx, router, &p, flows.rewound(), 0, 0, hops, loadRows, RouteOptions{})
	check(err)
	loads, err := ReadLoads(net, loadRows)
	check(err)

	// passes: hops and feedback → observations → feedback
	links := int32(len(net.Links))
	simulator, err := NewSimulator(SimulatorOptions{Network: net, Params: p, Loads: loads, Estimator: Flow})
	check(err)
	observed, feedback := &captured{}, &captured{}
	_, err = simulator.Simulate(ctx, 0, links, hops.rewound(), nil, observed, &captured{}, nil)
	check(err)
	check(NewFeedbackBuilder(net, &p, 1, nil).Build(ctx, false, 0, 2, observed.rewound(), feedback))
	observed = &captured{}
	_, err = simulator.Simulate(ctx, 0, links, hops.rewound(), feedback.rewound(), observed, &captured{}, nil)
	check(err)

	// replay: hosts' uplinks with complete feedback → FCTs
	senderFeedback, senders := &captured{}, &captured{}
	check(NewFeedbackBuilder(net, &p, 1, nil).Build(ctx, true, 0, 2, observed.rewound(),
		senderFeedback))
	_, err = simulator.Replay(ctx, 0, links, hops.rewound(), senderFeedback, senders, nil)
	check(err)

	// sample: FCTs → slowdowns
	slowdowns := &captured{}
	err = NewSampler(net, p).SampleReplays(ctx, 0, 2, flows.rewound(), observed.rewound(), senders,
		slowdowns, &captured{}, &captured{})
	check(err)
	for _, rec := range slowdowns.recs {
		for i, id := range columns.Int64s(rec, "flow_id") {
			fmt.Printf("flow %d: %d bytes, slowdown %.2f\n", id, columns.Int64s(rec, "size_bytes")[i],
				columns.Float64s(rec, "slowdown")[i])
		}
	}
	// Output:
	// flow 1: 100000 bytes, slowdown 1.05
	// flow 2: 5000 bytes, slowdown 1.32
}

func ExampleParseClustering() {
	c, err := ParseClustering("5%")
	fmt.Println(c, err)
	// Output: 0.05 <nil>
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
