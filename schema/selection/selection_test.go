package selection

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The value of a rank is at its place, smaller values are before it and larger ones behind it, and no value
// is lost. A quantile would otherwise be that of other values.
func TestPlace(t *testing.T) {
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
		"infinite":   func(i, _ int) float64 { return math.Inf(i%3 - 1) },
	} {
		for _, n := range []int{1, 2, 3, fewValues, fewValues + 1, 60, 1000, 10_007} {
			values := make([]float64, n)
			for i := range values {
				values[i] = value(i, n)
			}
			sorted := slices.Sorted(slices.Values(values))
			for _, rank := range []int{0, n / 2, n - 1, rng.IntN(n)} {
				rng.Shuffle(min(n, rng.IntN(2)*n), func(i, j int) { values[i], values[j] = values[j], values[i] })
				Place(values, rank)
				if values[rank] != sorted[rank] {
					t.Errorf("%s, %d values: rank %d has %g, not %g", name, n, rank, values[rank], sorted[rank])
				}
				front := slices.Sorted(slices.Values(values[:rank]))
				behind := slices.Sorted(slices.Values(values[rank:]))
				if !slices.Equal(slices.Concat(front, behind), sorted) {
					t.Errorf("%s, %d values: rank %d does not divide them", name, n, rank)
				}
			}
		}
	}
}

// Quantiles are values at indexes of the sorted slowdowns. A selection that returned others would change
// clusters.
func TestPlaceFewValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for trial := range 2000 {
		values := make([]float64, 1+rng.IntN(60))
		for i := range values {
			switch trial % 4 {
			case 0:
				values[i] = rng.Float64()
			case 1:
				values[i] = float64(rng.IntN(4))
			case 2: // a queue that builds up and empties
				values[i] = float64(min(i, len(values)-i))
			case 3:
				values[i] = float64(-i)
			}
		}
		sorted := slices.Sorted(slices.Values(values))
		n := rng.IntN(len(values))
		Place(values, n)
		got := values[n:]
		if got[0] != sorted[n] {
			t.Fatalf("value %d of %v is %v", n, sorted, got[0])
		}
		slices.Sort(got)
		if !slices.Equal(got, sorted[n:]) {
			t.Fatalf("from %d of %v: %v", n, sorted, got)
		}
	}
}

// Values that are not numbers, as in a damaged table, are not lost, and take no endless time.
func TestPlaceNotNumbers(t *testing.T) {
	values := slices.Repeat([]float64{math.NaN(), 2, 1}, 100)
	Place(values, 250)
	count := 0
	for _, v := range values {
		if math.IsNaN(v) {
			count++
		}
	}
	if count != 100 {
		t.Errorf("%d values are not numbers", count)
	}
}
