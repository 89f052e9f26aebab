// Package packetset implements sets of packet numbers: the packets of a flow that a receiver has, or that are
// acknowledged. Most numbers of such a set are all those below some number.
package packetset

import (
	"math/bits"
)

// A Set is a set of packet numbers. It has all numbers below Base, and those from Base on whose bits
// are set.
type Set struct {
	Base int64
	bits []uint64 // of the numbers from base &^ 63 on
}

// Reset empties the set.
func (s *Set) Reset() {
	s.Base = 0
	s.bits = s.bits[:0]
}

// Has reports whether a number is in the set.
func (s *Set) Has(number int64) bool {
	word := number/64 - s.Base/64
	return number < s.Base || word < int64(len(s.bits)) && s.bits[word]>>(number%64)&1 != 0
}

// Add adds a number, and advances Base to the first number that is not in the set.
func (s *Set) Add(number int64) {
	if s.Has(number) {
		return
	}
	for number/64-s.Base/64 >= int64(len(s.bits)) {
		s.bits = append(s.bits, 0)
	}
	s.bits[number/64-s.Base/64] |= 1 << (number % 64)
	for s.Has(s.Base) {
		s.Base++
		if s.Base%64 == 0 {
			s.bits = s.bits[:copy(s.bits, s.bits[1:])]
		}
	}
}

// AddThrough adds all numbers up to number.
func (s *Set) AddThrough(number int64) {
	for s.Base <= number {
		s.Add(s.Base)
	}
}

// Next returns the first number from one on that is not in the set.
func (s *Set) Next(number int64) int64 {
	number = max(number, s.Base)
	for i := number/64 - s.Base/64; i < int64(len(s.bits)); i++ {
		missing := ^s.bits[i] >> (number % 64)
		if missing != 0 {
			return number + int64(bits.TrailingZeros64(missing))
		}
		number = number&^63 + 64
	}
	return number
}

// Highest returns the k-th highest number, 0 if there are fewer from Base on.
func (s *Set) Highest(k int64) int64 {
	for i := len(s.bits) - 1; i >= 0; i-- {
		first := s.Base&^63 + int64(i)*64
		word := s.bits[i]
		if i == 0 {
			word &^= 1<<(s.Base%64) - 1
		}
		for ; word != 0; k-- {
			top := int64(bits.Len64(word)) - 1
			if k == 1 {
				return first + top
			}
			word &^= 1 << top
		}
	}
	return 0
}

// Missing returns how many numbers from one to below another are not in the set.
func (s *Set) Missing(from, to int64) int64 {
	from = max(from, s.Base)
	count := max(0, to-from)
	for from < to {
		i := from/64 - s.Base/64
		if i >= int64(len(s.bits)) {
			break
		}
		word := s.bits[i] >> (from % 64)
		rest := to - from
		if rest < 64 {
			word &= 1<<rest - 1
		}
		count -= int64(bits.OnesCount64(word))
		from = from&^63 + 64
	}
	return count
}
