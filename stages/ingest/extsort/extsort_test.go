package extsort

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"parsimon/schema/together"
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

// Rows are returned in order, each once, from memory and from runs, in any number of calls. Without this,
// records of one connection would be divided between flows, or lost.
func TestSorterReturnsAllRowsInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1024, 1025, 10_000} {
		dir := t.TempDir()
		s := New(&Memory{}, dir, 1, byBoth) // 1024 rows in memory
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
		inFile := len(s.runs) > 0
		if inFile != (n > 1024) {
			t.Errorf("%d rows, of which 1024 fit into memory: in a file %v", n, inFile)
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

// A sorter holds as many rows as fit in its memory, each with its key and place: 1,024 or more, and no more
// than an index of 32 bits counts. With more, the memory that a user allows would be exceeded.
func TestRowsInMemory(t *testing.T) {
	for memory, want := range map[int64]int{0: 1024, 32 * 1024: 1024, 32 * 1025: 1025, 1 << 20: 1 << 15,
		1 << 62: 1 << 31} {
		s := New(&Memory{}, t.TempDir(), memory, byBoth)
		if s.limit != want {
			t.Errorf("%d bytes of memory hold %d rows, want %d", memory, s.limit, want)
		}
	}
	s := New(&Memory{}, t.TempDir(), 1<<20, hashed)
	if s.limit != 1<<16 {
		t.Errorf("parts of 1 MiB hold %d rows of 16 bytes: few of them have places at a time", s.limit)
	}
}

// Of rows with equal keys, too, no more are in memory than the limit, whether or not there is a second key.
// Otherwise, the memory of an ingest would grow with the number of flows that start at the same time.
func TestRowsWithEqualKeysLeaveMemory(t *testing.T) {
	const n = 20_000
	ranged := byBoth.Within(0, 1<<20)
	ranged.Second = func(p *pair) uint64 { return uint64(p.value) }
	for name, order := range map[string]Order[pair]{"one part": byBoth, "parts": ranged} {
		s := New(&Memory{}, t.TempDir(), 1, order) // 1024 rows in memory
		for i := range n {
			if err := s.Add(pair{7, int32(n - 1 - i)}); err != nil {
				t.Fatal(err)
			}
			held := heldRows(s)
			if held > s.limit {
				t.Fatalf("%s: %d rows are in memory, of which %d fit", name, held, s.limit)
			}
		}
		at := int32(0)
		err := s.Drain(t.Context(), func(p *pair) error {
			held := heldRows(s)
			if *p != (pair{7, at}) || held > s.limit {
				t.Fatalf("%s: row %d is %v, and %d rows are in memory", name, at, *p, held)
			}
			at++
			return nil
		})
		if err := errors.Join(err, s.Close()); err != nil || at != n {
			t.Errorf("%s: %d rows of %d, %v", name, at, n, err)
		}
	}
}

// heldRows counts the rows in the blocks of a sorter.
func heldRows(s *Sorter[pair]) (held int) {
	for i := range s.parts {
		for _, block := range s.parts[i].blocks {
			held += len(block)
		}
	}
	return held
}

type (
	eight struct{ A, B, C, D, E, F, G, H int64 }
	many  struct{ A, B, C, D, E, F, G, H eight }
)

// A row with a pointer would be invalid when it is read back. Long rows would not fit in a block.
func TestSorterRefusesRows(t *testing.T) {
	refuses := func(what string, create func()) {
		defer func() {
			if recover() == nil {
				t.Error(what + " are accepted")
			}
		}()
		create()
	}
	refuses("rows with a string", func() {
		New(&Memory{}, t.TempDir(), 1, Order[struct{ name string }]{})
	})
	refuses("long rows", func() { New(&Memory{}, t.TempDir(), 1, Order[struct{ A, B many }]{}) })
}

// Keys of any distribution are sorted, also those of many rows in memory: few keys, all 64 bits, the largest
// and the smallest key, and clusters that only the low bits divide.
func TestSorterSortsKeysOfAnyDistribution(t *testing.T) {
	for name, key := range map[string]func(s *rng.Stream) uint64{
		"one":      func(*rng.Stream) uint64 { return 7 },
		"few":      func(s *rng.Stream) uint64 { return uint64(s.IntN(3)) },
		"all bits": func(s *rng.Stream) uint64 { return s.Uint64() },
		"ends":     func(s *rng.Stream) uint64 { return -uint64(s.IntN(2)) },
		"clusters": func(s *rng.Stream) uint64 { return uint64(s.IntN(2))<<63 | uint64(s.IntN(1000)) },
		"times":    func(s *rng.Stream) uint64 { return 1769817600e9 + uint64(s.IntN(3600))*1e9 },
	} {
		checkOrder(t, name, byBoth, 1<<20, key)
		checkOrder(t, name+", in parts", hashed, 1<<20, key)
		checkOrder(t, name+", in parts and runs", hashed, 100<<10, key)
		some := byBoth.Within(1769817600e9+100e9, 1769817600e9+3000e9)
		checkOrder(t, name+", in parts of some keys", some, 1<<20, key)
		checkOrder(t, name+", in a part for each key", byBoth.Within(1, 2), 1<<20, key)
		checkOrder(t, name+", by two keys", bySecond, 1<<20, key)
		checkOrder(t, name+", in long runs", byBoth, 1<<18, key)
	}
}

// hashed and bySecond give the order of byBoth.
var (
	hashed   = Order[pair]{Key: byBoth.Key, Compare: byBoth.Compare, High: math.MaxUint64}
	bySecond = Order[pair]{
		Key: byBoth.Key, Compare: byBoth.Compare, Second: func(p *pair) uint64 { return uint64(p.value) / 8 },
	}
)

// checkOrder sorts rows with random keys.
func checkOrder(t *testing.T, name string, order Order[pair], memory int64, key func(s *rng.Stream) uint64) {
	t.Helper()
	s := New(&Memory{}, t.TempDir(), memory, order)
	random := rng.New(1, rng.Start)
	const n = 30_000
	for i := range n {
		if err := s.Add(pair{key(&random), int32(n - i)}); err != nil {
			t.Fatal(err)
		}
	}
	var last pair
	rows := 0
	err := s.Each(t.Context(), func(p *pair) error {
		if rows > 0 && (p.key < last.key || p.key == last.key && p.value <= last.value) {
			t.Fatalf("%s: %v after %v", name, *p, last)
		}
		last = *p
		rows++
		return nil
	})
	if err != nil || rows != n {
		t.Errorf("%s: %d rows, %v", name, rows, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Rows whose keys come one after the other, as in a log sorted by connection, take no more memory than rows
// in random order. Without this, each part would keep the memory of a whole run.
func TestPartsShareTheirMemory(t *testing.T) {
	const memory = 4 << 20
	s := New(&Memory{}, t.TempDir(), memory, hashed)
	random := rng.New(1, rng.Start)
	for range 20 {
		key := random.Uint64()
		for i := range 200_000 {
			if err := s.Add(pair{key, int32(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.endSpill()
	held := 0
	for _, p := range s.parts {
		held += 16 * cap(p.places)
		for _, block := range p.blocks {
			held += 16 * cap(block)
		}
	}
	held += blockBytes * len(s.memory.free)
	if held > 2*memory {
		t.Errorf("the rows take %d bytes, the limit is %d", held, memory)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// After a run could not be written, no call succeeds. Without this, a caller that goes on would lose the rows
// of the run and not notice it.
func TestSorterStaysFailed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	s := New(&Memory{}, dir, 1, byBoth)
	var failed error
	for i := range leastRows + 1 {
		failed = s.Add(pair{uint64(i), 0})
	}
	if failed == nil {
		t.Fatal("a run is written to a missing folder")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(pair{}); err == nil {
		t.Error("Add succeeds after a run was lost")
	}
	if err := s.Each(t.Context(), func(*pair) error { return nil }); err == nil {
		t.Error("Each succeeds after a run was lost")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fill adds rows with the keys 0, 1, 2, ...
func fill(t *testing.T, s *Sorter[pair], n int) {
	t.Helper()
	for i := range n {
		if err := s.Add(pair{uint64(i), int32(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// Pull returns the rows of Each and then io.EOF, from memory and from runs, also after a caller that stopped
// early. Without the end, a merge of two tables would read a row that does not exist.
func TestPull(t *testing.T) {
	for _, n := range []int{0, 1, 100, 3000} {
		s := New(&Memory{}, t.TempDir(), 1, byBoth)
		fill(t, s, n)
		for _, wanted := range []int{n / 2, n, n} {
			next := s.Pull(t.Context())
			for i := range wanted {
				row, err := next()
				if err != nil || row.key != uint64(i) {
					t.Fatalf("row %d of %d: %v, %v", i, n, row, err)
				}
			}
			if wanted < n {
				continue
			}
			for range 2 {
				row, err := next()
				if row != nil || !errors.Is(err, io.EOF) {
					t.Errorf("after %d rows: %v, %v", n, row, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The error of a sort that failed is returned by Pull, and is not the end of the rows.
func TestPullReturnsErrors(t *testing.T) {
	s := New(&Memory{}, t.TempDir(), 1, byBoth)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next := s.Pull(ctx)
	row, err := next()
	if row != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a sorter without rows, canceled: %v, %v", row, err)
	}
}

// A long loop ends soon after the context was canceled, and has all rows if it was not.
func TestEachLooksAtTheContext(t *testing.T) {
	for name, memory := range map[string]int64{"in memory": 1 << 24, "in runs": 1 << 20} {
		s := New(&Memory{}, t.TempDir(), memory, byBoth)
		fill(t, s, 70_000)
		ctx, cancel := context.WithCancel(t.Context())
		rows := 0
		count := func(*pair) error {
			rows++
			return nil
		}
		if err := s.Each(ctx, count); err != nil || rows != 70_000 {
			t.Errorf("%s: %d rows, %v", name, rows, err)
		}
		rows = 0
		err := s.Each(ctx, func(p *pair) error {
			cancel()
			return count(p)
		})
		if !errors.Is(err, context.Canceled) || rows >= 70_000 {
			t.Errorf("%s: %d rows after the context was canceled, %v", name, rows, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Drain returns the rows of Each and removes them: the sorter is then as good as new, and has no block.
// Without this, a merge would count rows twice, or hold the memory of all rows until its end.
func TestDrainRemovesRows(t *testing.T) {
	for name, s := range map[string]*Sorter[pair]{
		"one part":      New(&Memory{}, t.TempDir(), 1<<20, byBoth),
		"parts":         New(&Memory{}, t.TempDir(), 1<<20, hashed),
		"runs":          New(&Memory{}, t.TempDir(), 1, byBoth),
		"runs of parts": New(&Memory{}, t.TempDir(), 1, hashed),
	} {
		for _, n := range []int{20_000, 0, 1, 3000} {
			checkDrain(t, name, s, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkDrain drains n rows. Some numbers of rows are drained without a call of Each before.
func checkDrain(t *testing.T, name string, s *Sorter[pair], n int) {
	t.Helper()
	random := rng.New(uint64(n), rng.Start)
	var want, got []pair
	for i := range n {
		p := pair{random.Uint64(), int32(i)}
		want = append(want, p)
		if err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(want, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	if n == 3000 {
		if err := s.Each(t.Context(), func(*pair) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Drain(t.Context(), func(p *pair) error {
		got = append(got, *p)
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %d rows of %d are drained, or not in order: %v", name, len(got), n, err)
	}
	held := 0
	for _, p := range s.parts {
		held += len(p.blocks) + len(p.places)
	}
	if s.Len() != 0 || held > 0 {
		t.Errorf("%s: after %d rows were drained, %d remain and %d blocks", name, n, s.Len(), held)
	}
}

// Drain returns the error of the caller, and the goroutine that sorts ahead has then ended: Close may remove
// the rows.
func TestDrainStops(t *testing.T) {
	stop := errors.New("stop")
	for name, s := range map[string]*Sorter[pair]{
		"parts": New(&Memory{}, t.TempDir(), 1<<20, hashed), "runs": New(&Memory{}, t.TempDir(), 1, hashed),
	} {
		random := rng.New(1, rng.Start)
		for range 3000 {
			if err := s.Add(pair{random.Uint64(), 0}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Drain(t.Context(), func(*pair) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: an error of the caller became %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A panic of a comparison is an error of Add or Drain, wherever rows are compared: while a run is written,
// while runs are merged, and while parts of the memory are sorted. Without this, it would end the process.
func TestPanicsOfTheOrderAreErrors(t *testing.T) {
	for name, of := range map[string]struct {
		rows, high, panicsFrom int
		runs                   bool
	}{
		"run that is written": {3000, 0, 0, false},
		"merge of runs":       {3000, 0, 3000, true},
		"parts in memory":     {1000, 1 << 20, 0, false},
	} {
		broken := false
		order := Order[pair]{
			Key: func(p *pair) uint64 { return p.key },
			Compare: func(a, b *pair) int {
				if broken {
					panic("index out of range")
				}
				return cmp.Compare(a.value, b.value)
			},
			High: uint64(of.high),
		}
		s := New(&Memory{}, t.TempDir(), 1, order) // 1024 rows in memory
		var err error
		for i := range of.rows {
			broken = broken || i >= of.panicsFrom
			err = cmp.Or(err, s.Add(pair{7, int32(i * 7919 % 1000)}))
		}
		if of.runs {
			s.endSpill()
			err = cmp.Or(err, s.err)
		}
		if of.runs && (err != nil || len(s.runs) == 0) {
			t.Fatalf("%s: %v, %d runs", name, err, len(s.runs))
		}
		broken = true
		err = cmp.Or(err, s.Drain(t.Context(), func(*pair) error { return nil }))
		_, is := errors.AsType[*together.Panic](err)
		if !is {
			t.Errorf("%s: the panic became %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
