// Package columns reads and builds the record batches of the lake's tables (schema.Batches, schema.Sink).
//
// The rows of large tables are structs with a field for each column (Each, Table):
//
//	type flow struct {
//		Size int64 `col:"size_bytes"`
//	}
//	err := columns.Each(in, func(f *flow) error { … })
//
// The rows of small tables, whose columns can be null, are maps (RecordOf). Functions such as Int64s return
// one column of a batch as a Go slice, and Named as an Arrow array.
//
// Functions that read a column panic if the batch lacks it or if it has another type. Readers compare the
// columns of a file with its table before they return a batch.
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

// Of returns a column of the values without copying them. The column is valid until the values change.
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

// orNull returns a column of the values, in which negative values are null. The column uses their memory.
func orNull[T int16 | int32 | int64](values []T) arrow.Array {
	known := make([]byte, (len(values)+7)/8)
	nulls := 0
	for i, v := range values {
		if v < 0 {
			nulls++
			continue
		}
		known[i/8] |= 1 << (i % 8)
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(known), memory.NewBufferBytes(arrow.GetBytes(values))}
	data := array.NewData(arrow.GetDataType[T](), len(values), buffers, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// ofBytes returns a column of variable-width values. Value i is items[ends[i]:ends[i+1]].
func ofBytes(typ arrow.DataType, ends []int32, items []byte) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(ends)), memory.NewBufferBytes(items)}
	data := array.NewData(typ, len(ends)-1, buffers, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// BatchRows is the largest number of rows that stages write in one batch.
const BatchRows = 65_536

// ForEach calls f with each batch of a stream until the first error. It releases each batch after the call,
// and closes the stream. names are the columns that f needs, or empty for all columns.
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

// Concat returns a stream of the batches of several streams of one table, one stream after another.
func Concat(all ...schema.Batches) schema.Batches { return &concatenated{all} }

// concatenated has the streams that have not been read to their ends.
type concatenated struct{ all []schema.Batches }

func (c *concatenated) Next(names ...string) (arrow.Record, error) {
	for len(c.all) > 0 {
		rec, err := c.all[0].Next(names...)
		if !errors.Is(err, io.EOF) {
			return rec, err
		}
		if err := c.all[0].Close(); err != nil {
			return nil, err
		}
		c.all = c.all[1:]
	}
	return nil, io.EOF
}

func (c *concatenated) Close() (err error) {
	for _, in := range c.all {
		err = errors.Join(err, in.Close())
	}
	return err
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

// Resize returns a slice of length n with unspecified contents. It reuses the memory of s if that is large
// enough.
func Resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Grow returns s with capacity for n more elements. It at least doubles the capacity, so that repeated growth
// is cheap.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) < n {
		s = slices.Grow(s, max(n, len(s)))
	}
	return s
}

// Arena stores many byte strings in one allocation. They are numbered from 0 in the order in which they were
// added. A string is added by Add, or by appending to Bytes and calling Done.
type Arena struct {
	Bytes []byte
	ends  []int
}

// Reset removes all strings and keeps the memory.
func (a *Arena) Reset() {
	a.Bytes = a.Bytes[:0]
	a.ends = a.ends[:0]
}

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

// Len returns the number of strings.
func (a *Arena) Len() int { return len(a.ends) }

// At returns string i, valid until the arena changes.
func (a *Arena) At(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.Bytes[from:a.ends[i]]
}

// A Row is one row of a table, with a value for each column. In a column that can be null, a missing value or
// NaN is null.
type Row map[string]any

// RecordOf returns a batch of a small table, with a row for each thing. The caller releases it. Large tables
// are built with Table or Of, which need no map for each row.
//
// RecordOf panics if a row has an unknown column, a value whose type is not that of the column, or no value
// for a column that cannot be null.
func RecordOf[T any](t schema.Table, things []T, rowOf func(thing T) Row) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Arrow())
	defer b.Release()
	for _, thing := range things {
		row := rowOf(thing)
		set := 0
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

// appendTo appends a value to a builder if both have type T, and reports whether they do.
func appendTo[T any](to array.Builder, value any) bool {
	b, takes := to.(interface{ Append(T) })
	x, is := value.(T)
	if takes && is {
		b.Append(x)
	}
	return takes && is
}
