package columns

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
)

// readRows is how many rows Each reads at a time: few enough that they stay in the processor's first caches.
const readRows = 256

// Each calls do with each row of a stream. A row is a struct as of a Table, with a field for each column that is read
// ([]byte for byte strings); a stream that can Select decodes these columns only. The row, and what it refers to, is
// valid until do returns. Each panics if a batch lacks a column or has one of another type. It closes the stream.
func Each[T any](in schema.Batches, do func(row *T) error) error {
	fields := fieldsOf(reflect.TypeFor[T]())
	if s, ok := in.(interface{ Select(columns ...string) }); ok {
		var names []string
		for _, f := range fields {
			names = append(names, f.Tag.Get("col"))
		}
		s.Select(names...)
	}
	rows := make([]T, readRows)
	return ForEach(in, func(rec arrow.Record) error {
		for from := 0; from < int(rec.NumRows()); from += readRows {
			part := rows[:min(readRows, int(rec.NumRows())-from)]
			fill(part, fields, rec, from)
			for i := range part {
				if err := do(&part[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Append appends the rows of a batch, as of Each. What they refer to is valid until the batch is released.
func Append[T any](rows []T, rec arrow.Record) []T {
	n := len(rows)
	rows = slices.Grow(rows, int(rec.NumRows()))[:n+int(rec.NumRows())]
	fill(rows[n:], fieldsOf(reflect.TypeFor[T]()), rec, 0)
	return rows
}

// fieldsOf returns the fields of a row that are columns, with their offsets in it; those of embedded structs, too.
func fieldsOf(row reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(row) {
		f.Offset = 0
		for i := range f.Index {
			f.Offset += row.FieldByIndex(f.Index[:i+1]).Offset
		}
		if f.Tag.Get("col") != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// fill sets the fields of rows to those of a batch from a row on.
func fill[T any](rows []T, fields []reflect.StructField, rec arrow.Record, from int) {
	for _, f := range fields {
		column := Named(rec, f.Tag.Get("col"))
		want := fieldTypes[column.DataType().ID()]
		if column.DataType().ID() == arrow.BINARY {
			want = reflect.TypeFor[[]byte]()
		}
		if f.Type != want {
			panic(fmt.Sprintf("columns: field %s is no column of %s", f.Name, column.DataType()))
		}
		to := fieldOf{first: unsafe.Add(unsafe.Pointer(unsafe.SliceData(rows)), f.Offset), stride: unsafe.Sizeof(*new(T)),
			n: len(rows)}
		switch c := column.(type) {
		case *array.Int16:
			scatter(to, c.Int16Values()[from:])
			for i := from; c.NullN() > 0 && i < from+len(rows); i++ {
				if c.IsNull(i) {
					*at[int16](to, i-from) = -1 // the inverse of orNull
				}
			}
		case *array.Int32:
			scatter(to, c.Int32Values()[from:])
		case *array.Int64:
			scatter(to, c.Int64Values()[from:])
		case *array.Float64:
			scatter(to, c.Float64Values()[from:])
		case *array.String:
			set(to, from, c.Value)
		case *array.Binary:
			set(to, from, c.Value)
		case *array.Boolean:
			set(to, from, c.Value)
		case *array.List:
			values := c.ListValues().(*array.Float64).Float64Values()
			set(to, from, func(i int) []float64 {
				begin, end := c.ValueOffsets(i)
				return values[begin:end]
			})
		}
	}
}

// scatter sets the field of all rows.
func scatter[V any](f fieldOf, values []V) {
	for i, v := range values[:f.n] {
		*(*V)(unsafe.Add(f.first, uintptr(i)*f.stride)) = v
	}
}

// set sets the field of all rows to values from a place on.
func set[V any](f fieldOf, from int, value func(i int) V) {
	for i := range f.n {
		*at[V](f, i) = value(from + i)
	}
}
