package rng

import (
	"hash/fnv"
	"math"
	"testing"
)

// The generator is SplitMix64: with the key 0, its first numbers are those of the reference implementation
// (prng.di.unimi.it/splitmix64.c). Numbers by index equal those of the stream.
func TestGeneratorIsSplitMix64(t *testing.T) {
	s := Stream{}
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		got := s.Uint64()
		if got != want {
			t.Errorf("number %d of SplitMix64 is %#x, want %#x", i, got, want)
		}
		got = Hash(0, uint64(i+1))
		if got != want {
			t.Errorf("number %d by index is %#x, want %#x", i, got, want)
		}
		at := Indexed(0, uint64(i+1))
		if at.Key() != want {
			t.Errorf("stream %d has key %#x, want %#x", i+1, at.Key(), want)
		}
	}
}

// The first number of that stream is 0.88331 of 2^64. What is drawn with it follows by hand.
func TestDrawsOfAKnownNumber(t *testing.T) {
	s := Stream{}
	got := s.Float64()
	if math.Abs(got-0.8833108082136426) > 1e-15 {
		t.Errorf("Float64 is %v", got)
	}
	s = Stream{}
	below := s.IntN(1000)
	if below != 883 {
		t.Errorf("IntN(1000) is %d", below)
	}
	below = s.IntN(1)
	if below != 0 {
		t.Errorf("IntN(1) is %d", below)
	}
	// Box and Muller: √(−2 ln u) · cos 2πv, of the first number and of the second, 0.43153.
	s = Stream{}
	got = s.Normal()
	if !(math.Abs(got+0.4527) <= 1e-4) {
		t.Errorf("Normal is %v", got)
	}
	for x, want := range map[uint32]int{0: 0, 1 << 31: 3, 1<<32 - 1: 6, 613_566_756: 0,
		613_566_757: 1} { // 2^32 / 7
		got := Below32(x, 7)
		if got != want {
			t.Errorf("Below32(%d, 7) is %d, want %d", x, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("IntN(0) returns")
		}
	}()
	s.IntN(0)
}

// The logarithm in Normal would be infinite if a number could be 0. The first number of this key is 0.
func TestNormalIsFinite(t *testing.T) {
	const key = 1<<64 - weyl
	s := Stream{key}
	zero := s
	if zero.Uint64() != 0 {
		t.Fatal("the first number of the key is not 0")
	}
	z := s.Normal()
	if !(math.Abs(z) <= 8.6) {
		t.Errorf("Normal is %v", z)
	}
}

// A name's key is FNV-1a of its bytes and its length. Names that differ only in length have different keys.
func TestNamesHaveKeysOfFNV(t *testing.T) {
	for _, name := range []string{"", "web", "storage", "\xff"} {
		h := fnv.New64a()
		h.Write([]byte(name))
		got := MixString(5, name)
		want := MixKey(MixKey(5, h.Sum64()), uint64(len(name)))
		if got != want {
			t.Errorf("key of %q is %#x, want %#x", name, got, want)
		}
	}
}

// Kinds are stored in lakes through the numbers that were drawn with them.
func TestKindsNeverChange(t *testing.T) {
	for kind, want := range map[Kind]uint64{
		ECMP: 1, FlowPath: 2, Service: 3, Matrix: 4, Bucket: 5, Bootstrap: 7, Failure: 8, Change: 9, Start: 16,
		Feedback: 20,
		Window:   21, Carried: 22, Placement: 23,
	} {
		if uint64(kind) != want {
			t.Errorf("kind %d was %d", kind, want)
		}
	}
}
