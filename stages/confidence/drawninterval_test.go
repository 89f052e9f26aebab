package confidence

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"parsimon/schema/sizebin"
)

// drawnIntervals returns the intervals of flows whose slowdowns in link cases are given, and whose drawn
// slowdowns are those of flows at other times.
func drawnIntervals(t *testing.T, inCases []float64, seed uint64) []Interval {
	t.Helper()
	order := rand.New(rand.NewPCG(seed, 5)).Perm(len(inCases))
	drawn := made(t, func(i int) float64 { return inCases[order[i]] }, len(inCases))
	x := New(0, int64(len(inCases)-1)*1000, nil)
	// The ideal FCT of made is 1 ns, so delays in ns are slowdowns.
	err := x.ReadDrawn(drawn.Read(), func(row int64) int64 { return int64(math.Round(inCases[row] - 1)) })
	if err != nil {
		t.Fatal(err)
	}
	return x.Rows()
}

// bursts returns slowdowns of flows: 1 + 100 times an exponential variable, which is the same for together
// flows in a row.
func bursts(rng *rand.Rand, flows, together int) []float64 {
	all := make([]float64, flows)
	x := 0.0
	for i := range all {
		if i%together == 0 {
			x = 1 + math.Round(-100*math.Log(1-rng.Float64()))
		}
		all[i] = x
	}
	return all
}

// Draws do not show that flows of a burst are slow together. An interval that ignores it contained the mean
// of other draws in 3 of 12 cases. With the flows' own delays, 95% intervals contain the percentile of the
// distribution.
func TestDrawnIntervalsCover(t *testing.T) {
	const trials, flows = 40, 10_000
	for name, together := range map[string]int{"independent": 1, "in bursts": 10} {
		hits := map[float64]int{}
		for trial := range trials {
			inCases := bursts(rand.New(rand.NewPCG(uint64(trial), 11)), flows, together)
			rows := drawnIntervals(t, inCases, uint64(trial))
			for _, q := range []float64{0.5, 0.9, 0.99} {
				at := intervalOf(t, rows, ByNothing, "", sizebin.All, q)
				want := 1 - 100*math.Log(1-q)
				if at.Lo <= want && want <= at.Hi || math.IsNaN(at.Lo) {
					hits[q]++
				}
			}
		}
		t.Logf("%s: %v of %d", name, hits, trials)
		for q, n := range hits {
			// 38 are expected. Fewer than 33 happen by chance once in 100 times.
			if n < 33 {
				t.Errorf("%s: the intervals of quantile %g contain it in %d of %d trials", name, q, n, trials)
			}
		}
	}
}

// A percentile has no interval if fewer than 100 flows are beyond it, because the workload is too short.
func TestDrawnIntervalsThatAreNotKnown(t *testing.T) {
	rows := drawnIntervals(t, bursts(rand.New(rand.NewPCG(3, 3)), 5000, 1), 1)
	few := intervalOf(t, rows, ByNothing, "", sizebin.All, 0.99)
	if !math.IsNaN(few.Lo) || !math.IsNaN(few.Hi) ||
		!strings.Contains(few.Warning, "only 50 flows are above it") {
		t.Errorf("50 flows beyond p99: %+v", few)
	}
	known := intervalOf(t, rows, ByNothing, "", sizebin.All, 0.9)
	if !(known.Lo < known.Hi) {
		t.Errorf("500 flows beyond p90: %+v", known)
	}
	rows = drawnIntervals(t, bursts(rand.New(rand.NewPCG(4, 4)), 20_000, 2000), 1)
	inBursts := intervalOf(t, rows, ByNothing, "", sizebin.All, 0.9)
	if !math.IsNaN(inBursts.Lo) || !strings.Contains(inBursts.Warning, "belong to few bursts") {
		t.Errorf("one burst of ten beyond p90: %+v", inBursts)
	}
	rec := Record([]Interval{few})
	defer rec.Release()
	for i, f := range rec.Schema().Fields() {
		bound := f.Name == "lo" || f.Name == "hi"
		if bound && !rec.Column(i).IsNull(0) {
			t.Errorf("column %s of an unknown interval has a value", f.Name)
		}
	}
}
