package workload

import (
	"math"
	"testing"
)

// A table of pairs draws each with its share of the weights: a cell has an equal share of the draws, which it
// divides between two pairs.
func TestTableOfPairsHasTheirWeights(t *testing.T) {
	for _, weights := range [][]float64{
		{5}, {1, 1}, {1, 2, 3, 4}, {4, 3, 2, 1}, {1, 100, 1, 1, 7, 0.5}, {1e-9, 1},
	} {
		var pairs []groupPair
		sum := 0.0
		for i, w := range weights {
			pairs = append(pairs, groupPair{int32(i), int32(-i)})
			sum += w
		}
		table := newAliasTable(pairs, weights, sum)
		got := make([]float64, len(weights))
		for _, c := range table {
			kept := float64(c.keep) / 0x1p64 / float64(len(table))
			got[c.own.src] += kept
			got[c.other.src] += 1/float64(len(table)) - kept
		}
		for i, w := range weights {
			if math.Abs(got[i]-w/sum) > 1e-12 {
				t.Errorf("weights %v: pair %d has a share of %v, want %v", weights, i, got[i], w/sum)
			}
		}
	}
	table := aliasTable{{keep: 1 << 63, own: groupPair{0, 1}, other: groupPair{2, 3}}, {own: groupPair{4, 5},
		other: groupPair{6, 7}}}
	for x, want := range map[uint64]int32{0: 0, 1<<62 - 1: 0, 1 << 62: 2, 1<<63 - 1: 2, 1 << 63: 6} {
		got := table.draw(x).src
		if got != want {
			t.Errorf("the number %d draws the pair of group %d, want %d", x, got, want)
		}
	}
}
