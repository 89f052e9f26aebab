package network

import (
	"math/bits"
)

// A packetSet is a set of packet numbers. It has all numbers below base, and those from base on whose bits
// are set.
type packetSet struct {
	base int64
	bits []uint64 // of the numbers from base &^ 63 on
}

func (s *packetSet) reset() {
	s.base = 0
	s.bits = s.bits[:0]
}

func (s *packetSet) has(number int64) bool {
	word := number/64 - s.base/64
	return number < s.base || word < int64(len(s.bits)) && s.bits[word]>>(number%64)&1 != 0
}

// add adds a number, and advances base to the first number that is not in the set.
func (s *packetSet) add(number int64) {
	if s.has(number) {
		return
	}
	for number/64-s.base/64 >= int64(len(s.bits)) {
		s.bits = append(s.bits, 0)
	}
	s.bits[number/64-s.base/64] |= 1 << (number % 64)
	for s.has(s.base) {
		s.base++
		if s.base%64 == 0 {
			s.bits = s.bits[:copy(s.bits, s.bits[1:])]
		}
	}
}

// addThrough adds all numbers up to number.
func (s *packetSet) addThrough(number int64) {
	for s.base <= number {
		s.add(s.base)
	}
}

// next returns the first number from one on that is not in the set.
func (s *packetSet) next(number int64) int64 {
	number = max(number, s.base)
	for i := number/64 - s.base/64; i < int64(len(s.bits)); i++ {
		missing := ^s.bits[i] >> (number % 64)
		if missing != 0 {
			return number + int64(bits.TrailingZeros64(missing))
		}
		number = number&^63 + 64
	}
	return number
}

// highest returns the k-th highest number, 0 if there are fewer from base on.
func (s *packetSet) highest(k int64) int64 {
	for i := len(s.bits) - 1; i >= 0; i-- {
		first := s.base&^63 + int64(i)*64
		word := s.bits[i]
		if i == 0 {
			word &^= 1<<(s.base%64) - 1
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

// missing returns how many numbers from one to below another are not in the set.
func (s *packetSet) missing(from, to int64) int64 {
	from = max(from, s.base)
	count := max(0, to-from)
	for from < to {
		i := from/64 - s.base/64
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
