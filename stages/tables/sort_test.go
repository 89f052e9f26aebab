package tables

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// The Sorter agrees with a stable sort by comparison, for keys of any width.
func TestSorterIsStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var s Sorter
	for trial := range 200 {
		n := rng.IntN(3000)
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = rng.Uint64() >> uint(rng.IntN(64))
			if trial%2 == 0 {
				keys[i] %= 17
			}
		}
		want := make([]int32, n)
		for i := range want {
			want[i] = int32(i)
		}
		sort.SliceStable(want, func(a, b int) bool { return keys[want[a]] < keys[want[b]] })
		if got := s.Order(n, func(i int) uint64 { return keys[i] }); !slices.Equal(got, want) {
			t.Fatalf("trial %d: order differs", trial)
		}
	}
}
