// Package extsort sorts more rows than fit into memory.
//
//	Add ─► rows in memory, in parts of the range of their keys ─┐
//	          │ memory is full: the rows of the largest part    │ part by part
//	          ▼                                                 ▼
//	       temporary file ─────────────────────────────────► sorted ─► Each, Drain
//
// Rows are structs of fixed size. They have no pointers, so rows in the file are a copy of their memory. Only
// the process that wrote the file reads it. Rows in memory are not moved: their keys are sorted together with
// their places. If the range of the keys is known, the rows of a part fit into the caches of a processor.
//
// A part with too many rows for memory is divided into parts of a narrower range. Rows with equal keys (both,
// if there is a second one) are in memory together.
package extsort

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Order is the order of rows. Compare decides between rows of equal keys.
type Order[T any] struct {
	Key     func(row *T) uint64
	Compare func(a, b *T) int
	// Low and High are the range of most keys, which are spread over it. Both are 0 if it is unknown. For
	// hashes, High is the largest number.
	Low, High uint64
	// Second is a key of rows with equal keys, in the order of Compare. Nil: there is none. It makes sorts with
	// many equal keys faster.
	Second func(row *T) uint64
}

// Within returns the order of rows whose keys are spread over a range.
func (o Order[T]) Within(low, high uint64) Order[T] {
	o.Low = low
	o.High = high
	return o
}

// A Sorter collects rows and returns them in order. It is used by one goroutine at a time. The caller closes
// it.
type Sorter[T any] struct {
	order  Order[T]
	memory *Memory
	dir    string
	limit  int       // rows in memory
	parts  []part[T] // in the order of keys
	shift  int       // of a key, for the number of its part
	held   int       // rows in memory now
	added  [1]T      // the last row of Add
	err    error     // of rows that were not written: they are lost
	by     sorting[T]
	file   *os.File
	end    int64 // rows in the file
	n      int64
	reading[T]
}

// A part has the rows of a range of keys.
type part[T any] struct {
	blocks  [][]T // of Memory, but the only block of few rows
	held    int   // rows in blocks
	extents []extent
	places  []place // of the rows in memory, sorted
}

// An extent is a range of the file, in rows.
type extent struct{ from, to int64 }

// A place is a key of a row and where the row is in its part.
type place struct {
	key   uint64
	block uint32
	row   uint32 // in the block
}

// leastRows is the minimum number of rows that a Sorter holds.
const leastRows = 1024

// partBits is the number of bits of a key that determine its part.
const partBits = 9

// New returns a Sorter that holds about memoryBytes of rows in blocks of m, and writes others to a file in
// dir. It panics if rows have pointers or are too long.
func New[T any](m *Memory, dir string, memoryBytes int64, order Order[T]) *Sorter[T] {
	if hasPointers(reflect.TypeFor[T]()) || rowsOfBlock[T]() <= fewRows {
		panic(fmt.Sprintf("extsort: %T has pointers or is too long", *new(T)))
	}
	rowBytes := int64(unsafe.Sizeof(*new(T)))
	if order.Low == order.High {
		rowBytes += int64(unsafe.Sizeof(place{})) // of several parts, few have places at a time
	}
	return newSorter(m, dir, min(max(leastRows, memoryBytes/rowBytes), 1<<31), order)
}

func newSorter[T any](m *Memory, dir string, limit int64, order Order[T]) *Sorter[T] {
	width := order.High - order.Low
	shift := max(partBits, bits.Len64(width)) - partBits
	s := &Sorter[T]{
		order: order, memory: m, dir: dir, limit: int(limit), shift: shift,
		parts: make([]part[T], 1+int(width>>shift)),
	}
	s.by.order = &s.order
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
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return false
	}
	return true
}

// Len returns the number of rows.
func (s *Sorter[T]) Len() int64 { return s.n }

// Add adds a row. It is not called after Each.
func (s *Sorter[T]) Add(row T) error {
	s.added[0] = row
	return s.AddAll(s.added[:])
}

