package workload

import (
	"math"
	"math/bits"
)

// groupPair is a sending and a receiving group of hosts.
type groupPair struct{ src, dst int32 }

// aliasTable draws a pair by weight with one random number and one memory access (Walker's alias method, as
// built by Vose, 1991).
type aliasTable []aliasCell

type aliasCell struct {
	keep       uint64 // own is drawn if the fraction is below keep / 2^64, else other
	own, other groupPair
}

// newAliasTable builds the table in time linear in the pairs. sum is that of the weights, above 0. Each cell has an
// equal share of the draws and divides it between two pairs.
func newAliasTable(pairs []groupPair, weights []float64, sum float64) aliasTable {
	t := make(aliasTable, len(pairs))
	scaled := make([]float64, len(pairs))
	var small, large []int32
	for i, w := range weights {
		scaled[i] = w / sum * float64(len(pairs))
		if scaled[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for i, p := range pairs {
		t[i] = aliasCell{math.MaxUint64, p, p}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t[s].keep = uint64(scaled[s] * 0x1p64)
		t[s].other = pairs[l]
		scaled[l] -= 1 - scaled[s]
		if scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return t // cells that remain because of rounding keep their own pair
}

// draw uses the high bits of x × len for the cell and the low ones for the choice within it.
func (t aliasTable) draw(x uint64) groupPair {
	i, fraction := bits.Mul64(x, uint64(len(t)))
	if c := &t[i]; fraction < c.keep {
		return c.own
	}
	return t[i].other
}
