package connections

import (
	"cmp"

	"parsimon/schema/together"
)

// A RowWriter passes rows to a function in another goroutine, while the caller makes the next ones:
//
//	Add ─► rows ─ batch full ─► goroutine ─► write
//	         ▲                      │
//	         └─────── written ◄─────┘
//
// It is used by one goroutine at a time. The caller calls Finish.
type RowWriter[T any] struct {
	rows    []T // that are not passed yet
	batch   int // rows that are passed at a time
	full    chan []T
	written chan writtenRows[T]
}

// writtenRows are rows that were written, or the error of rows before them.
type writtenRows[T any] struct {
	rows []T
	err  error
}

// rowSlices is the number of slices of rows that are in use.
const rowSlices = 3

// NewRowWriter starts the goroutine. write is called with at most batch rows at a time. They are valid
// during the call. After an error, write is not called again.
func NewRowWriter[T any](batch int, write func(rows []T) error) *RowWriter[T] {
	w := &RowWriter[T]{
		batch: batch, full: make(chan []T, rowSlices), written: make(chan writtenRows[T], rowSlices),
	}
	for range rowSlices - 1 {
		w.written <- writtenRows[T]{}
	}
	go func(full <-chan []T, written chan<- writtenRows[T]) {
		defer close(written)
		var failed error
		for rows := range full {
			if failed == nil {
				failed = together.Do(func() error { return write(rows) })
			}
			written <- writtenRows[T]{rows, failed}
		}
	}(w.full, w.written)
	return w
}

// Add adds a row. It returns the error of earlier rows.
func (w *RowWriter[T]) Add(row T) error {
	w.rows = append(w.rows, row)
	if len(w.rows) < w.batch {
		return nil
	}
	return w.flush()
}

func (w *RowWriter[T]) flush() error {
	w.full <- w.rows
	done := <-w.written
	w.rows = done.rows[:0]
	return done.err
}

// Finish passes the last rows, and waits until all rows are written. It may be called again.
func (w *RowWriter[T]) Finish() (err error) {
	if w.full == nil {
		return nil
	}
	if len(w.rows) > 0 {
		err = w.flush()
	}
	close(w.full)
	w.full = nil
	for done := range w.written {
		err = cmp.Or(err, done.err)
	}
	return err
}
