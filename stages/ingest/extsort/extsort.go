// Package extsort sorts more rows than fit into memory.
//
//	Add ─► rows in memory ─ full ─► sorted run in a temporary file ─┐
//	             │                                                  ▼
//	             └───────────────────────────────────────────────► Each: merge of all runs
//
// Rows are structs of fixed size. They have no pointers, so a run is a copy of their memory. Only the process
// that wrote the file reads it.
package extsort

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"unsafe"
)

// Order is the order of rows. Compare decides between rows of equal keys.
type Order[T any] struct {
	Key     func(row *T) uint64
	Compare func(a, b *T) int
}

// A Sorter collects rows and returns them in order. It is used by one goroutine at a time. The caller closes
// it.
type Sorter[T any] struct {
	order Order[T]
	dir   string
	limit int     // rows in memory
	rows  [][]T   // blocks of blockRows rows, except for the last one
	held  int     // rows in memory now
	keys  []place // of rows, sorted; empty: rows were added since
	file  *os.File
	runs  []run
	n     int64
}

// A place is the key of a row and where the row is.
type place struct {
	key uint64
	at  uint32
}

// A run is a sorted part of the file, in rows.
type run struct{ from, to int64 }

// leastRows is the minimum number of rows that a Sorter holds.
const leastRows = 1024

// New returns a Sorter that holds about memoryBytes of rows and writes others to a file in dir. It panics if
// rows have pointers.
func New[T any](dir string, memoryBytes int64, order Order[T]) *Sorter[T] {
	if hasPointers(reflect.TypeFor[T]()) {
		panic(fmt.Sprintf("extsort: %T has pointers", *new(T)))
	}
	rowBytes := int64(unsafe.Sizeof(*new(T)) + unsafe.Sizeof(place{}))
	limit := min(max(leastRows, memoryBytes/rowBytes), 1<<31)
	return &Sorter[T]{order: order, dir: dir, limit: int(limit)}
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float64:
		return false
	}
	return true
}

// Len returns the number of rows.
func (s *Sorter[T]) Len() int64 { return s.n }

// Add adds a row. It is not called after Each.
func (s *Sorter[T]) Add(row T) error {
	if s.held == s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	block := s.held / blockRows
	if block == len(s.rows) {
		var rows []T
		if block > 0 {
			rows = make([]T, 0, blockRows)
		}
		s.rows = append(s.rows, rows)
	}
	s.rows[block] = append(s.rows[block], row)
	s.held++
	s.n++
	return nil
}

// blockRows is the number of rows of a block. Only the first block is copied when it grows.
const blockRows = 1 << 13

// row returns a row in memory.
func (s *Sorter[T]) row(at uint32) *T { return &s.rows[at/blockRows][at%blockRows] }

// sort sorts the places of the rows in memory.
func (s *Sorter[T]) sort() {
	s.keys = slices.Grow(s.keys[:0], s.held)[:s.held]
	for i := range s.keys {
		s.keys[i] = place{s.order.Key(s.row(uint32(i))), uint32(i)}
	}
	s.sortPlaces(s.keys)
}

// fewPlaces is the maximum number of places that are sorted by comparisons only.
const fewPlaces = 128

// sortPlaces sorts places. More places are first divided, in place, into 256 ranges of their keys ("American
// flag sort", McIlroy et al., "Engineering radix sort", 1993).
func (s *Sorter[T]) sortPlaces(places []place) {
	if len(places) <= fewPlaces {
		s.comparePlaces(places)
		return
	}
	lo := places[0].key
	hi := lo
	for i := range places {
		lo = min(lo, places[i].key)
		hi = max(hi, places[i].key)
	}
	if lo == hi {
		s.comparePlaces(places)
		return
	}
	shift := max(8, bits.Len64(hi-lo)) - 8
	var ends, next [256]int
	for i := range places {
		ends[(places[i].key-lo)>>shift]++
	}
	sum := 0
	for d := range ends {
		next[d] = sum
		sum += ends[d]
		ends[d] = sum
	}
	for d := range ends {
		for at := next[d]; at < ends[d]; at = next[d] {
			to := (places[at].key - lo) >> shift
			places[at], places[next[to]] = places[next[to]], places[at]
			next[to]++
		}
	}
	from := 0
	for _, end := range ends {
		s.sortPlaces(places[from:end])
		from = end
	}
}

// comparePlaces sorts places by comparisons.
func (s *Sorter[T]) comparePlaces(places []place) {
	slices.SortFunc(places, func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return s.order.Compare(s.row(a.at), s.row(b.at))
	})
}

