package summary

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Percentiles of values that are not sorted completely would otherwise be those of other values.
func TestOrderForQuantiles(t *testing.T) {
	quantiles := []float64{0.5, 0.9, 0.99, 0.999, 1}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, value := range map[string]func(i, n int) float64{
		"random":     func(int, int) float64 { return rng.ExpFloat64() },
		"equal":      func(int, int) float64 { return 1 },
		"mostly one": func(int, int) float64 { return 1 + max(0, rng.NormFloat64()) },
		"few":        func(int, int) float64 { return float64(rng.IntN(3)) },
		"ascending":  func(i, _ int) float64 { return float64(i) },
		"descending": func(i, n int) float64 { return float64(n - i) },
		"organ pipe": func(i, n int) float64 { return float64(min(i, n-i)) },
		"saw":        func(i, _ int) float64 { return math.Mod(float64(i)*17, 101) },
	} {
		for _, n := range []int{1, 2, 3, 32, 33, 1000, 10_007} {
			values := make([]float64, n)
			for i := range values {
				values[i] = value(i, n)
			}
			sorted := slices.Sorted(slices.Values(values))
			orderFor(values, quantiles...)
			for _, p := range quantiles {
				got := Quantile(values, p)
				want := Quantile(sorted, p)
				if got != want {
					t.Errorf("%s, %d values: quantile %g is %g, not %g", name, n, p, got, want)
				}
			}
			slices.Sort(values)
			if !slices.Equal(values, sorted) {
				t.Errorf("%s, %d values: some are lost", name, n)
			}
		}
	}
}
