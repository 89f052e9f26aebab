package independent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Delays are sorted as by comparison. A delay in a wrong place, or one that is lost, would change which
// delays flows draw.
func TestDelaysAreInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	kinds := map[string]func(i int) float64{
		"none":         func(int) float64 { return 0 },
		"equal":        func(int) float64 { return 838.5 },
		"mostly zeros": func(int) float64 { return math.Max(0, rng.Float64()*100-80) },
		"few values":   func(int) float64 { return float64(rng.IntN(5)) },
		"any size":     func(int) float64 { return math.Exp(rng.Float64()*600 - 300) },
		"close":        func(int) float64 { return 1e6 + rng.Float64()*1e-3 },
		"two groups":   func(i int) float64 { return float64(1+i%2*1_000_000) + rng.Float64() },
		"extremes":     func(i int) float64 { return []float64{math.MaxFloat64, math.SmallestNonzeroFloat64}[i%2] },
		"descending":   func(i int) float64 { return float64(10_000 - i) },
	}
	var s delaySorter
	for kind, delay := range kinds {
		for _, n := range []int{0, 1, 2, 31, 32, 33, 34, 100, 1000, 4096} {
			var got []float64
			for i := range n {
				got = append(got, delay(i))
			}
			want := slices.Clone(got)
			slices.Sort(want)
			s.sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d delays are not in order", kind, n)
			}
		}
	}
}
