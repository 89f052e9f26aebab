package tables

import (
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
)

// Memory is a table in memory. As a schema.Sink it keeps what is written. It must not be used by several
// goroutines at a time.
type Memory struct {
	Records []arrow.Record
}

// Write keeps a copy of a batch, because the caller may reuse the batch's memory.
func (m *Memory) Write(rec arrow.Record) error {
	cols := make([]arrow.Array, rec.NumCols())
	for i, col := range rec.Columns() {
		var err error
		cols[i], err = array.Concatenate([]arrow.Array{col}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
	}
	m.Records = append(m.Records, array.NewRecord(rec.Schema(), cols, rec.NumRows()))
	return nil
}

// Read returns a stream of the table from its beginning. Several streams may be read at the same time.
func (m *Memory) Read() schema.Batches { return &memoryStream{records: m.Records} }

type memoryStream struct {
	records []arrow.Record // not read yet
}

// Next returns the next batch with all of its columns.
func (s *memoryStream) Next(...string) (arrow.Record, error) {
	if len(s.records) == 0 {
		return nil, io.EOF
	}
	rec := s.records[0]
	s.records = s.records[1:]
	rec.Retain()
	return rec, nil
}

func (s *memoryStream) Close() error { return nil }
