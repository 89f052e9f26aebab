// Package rng provides random streams that are identified by a seed, a purpose and ids.
//
//	s := rng.New(seed, rng.Bucket, flowID, hop)   // the stream of one draw
//	delay := delays[s.IntN(len(delays))]
//
// A stream needs no shared state and costs a few hashes to create, so each use has a separate one: a draw for
// an id does not depend on the worker, the time, or other draws. Streams with different keys are independent
// for the purposes of this project. They are not cryptographic.
package rng

import (
	"math"
	"math/bits"
)

// Kind is the purpose of a stream. Values are part of the results: they must never change.
type Kind uint64

// The purposes of random numbers.
const (
	ECMP      Kind = 1  // salts of links for path choice
	FlowPath  Kind = 2  // a flow's key for path choice
	Service   Kind = 3  // the flows of a service
	Matrix    Kind = 4  // traffic matrices
	Bucket    Kind = 5  // draws from a link's bucket, by flow and hop
	Bootstrap Kind = 7  // weights in bootstrap replicates
	Failure   Kind = 8  // cables that fail at random
	Change    Kind = 9  // flows of a service that is scaled
	Start     Kind = 16 // starts of flows whose records have a resolution of seconds
	Window    Kind = 21 // windows of time that are drawn, by stratum
	Carried   Kind = 22 // when a flow that is active when a window begins is simulated first
	Placement Kind = 23 // hosts of a job
	Traffic   Kind = 24 // flows of an interval of a connection
	Feedback  Kind = 20 // which pass's marks the feedback has
)

// Stream is a counter-based stream of random numbers. Its i-th number is a hash of (key, i): the generator
// SplitMix64 of Steele, Lea and Flood (OOPSLA'14).
//
// The zero value is a valid stream. A Stream is used by one goroutine at a time.
type Stream struct{ state uint64 }

// weyl is the step of SplitMix64: 2^64 divided by the golden ratio, made odd.
const weyl = 0x9e3779b97f4a7c15

// mix64 is the finalizer of SplitMix64 (Stafford's variant 13): a bijection in which every input bit flips
// every output bit with a probability near one half.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// MixKey returns the key of an id below a key.
func MixKey(key, id uint64) uint64 {
	return mix64(key + weyl + mix64(id^0x2545f4914f6cdd1d))
}

// MixString returns the key of a name below a key (FNV-1a over its bytes, then mixed).
func MixString(key uint64, name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return MixKey(MixKey(key, h), uint64(len(name)))
}

// New returns the stream of a seed, a purpose and ids. The order of ids matters.
func New(seed uint64, kind Kind, ids ...uint64) Stream {
	return Stream{MixKey(MixKey(0, seed), uint64(kind))}.Substream(ids...)
}

// Substream returns the stream of ids below a stream that was not used: New(seed, kind, a, b) is
// New(seed, kind, a).Substream(b).
func (s Stream) Substream(ids ...uint64) Stream {
	for _, id := range ids {
		s.state = MixKey(s.state, id)
	}
	return s
}

// Uint64 returns 64 random bits.
func (s *Stream) Uint64() uint64 {
	s.state += weyl
	return mix64(s.state)
}

// Float64 returns a number uniformly distributed over the 2^53 multiples of 2^-53 in [0, 1).
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// IntN returns a number uniformly distributed over [0, n), with a bias below n / 2^64. It panics if n is
// below 1.
func (s *Stream) IntN(n int) int {
	if n < 1 {
		panic("rng: IntN of less than 1")
	}
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(hi)
}

// Normal returns a number of the standard normal distribution (Box and Muller, 1958). It always takes two
// numbers of the stream. The tails end at 8.6 standard deviations.
func (s *Stream) Normal() float64 {
	u := float64(s.Uint64()>>11+1) * 0x1p-53 // (0, 1]: its logarithm is finite
	v := s.Float64()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// Below32 maps 32 random bits to [0, n), for n below 2^32, with a bias below n / 2^32.
func Below32(x uint32, n int) int { return int(uint64(x) * uint64(n) >> 32) }

// Indexed returns the stream of item i below a key (Stream.Key, MixString). It costs one hash.
func Indexed(key, i uint64) Stream { return Stream{Hash(key, i)} }

// Hash maps a key and a number to 64 uniformly distributed bits.
func Hash(key, i uint64) uint64 { return mix64(key + i*weyl) }

// Key returns the stream's state, as a key for Indexed, Hash and MixKey.
func (s Stream) Key() uint64 { return s.state }
