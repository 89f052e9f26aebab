package extsort

import (
	"testing"

	"parsimon/stages/rng"
)

// Blocks that one Sorter frees are those that the next one takes, also for rows of another size. Without
// this, an ingest takes the memory of all of its sorts until garbage is collected.
func TestSortersShareBlocks(t *testing.T) {
	type long struct {
		key  uint64
		more eight
	}
	m := &Memory{}
	random := rng.New(1, rng.Start)
	first := New(m, t.TempDir(), 1<<30, hashed)
	const n = 100_000
	for range n {
		if err := first.Add(pair{key: random.Uint64()}); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.free) > 0 {
		t.Errorf("%d blocks are free before the rows are drained", len(m.free))
	}
	if err := first.Drain(t.Context(), func(*pair) error { return nil }); err != nil {
		t.Fatal(err)
	}
	blocks := len(m.free)
	if blocks < n/rowsOfBlock[pair]() {
		t.Fatalf("%d blocks are free, too few for %d rows", blocks, n)
	}
	key := func(r *long) uint64 { return r.key }
	second := New(m, t.TempDir(), 1<<30, Order[long]{Key: key, Compare: func(_, _ *long) int { return 0 }})
	rows := 10 * rowsOfBlock[long]()
	for i := range rows {
		if err := second.Add(long{uint64(i), eight{H: int64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.free) != blocks-10 {
		t.Errorf("%d of %d blocks are free, ten are in use", len(m.free), blocks)
	}
	at := int64(0)
	err := second.Each(t.Context(), func(r *long) error {
		if *r != (long{uint64(at), eight{H: at}}) {
			t.Fatalf("row %d is %v", at, *r)
		}
		at++
		return nil
	})
	if err != nil || at != int64(rows) {
		t.Errorf("%d rows of %d, %v", at, rows, err)
	}
	if err := second.Close(); err != nil || len(m.free) != blocks {
		t.Errorf("%d of %d blocks are free at the end, %v", len(m.free), blocks, err)
	}
}
