package ingest

import (
	"cmp"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest/connections"
)

// regularOut is where the records of a file go. A goroutine writes the rows, while the next ones are read:
//
//	add ─► rows ─ flush ─► full ─► goroutine ─► collected, Records
//	         ▲                         │
//	         └───────── written ◄──────┘
type regularOut struct {
	FileTables
	collected *connections.Reading // for the merge; nil: rows are flows
	rows      []connections.Row    // that are not written yet
	texts     knownTexts           // of rows
	full      chan []connections.Row
	written   chan writtenRows
}

// writtenRows are rows that were written, or the error of rows before them.
type writtenRows struct {
	rows []connections.Row
	err  error
}

const (
	flushedRows = 1024 // rows that are written at a time; they fit in the second-level cache
	rowSlices   = 3    // slices of rows that are in use
)

var recordTable = columns.TableOf[connections.Row](schema.Records)

// start starts the goroutine. The caller calls finish.
func (o *regularOut) start() {
	full := make(chan []connections.Row, rowSlices)
	written := make(chan writtenRows, rowSlices)
	for range rowSlices - 1 {
		written <- writtenRows{}
	}
	o.full = full
	o.written = written
	go func() {
		defer close(written)
		var failed error
		for rows := range full {
			if failed == nil {
				failed = o.write(rows)
			}
			written <- writtenRows{rows, failed}
		}
	}()
}

// flush passes the rows to the goroutine. It returns the error of earlier rows.
func (o *regularOut) flush() error {
	o.full <- o.rows
	w := <-o.written
	o.rows = w.rows[:0]
	return w.err
}

// finish waits until all rows that were flushed are written, and ends the goroutine.
func (o *regularOut) finish() (err error) {
	if o.full == nil {
		return nil
	}
	close(o.full)
	o.full = nil
	for w := range o.written {
		err = cmp.Or(err, w.err)
	}
	return err
}

// write writes rows.
func (o *regularOut) write(rows []connections.Row) error {
	if o.collected != nil {
		if err := o.collected.Add(rows); err != nil {
			return &CollectError{err}
		}
	}
	return recordTable.Write(o.Records, rows)
}

// Write writes a batch of records. It implements schema.Sink.
func (o *regularOut) Write(batch arrow.Record) error {
	if o.collected != nil {
		if err := o.collected.Write(batch); err != nil {
			return &CollectError{err}
		}
	}
	return o.Records.Write(batch)
}

// A CollectError is an error of collecting the records of all files for the merge, such as a full disk. The
// records of other files may be lost.
type CollectError struct{ Err error }

// Error returns the reason.
func (e *CollectError) Error() string { return "records cannot be merged: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *CollectError) Unwrap() error { return e.Err }

// knownTexts are texts that need not be copied for each row that has them.
type knownTexts struct {
	all    map[string]string
	recent [256]string // the last text of each slot
}

// maxKnownTexts is the maximum number of texts that are known at a time.
const maxKnownTexts = 1 << 12

// of returns a text.
func (t *knownTexts) of(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	recent := &t.recent[connections.SlotOf(text)]
	if *recent == string(text) {
		return *recent
	}
	known, ok := t.all[string(text)]
	if !ok {
		if t.all == nil || len(t.all) == maxKnownTexts {
			t.all = map[string]string{}
		}
		known = string(text)
		t.all[known] = known
	}
	*recent = known
	return known
}
