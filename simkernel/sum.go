package simkernel

import "math/bits"

// A Sum is a sum of durations. It has 128 bits, because the waits of many packets exceed an int64. A 100 Gbps
// link that is offered twice its capacity has 2^63 ns of waits after 39 s.
type Sum struct{ high, low uint64 }

// Add adds a duration, which must not be negative.
func (s *Sum) Add(duration int64) {
	low, carry := bits.Add64(s.low, uint64(duration), 0)
	s.low = low
	s.high += carry
}

// Float64 returns the sum. It is exact to 53 bits.
func (s Sum) Float64() float64 { return float64(s.high)*(1<<64) + float64(s.low) }

// PSToNS converts a sum of ps to whole ns, rounded down.
func (s Sum) PSToNS() Sum {
	high, rest := s.high/PSPerNS, s.high%PSPerNS
	low, _ := bits.Div64(rest, s.low, PSPerNS)
	return Sum{high, low}
}

// Int64 returns the sum, or the largest int64 if the sum is larger.
func (s Sum) Int64() int64 {
	if s.high > 0 || s.low > Never {
		return Never
	}
	return int64(s.low)
}
