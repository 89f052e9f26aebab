package ingest

import (
	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/together"
	"parsimon/stages/ingest/connections"
)

// regularOut is where the records of a file go.
type regularOut struct {
	FileTables
	collected *connections.Reading // for the merge; nil: rows are flows
	rows      *connections.RowWriter[connections.Row]
	texts     knownTexts // of rows
}

// flushedRows is the number of rows that are written at a time. They fit in the second-level cache.
const flushedRows = 1024

var recordTable = columns.TableOf[connections.Row](schema.Records)

// start begins to write rows. The caller calls finish.
func (o *regularOut) start() { o.rows = connections.NewRowWriter(flushedRows, o.write) }

// finish waits until all rows are written.
func (o *regularOut) finish() error { return o.rows.Finish() }

// write writes rows, and collects them at the same time.
func (o *regularOut) write(rows []connections.Row) error {
	if o.collected == nil {
		return recordTable.Write(o.Records, rows)
	}
	var collect, write error
	together.Run(
		func() { collect = o.collected.Add(rows) },
		func() { write = recordTable.Write(o.Records, rows) })
	if collect != nil {
		return &CollectError{collect}
	}
	return write
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
