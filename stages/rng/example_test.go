package rng_test

import (
	"fmt"

	"parsimon/stages/rng"
)

// The draw for flow 7 at hop 2 is the same whenever it is made.
func ExampleNew() {
	for range 2 {
		s := rng.New(1, rng.Bucket, 7, 2)
		fmt.Println(s.IntN(100), s.IntN(100))
	}
	// Output:
	// 78 40
	// 78 40
}