// AddAll adds copies of rows, as Add does.
func (s *Sorter[T]) AddAll(rows []T) error {
	for i := range rows {
		if s.held == s.limit {
			if err := s.spill(); err != nil {
				return err
			}
		}
		p := &s.parts[0]
		if len(s.parts) > 1 {
			key := min(max(s.order.Key(&rows[i]), s.order.Low), s.order.High)
			p = &s.parts[(key-s.order.Low)>>s.shift]
		}
		last := len(p.blocks) - 1
		if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
			last = s.extend(p)
		}
		p.blocks[last] = append(p.blocks[last], rows[i])
		p.held++
		s.held++
		s.n++
	}
	return nil
}

// fewRows is the number of rows of a part that has no block of the Memory yet.
const fewRows = 16

// extend makes room for rows in the last block of a part, and returns the number of this block.
func (s *Sorter[T]) extend(p *part[T]) (last int) {
	switch {
	case len(p.blocks) == 0:
		p.blocks = append(p.blocks, make([]T, 0, fewRows))
	case p.held == fewRows:
		p.blocks[0] = append(takeBlock[T](s.memory), p.blocks[0]...)
	default:
		p.blocks = append(p.blocks, takeBlock[T](s.memory))
	}
	return len(p.blocks) - 1
}

// row returns a row.
func (p *part[T]) row(at *place) *T { return &p.blocks[at.block][at.row] }

// sort sorts the places of the rows in memory.
func (p *part[T]) sort(by *sorting[T]) {
	p.places = slices.Grow(p.places[:0], p.held)
	for i, block := range p.blocks {
		for j := range block {
			p.places = append(p.places, place{by.order.Key(&block[j]), uint32(i), uint32(j)})
		}
	}
	by.part = p
	by.sort(p.places, firstKeys, 0)
}

// reset removes the rows of a part from memory.
func (s *Sorter[T]) reset(p *part[T]) {
	for _, block := range p.blocks {
		if cap(block) > fewRows {
			freeBlock(s.memory, block)
		}
	}
	p.blocks = nil
	p.held = 0
}

// whichKeys says which keys places have.
type whichKeys int

const (
	firstKeys whichKeys = iota
	secondKeys
)

// A sorting sorts places of a part.
type sorting[T any] struct {
	order  *Order[T]
	part   *part[T]
	ranges []ranges // by depth
}

// ranges are ranges of keys. Places are moved to those of their keys.
type ranges struct{ next, ends []uint32 }

const (
	fewPlaces     = 64 // maximum number of places that are sorted by comparisons only
	rangeBits     = 14 // maximum number of bits of a key that are sorted at a time
	placesInRange = 4  // about as many places are in a range if keys are random
)

// less reports whether a place comes before another one.
func (by *sorting[T]) less(a, b *place) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return by.order.Compare(by.part.row(a), by.part.row(b)) < 0
}

// compare compares two places.
func (by *sorting[T]) compare(a, b place) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	return by.order.Compare(by.part.row(&a), by.part.row(&b))
}

// sort sorts places. Many places are first divided, in place, into ranges of their keys ("American flag
// sort", McIlroy et al., "Engineering radix sort", 1993).
func (by *sorting[T]) sort(places []place, keys whichKeys, depth int) {
	if len(places) <= fewPlaces {
		by.sortFew(places)
		return
	}
	if slices.IsSortedFunc(places, by.compare) {
		return
	}
	lo := places[0].key
	hi := lo
	for i := range places {
		lo = min(lo, places[i].key)
		hi = max(hi, places[i].key)
	}
	if lo == hi && (keys == secondKeys || by.order.Second == nil) {
		slices.SortFunc(places, by.compare)
		return
	}
	if lo == hi {
		for i := range places {
			places[i].key = by.order.Second(by.part.row(&places[i]))
		}
		by.sort(places, secondKeys, depth)
		return
	}
	ends := by.divide(places, lo, hi, depth)
	from := uint32(0)
	for _, end := range ends {
		if end-from > 1 {
			by.sort(places[from:end], keys, depth+1)
		}
		from = end
	}
}

