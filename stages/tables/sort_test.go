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

// Keys of one bit, keys that fill a word together with the row, and flows that do not begin with row 0 are
// sorted, too. Hops would otherwise belong to other flows.
func TestOrderOfExtremeKeys(t *testing.T) {
	for _, c := range []struct {
		keys []uint64
		want []int32
	}{
		{[]uint64{1, 0}, []int32{1, 0}},
		{[]uint64{1, 0, 1, 0}, []int32{1, 3, 0, 2}},
		{[]uint64{1 << 63, 0}, []int32{1, 0}},
		{[]uint64{1 << 62, 1 << 61, 0}, []int32{2, 1, 0}},
		{[]uint64{7}, []int32{0}},
		{nil, nil},
	} {
		var s Sorter
		got := s.Order(len(c.keys), func(row int) uint64 { return c.keys[row] })
		if !slices.Equal(got, c.want) {
			t.Errorf("keys %v have the order %v, want %v", c.keys, got, c.want)
		}
	}
	for _, rows := range [][]int64{{5, 7}, {7, 5}, {5, 5}} {
		var s Sorter
		got := s.ByFlow(2, func(i int) (int64, int16) { return rows[i], int16(i) })
		first := int32(0)
		if rows[1] < rows[0] {
			first = 1
		}
		if !slices.Equal(got, []int32{first, 1 - first}) {
			t.Errorf("flow rows %v have the order %v", rows, got)
		}
	}
}
