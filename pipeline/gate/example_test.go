package gate_test

import (
	"fmt"

	"parsimon/pipeline/gate"
)

// A gate fails if its condition is true. Judge returns its verdict, and an error for the exit code.
func Example() {
	storage, err := gate.Parse("service=storage p99_slowdown > 5")
	if err != nil {
		fmt.Println(err)
	}
	// The quantile g.Quantile of the flows that g.Filter selects.
	measured := func(g gate.Gate) (gate.Interval, error) {
		fmt.Println("quantile", g.Quantile, "of", g.Filter)
		return gate.Exactly(6.5), nil
	}
	verdicts, err := gate.Judge([]gate.Gate{storage}, measured)
	fmt.Println(verdicts[0].Failed, err != nil)
	_, err = gate.Parse("p99_slowdown > 10%")
	fmt.Println(err != nil)
	// Output:
	// quantile 0.99 of map[service:storage]
	// true true
	// true
}
