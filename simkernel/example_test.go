package simkernel_test

import (
	"fmt"

	"parsimon/simkernel"
)

// Two hosts send to the same link at the same time. Each packet of 1,048 bytes on the wire takes 838.4 ns at
// 10 Gbps, so the second flow's packet waits that long.
func ExampleKernel_Simulate() {
	params := simkernel.DefaultParams()
	kernel, err := simkernel.NewKernel(params)
	if err != nil {
		fmt.Println(err)
		return
	}
	const bps = 10_000_000_000
	c := simkernel.Case{
		Kind:          simkernel.Behind,
		TargetBps:     bps,
		MarkBytes:     params.MarkBytes(bps),
		SourceBps:     []int64{bps, bps},
		SourceDelayNS: []int64{1000, 1000},
		Source:        []int32{0, 1},
		SizeBytes:     []int64{1000, 1000},
		StartNS:       []int64{0, 0},
		PathDelayNS:   []int64{2000, 2000},
		Record:        true,
	}
	var r simkernel.Result
	if err := kernel.Simulate(&c, &r); err != nil {
		fmt.Println(err)
		return
	}
	for i := range r.FCTNS {
		fmt.Printf("flow %d: FCT %d ns, ideal %d ns, waited %d ns\n", i, r.FCTNS[i], r.IdealNS[i], r.Observed[i].WaitNS)
	}
	fmt.Printf("%d packets, at most %d bytes in the queue\n", r.PacketsSent, r.MaxQueueBytes)
	// Output:
	// flow 0: FCT 3677 ns, ideal 3677 ns, waited 0 ns
	// flow 1: FCT 4516 ns, ideal 3677 ns, waited 838 ns
	// 2 packets, at most 2096 bytes in the queue
}

// Three hosts (0, 1, 2) at one switch (3). Hosts 0 and 1 send to host 2 at the same time.
func ExampleNetwork_Run() {
	var links []simkernel.NetLink
	for host := range int32(3) {
		links = append(links,
			simkernel.NetLink{SrcNode: host, DstNode: 3, BandwidthBps: 10_000_000_000, DelayNS: 1000},
			simkernel.NetLink{SrcNode: 3, DstNode: host, BandwidthBps: 10_000_000_000, DelayNS: 1000})
	}
	chunks := []*simkernel.NetFlows{{
		SizeBytes: []int64{1000, 1000},
		StartNS:   []int64{0, 0},
		PathLinks: []int32{0, 5, 2, 5},
		PathEnds:  []int32{2, 4},
	}, nil}
	next := func() (*simkernel.NetFlows, error) {
		c := chunks[0]
		chunks = chunks[1:]
		return c, nil
	}
	hosts := []bool{true, true, true, false}
	network, err := simkernel.NewNetwork(simkernel.DefaultParams(), links, hosts, nil, next)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = network.Run(func(r *simkernel.NetResults) error {
		for i, row := range r.Row {
			last := r.HopEnds[i] - 1
			fmt.Printf("flow %d: FCT %d ns, ideal %d ns, waited %d ns\n", row, r.FCTNS[i], r.IdealNS[i], r.WaitNS[last])
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// flow 0: FCT 3677 ns, ideal 3677 ns, waited 0 ns
	// flow 1: FCT 4516 ns, ideal 3677 ns, waited 838 ns
}

// The ideal FCT of 1 MB over a host link of 10 Gbps and a core link of 40 Gbps.
func ExampleIdealPath() {
	params := simkernel.DefaultParams()
	var path simkernel.IdealPath
	path.Reset(&params)
	path.Add(10_000_000_000, 1000)
	path.Add(40_000_000_000, 1000)
	fmt.Println(path.FCTNS(1_000_000), "ns")
	// Output: 840610 ns
}
