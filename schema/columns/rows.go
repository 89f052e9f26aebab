package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
)

// A Row is one row of a table: a value for each column. Where a column can be null, a value that is missing or NaN is
// null.
type Row map[string]any

// RecordOf returns the rows of a small table as a batch, which the caller releases: one for each thing. Tables of
// millions of rows are built from whole columns (Of, Table), which costs no map per row.
//
// It panics if a row has a column that the table lacks, a value of another type than the column's, or no value for a
// column that cannot be null.
func RecordOf[T any](t schema.Table, things []T, rowOf func(thing T) Row) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Arrow())
	defer b.Release()
	for _, thing := range things {
		row, set := rowOf(thing), 0
		for i, c := range t.Columns {
			value, ok := row[c.Name]
			if ok {
				set++
			}
			if x, number := value.(float64); c.Nullable && (!ok || number && math.IsNaN(x)) {
				b.Field(i).AppendNull()
			} else if !appendValue(b.Field(i), value) {
				panic(fmt.Sprintf("columns: %s.%s takes no %T", t.Name, c.Name, value))
			}
		}
		if set != len(row) {
			panic(fmt.Sprintf("columns: table %s has only %d of the columns of %v", t.Name, set, row))
		}
	}
	return b.NewRecord()
}

func appendValue(to array.Builder, value any) bool {
	switch to := to.(type) {
	case *array.Int32Builder:
		return appendTo(to.Append, value)
	case *array.Int64Builder:
		return appendTo(to.Append, value)
	case *array.Float64Builder:
		return appendTo(to.Append, value)
	case *array.StringBuilder:
		return appendTo(to.Append, value)
	case *array.BooleanBuilder:
		return appendTo(to.Append, value)
	}
	return false
}

func appendTo[T any](add func(T), value any) bool {
	x, ok := value.(T)
	add(x)
	return ok
}
