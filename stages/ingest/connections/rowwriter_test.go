package connections

import (
	"errors"
	"slices"
	"testing"

	"parsimon/schema/together"
)

// All rows are written once, in order, in batches. Without this, a table would lack its last rows.
func TestRowWriterWritesAllRows(t *testing.T) {
	for n := range 20 {
		var got []int
		w := NewRowWriter(3, func(rows []int) error {
			if len(rows) == 0 || len(rows) > 3 {
				t.Errorf("a batch of %d rows", len(rows))
			}
			got = append(got, rows...)
			return nil
		})
		var want []int
		for i := range n {
			want = append(want, i)
			if err := w.Add(i); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := w.Finish(); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d rows, %v were written", n, got)
		}
	}
}

// An error reaches the caller by Finish at the latest, and nothing is written after it. Without this, a table
// could lack rows in its middle.
func TestRowWriterReturnsErrors(t *testing.T) {
	full := errors.New("full")
	for n := 1; n < 20; n++ {
		calls := 0
		w := NewRowWriter(2, func([]int) error {
			calls++
			return full
		})
		for i := range n {
			if err := w.Add(i); err != nil && !errors.Is(err, full) {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); !errors.Is(err, full) {
			t.Errorf("%d rows: the error of the last batch became %v", n, err)
		}
		if calls != 1 {
			t.Errorf("%d rows: %d batches were written", n, calls)
		}
	}
}

// A panic of write reaches the caller as an error. Without this, one impossible row would end the process.
func TestRowWriterReturnsPanics(t *testing.T) {
	w := NewRowWriter(2, func(rows []int) error { panic("index out of range") })
	for i := range 10 {
		_ = w.Add(i) // Finish returns the error at the latest
	}
	err := w.Finish()
	_, is := errors.AsType[*together.Panic](err)
	if !is {
		t.Errorf("the panic became %v", err)
	}
}
