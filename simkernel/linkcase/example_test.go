package linkcase_test

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// Two hosts send to the same link at the same time. Each packet of 1,048 bytes on the wire takes 838.4 ns at
// 10 Gbps, so the second flow's packet waits that long.
func ExampleKernel_Simulate() {
	params := simkernel.DefaultParams()
	kernel, err := linkcase.NewKernel(params)
	if err != nil {
		fmt.Println(err)
		return
	}
	const bps = 10_000_000_000
	mark, _ := params.MarkBytes(bps, 1000)
	c := linkcase.Case{
		Behind:        true,
		TargetBps:     bps,
		MarkBytes:     mark,
		SourceBps:     []int64{bps, bps},
		SourceDelayNS: []int64{1000, 1000},
		Source:        []int32{0, 1},
		SizeBytes:     []int64{1000, 1000},
		StartNS:       []int64{0, 0},
		PathDelayNS:   []int64{2000, 2000},
		Record:        true,
	}
	var r linkcase.Result
	if err := kernel.Simulate(&c, &r); err != nil {
		fmt.Println(err)
		return
	}
	for i := range r.FCTNS {
		fmt.Printf("flow %d: FCT %d ns, ideal %d ns, waited %d ns\n", i, r.FCTNS[i], r.IdealNS[i],
			r.Observed[i].WaitNS)
	}
	fmt.Printf("%d packets, at most %d bytes in the queue\n", r.PacketsSent, r.MaxQueueBytes)
	// Output:
	// flow 0: FCT 3677 ns, ideal 3677 ns, waited 0 ns
	// flow 1: FCT 4516 ns, ideal 3677 ns, waited 838 ns
	// 2 packets, at most 1048 bytes in the queue
}
