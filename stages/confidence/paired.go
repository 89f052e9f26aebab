package confidence

import (
	"cmp"
	"slices"

	"parsimon/stages/rng"
)

// pairedReplicates is the number of bootstrap samples behind the interval of a Change. It suffices for the
// ends of a 95% interval, the 3rd and the 98th of 100.
const pairedReplicates = 100

// weightsPerDraw is the number of weights drawn from 64 random bits. With 16 bits per weight, the probability
// of a weight has an error below 2^-16.
const weightsPerDraw = 4

// A Sample is a group of flows. Each has its row of table flows and a value, such as a slowdown or an FCT.
type Sample struct {
	Rows   []int64
	Values []float64
	ranks  []int32 // indexes of the values, in ascending order of value
}

// NewSample returns a sample. It keeps the slices, so the caller must not change them.
func NewSample(rows []int64, values []float64) *Sample {
	ranks := make([]int32, len(values))
	for i := range ranks {
		ranks[i] = int32(i)
	}
	slices.SortFunc(ranks, func(a, b int32) int {
		return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b))
	})
	return &Sample{rows, values, ranks}
}

// Rank returns the value of rank i, counted from 0.
func (s *Sample) Rank(i int) float64 { return s.Values[s.ranks[i]] }

// Quantile interpolates between order statistics, as the queries do (quantile_cont).
func (s *Sample) Quantile(p float64) float64 {
	at := p * float64(len(s.ranks)-1)
	lo := int(at)
	hi := min(lo+1, len(s.ranks)-1)
	return s.Rank(lo) + (at-float64(lo))*(s.Rank(hi)-s.Rank(lo))
}

// A Change is the relative difference between a quantile of two samples, with its 95% interval.
type Change struct {
	From, To         float64
	Relative, Lo, Hi float64
}

// Changes returns the change of each quantile. The intervals come from a Poisson bootstrap: each replicate
// draws a weight for each flow from a Poisson distribution of mean 1. It depends only on the flow and the
// replicate. A flow has the same weight in both samples, so that common parts cancel.
func Changes(from, to *Sample, quantiles []float64) []Change {
	relative := make([][]float64, len(quantiles))
	ofFrom := newWeights(from.Rows)
	ofTo := newWeights(to.Rows)
	if slices.Equal(from.Rows, to.Rows) {
		ofFrom = ofTo
	}
	for replicate := range pairedReplicates {
		ofTo.next(replicate)
		if ofFrom != ofTo {
			ofFrom.next(replicate)
		}
		a := ofFrom.quantiles(from, quantiles)
		b := ofTo.quantiles(to, quantiles)
		for q := range quantiles {
			relative[q] = append(relative[q], b[q]/a[q]-1)
		}
	}
	changes := make([]Change, len(quantiles))
	for q, p := range quantiles {
		a := from.Quantile(p)
		b := to.Quantile(p)
		slices.Sort(relative[q])
		outside := pairedReplicates * 25 / 1000 // at either end
		changes[q] = Change{a, b, b/a - 1, relative[q][outside], relative[q][pairedReplicates-1-outside]}
	}
	return changes
}

// weights has the weights of flows in one replicate at a time.
type weights struct {
	rows   []int64
	weight []uint8
	random []uint64
	total  int // sum of the weights
}

func newWeights(rows []int64) *weights {
	return &weights{rows: rows, weight: make([]uint8, len(rows)), random: make([]uint64, len(rows))}
}

// next draws the weights of the next replicate.
func (w *weights) next(replicate int) {
	w.total = 0
	for i, row := range w.rows {
		if replicate%weightsPerDraw == 0 {
			u := rng.New(uint64(replicate), rng.Bootstrap, uint64(row))
			w.random[i] = u.Uint64()
		}
		w.weight[i] = poissonOne(w.random[i])
		w.random[i] <<= 64 / weightsPerDraw
		w.total += int(w.weight[i])
	}
}

// quantiles returns the quantiles of a sample with the weights of the current replicate.
func (w *weights) quantiles(s *Sample, quantiles []float64) []float64 {
	out := make([]float64, len(quantiles))
	q := 0
	seen := 0
	for _, i := range s.ranks {
		seen += int(w.weight[i])
		for q < len(out) && float64(seen) >= quantiles[q]*float64(w.total) && seen > 0 {
			out[q] = s.Values[i]
			q++
		}
	}
	for ; q < len(out); q++ {
		out[q] = s.Rank(len(s.ranks) - 1)
	}
	return out
}
