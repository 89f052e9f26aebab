package rng

import (
	"math"
	"math/bits"
)

// A StreamKind keeps the random streams of different purposes apart. Values are part of the
// results: never renumber them.
type Kind uint64

// The purposes random numbers are drawn for.
const (
	ECMP      Kind = 1  // salts of the links for path choice
	FlowPath  Kind = 2  // a flow's key for path choice
	Service   Kind = 3  // one service's flows
	Matrix    Kind = 4  // traffic matrices made from a seed
	Bucket    Kind = 5  // a draw from a link's bucket, by flow and hop
	Sample    Kind = 6  // combination of a flow's hops
	Bootstrap Kind = 7  // weights of flows in bootstrap samples
	Feedback  Kind = 20 // which pass's marks a link case is told
	Failure   Kind = 8  // cables that fail at random
	Change    Kind = 9  // flows of a service that is scaled
	Start     Kind = 16 // starts of flows whose log says only the second
)

// A Stream is a counter-based stream of random numbers: its i-th number is a hash of (key, i), the
// generator SplitMix64 of Steele, Lea and Flood (OOPSLA'14). Streams of different keys are
// independent for our purposes, cost nothing to make, and need no shared state, so what is drawn
// for an id never depends on which worker draws it, or when.
//
// The zero value is a valid stream. A Stream is used by one goroutine at a time.
type Stream struct{ state uint64 }

// weyl is the step of SplitMix64: 2^64 over the golden ratio, made odd.
const weyl = 0x9e3779b97f4a7c15

// mix64 is the finaliser of SplitMix64 (Stafford's variant 13): a bijection in which every input
// bit flips every output bit with a probability near a half.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// mixKey folds one more id into a key.
func MixKey(key, id uint64) uint64 {
	return mix64(key + weyl + mix64(id^0x2545f4914f6cdd1d))
}

// mixString folds a name into a key (FNV-1a over its bytes, then mixed).
func MixString(key uint64, name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return MixKey(MixKey(key, h), uint64(len(name)))
}

// NewStream is the stream of one thing: the seed, what for, and the ids of the thing, in an order
// the caller keeps.
func New(seed uint64, kind Kind, ids ...uint64) Stream {
	key := MixKey(MixKey(0, seed), uint64(kind))
	for _, id := range ids {
		key = MixKey(key, id)
	}
	return Stream{key}
}

// Uint64 draws 64 random bits.
func (s *Stream) Uint64() uint64 {
	s.state += weyl
	return mix64(s.state)
}

// Float64 draws uniformly from the 2^53 multiples of 2^-53 in [0, 1).
func (s *Stream) Float64() float64 { return unitFloat(s.Uint64()) }

// IntN draws uniformly from [0, n); n must be at least 1. Its bias is below n / 2^64.
func (s *Stream) IntN(n int) int {
	if n < 1 {
		panic("stages: IntN of no choices")
	}
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(hi)
}

// Normal draws from the standard normal distribution (Box and Muller, 1958; two numbers of the
// stream per draw, so that what follows in the stream never depends on what was drawn). The tail
// ends at 8.6 standard deviations.
func (s *Stream) Normal() float64 {
	u := float64(s.Uint64()>>11+1) * 0x1p-53 // (0, 1]: its logarithm is finite
	v := s.Float64()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// unitFloat maps 64 random bits to [0, 1).
func unitFloat(x uint64) float64 { return float64(x>>11) * 0x1p-53 }

// below32 maps 32 random bits to [0, n), n < 2^32; its bias is below n / 2^32.
func Below32(x uint32, n int) int { return int(uint64(x) * uint64(n) >> 32) }

// Indexed returns the stream of item i below a key. It equals New(…) with one more id, without the cost of
// hashing the other ids again.
func Indexed(key, i uint64) Stream { return Stream{Hash(key, i)} }

// Hash mixes a key and a number into 64 evenly distributed bits.
func Hash(key, i uint64) uint64 { return mix64(key + i*weyl) }

// Key returns the stream's state as a key for Indexed, Hash and MixKey.
func (s Stream) Key() uint64 { return s.state }
