// Package columns reads and builds the record batches of the lake's tables (schema.Batches, schema.Sink)
// without copying values one by one.
//
// Reading and writing: the rows of a table are structs with a field for each column (Each, Table).
//
//	type flow struct {
//		Size int64 `col:"size_bytes"`
//	}
//	err := columns.Each(in, func(f *flow) error { … })
//
// A small table is built of maps (RecordOf). Single columns of a batch are Go slices or Arrow arrays (Int64s, Named).
//
// Views of a column that the batch lacks, or that has another type, panic: readers check a file's columns
// against its table before they return a batch.
package columns

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
)

type fixedWidth interface {
	int16 | int32 | int64 | float64
}

// Of returns a column of the values. It does not copy them: the column is valid until they change.
func Of[T fixedWidth](values []T) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(values))}
	data := array.NewData(arrow.GetDataType[T](), len(values), buffers, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// bools returns a column of the values. It copies them.
func bools(values []bool) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewArray()
}

// orNull returns a column of the values, with null for those below 0. It copies them.
func orNull(values []int16) arrow.Array {
	b := array.NewInt16Builder(memory.DefaultAllocator)
	defer b.Release()
	known := make([]bool, len(values))
	for i, v := range values {
		known[i] = v >= 0
	}
	b.AppendValues(values, known)
	return b.NewArray()
}

// ofBytes returns a column of variable-width values, which are concatenated in items; value i ends at
// ends[i+1], and ends[0] is 0.
func ofBytes(typ arrow.DataType, ends []int32, items []byte) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(ends)), memory.NewBufferBytes(items)}
	data := array.NewData(typ, len(ends)-1, buffers, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// BatchRows is the largest number of rows that stages write in one batch.
const BatchRows = 65_536

// ForEach calls f with each batch of a stream, and releases the batch afterwards, up to the first error. Then it closes
// the stream. names are the columns that f needs; all if there are none.
func ForEach(in schema.Batches, f func(arrow.Record) error, names ...string) (err error) {
	defer func() {
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
	}()
	for {
		rec, err := in.Next(names...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = f(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// Int32s returns the values of a column, valid until the batch is released.
func Int32s(rec arrow.Record, name string) []int32 {
	return Named(rec, name).(*array.Int32).Int32Values()
}

// Int64s returns the values of a column, valid until the batch is released.
func Int64s(rec arrow.Record, name string) []int64 {
	return Named(rec, name).(*array.Int64).Int64Values()
}

// Float64s returns the values of a column, valid until the batch is released.
func Float64s(rec arrow.Record, name string) []float64 {
	return Named(rec, name).(*array.Float64).Float64Values()
}

// Named returns a column of any type. It panics if the batch does not have exactly one column of that name.
func Named(rec arrow.Record, name string) arrow.Array {
	at := rec.Schema().FieldIndices(name)
	if len(at) != 1 {
		panic(fmt.Sprintf("columns: batch has %d columns %q: %s", len(at), name, rec.Schema()))
	}
	return rec.Column(at[0])
}

// Resize returns a slice of length n with unspecified contents, in the memory of s if it is large enough.
func Resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Grow returns s with room for n more elements. It doubles the memory, so that growing takes little time.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) < n {
		s = slices.Grow(s, max(n, len(s)))
	}
	return s
}

// Arena holds many byte strings in one allocation, numbered from 0 in the order in which they were added.
// A string is added as a whole (Add), or by appending to Bytes and then calling Done.
type Arena struct {
	Bytes []byte
	ends  []int
}

// Reset removes all strings and keeps the memory.
func (a *Arena) Reset() { a.Bytes, a.ends = a.Bytes[:0], a.ends[:0] }

// Add appends a string.
func (a *Arena) Add(b []byte) {
	a.Bytes = append(a.Bytes, b...)
	a.Done()
}

// Done ends the string that was appended to Bytes.
func (a *Arena) Done() { a.ends = append(a.ends, len(a.Bytes)) }

// AddArena appends all strings of another arena.
func (a *Arena) AddArena(b *Arena) {
	base := len(a.Bytes)
	a.Bytes = append(a.Bytes, b.Bytes...)
	for _, end := range b.ends {
		a.ends = append(a.ends, base+end)
	}
}

// At returns string i, valid until the arena changes.
func (a *Arena) At(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.Bytes[from:a.ends[i]]
}

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
			to := b.Field(i)
			switch x, isFloat := value.(float64); {
			case c.Nullable && (!ok || isFloat && math.IsNaN(x)):
				to.AppendNull()
			case appendTo[int16](to, value), appendTo[int32](to, value), appendTo[int64](to, value),
				appendTo[float64](to, value), appendTo[string](to, value), appendTo[bool](to, value):
			default:
				panic(fmt.Sprintf("columns: %s.%s takes no %T", t.Name, c.Name, value))
			}
		}
		if set != len(row) {
			panic(fmt.Sprintf("columns: table %s has only %d of the columns of %v", t.Name, set, row))
		}
	}
	return b.NewRecord()
}

// appendTo appends a value of type T to a builder of such values, and reports whether they are that.
func appendTo[T any](to array.Builder, value any) bool {
	b, takes := to.(interface{ Append(T) })
	x, is := value.(T)
	if takes && is {
		b.Append(x)
	}
	return takes && is
}
