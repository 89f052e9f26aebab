package tables

import (
	"cmp"
	"math/bits"
	"slices"

	"parsimon/schema/columns"
)

// A Sorter sorts row numbers by integer keys. The sort is stable and reuses memory. It is a radix sort, least
// significant digit first. For millions of rows it is several times faster than sorting by comparison.
//
//	word := key << bits of a row number | row number
type Sorter struct {
	words, other []uint64
	rows         []int32
	counts       []int32
}

// A digit of a key has at most digitBits bits, and fewBits if there are at most fewRows rows: to count digits
// that hardly any row has would then take longer than to sort the rows once more.
const (
	digitBits = 12
	fewBits   = 8
	fewRows   = 2_000
)

// Order returns the row numbers 0 to n-1 in ascending order of key. Equal keys stay in row order. The result
// is valid until the next call.
func (s *Sorter) Order(n int, key func(row int) uint64) []int32 {
	s.words = columns.Resize(s.words, n)
	s.rows = columns.Resize(s.rows, n)
	rowBits := bits.Len(uint(max(0, n-1)))
	var all uint64
	for i := range n {
		k := key(i)
		all |= k
		s.words[i] = k<<rowBits | uint64(i)
	}
	if bits.Len64(all)+rowBits > 64 {
		for i := range n {
			s.rows[i] = int32(i)
		}
		slices.SortStableFunc(s.rows, func(a, b int32) int { return cmp.Compare(key(int(a)), key(int(b))) })
		return s.rows
	}
	s.sortWords(rowBits, bits.Len64(all))
	mask := uint64(1)<<rowBits - 1
	for i, w := range s.words {
		s.rows[i] = int32(w & mask)
	}
	return s.rows
}

// sortWords sorts the words by their keys, which have keyBits bits, from bit rowBits on. The digits of a key
// have about the same number of bits.
func (s *Sorter) sortWords(rowBits, keyBits int) {
	s.other = columns.Resize(s.other, len(s.words))
	most := digitBits
	if len(s.words) <= fewRows {
		most = fewBits
	}
	passes := (keyBits + most - 1) / most
	for pass := range passes {
		from := rowBits + pass*keyBits/passes
		to := rowBits + (pass+1)*keyBits/passes
		s.counts = columns.Resize(s.counts, 1<<(to-from))
		clear(s.counts)
		counts := s.counts
		mask := uint64(len(counts) - 1)
		for _, w := range s.words {
			counts[w>>from&mask]++
		}
		at := int32(0)
		for d, c := range counts {
			counts[d] = at
			at += c
		}
		for _, w := range s.words {
			place := &counts[w>>from&mask]
			s.other[*place] = w
			*place++
		}
		s.words, s.other = s.other, s.words
	}
}

// ByFlow returns the row numbers 0 to n-1 in ascending order of flow row and hop. The result is valid until
// the next call.
func (s *Sorter) ByFlow(n int, of func(i int) (flowRow int64, hop int16)) []int32 {
	var least int64
	var hops int16
	for i := range n {
		row, hop := of(i)
		if i == 0 || row < least {
			least = row
		}
		hops |= hop
	}
	hopBits := bits.Len16(uint16(hops))
	return s.Order(n, func(i int) uint64 {
		row, hop := of(i)
		return uint64(row-least)<<hopBits | uint64(hop)
	})
}
