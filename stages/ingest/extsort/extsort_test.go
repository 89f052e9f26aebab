package extsort

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"testing"

	"parsimon/stages/rng"
)

type pair struct {
	key   uint64
	value int32
}

var byBoth = Order[pair]{
	Key:     func(p *pair) uint64 { return p.key },
	Compare: func(a, b *pair) int { return cmp.Compare(a.value, b.value) },
}

// Rows come back in order, each once, in memory and from runs, as often as they are asked for. Without this,
// records of one connection would be divided between flows, or lost.
func TestSorterReturnsAllRowsInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1024, 1025, 10_000} {
		dir := t.TempDir()
		s := New(dir, 1, byBoth) // 1024 rows in memory
		random := rng.New(uint64(n), rng.Start)
		var want []pair
		for range n {
			p := pair{uint64(random.IntN(100)), int32(random.IntN(1 << 30))}
			want = append(want, p)
			if err := s.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(want, func(a, b pair) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
		})
		for range 2 {
			var got []pair
			err := s.Each(t.Context(), func(p *pair) error {
				got = append(got, *p)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d rows: not those that were added, in order", n)
			}
		}
		if s.Len() != int64(n) {
			t.Errorf("%d rows: Len is %d", n, s.Len())
		}
		stop := errors.New("stop")
		if err := s.Each(t.Context(), func(*pair) error { return stop }); n > 0 && !errors.Is(err, stop) {
			t.Errorf("%d rows: an error of the caller became %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%d rows: after Close the folder has %v, %v", n, left, err)
		}
	}
}

// A row with a pointer would be garbage when it is read again.
func TestSorterRefusesPointers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("rows with a string are accepted")
		}
	}()
	New(t.TempDir(), 1, Order[struct{ name string }]{})
}
