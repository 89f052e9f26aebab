package histogram_test

import (
	"fmt"

	"parsimon/pipeline/histogram"
)

// Quantiles are exact to the width of a bin, 0.01%.
func Example() {
	var h histogram.Histogram
	for i := range 1000 {
		h.Add(1+float64(i)/1000, 1) // 1, 1.001, …, 1.999
	}
	for _, x := range h.Quantiles([]float64{0.5, 0.99}) {
		fmt.Printf("%.3f\n", x)
	}
	h.Add(1, -1)
	fmt.Println(h.Flows())
	// Output:
	// 1.500
	// 1.990
	// 999
}
