package main

import (
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// table is the batches of a table in memory. Reading it does not consume it.
type table []arrow.Record

// Write keeps a copy of the batch, whose memory its writer reuses.
func (t *table) Write(rec arrow.Record) error {
	copies := make([]arrow.Array, rec.NumCols())
	for i, col := range rec.Columns() {
		switch col := col.(type) {
		case *array.Int16:
			copies[i] = columns.Of(slices.Clone(col.Int16Values()))
		case *array.Int32:
			copies[i] = columns.Of(slices.Clone(col.Int32Values()))
		case *array.Int64:
			copies[i] = columns.Of(slices.Clone(col.Int64Values()))
		case *array.Float64:
			copies[i] = columns.Of(slices.Clone(col.Float64Values()))
		case *array.Binary:
			var all columns.Arena
			all.AddAll(col, 0, col.Len())
			order := make([]int32, col.Len())
			for k := range order {
				order[k] = int32(k)
			}
			copies[i] = new(columns.Binary).Of(&all, order)
		default: // strings and booleans are built anew for each batch
			col.Retain()
			copies[i] = col
		}
	}
	*t = append(*t, array.NewRecord(rec.Schema(), copies, rec.NumRows()))
	return nil
}

func (t *table) read() schema.Batches { return &reader{*t} }

type reader struct{ left []arrow.Record }

func (r *reader) Next() (arrow.Record, error) {
	if len(r.left) == 0 {
		return nil, io.EOF
	}
	rec := r.left[0]
	r.left = r.left[1:]
	rec.Retain()
	return rec, nil
}

func (r *reader) Close() error { return nil }
