package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The quantiles are the order statistics, to within a bin; what is taken out again leaves no trace.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s, rest Histogram
	var values []float64
	for range 5000 {
		x := 1 + rng.ExpFloat64()*3
		values = append(values, x)
		s.Add(x, 1)
	}
	slices.Sort(values)
	of := []float64{0, 0.5, 0.9, 0.99, 0.999, 1}
	for i, got := range s.Quantiles(of) {
		want := values[min(len(values)-1, int(of[i]*float64(len(values))))]
		if math.Abs(got/want-1) > Step {
			t.Errorf("quantile %v: %v, want %v", of[i], got, want)
		}
	}
	for _, x := range values[:4000] {
		s.Add(x, -1)
	}
	for _, x := range values[4000:] {
		rest.Add(x, 1)
	}
	if !slices.Equal(s.Quantiles(of), rest.Quantiles(of)) || s.flows != 1000 {
		t.Errorf("%v, want %v", s.Quantiles(of), rest.Quantiles(of))
	}
	whole := Histogram{}
	whole.Merge(&s)
	if !slices.Equal(whole.Quantiles(of), rest.Quantiles(of)) {
		t.Error("merging changes quantiles")
	}
	if q := (&Histogram{}).Quantiles(of); !math.IsNaN(q[1]) {
		t.Errorf("no flows have the quantile %v", q[1])
	}
}
