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

// Rows builds a record batch of a small table row by row. Tables of millions of rows are built from whole columns (Of,
// Strings), which costs no map per row.
type Rows struct {
	Table   schema.Table
	builder *array.RecordBuilder
}

// NewRows begins a batch of a table. The caller ends it with Record.
func NewRows(t schema.Table) *Rows {
	return &Rows{t, array.NewRecordBuilder(memory.DefaultAllocator, t.Arrow())}
}

// Add appends a row. It panics if the row has a column that the table lacks, a value of another type than the column's,
// or no value for a column that cannot be null.
func (r *Rows) Add(row Row) {
	set := 0
	for i, c := range r.Table.Columns {
		value, ok := row[c.Name]
		if ok {
			set++
		}
		if x, number := value.(float64); c.Nullable && (!ok || number && math.IsNaN(x)) {
			r.builder.Field(i).AppendNull()
		} else if !appendValue(r.builder.Field(i), value) {
			panic(fmt.Sprintf("columns: %s.%s takes no %T", r.Table.Name, c.Name, value))
		}
	}
	if set != len(row) {
		panic(fmt.Sprintf("columns: table %s has only %d of the columns of %v", r.Table.Name, set, row))
	}
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

// Record returns the rows as a batch, which the caller releases, and ends the building.
func (r *Rows) Record() arrow.Record {
	defer r.builder.Release()
	return r.builder.NewRecord()
}
