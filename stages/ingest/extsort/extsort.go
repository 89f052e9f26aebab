// Package extsort sorts more rows than fit into memory.
//
//	Add ─► rows in memory ─ full ─► sorted run in a temporary file ─┐
//	             │                                                  ▼
//	             └──────────────────────────────────────────────► Each, Drain: merge of all runs
//
// Rows are structs of fixed size. They have no pointers, so a run is a copy of their memory. Only the process
// that wrote the file reads it. Rows in memory are not moved: their keys are sorted together with their
// places. If the range of the keys is known, rows are stored in parts of it, and the rows of a part fit into
// the caches of a processor.
package extsort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"unsafe"

	"parsimon/schema/together"
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

// A Sorter collects rows and returns them in order. It is used by one goroutine at a time. The functions of
// the Order are called in other goroutines, too, while rows are added or passed. The caller closes the
// Sorter.
type Sorter[T any] struct {
	order  Order[T]
	memory *Memory
	dir    string
	limit  int       // rows in memory
	parts  []part[T] // of the rows in memory, in the order of keys
	shift  int       // of a key, for the number of its part
	held   int       // rows in memory now, without those of spill
	added  [1]T      // the last row of Add
	err    error     // of a run that was not written: rows are lost
	by     sorting[T]
	file   *os.File
	runs   []run
	spill  spill // the run that is written now
	n      int64
}

// A part of the rows in memory.
type part[T any] struct {
	blocks [][]T // of Memory, but the only block of few rows; full, except for the last one
	held   int
	places []place // of the rows, sorted; if there are fewer places than rows, rows were added since
}

// A place is a key of a row and where the row is in its part.
type place struct {
	key   uint64
	block uint32
	row   uint32 // in the block
}

// leastRows is the minimum number of rows that a Sorter holds.
const leastRows = 1024

// partBits is the number of bits of a key that determine its part.
const partBits = 8

