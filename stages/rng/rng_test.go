package rng

import (
	"math"
	"testing"

	"parsimon/stages/rng/rngtest"
)

// The numbers are part of every result: a change here changes the rows of all lakes.
func TestStreamIsFixed(t *testing.T) {
	s := New(1, Service, 2, 3)
	got := [3]uint64{s.Uint64(), s.Uint64(), s.Uint64()}
	want := [3]uint64{0x5bfe075618bad15, 0x6dee8487517477a1, 0x9791a1890121473b}
	if got != want {
		t.Errorf("stream begins %#x, want %#x", got, want)
	}
}

// No two streams of neighboring keys have a number in common.
func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(3) {
		for kind := range Kind(5) {
			for a := range uint64(30) {
				for _, s := range []Stream{New(seed, kind, a), New(seed, kind, a, 0), New(seed, kind, 0, a+1)} {
					for range 5 {
						x := s.Uint64()
						if seen[x] {
							t.Fatalf("two streams share %#x", x)
						}
						seen[x] = true
					}
				}
			}
		}
	}
}

// Distributions have the right moments, for one stream and for the first number of each of many streams.
func TestStreamDistributions(t *testing.T) {
	const n = 400_000
	for name, draw := range map[string]func(i int) *Stream{
		"one stream": func() func(int) *Stream { s := New(1, 1); return func(int) *Stream { return &s } }(),
		"many":       func(i int) *Stream { s := New(1, 1, uint64(i)); return &s },
	} {
		var sum, sum2, u float64
		counts := make([]int, 7)
		for i := range n {
			z := draw(i).Normal()
			sum += z
			sum2 += z * z
			u += draw(i).Float64()
			counts[draw(i).IntN(7)]++
		}
		tolerance := 5 / math.Sqrt(n)
		if math.Abs(sum/n) > tolerance || math.Abs(sum2/n-1) > 2*tolerance || math.Abs(u/n-0.5) > tolerance {
			t.Errorf("%s: normal mean %v and square %v, uniform mean %v", name, sum/n, sum2/n, u/n)
		}
		rngtest.ChiSquare(t, name, counts, n)
	}
}

// A substream is the stream of all ids. Otherwise estimates would depend on which ids a caller knows in
// advance.
func TestSubstreamIsTheStreamOfAllIDs(t *testing.T) {
	whole := New(7, Bucket, 11, 13)
	for _, part := range []Stream{
		New(7, Bucket).Substream(11, 13), New(7, Bucket, 11).Substream(13), New(7, Bucket, 11, 13).Substream(),
	} {
		if part != whole {
			t.Errorf("stream %v, want %v", part, whole)
		}
	}
}