// sortFew sorts few places by comparisons.
func (by *sorting[T]) sortFew(places []place) {
	const insertions = 16
	if len(places) > insertions {
		slices.SortFunc(places, by.compare)
		return
	}
	for i := 1; i < len(places); i++ {
		moved := places[i]
		to := i
		for ; to > 0 && by.less(&moved, &places[to-1]); to-- {
			places[to] = places[to-1]
		}
		places[to] = moved
	}
}

// divide moves places with keys from lo to hi to ranges of equal width, in the order of keys. It returns the
// ends of the ranges.
func (by *sorting[T]) divide(places []place, lo, hi uint64, depth int) []uint32 {
	if depth == len(by.ranges) {
		by.ranges = append(by.ranges, ranges{})
	}
	r := &by.ranges[depth]
	width := min(rangeBits, bits.Len(uint(len(places)/placesInRange)))
	shift := max(width, bits.Len64(hi-lo)) - width
	n := int((hi-lo)>>shift) + 1
	r.ends = slices.Grow(r.ends[:0], n)[:n]
	r.next = slices.Grow(r.next[:0], n)[:n]
	ends := r.ends
	next := r.next
	clear(ends)
	for i := range places {
		ends[(places[i].key-lo)>>shift]++
	}
	sum := uint32(0)
	for d := range ends {
		next[d] = sum
		sum += ends[d]
		ends[d] = sum
	}
	for d := range ends {
		for at := next[d]; at < ends[d]; at = next[d] {
			moved := places[at]
			to := (moved.key - lo) >> shift
			for int(to) != d {
				place := &places[next[to]]
				next[to]++
				moved, *place = *place, moved
				to = (moved.key - lo) >> shift
			}
			places[at] = moved
			next[d]++
		}
	}
	return ends
}

// spill moves the rows of the largest part in memory to the file. After an error, each call returns it.
func (s *Sorter[T]) spill() error {
	largest := &s.parts[0]
	for i := range s.parts {
		if s.parts[i].held > largest.held {
			largest = &s.parts[i]
		}
	}
	return s.write(largest)
}

// write moves the rows of a part to the file.
func (s *Sorter[T]) write(p *part[T]) error {
	if s.file == nil && s.err == nil {
		s.file, s.err = os.CreateTemp(s.dir, "sort-*")
	}
	if s.err == nil {
		s.err = s.transfer(unix.Pwritev, p.blocks, s.end)
	}
	if s.err != nil {
		return s.err
	}
	to := s.end + int64(p.held)
	p.extents = append(p.extents, extent{s.end, to})
	s.end = to
	s.held -= p.held
	s.reset(p)
	return nil
}

// blocksAtOnce is the number of blocks that are written or read at a time. The kernel takes at most 1,024.
const blocksAtOnce = 256

// transfer writes blocks to the file, from a row on, or reads them. call is unix.Pwritev or unix.Preadv.
func (s *Sorter[T]) transfer(call func(fd int, of [][]byte, offset int64) (int, error), blocks [][]T,
	from int64) error {
	offset := from * int64(unsafe.Sizeof(*new(T)))
	var left [][]byte
	for some := range slices.Chunk(blocks, blocksAtOnce) {
		left = left[:0]
		for _, block := range some {
			left = append(left, bytesOf(block))
		}
		for len(left) > 0 {
			n, err := call(int(s.file.Fd()), left, offset)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err == nil && n == 0:
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return fmt.Errorf("temporary file %s: %w", s.file.Name(), err)
			}
			offset += int64(n)
			left = after(left, n)
		}
	}
	return nil
}

// after returns what follows the first n bytes of slices. It changes the slices.
func after(all [][]byte, n int) [][]byte {
	for len(all) > 0 && n >= len(all[0]) {
		n -= len(all[0])
		all = all[1:]
	}
	if n > 0 {
		all[0] = all[0][n:]
	}
	return all
}

func bytesOf[T any](rows []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), len(rows)*int(unsafe.Sizeof(*new(T))))
}

// Close removes the rows and the file.
func (s *Sorter[T]) Close() (err error) {
	err = s.closeDivided()
	for i := range s.parts {
		s.reset(&s.parts[i])
	}
	s.held = 0
	if s.file == nil {
		return err
	}
	file := s.file
	s.file = nil
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}