// New returns a Sorter that holds about memoryBytes of rows in blocks of m, and writes others to a file in
// dir. It panics if rows have pointers or are too long.
func New[T any](m *Memory, dir string, memoryBytes int64, order Order[T]) *Sorter[T] {
	if hasPointers(reflect.TypeFor[T]()) || rowsOfBlock[T]() <= fewRows {
		panic(fmt.Sprintf("extsort: %T has pointers or is too long", *new(T)))
	}
	rowBytes := int64(unsafe.Sizeof(*new(T)))
	width := order.High - order.Low
	shift := max(partBits, bits.Len64(width)) - partBits
	parts := 1 + int(width>>shift)
	if parts == 1 {
		rowBytes += int64(unsafe.Sizeof(place{})) // of several parts, few have places at a time
	}
	limit := min(max(leastRows, memoryBytes/rowBytes), 1<<31)
	s := &Sorter[T]{
		order: order, memory: m, dir: dir, limit: int(limit), shift: shift, parts: make([]part[T], parts),
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
	if s.err != nil {
		return s.err
	}
	for i := range rows {
		if s.held+s.spill.left == s.limit {
			if err := s.makeRoom(); err != nil {
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

// sort sorts the places of the rows.
func (p *part[T]) sort(by *sorting[T]) {
	if len(p.places) == p.held {
		return
	}
	p.places = slices.Grow(p.places[:0], p.held)
	for i, block := range p.blocks {
		for j := range block {
			p.places = append(p.places, place{by.order.Key(&block[j]), uint32(i), uint32(j)})
		}
	}
	by.part = p
	by.sort(p.places, firstKeys, 0)
}

// reset removes the rows of a part.
func (s *Sorter[T]) reset(p *part[T]) {
	if p.held > fewRows {
		for _, block := range p.blocks {
			freeBlock(s.memory, block)
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
	rangeBits     = 12 // maximum number of bits of a key that are sorted at a time
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

// Each calls do with each row, in order, until the first error. Rows that compare equal are in any order. The
// row is valid during the call. Each may be called several times.
func (s *Sorter[T]) Each(ctx context.Context, do func(row *T) error) error {
	return each(ctx, s.Pull(ctx), do)
}

// Drain calls do with each row, as Each does, and removes the rows. The memory of a part is free once its
// rows were passed. Rows can then be added again. While do runs, a goroutine sorts the next part or merges
// the runs. After an error, the Sorter can only be closed.
func (s *Sorter[T]) Drain(ctx context.Context, do func(row *T) error) error {
	s.endSpill()
	if s.err != nil {
		return s.err
	}
	if len(s.runs) > 0 {
		err := s.drainRuns(s.Pull(ctx), do)
		return cmp.Or(err, ctx.Err(), s.removeRuns())
	}
	d := s.drain()
	defer d.stop()
	return each(ctx, checked(ctx, d.next), do)
}

// A draining returns the rows in memory one by one, and removes them part by part.
type draining[T any] struct {
	*Sorter[T]
	sorted  chan *part[T]
	memory  chan []place // of the places of parts that were passed
	stopped chan struct{}
	ended   chan struct{} // the goroutine that sorts parts
	err     error         // of this goroutine; valid once sorted is closed
	now     *part[T]      // nil: none yet
	left    []place       // of this part
}

// drain begins to drain. If there are several parts, a goroutine sorts the next one while rows are returned.
// The caller calls stop.
func (s *Sorter[T]) drain() *draining[T] {
	d := &draining[T]{Sorter: s, sorted: make(chan *part[T], 1), memory: make(chan []place, 3),
		stopped: make(chan struct{}), ended: make(chan struct{})}
	if len(s.parts) > 1 {
		go func() {
			defer close(d.ended)
			defer close(d.sorted)
			d.err = together.Do(d.sortParts)
		}()
	} else {
		d.err = d.sortParts()
		close(d.ended)
		close(d.sorted)
	}
	s.n = 0
	s.held = 0
	return d
}

// sortParts sorts parts in their order, until the last one or stop.
func (d *draining[T]) sortParts() error {
	for i := range d.parts {
		p := &d.parts[i]
		if len(p.places) == 0 {
			select {
			case p.places = <-d.memory:
			default:
			}
		}
		p.sort(&d.by)
		select {
		case d.sorted <- p:
		case <-d.stopped:
			return nil
		}
	}
	return nil
}

// next returns the next row. The error is io.EOF at the end.
func (d *draining[T]) next() (*T, error) {
	for len(d.left) == 0 {
		d.releasePart()
		p, more := <-d.sorted
		if !more {
			return nil, cmp.Or(d.err, io.EOF)
		}
		d.now = p
		d.left = p.places
	}
	row := d.now.row(&d.left[0])
	d.left = d.left[1:]
	return row, nil
}

// releasePart removes the part whose rows were returned.
func (d *draining[T]) releasePart() {
	if d.now == nil {
		return
	}
	select {
	case d.memory <- d.now.places[:0]:
	default:
	}
	d.reset(d.now)
	d.now = nil
}

// stop ends the goroutine.
func (d *draining[T]) stop() {
	close(d.stopped)
	<-d.ended
}

// each calls do with each row that next returns.
func each[T any](ctx context.Context, next func() (*T, error), do func(row *T) error) error {
	for {
		row, err := next()
		if errors.Is(err, io.EOF) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
}

// Pull returns a function that returns the rows of Each one by one, and then the error io.EOF. The row is
// valid until the next call.
func (s *Sorter[T]) Pull(ctx context.Context) (next func() (*T, error)) {
	s.endSpill()
	pull := s.pullParts()
	if len(s.runs) > 0 {
		pull = s.pullRuns()
	}
	rows := checked(ctx, pull)
	return func() (*T, error) {
		if s.err != nil {
			return nil, s.err
		}
		return rows()
	}
}

// checked returns a function that returns the rows of pull until the context ends.
func checked[T any](ctx context.Context, pull func() (*T, error)) (next func() (*T, error)) {
	n := 0
	return func() (*T, error) {
		if n%65_536 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n++
		return pull()
	}
}

// pullParts returns a function that returns the rows in memory one by one.
func (s *Sorter[T]) pullParts() (next func() (*T, error)) {
	part := -1
	var places, left []place // memory of the places of a part, and those whose rows are left
	return func() (*T, error) {
		for len(left) == 0 {
			part++
			if part >= len(s.parts) {
				return nil, io.EOF
			}
			p := &s.parts[part]
			p.places = places[:0]
			p.sort(&s.by)
			places = p.places
			p.places = nil
			left = places
		}
		row := s.parts[part].row(&left[0])
		left = left[1:]
		return row, nil
	}
}

// Close removes the rows and the file.
func (s *Sorter[T]) Close() error {
	s.endSpill()
	for i := range s.parts {
		s.reset(&s.parts[i])
	}
	s.held = 0
	s.runs = nil
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
