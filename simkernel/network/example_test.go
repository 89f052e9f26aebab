package network_test

import (
	"context"
	"fmt"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
)

// Three hosts (0, 1, 2) at one switch (3). Hosts 0 and 1 send to host 2 at the same time.
func ExampleNetwork_Run() {
	var links []network.Link
	for host := range int32(3) {
		links = append(links,
			network.Link{SrcNode: host, DstNode: 3, BandwidthBps: 10_000_000_000, DelayNS: 1000},
			network.Link{SrcNode: 3, DstNode: host, BandwidthBps: 10_000_000_000, DelayNS: 1000})
	}
	chunks := []*network.Flows{{
		SizeBytes: []int64{1000, 1000},
		StartNS:   []int64{0, 0},
		PathLinks: []int32{0, 5, 2, 5},
		PathEnds:  []int32{2, 4},
	}, nil}
	next := func() (*network.Flows, error) {
		c := chunks[0]
		chunks = chunks[1:]
		return c, nil
	}
	hosts := []bool{true, true, true, false}
	n, err := network.New(simkernel.DefaultParams(), network.BufferParams{}, links, hosts, next)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = n.Run(context.Background(), 2, func(r *network.Results) error {
		for i, row := range r.Row {
			last := r.HopEnds[i] - 1
			fmt.Printf("flow %d: FCT %d ns, ideal %d ns, waited %d ns\n", row, r.FCTNS[i], r.IdealNS[i],
				r.WaitNS[last])
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
