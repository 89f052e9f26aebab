package whatif

import (
	"cmp"
	"math"
	"slices"

	"parsimon/pipeline"
	"parsimon/stages"
	"parsimon/stages/rng"
)

// replicates is the number of bootstrap samples behind an interval: enough for the ends of a 95%
// interval, the 3rd and the 98th of 100.
const replicates = 100

// weightsPerDraw weights come from 64 random bits. With 16 bits each, the probability of a weight is off by less than
// 2^-16.
const weightsPerDraw = 4

// A ValidationRow compares one quantile of two sets of slowdowns of the same flows: of one size bin, by an estimate and by
// the truth. Both slowdowns are over the estimate's ideal FCT, so that only FCTs are compared.
type ValidationRow struct {
	Name        string  `json:"size_bin"`
	Flows       int64   `json:"flows"`
	Quantile    float64 `json:"quantile"`
	Estimate    float64 `json:"estimate"`
	True        float64 `json:"truth"`
	Error       float64 `json:"error"`    // Estimate / True - 1
	ErrorLo     float64 `json:"error_lo"` // 95% bootstrap interval of Error
	ErrorHi     float64 `json:"error_hi"`
	Wasserstein float64 `json:"w1_log"` // W1 of the logarithms of the slowdowns
}

// A sample is a group of flows with two slowdowns each, or two FCTs.
type sample struct {
	name          string
	most          int64 // largest size
	rows          []int64
	estimate, tru []float64
}

func (s *sample) add(row int64, estimate, tru float64) {
	s.rows, s.estimate, s.tru = append(s.rows, row), append(s.estimate, estimate), append(s.tru, tru)
}

// compare returns a row for each of pipeline.Quantiles. The intervals are of a Poisson bootstrap: each replicate
// gives each flow a weight drawn from a Poisson distribution of mean 1, keyed by flow and replicate,
// the same for its estimate and its truth, so that what is common to both cancels.
func (s *sample) compare() []ValidationRow {
	n := len(s.estimate)
	byEstimate, byTruth := ranked(s.estimate), ranked(s.tru)
	errorsOf := make([][]float64, len(pipeline.Quantiles))
	weight, random := make([]uint8, n), make([]uint64, n)
	for rep := range replicates {
		total := 0
		for i, row := range s.rows {
			if rep%weightsPerDraw == 0 {
				u := rng.New(uint64(rep), rng.Bootstrap, uint64(row))
				random[i] = u.Uint64()
			}
			weight[i] = stages.PoissonOne(random[i])
			random[i] <<= 64 / weightsPerDraw
			total += int(weight[i])
		}
		est, tru := weighted(s.estimate, byEstimate, weight, total), weighted(s.tru, byTruth, weight, total)
		for q := range pipeline.Quantiles {
			errorsOf[q] = append(errorsOf[q], est[q]/tru[q]-1)
		}
	}
	var distance float64
	for i := range n {
		distance += math.Abs(math.Log(s.estimate[byEstimate[i]]) - math.Log(max(1e-9, s.tru[byTruth[i]])))
	}
	var out []ValidationRow
	for q, p := range pipeline.Quantiles {
		est, tru := quantileOf(s.estimate, byEstimate, p), quantileOf(s.tru, byTruth, p)
		slices.Sort(errorsOf[q])
		out = append(out, ValidationRow{
			Name: s.name, Flows: int64(n), Quantile: p, Estimate: est, True: tru, Error: est/tru - 1,
			ErrorLo: errorsOf[q][replicates*25/1000], ErrorHi: errorsOf[q][replicates-1-replicates*25/1000],
			Wasserstein: distance / float64(n),
		})
	}
	return out
}

func ranked(values []float64) []int32 {
	order := make([]int32, len(values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b)) })
	return order
}

// quantileOf interpolates between order statistics, as the queries do (quantile_cont).
func quantileOf(values []float64, order []int32, p float64) float64 {
	at := p * float64(len(order)-1)
	lo := int(at)
	hi := min(lo+1, len(order)-1)
	return values[order[lo]] + (at-float64(lo))*(values[order[hi]]-values[order[lo]])
}

func weighted(values []float64, order []int32, weight []uint8, total int) []float64 {
	out := make([]float64, len(pipeline.Quantiles))
	q, seen := 0, 0
	for _, i := range order {
		seen += int(weight[i])
		for q < len(out) && float64(seen) >= pipeline.Quantiles[q]*float64(total) && seen > 0 {
			out[q] = values[i]
			q++
		}
	}
	for ; q < len(out); q++ {
		out[q] = values[order[len(order)-1]]
	}
	return out
}
