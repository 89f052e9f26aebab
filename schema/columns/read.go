package columns

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/names"
)

// readRows is the number of rows that Each reads at a time. They fit in the first caches of the processor.
const readRows = 256

// Each calls do with each row of a stream, and closes the stream. A row is a struct as in Table, with a field
// for each column that is read; byte strings are []byte. Other columns are not decoded. The row, and the
// memory that it refers to, is valid until do returns. Each panics if a batch lacks a column or has one of
// another type.
func Each[T any](in schema.Batches, do func(row *T) error) error {
	return EachRows(in, readRows, func(rows []T) error {
		for i := range rows {
			if err := do(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachRows calls do with at most n rows of a stream at a time, as Each does.
func EachRows[T any](in schema.Batches, n int, do func(rows []T) error) error {
	fields := fieldsOf(reflect.TypeFor[T]())
	names := columnsOf(fields)
	rows := make([]T, n)
	return ForEach(in, func(rec arrow.Record) error {
		columns := arraysOf(fields, names, rec)
		for from := 0; from < int(rec.NumRows()); from += n {
			part := rows[:min(n, int(rec.NumRows())-from)]
			fill(part, fields, columns, from)
			if err := do(part); err != nil {
				return err
			}
		}
		return nil
	}, names...)
}

// Next reads the next batch of a stream into the memory of rows, as Each does. Memory that the rows refer to
// is valid until the batch is released.
func Next[T any](in schema.Batches, rows []T) ([]T, arrow.Record, error) {
	rec, err := in.Next(columnsOf(fieldsOf(reflect.TypeFor[T]()))...)
	if err != nil {
		return nil, nil, err
	}
	return Append(rows[:0], rec), rec, nil
}

// Append appends the rows of a batch.
func Append[T any](rows []T, rec arrow.Record) []T {
	return AppendParts(rows, rec, [][2]int{{0, int(rec.NumRows())}})
}

// AppendParts appends some rows of a batch: each part is a half-open range of rows.
func AppendParts[T any](rows []T, rec arrow.Record, parts [][2]int) []T {
	if len(parts) == 0 {
		return rows
	}
	fields := fieldsOf(reflect.TypeFor[T]())
	columns := arraysOf(fields, columnsOf(fields), rec)
	for _, part := range parts {
		n := len(rows)
		from := part[0]
		rows = Grow(rows, part[1]-from)[:n+part[1]-from]
		for some := range slices.Chunk(rows[n:], readRows) {
			fill(some, fields, columns, from)
			from += len(some)
		}
	}
	return rows
}

// Names returns the columns that Append needs.
func Names[T any]() []string { return columnsOf(fieldsOf(reflect.TypeFor[T]())) }

func columnsOf(fields []reflect.StructField) []string {
	return names.Of(fields, func(f reflect.StructField) string { return f.Tag.Get("col") })
}

// fieldsOf returns the fields of a row that are columns, also those of embedded structs, with their offsets
// in the row.
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

// arraysOf returns the columns of the fields, which have these names. It panics if the batch lacks one, or if
// one has another type than its field.
func arraysOf(fields []reflect.StructField, names []string, rec arrow.Record) []arrow.Array {
	columns := make([]arrow.Array, len(fields))
	for i, f := range fields {
		columns[i] = Named(rec, names[i])
		typ := columns[i].DataType().ID()
		want := fieldTypes[typ]
		if typ == arrow.BINARY {
			want = reflect.TypeFor[[]byte]()
		}
		if f.Type != want {
			panic(fmt.Sprintf("columns: field %s is not a column of %s", f.Name, columns[i].DataType()))
		}
	}
	return columns
}

// fill sets the fields of rows to the values of their columns, starting at row from.
func fill[T any](rows []T, fields []reflect.StructField, columns []arrow.Array, from int) {
	for i, f := range fields {
		to := fieldOf{first: unsafe.Add(unsafe.Pointer(unsafe.SliceData(rows)), f.Offset),
			stride: unsafe.Sizeof(*new(T)), n: len(rows)}
		switch c := columns[i].(type) {
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

func scatter[V any](f fieldOf, values []V) {
	for i, v := range values[:f.n] {
		*(*V)(unsafe.Add(f.first, uintptr(i)*f.stride)) = v
	}
}

func set[V any](f fieldOf, from int, value func(i int) V) {
	for i := range f.n {
		*at[V](f, i) = value(from + i)
	}
}

// writeRows is the number of rows in one batch. The rows and their columns are still in the second-level
// cache of the processor when the sink reads them.
const writeRows = 2_048

// A Table writes rows of a large table; for small tables see RecordOf. A row is a struct of type T with a
// field for each column, tagged with its name:
//
//	LinkID int32 `col:"link_id"`
//
// Fields have the types of the columns: int16, int32, int64, float64, string, bool, []float64 for lists, and
// Item for byte strings. Columns that can be null must be integers; negative values are null. Any number of
// goroutines may use a Table.
type Table[T any] struct {
	table   schema.Table
	arrow   *arrow.Schema
	offsets []uintptr // offset of the field of each column
	memory  sync.Pool // of *tableMemory[T]
}

// tableMemory is what Table needs to write a batch.
type tableMemory[T any] struct {
	columns []buffer
	rows    []T // in the order in which they are written
}

// Item is the number of a byte string in an Arena.
type Item int32

type buffer struct {
	words []uint64
	ends  []int32
	items []byte
}

// TableOf binds a struct to a table. It panics if a column of the table has no field or a field of another
// type. Other fields are ignored, so that one struct can be bound to several tables.
func TableOf[T any](t schema.Table) *Table[T] {
	r := &Table[T]{table: t, arrow: t.Arrow()}
	fields := fieldsOf(reflect.TypeFor[T]())
	for _, c := range t.Columns {
		at := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("col") == c.Name })
		if at < 0 || fields[at].Type != fieldTypes[c.Type.ID()] || c.Nullable && !arrow.IsInteger(c.Type.ID()) {
			panic(fmt.Sprintf("columns: %T has no field for %s.%s, %s", *new(T), t.Name, c.Name, c.Type))
		}
		r.offsets = append(r.offsets, fields[at].Offset)
	}
	r.memory.New = func() any { return &tableMemory[T]{columns: make([]buffer, len(t.Columns))} }
	return r
}

var fieldTypes = map[arrow.Type]reflect.Type{
	arrow.INT16: reflect.TypeFor[int16](), arrow.INT32: reflect.TypeFor[int32](),
	arrow.INT64:   reflect.TypeFor[int64](),
	arrow.FLOAT64: reflect.TypeFor[float64](), arrow.STRING: reflect.TypeFor[string](),
	arrow.BOOL: reflect.TypeFor[bool](), arrow.BINARY: reflect.TypeFor[Item](),
	arrow.LIST: reflect.TypeFor[[]float64](),
}

// Write writes rows to a sink, in their order.
func (t *Table[T]) Write(out schema.Sink, rows []T) error {
	m := t.memory.Get().(*tableMemory[T])
	defer t.memory.Put(m)
	for part := range slices.Chunk(rows, writeRows) {
		if err := t.write(out, m.columns, part, nil); err != nil {
			return err
		}
	}
	return nil
}

// WriteOrdered writes the rows with the given indices, in that order. items has the byte strings of fields of
// type Item; it is nil if the table has none. WriteOrdered copies the rows of a batch first, so that each is
// fetched from memory once instead of once for each column.
func (t *Table[T]) WriteOrdered(out schema.Sink, rows []T, places []int32, items *Arena) error {
	m := t.memory.Get().(*tableMemory[T])
	defer t.memory.Put(m)
	m.rows = Resize(m.rows, min(writeRows, len(places)))
	for part := range slices.Chunk(places, writeRows) {
		for i, place := range part {
			m.rows[i] = rows[place]
		}
		if err := t.write(out, m.columns, m.rows[:len(part)], items); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table[T]) write(out schema.Sink, buffers []buffer, rows []T, items *Arena) error {
	all := make([]arrow.Array, len(t.offsets))
	for i, c := range t.table.Columns {
		f := fieldOf{
			first:  unsafe.Add(unsafe.Pointer(unsafe.SliceData(rows)), t.offsets[i]),
			stride: unsafe.Sizeof(*new(T)),
			n:      len(rows),
		}
		all[i] = f.column(&buffers[i], c, items)
	}
	rec := array.NewRecord(t.arrow, all, int64(len(rows)))
	for _, c := range all {
		c.Release()
	}
	defer rec.Release()
	return out.Write(rec)
}

// fieldOf locates one field of the rows to write.
type fieldOf struct {
	first  unsafe.Pointer // of row 0
	stride uintptr
	n      int // number of rows
}

// column returns the field of all rows as a column, which uses the memory of b.
func (f fieldOf) column(b *buffer, c schema.Column, items *Arena) arrow.Array {
	switch c.Type.ID() {
	case arrow.INT16:
		return ofIntegers(gather[int16](f, b), c)
	case arrow.INT32:
		return ofIntegers(gather[int32](f, b), c)
	case arrow.INT64:
		return ofIntegers(gather[int64](f, b), c)
	case arrow.FLOAT64:
		return Of(gather[float64](f, b))
	case arrow.BOOL:
		return bools(gather[bool](f, b))
	case arrow.STRING:
		b.ends = append(b.ends[:0], 0)
		b.items = b.items[:0]
		for i := range f.n {
			b.items = append(b.items, *at[string](f, i)...)
			b.ends = append(b.ends, int32(len(b.items)))
		}
	case arrow.BINARY:
		b.ends = append(b.ends[:0], 0)
		b.items = b.items[:0]
		for i := range f.n {
			b.items = append(b.items, items.At(int(*at[Item](f, i)))...)
			b.ends = append(b.ends, int32(len(b.items)))
		}
	case arrow.LIST:
		lists := array.NewListBuilderWithField(memory.DefaultAllocator, c.Type.(*arrow.ListType).ElemField())
		defer lists.Release()
		for i := range f.n {
			lists.Append(true)
			lists.ValueBuilder().(*array.Float64Builder).AppendValues(*at[[]float64](f, i), nil)
		}
		return lists.NewArray()
	}
	return ofBytes(c.Type, b.ends, b.items)
}

func ofIntegers[T int16 | int32 | int64](values []T, c schema.Column) arrow.Array {
	if c.Nullable {
		return orNull(values)
	}
	return Of(values)
}

// at returns the field of row i of those to write.
func at[V any](f fieldOf, i int) *V {
	return (*V)(unsafe.Add(f.first, uintptr(i)*f.stride))
}

func gather[V fixedWidth | bool](f fieldOf, b *buffer) []V {
	size := int(unsafe.Sizeof(*new(V)))
	need := (f.n*size + 7) / 8
	if cap(b.words) < need {
		b.words = make([]uint64, need)
	}
	out := unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(b.words))), f.n)
	for i := range out {
		out[i] = *(*V)(unsafe.Add(f.first, uintptr(i)*f.stride))
	}
	return out
}
