// Package extsort sorts more rows than fit into memory.
//
//	Add ─► rows in memory ─ full ─► sorted run in a temporary file ─┐
//	             │                                                  ▼
//	             └───────────────────────────────────────────────► Each: merge of all runs
//
// Rows are structs of fixed size. They have no pointers, so a run is a copy of their memory. Only the process
// that wrote the file reads it. Rows in memory are not moved: their keys are sorted together with their
// places. If keys are hashes, rows are stored in parts by the highest bits of the hash, and the rows of a
// part fit into the caches of a processor.
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
	Hashed  bool // keys are hashes, which use all 64 bits
	// Second is a key of rows with equal keys, in the order of Compare. Nil: there is none. It makes sorts with
	// many equal keys faster.
	Second func(row *T) uint64
}

// A Sorter collects rows and returns them in order. It is used by one goroutine at a time. The caller closes
// it.
type Sorter[T any] struct {
	order Order[T]
	dir   string
	limit int       // rows in memory
	parts []part[T] // of the rows in memory, in the order of keys
	held  int       // rows in memory now
	added T         // the last row
	free  [][]T     // whole blocks without rows, for any part
	err   error     // of a run that was not written: rows are lost
	file  *os.File
	runs  []run
	n     int64
}

// A part of the rows in memory.
type part[T any] struct {
	blocks    [][]T // of 1<<blockBits rows, except for the last one
	blockBits int
	held      int
	places    []place // of the rows, sorted; if there are fewer places than rows, rows were added since
}

// A place is a key of a row and where the row is in its part.
type place struct {
	key uint64
	at  uint32
}

// A run is a sorted part of the file, in rows.
type run struct{ from, to int64 }

// leastRows is the minimum number of rows that a Sorter holds.
const leastRows = 1024

// hashBits is the number of bits of a hash that determine its part.
const hashBits = 8

// New returns a Sorter that holds about memoryBytes of rows and writes others to a file in dir. It panics if
// rows have pointers.
func New[T any](dir string, memoryBytes int64, order Order[T]) *Sorter[T] {
	if hasPointers(reflect.TypeFor[T]()) {
		panic(fmt.Sprintf("extsort: %T has pointers", *new(T)))
	}
	rowBytes := int64(unsafe.Sizeof(*new(T)) + unsafe.Sizeof(place{}))
	limit := min(max(leastRows, memoryBytes/rowBytes), 1<<31)
	s := &Sorter[T]{order: order, dir: dir, limit: int(limit)}
	parts := 1
	blockBits := 13
	if order.Hashed {
		parts = 1 << hashBits
		blockBits = 8
	}
	s.parts = make([]part[T], parts)
	for i := range s.parts {
		s.parts[i].blockBits = blockBits
	}
	return s
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
	p := &s.parts[0]
	if s.order.Hashed {
		s.added = row
		p = &s.parts[s.order.Key(&s.added)>>(64-hashBits)]
	}
	block := p.held >> p.blockBits
	if block == len(p.blocks) {
		p.blocks = append(p.blocks, s.newBlock(p))
	}
	p.blocks[block] = append(p.blocks[block], row)
	p.held++
	s.held++
	s.n++
	return nil
}

// newBlock returns the next block of a part. Only the first block is copied when it grows.
func (s *Sorter[T]) newBlock(p *part[T]) []T {
	last := len(s.free) - 1
	switch {
	case last >= 0:
		block := s.free[last]
		s.free = s.free[:last]
		return block
	case len(p.blocks) == 0:
		return nil
	}
	return make([]T, 0, 1<<p.blockBits)
}

// row returns a row.
func (p *part[T]) row(at uint32) *T { return &p.blocks[at>>p.blockBits][at&(1<<p.blockBits-1)] }

// sort sorts the places of the rows.
func (p *part[T]) sort(order *Order[T]) {
	if len(p.places) == p.held {
		return
	}
	p.places = slices.Grow(p.places[:0], p.held)[:p.held]
	for i := range p.places {
		p.places[i] = place{order.Key(p.row(uint32(i))), uint32(i)}
	}
	p.sortPlaces(order, p.places, firstKeys)
}

// reset removes the rows of a part. Other parts may use its whole blocks.
func (s *Sorter[T]) reset(p *part[T]) {
	for _, block := range p.blocks {
		if cap(block) == 1<<p.blockBits {
			s.free = append(s.free, block[:0])
		}
	}
	p.blocks = nil
	p.places = nil
	p.held = 0
}

// whichKeys says which keys places have.
type whichKeys int

const (
	firstKeys whichKeys = iota
	secondKeys
)

// fewPlaces is the maximum number of places that are sorted by comparisons only.
const fewPlaces = 128

// sortPlaces sorts places. More places are first divided, in place, into 256 ranges of their keys ("American
// flag sort", McIlroy et al., "Engineering radix sort", 1993).
func (p *part[T]) sortPlaces(order *Order[T], places []place, keys whichKeys) {
	compare := func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return order.Compare(p.row(a.at), p.row(b.at))
	}
	if len(places) <= fewPlaces {
		slices.SortFunc(places, compare)
		return
	}
	if slices.IsSortedFunc(places, compare) {
		return
	}
	lo := places[0].key
	hi := lo
	for i := range places {
		lo = min(lo, places[i].key)
		hi = max(hi, places[i].key)
	}
	if lo == hi && (keys == secondKeys || order.Second == nil) {
		slices.SortFunc(places, compare)
		return
	}
	if lo == hi {
		for i := range places {
			places[i].key = order.Second(p.row(places[i].at))
		}
		p.sortPlaces(order, places, secondKeys)
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
		p.sortPlaces(order, places[from:end], keys)
		from = end
	}
}

// spill writes the rows in memory as a run. After an error, each call returns it.
func (s *Sorter[T]) spill() error {
	if s.err == nil {
		s.err = s.writeRun()
	}
	return s.err
}

func (s *Sorter[T]) writeRun() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "sort-*"); err != nil {
			return err
		}
	}
	from := int64(0)
	if len(s.runs) > 0 {
		from = s.runs[len(s.runs)-1].to
	}
	buffer := make([]T, 0, bufferRows[T]())
	var places []place // of all parts, one after the other
	for i := range s.parts {
		p := &s.parts[i]
		p.places = places[:0]
		p.sort(&s.order)
		places = p.places
		for _, place := range p.places {
			if len(buffer) == cap(buffer) {
				if _, err := s.file.Write(bytesOf(buffer)); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
			buffer = append(buffer, *p.row(place.at))
		}
		s.reset(p)
	}
	if _, err := s.file.Write(bytesOf(buffer)); err != nil {
		return err
	}
	s.runs = append(s.runs, run{from, from + int64(s.held)})
	s.held = 0
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
	switch {
	case s.err != nil:
		return s.err
	case len(s.runs) > 0:
		return s.eachOfRuns(checked)
	}
	for i := range s.parts {
		p := &s.parts[i]
		p.sort(&s.order)
		for _, place := range p.places {
			if err := checked(p.row(place.at)); err != nil {
				return err
			}
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
		clear(s.parts)
		s.free = nil
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
	clear(s.parts)
	s.free = nil
	s.held = 0
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
