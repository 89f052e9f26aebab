package confidence

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/stages/rng"
)

// Changes draws four replicates at once and sums weights in blocks. Its rows equal those of one replicate
// after the other, with values sorted by comparison. Otherwise, comparisons that are stored differ from new
// ones.
func TestChangesEqualTheirTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 14))
	quantiles := []float64{0, 0.5, 0.9, 0.99, 0.999, 1}
	for _, flows := range []int{1, 2, 5, 1023, 1024, 1025, 5000} {
		from := sampleOf(random, flows, 0)
		to := sampleOf(random, flows, 0)
		other := sampleOf(random, flows/2+1, int64(flows/4))
		for name, second := range map[string]*Sample{"the same flows": to, "others": other} {
			got := Changes(from, second, quantiles)
			want := changesTwin(from, second, quantiles)
			if !slices.Equal(got, want) {
				t.Errorf("%d flows, %s: %+v, want %+v", flows, name, got, want)
			}
		}
	}
}

// sampleOf returns flows with values of which some are equal and others differ in their last bits.
func sampleOf(random *rand.Rand, flows int, firstRow int64) *Sample {
	var rows []int64
	var values []float64
	for i := range flows {
		value := 1 + math.Floor(100*random.ExpFloat64())/10
		if random.IntN(2) == 0 {
			value = math.Float64frombits(math.Float64bits(value) + random.Uint64N(4))
		}
		if random.IntN(50) == 0 {
			value = math.Exp(100 * random.NormFloat64())
		}
		rows = append(rows, firstRow+int64(i))
		values = append(values, value)
	}
	return NewSample(rows, values)
}

// changesTwin is Changes, one replicate and one flow at a time.
func changesTwin(from, to *Sample, quantiles []float64) (changes []Change) {
	relative := make([][]float64, len(quantiles))
	for replicate := range pairedReplicates {
		a := replicateTwin(from, replicate, quantiles)
		b := replicateTwin(to, replicate, quantiles)
		for q := range quantiles {
			relative[q] = append(relative[q], b[q]/a[q]-1)
		}
	}
	for q, p := range quantiles {
		a := from.Quantile(p)
		b := to.Quantile(p)
		slices.Sort(relative[q])
		changes = append(changes, Change{a, b, b/a - 1, relative[q][2], relative[q][97]})
	}
	return changes
}

// replicateTwin returns the quantiles of a sample in one replicate.
func replicateTwin(s *Sample, replicate int, quantiles []float64) (out []float64) {
	weight := make([]int, len(s.Rows))
	total := 0
	for i, row := range s.Rows {
		u := rng.New(uint64(replicate/4*4), rng.Bootstrap, uint64(row))
		random := u.Uint64() << (replicate % 4 * 16)
		for weight[i] < len(poissonCDF) && random >= poissonCDF[weight[i]] {
			weight[i]++
		}
		total += weight[i]
	}
	ranks := make([]int, len(s.Values))
	for i := range ranks {
		ranks[i] = i
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(s.Values[a], s.Values[b]) })
	for rank, i := range ranks {
		if s.Rank(rank) != s.Values[i] {
			return nil
		}
	}
	seen := 0
	for _, i := range ranks {
		seen += weight[i]
		for len(out) < len(quantiles) && seen > 0 && float64(seen) >= quantiles[len(out)]*float64(total) {
			out = append(out, s.Values[i])
		}
	}
	for len(out) < len(quantiles) {
		out = append(out, s.Values[ranks[len(ranks)-1]])
	}
	return out
}
