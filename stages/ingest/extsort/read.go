package extsort

import (
	"cmp"
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// A fate says what becomes of rows that were returned.
type fate int

const (
	kept fate = iota
	removed
)

// A reading is a call of Each, Drain or Pull.
type reading[T any] struct {
	fate    fate
	at      int        // number of the next part
	divided *Sorter[T] // has the rows of the last part, if they were too many for memory
}

// partsOfLimit is the number of parts that fit in memory at least. One part is sorted while the rows of
// another one are returned. Other Sorters need memory, too.
const partsOfLimit = 4

// begin begins a reading. If the file has rows, it gets all of them, so that their memory is free for other
// Sorters.
func (s *Sorter[T]) begin(of fate) error {
	err := cmp.Or(s.err, s.closeDivided())
	for i := range s.parts {
		if err == nil && s.end > 0 && s.parts[i].held > 0 {
			err = s.write(&s.parts[i])
		}
	}
	s.reading = reading[T]{fate: of}
	return err
}

// nextPart returns the rows of the next part that has any, sorted. The error is io.EOF at the end. places is
// memory for the places. The caller calls release.
func (s *Sorter[T]) nextPart(places []place) (*part[T], error) {
	for {
		if s.divided != nil {
			p, err := s.divided.nextPart(places)
			if !errors.Is(err, io.EOF) {
				return p, err
			}
			if err := s.closeDivided(); err != nil {
				return nil, err
			}
		}
		if s.at == len(s.parts) {
			return nil, io.EOF
		}
		p := &s.parts[s.at]
		s.at++
		if err := s.divide(p); err != nil {
			return nil, err
		}
		if s.divided != nil || p.held == 0 && p.extents == nil {
			continue
		}
		taken, err := s.take(p)
		if err != nil {
			return nil, err
		}
		taken.places = places
		taken.sort(&s.by)
		return taken, nil
	}
}

// take returns the rows of a part, in memory.
func (s *Sorter[T]) take(p *part[T]) (*part[T], error) {
	taken := &part[T]{blocks: p.blocks, held: p.held}
	for _, e := range p.extents {
		if err := s.load(taken, e); err != nil {
			return nil, err
		}
	}
	if s.fate == removed {
		*p = part[T]{}
	}
	return taken, nil
}

// load adds the rows of an extent to a part.
func (s *Sorter[T]) load(p *part[T], e extent) error {
	first := len(p.blocks)
	for left := int(e.to - e.from); left > 0; {
		block := takeBlock[T](s.memory)
		block = block[:min(cap(block), left)]
		left -= len(block)
		p.blocks = append(p.blocks, block)
		p.held += len(block)
	}
	return s.transfer(unix.Preadv, p.blocks[first:], e.from)
}

// release frees the memory of a part that nextPart has returned, unless the Sorter keeps its rows there.
func (s *Sorter[T]) release(p *part[T]) {
	if s.fate == removed || s.end > 0 {
		s.reset(p)
	}
}

// divide moves the rows of a part to another Sorter if they are too many for memory and have different keys.
func (s *Sorter[T]) divide(p *part[T]) error {
	rows := int64(0)
	for _, e := range p.extents {
		rows += e.to - e.from
	}
	if rows <= int64(max(leastRows, s.limit/partsOfLimit)) {
		return nil
	}
	order := s.order
	low, high, err := s.rangeOf(p, order.Key)
	if err == nil && low == high && order.Second != nil {
		order = Order[T]{Key: order.Second, Compare: order.Compare}
		low, high, err = s.rangeOf(p, order.Key)
	}
	if err != nil || low == high {
		return err
	}
	limit := int64(max(leastRows, s.limit/partsOfLimit))
	s.divided = newSorter(s.memory, s.dir, limit, order.Within(low, high))
	err = s.eachBlock(p, s.divided.AddAll)
	if s.fate == removed {
		p.extents = nil
	}
	return cmp.Or(err, s.divided.begin(removed))
}

// rangeOf returns the range of the keys of a part in the file.
func (s *Sorter[T]) rangeOf(p *part[T], key func(row *T) uint64) (low, high uint64, err error) {
	isFirst := true
	err = s.eachBlock(p, func(rows []T) error {
		for i := range rows {
			k := key(&rows[i])
			if isFirst {
				low = k
				high = k
				isFirst = false
			}
			low = min(low, k)
			high = max(high, k)
		}
		return nil
	})
	return low, high, err
}

// eachBlock calls do with the rows of a part in the file, in any order.
func (s *Sorter[T]) eachBlock(p *part[T], do func(rows []T) error) error {
	for _, e := range p.extents {
		var some part[T]
		if err := s.load(&some, e); err != nil {
			return err
		}
		for _, block := range some.blocks {
			if err := do(block); err != nil {
				return err
			}
		}
		s.reset(&some)
	}
	return nil
}

// closeDivided closes the Sorter of a part that was divided.
func (s *Sorter[T]) closeDivided() error {
	if s.divided == nil {
		return nil
	}
	divided := s.divided
	s.divided = nil
	return divided.Close()
}

// Each calls do with each row, in order, until the first error. Rows that compare equal are in any order. The
// row is valid during the call. Each may be called several times. While do runs, a goroutine sorts the next
// part: it calls the functions of the Order.
func (s *Sorter[T]) Each(ctx context.Context, do func(row *T) error) error {
	return s.pass(ctx, kept, do)
}

// Drain calls do with each row, as Each does, and removes the rows. The memory of a part is free once its
// rows were passed. Rows can then be added again. After an error, the Sorter can only be closed.
func (s *Sorter[T]) Drain(ctx context.Context, do func(row *T) error) error {
	if err := s.pass(ctx, removed, do); err != nil {
		return err
	}
	s.n = 0
	s.held = 0
	if s.end == 0 {
		return nil
	}
	s.end = 0
	return s.file.Truncate(0)
}

// pass calls do with each row.
func (s *Sorter[T]) pass(ctx context.Context, of fate, do func(row *T) error) error {
	if err := s.begin(of); err != nil {
		return err
	}
	c := s.cursor()
	defer c.sortAhead()()
	next := checked(ctx, c.next)
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
// valid until the next call. The next call of Pull, Each or Drain ends it.
func (s *Sorter[T]) Pull(ctx context.Context) (next func() (*T, error)) {
	c := s.cursor()
	c.err = s.begin(kept)
	return checked(ctx, c.next)
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

// A cursor returns rows one by one.
type cursor[T any] struct {
	*Sorter[T]
	part func() (*part[T], error) // the next one
	free chan []place             // memory of the places of parts that were passed
	now  *part[T]                 // nil: none yet
	left []place                  // of this part
	err  error
}

// cursor returns a cursor before the first row. begin was called.
func (s *Sorter[T]) cursor() *cursor[T] {
	c := &cursor[T]{Sorter: s, free: make(chan []place, 2)}
	c.part = func() (*part[T], error) {
		var places []place
		select {
		case places = <-c.free:
		default:
		}
		return s.nextPart(places)
	}
	return c
}

// sortAhead starts a goroutine that sorts the next part while rows are returned. The caller calls stop.
func (c *cursor[T]) sortAhead() (stop func()) {
	type sortedPart struct {
		*part[T]
		err error
	}
	sorted := make(chan sortedPart)
	stopped := make(chan struct{})
	ended := make(chan struct{})
	next := c.part
	go func() {
		defer close(ended)
		for {
			p, err := next()
			select {
			case sorted <- sortedPart{p, err}:
			case <-stopped:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	c.part = func() (*part[T], error) {
		p := <-sorted
		return p.part, p.err
	}
	return func() {
		close(stopped)
		<-ended
	}
}

// next returns the next row. The error is io.EOF at the end.
func (c *cursor[T]) next() (*T, error) {
	if len(c.left) == 0 {
		if err := c.advance(); err != nil {
			return nil, err
		}
	}
	row := c.now.row(&c.left[0])
	c.left = c.left[1:]
	return row, nil
}

// advance releases the last part and goes to the next one.
func (c *cursor[T]) advance() error {
	if c.now != nil {
		select {
		case c.free <- c.now.places[:0]:
		default:
		}
		c.release(c.now)
		c.now = nil
	}
	if c.err == nil {
		c.now, c.err = c.part()
	}
	if c.err != nil {
		return c.err
	}
	c.left = c.now.places
	return nil
}
