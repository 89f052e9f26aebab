package packetset

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A set answers like a slice of its numbers, however they were added. With a wrong answer a receiver would
// ask for packets that it has, or miss packets that it lacks.
func TestSetAgreesWithASlice(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var s Set
		var has [300]bool
		for range 200 {
			number := rng.Int64N(int64(len(has)))
			switch rng.IntN(20) {
			case 0:
				s.AddThrough(number / 4)
				for k := range number/4 + 1 {
					has[k] = true
				}
			case 1:
				s.Reset()
				clear(has[:])
			default:
				s.Add(number)
				has[number] = true
			}
			check(t, &s, has[:])
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// check compares all answers of a set with those of a slice.
func check(t *testing.T, s *Set, has []bool) {
	t.Helper()
	lacks := func(from int) int {
		i := slices.Index(has[from:], false)
		if i < 0 {
			return len(has)
		}
		return from + i
	}
	got := s.Base
	want := int64(lacks(0))
	if got != want {
		t.Errorf("Base is %d, want %d", got, want)
	}
	var above []int64 // the numbers from Base on, the highest first
	for k := len(has) - 1; k >= int(s.Base); k-- {
		if has[k] {
			above = append(above, int64(k))
		}
	}
	for k := range int64(4) {
		want := int64(0)
		if int(k) < len(above) {
			want = above[k]
		}
		got := s.Highest(k + 1)
		if got != want {
			t.Errorf("Highest(%d) is %d, want %d", k+1, got, want)
		}
	}
	missing := int64(0) // of the numbers from 7 on
	for k := range has {
		if s.Has(int64(k)) != has[k] {
			t.Errorf("Has(%d) is %v", k, !has[k])
		}
		next := int64(lacks(k))
		if s.Next(int64(k)) != next {
			t.Errorf("Next(%d) is %d, want %d", k, s.Next(int64(k)), next)
		}
		if k < 7 {
			continue
		}
		if s.Missing(7, int64(k)) != missing {
			t.Errorf("Missing(7, %d) is %d, want %d", k, s.Missing(7, int64(k)), missing)
		}
		if !has[k] {
			missing++
		}
	}
}
