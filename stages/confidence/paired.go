package confidence

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"parsimon/stages/rng"
	"parsimon/stages/tables"
)

// pairedReplicates is the number of bootstrap samples behind the interval of a Change. It suffices for the
// ends of a 95% interval, the 3rd and the 98th of 100.
const pairedReplicates = 100

// A draw of 64 random bits gives the weights of a flow in weightsPerDraw replicates. With 16 bits per weight,
// the probability of a weight has an error below 2^-16.
const (
	weightsPerDraw = 4
	laneBits       = 64 / weightsPerDraw
)

// blockFlows is the number of flows whose weights are summed at once. A sum fits into a lane, because no
// weight is above 16.
const blockFlows = 1024

// A Sample is a group of flows. Each has its row of table flows and a positive value, such as a slowdown or
// an FCT.
type Sample struct {
	Rows   []int64
	Values []float64
	ranks  []int32 // indexes of the values, in ascending order of value
}

// NewSample returns a sample. It keeps the slices, so the caller must not change them.
func NewSample(rows []int64, values []float64) *Sample {
	return &Sample{rows, values, ranksOf(values)}
}

// ranksOf returns the indexes of positive values in ascending order of value. Equal values stay in order. The
// bits of positive numbers are ordered as the numbers are, so the first bits are sorted as integers.
func ranksOf(values []float64) []int32 {
	if len(values) == 0 {
		return nil
	}
	least := math.Float64bits(slices.Min(values))
	most := math.Float64bits(slices.Max(values))
	skipped := max(0, bits.Len64(most-least)+bits.Len(uint(len(values)))-64)
	key := func(i int32) uint64 { return (math.Float64bits(values[i]) - least) >> skipped }
	var sorter tables.Sorter
	ranks := sorter.Order(len(values), func(i int) uint64 { return key(int32(i)) })
	for from := 0; from < len(ranks); {
		to := from + 1
		for to < len(ranks) && key(ranks[to]) == key(ranks[from]) {
			to++
		}
		slices.SortFunc(ranks[from:to], func(a, b int32) int {
			return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b))
		})
		from = to
	}
	return ranks
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
	for draw := range pairedReplicates / weightsPerDraw {
		ofTo.draw(draw)
		if ofFrom != ofTo {
			ofFrom.draw(draw)
		}
		a := ofFrom.quantiles(from, quantiles)
		b := ofTo.quantiles(to, quantiles)
		for q := range quantiles {
			for lane := range weightsPerDraw {
				relative[q] = append(relative[q], b[lane][q]/a[lane][q]-1)
			}
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

// weights has the weights of flows in weightsPerDraw replicates. The weights of a flow are in the lanes of a
// word, those of the first replicate in the lowest bits:
//
//	replicate 3 | replicate 2 | replicate 1 | replicate 0
type weights struct {
	rows   []int64
	words  []uint64
	totals [weightsPerDraw]int
}

func newWeights(rows []int64) *weights {
	return &weights{rows: rows, words: make([]uint64, len(rows))}
}

// draw draws the weights of the next replicates.
func (w *weights) draw(number int) {
	w.totals = [weightsPerDraw]int{}
	stream := rng.New(uint64(number*weightsPerDraw), rng.Bootstrap)
	for i, row := range w.rows {
		of := stream.Substream(uint64(row))
		random := of.Uint64()
		word := uint64(0)
		for lane := range weightsPerDraw {
			weight := poissonOne(random << (lane * laneBits))
			word |= uint64(weight) << (lane * laneBits)
			w.totals[lane] += int(weight)
		}
		w.words[i] = word
	}
}

// laneOf returns the number in a lane of a word.
func laneOf(word uint64, lane int) int { return int(word >> (lane * laneBits) & (1<<laneBits - 1)) }

// quantiles returns the quantiles of a sample, which ascend, with the weights of each of the current
// replicates.
func (w *weights) quantiles(s *Sample, quantiles []float64) (out [weightsPerDraw][]float64) {
	var seen [weightsPerDraw]int // sum of the weights of lower values
	for block := range slices.Chunk(s.ranks, blockFlows) {
		sums := uint64(0)
		for _, i := range block {
			sums += w.words[i]
		}
		for lane := range weightsPerDraw {
			after := seen[lane] + laneOf(sums, lane)
			if w.reached(after, lane, quantiles[len(out[lane]):]) {
				out[lane] = append(out[lane], w.within(s, block, lane, seen[lane], quantiles[len(out[lane]):])...)
			}
			seen[lane] = after
		}
	}
	for lane := range weightsPerDraw {
		for len(out[lane]) < len(quantiles) {
			out[lane] = append(out[lane], s.Rank(len(s.ranks)-1))
		}
	}
	return out
}

// reached reports whether the first of the quantiles is among the values with the lowest weights.
func (w *weights) reached(seen, lane int, quantiles []float64) bool {
	return len(quantiles) > 0 && seen > 0 && float64(seen) >= quantiles[0]*float64(w.totals[lane])
}

// within returns the first of the quantiles of a replicate: those that are in a block of ranks, behind flows
// whose weights sum to seen.
func (w *weights) within(s *Sample, block []int32, lane, seen int, quantiles []float64) (out []float64) {
	for _, i := range block {
		seen += laneOf(w.words[i], lane)
		for w.reached(seen, lane, quantiles[len(out):]) {
			out = append(out, s.Values[i])
		}
	}
	return out
}