// spill writes the rows in memory as a run.
func (s *Sorter[T]) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "sort-*"); err != nil {
			return err
		}
	}
	s.sort()
	from := int64(0)
	if len(s.runs) > 0 {
		from = s.runs[len(s.runs)-1].to
	}
	buffer := make([]T, 0, bufferRows[T]())
	for part := range slices.Chunk(s.keys, cap(buffer)) {
		buffer = buffer[:0]
		for _, p := range part {
			buffer = append(buffer, *s.row(p.at))
		}
		if _, err := s.file.Write(bytesOf(buffer)); err != nil {
			return err
		}
	}
	s.runs = append(s.runs, run{from, from + int64(s.held)})
	for i := range s.rows {
		s.rows[i] = s.rows[i][:0]
	}
	s.held = 0
	s.keys = s.keys[:0]
	return nil
}

// bufferRows is how many rows are written or read at a time.
func bufferRows[T any]() int { return max(1, int((64<<10)/unsafe.Sizeof(*new(T)))) }

func bytesOf[T any](rows []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), len(rows)*int(unsafe.Sizeof(*new(T))))
}

// Each calls do with each row, in order, until the first error. Rows that compare equal are in any order. The
// row is valid during the call. Each may be called several times.
func (s *Sorter[T]) Each(ctx context.Context, do func(row *T) error) error {
	n := 0
	checked := func(row *T) error {
		n++
		if n%65_536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return do(row)
	}
	if len(s.runs) > 0 {
		return s.eachOfRuns(checked)
	}
	if len(s.keys) != s.held {
		s.sort()
	}
	for _, p := range s.keys {
		if err := checked(s.row(p.at)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Pull returns a function that returns the rows of Each one by one, and then the error io.EOF. The row is
// valid until the next call. The caller calls stop when it needs no more rows.
func (s *Sorter[T]) Pull(ctx context.Context) (next func() (*T, error), stop func()) {
	errStopped := errors.New("stopped")
	pull, stop := iter.Pull2(func(yield func(*T, error) bool) {
		err := s.Each(ctx, func(row *T) error {
			if !yield(row, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	next = func() (*T, error) {
		row, err, more := pull()
		if !more {
			return nil, io.EOF
		}
		return row, err
	}
	return next, stop
}

func (s *Sorter[T]) eachOfRuns(do func(row *T) error) error {
	if s.held > 0 {
		if err := s.spill(); err != nil {
			return err
		}
		s.rows = nil
		s.keys = nil
	}
	merge := &merge[T]{order: s.order}
	for _, r := range s.runs {
		c := &cursor[T]{file: s.file, left: r}
		if err := c.next(&s.order); err != nil {
			return err
		}
		merge.cursors = append(merge.cursors, c)
	}
	heap.Init(merge)
	for len(merge.cursors) > 0 {
		first := merge.cursors[0]
		if err := do(first.row); err != nil {
			return err
		}
		switch err := first.next(&s.order); {
		case errors.Is(err, io.EOF):
			heap.Pop(merge)
		case err != nil:
			return err
		default:
			heap.Fix(merge, 0)
		}
	}
	return nil
}

// Close removes the rows and the file.
func (s *Sorter[T]) Close() error {
	s.rows = nil
	s.held = 0
	s.keys = nil
	s.runs = nil
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// A cursor reads a run.
type cursor[T any] struct {
	file   *os.File
	left   run // not read yet
	buffer []T
	at     int // in buffer, of the row after this one
	row    *T
	key    uint64
}

// next reads the next row. The error is io.EOF at the end.
func (c *cursor[T]) next(order *Order[T]) error {
	if c.at == len(c.buffer) {
		n := min(int64(bufferRows[T]()), c.left.to-c.left.from)
		if n == 0 {
			return io.EOF
		}
		if c.buffer == nil {
			c.buffer = make([]T, n)
		}
		c.buffer = c.buffer[:n]
		if _, err := c.file.ReadAt(bytesOf(c.buffer), c.left.from*int64(unsafe.Sizeof(*new(T)))); err != nil {
			return fmt.Errorf("temporary file %s: %w", c.file.Name(), err)
		}
		c.left.from += n
		c.at = 0
	}
	c.row = &c.buffer[c.at]
	c.at++
	c.key = order.Key(c.row)
	return nil
}

// A merge is a heap of cursors, of which the first has the first row.
type merge[T any] struct {
	order   Order[T]
	cursors []*cursor[T]
}

// Len implements heap.Interface.
func (m *merge[T]) Len() int { return len(m.cursors) }

// Less implements heap.Interface.
func (m *merge[T]) Less(i, j int) bool {
	a := m.cursors[i]
	b := m.cursors[j]
	if a.key != b.key {
		return a.key < b.key
	}
	return m.order.Compare(a.row, b.row) < 0
}

// Swap implements heap.Interface.
func (m *merge[T]) Swap(i, j int) { m.cursors[i], m.cursors[j] = m.cursors[j], m.cursors[i] }

// Push implements heap.Interface.
func (m *merge[T]) Push(x any) { m.cursors = append(m.cursors, x.(*cursor[T])) }

// Pop implements heap.Interface.
func (m *merge[T]) Pop() any {
	last := m.cursors[len(m.cursors)-1]
	m.cursors = m.cursors[:len(m.cursors)-1]
	return last
}
