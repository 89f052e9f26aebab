package extsort

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"parsimon/schema/together"
)

// A run is a sorted part of the file, in rows.
type run struct{ from, to int64 }

// A spill is a run that a goroutine writes. Rows are added meanwhile, in the memory of the parts that were
// written.
type spill struct {
	run
	freed chan int // rows of parts that were written; closed at the end
	left  int      // rows that were not freed yet
	err   error    // valid once freed is closed
}

// makeRoom makes room for a row. If all of the memory has rows, it begins to write them.
func (s *Sorter[T]) makeRoom() error {
	for s.err == nil && s.held+s.spill.left == s.limit {
		if s.spill.freed == nil {
			s.beginSpill()
		}
		rows, more := <-s.spill.freed
		s.spill.left -= rows
		if !more {
			s.endSpill()
		}
	}
	return s.err
}

// beginSpill begins to write the rows in memory as a run.
func (s *Sorter[T]) beginSpill() {
	parts := s.parts
	s.parts = make([]part[T], len(parts))
	from := int64(0)
	if len(s.runs) > 0 {
		from = s.runs[len(s.runs)-1].to
	}
	s.spill = spill{run: run{from, from + int64(s.held)}, freed: make(chan int, len(parts)), left: s.held}
	s.held = 0
	go func() {
		defer close(s.spill.freed)
		s.spill.err = together.Do(func() error { return s.writeRun(parts, s.spill.freed) })
	}()
}

// endSpill waits until no run is written. After an error, rows are lost.
func (s *Sorter[T]) endSpill() {
	if s.spill.freed == nil {
		return
	}
	for range s.spill.freed {
	}
	s.err = cmp.Or(s.err, s.spill.err)
	if s.err == nil {
		s.runs = append(s.runs, s.spill.run)
	}
	s.spill = spill{}
}

// writeRun sorts and writes parts, and removes their rows.
func (s *Sorter[T]) writeRun(parts []part[T], freed chan<- int) (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp(s.dir, "sort-*"); err != nil {
			return err
		}
	}
	buffer := make([]T, 0, bufferRows[T]())
	var places []place // of all parts, one after the other
	for i := range parts {
		p := &parts[i]
		p.places = places[:0]
		p.sort(&s.by)
		places = p.places
		for i := range p.places {
			if len(buffer) == cap(buffer) {
				if _, err := s.file.Write(bytesOf(buffer)); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
			buffer = append(buffer, *p.row(&p.places[i]))
		}
		rows := p.held
		s.reset(p)
		freed <- rows
	}
	_, err = s.file.Write(bytesOf(buffer))
	return err
}

// bufferRows is how many rows are written or read at a time.
func bufferRows[T any]() int { return max(1, int((64<<10)/unsafe.Sizeof(*new(T)))) }

func bytesOf[T any](rows []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))), len(rows)*int(unsafe.Sizeof(*new(T))))
}

// removeRuns removes all rows, which were written as runs.
func (s *Sorter[T]) removeRuns() error {
	s.runs = nil
	s.n = 0
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// mergedSlices is the number of slices of merged rows that are in use.
const mergedSlices = 3

// A merging merges runs in another goroutine:
//
//	merge ─► rows ─► full ─► the caller's function
//	  ▲                         │
//	  └──────── passed ◄────────┘
type merging[T any] struct {
	full, passed chan []T
	err          error // valid once full is closed
}

// drainRuns calls do with each row of the runs.
func (s *Sorter[T]) drainRuns(next func() (*T, error), do func(row *T) error) error {
	m := &merging[T]{full: make(chan []T, mergedSlices), passed: make(chan []T, mergedSlices)}
	for range mergedSlices {
		m.passed <- make([]T, 0, bufferRows[T]())
	}
	go func() {
		defer close(m.full)
		m.err = together.Do(func() error { return m.merge(next) })
	}()
	defer func() {
		close(m.passed)
		for range m.full { // until the goroutine has ended
		}
	}()
	for rows := range m.full {
		for i := range rows {
			if err := do(&rows[i]); err != nil {
				return err
			}
		}
		m.passed <- rows[:0]
	}
	return m.err
}

// merge copies rows to slices until the end, the first error, or until passed is closed.
func (m *merging[T]) merge(next func() (*T, error)) error {
	for rows := range m.passed {
		for len(rows) < cap(rows) {
			row, err := next()
			if errors.Is(err, io.EOF) {
				m.full <- rows
				return nil
			}
			if err != nil {
				return err
			}
			rows = append(rows, *row)
		}
		m.full <- rows
	}
	return nil
}

// pullRuns returns a function that returns the rows of all runs one by one.
func (s *Sorter[T]) pullRuns() (next func() (*T, error)) {
	var m *merge[T]
	return func() (*T, error) {
		var err error
		switch {
		case m == nil:
			m, err = s.mergeRuns()
		case len(m.cursors) > 0:
			err = m.advance()
		}
		switch {
		case err != nil:
			return nil, err
		case len(m.cursors) == 0:
			return nil, io.EOF
		}
		return m.cursors[0].row, nil
	}
}

// mergeRuns begins to merge the runs. The rows in memory become one.
func (s *Sorter[T]) mergeRuns() (*merge[T], error) {
	if s.held > 0 {
		s.beginSpill()
		s.endSpill()
	}
	if s.err != nil {
		return nil, s.err
	}
	m := &merge[T]{order: &s.order}
	for _, r := range s.runs {
		c := &cursor[T]{file: s.file, left: r}
		if err := c.next(&s.order); err != nil {
			return nil, err
		}
		m.cursors = append(m.cursors, c)
	}
	for i := len(m.cursors) - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
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
	order   *Order[T]
	cursors []*cursor[T]
}

// advance goes to the next row.
func (m *merge[T]) advance() error {
	err := m.cursors[0].next(m.order)
	if errors.Is(err, io.EOF) {
		last := len(m.cursors) - 1
		m.cursors[0] = m.cursors[last]
		m.cursors = m.cursors[:last]
		err = nil
	}
	m.down(0)
	return err
}

func (m *merge[T]) less(a, b *cursor[T]) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return m.order.Compare(a.row, b.row) < 0
}

// down moves cursor i down the heap until no cursor below it comes first.
func (m *merge[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.cursors); child++ {
			if m.less(m.cursors[child], m.cursors[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.cursors[i], m.cursors[least] = m.cursors[least], m.cursors[i]
		i = least
	}
}
