// Package rngtest tests random draws.
package rngtest

import (
	"math"
	"testing"
)

// ChiSquare fails if the counts of equally likely cells deviate from equal counts, in either direction, by
// more than chance explains about once in a million (Wilson and Hilferty's normal approximation).
func ChiSquare(t *testing.T, what string, counts []int, total int) {
	t.Helper()
	want := float64(total) / float64(len(counts))
	x := 0.0
	for _, k := range counts {
		x += (float64(k) - want) * (float64(k) - want) / want
	}
	df := float64(len(counts) - 1)
	z := (math.Cbrt(x/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df))
	if math.Abs(z) > 5 {
		t.Errorf("%s: chi-square %.1f with %.0f degrees of freedom, %.1f standard deviations off", what, x, df, z)
	}
}
