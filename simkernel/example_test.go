package simkernel_test

import (
	"fmt"

	"parsimon/simkernel"
)

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
