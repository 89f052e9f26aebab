package columns

import (
	"errors"
	"io"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
)

// batchRows is how many rows the stages put into a record batch.
const BatchRows = 65_536

// fixedWidth are the Go types of the tables' fixed-width columns.
type fixedWidth interface {
	int16 | int32 | int64 | float64
}

// column is an Arrow column over the values, without copying them: it is valid for as long as they
// are not changed.
func Of[T fixedWidth](values []T) arrow.Array {
	var zero T
	var typ arrow.DataType
	switch any(zero).(type) {
	case int16:
		typ = arrow.PrimitiveTypes.Int16
	case int32:
		typ = arrow.PrimitiveTypes.Int32
	case int64:
		typ = arrow.PrimitiveTypes.Int64
	case float64:
		typ = arrow.PrimitiveTypes.Float64
	}
	var raw []byte
	if len(values) > 0 {
		raw = unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(zero)))
	}
	data := array.NewData(typ, len(values), []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// stringColumn is an Arrow column of the strings.
func Strings(values []string) arrow.Array {
	ends := make([]int32, len(values)+1)
	for i, v := range values {
		ends[i+1] = ends[i] + int32(len(v))
	}
	items := make([]byte, 0, ends[len(values)])
	for _, v := range values {
		items = append(items, v...)
	}
	return ofBytes(arrow.BinaryTypes.String, ends, items)
}

// boolColumn is an Arrow column of the values.
func Bools(values []bool) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewArray()
}

// A binaryColumn is the memory of an Arrow column of byte strings.
type Binary struct {
	ends  []int32
	items []byte
}

// of is a column of those of the arena's strings, valid until it is called again.
func (c *Binary) Of(a *Arena, rows []int32) arrow.Array {
	c.ends, c.items = append(c.ends[:0], 0), c.items[:0]
	for _, i := range rows {
		c.items = append(c.items, a.At(int(i))...)
		c.ends = append(c.ends, int32(len(c.items)))
	}
	return ofBytes(arrow.BinaryTypes.Binary, c.ends, c.items)
}

// bytesColumn is an Arrow column of items, one after the other; ends are where they end, from 0 on.
func ofBytes(typ arrow.DataType, ends []int32, items []byte) arrow.Array {
	offsets := unsafe.Slice((*byte)(unsafe.Pointer(&ends[0])), 4*len(ends))
	data := array.NewData(typ, len(ends)-1, []*memory.Buffer{nil, memory.NewBufferBytes(offsets), memory.NewBufferBytes(items)}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// falseColumn is an Arrow column of n times false.
func False(n int) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(make([]bool, n), nil)
	return b.NewArray()
}

// writeColumns hands columns to a sink as one batch of the table.
func Write(out schema.Sink, t schema.Table, rows int, columns ...arrow.Array) error {
	rec := array.NewRecord(t.Arrow(), columns, int64(rows))
	for _, c := range columns {
		c.Release()
	}
	defer rec.Release()
	return out.Write(rec)
}

// int64s, int32s, int16s and float64s are the values of a named column of a batch, valid until the
// batch is released.
func Int64s(rec arrow.Record, name string) []int64 {
	return Named(rec, name).(*array.Int64).Int64Values()
}

func Int32s(rec arrow.Record, name string) []int32 {
	return Named(rec, name).(*array.Int32).Int32Values()
}

func Int16s(rec arrow.Record, name string) []int16 {
	return Named(rec, name).(*array.Int16).Int16Values()
}

func Float64s(rec arrow.Record, name string) []float64 {
	return Named(rec, name).(*array.Float64).Float64Values()
}

func Named(rec arrow.Record, name string) arrow.Array {
	at := rec.Schema().FieldIndices(name)
	if len(at) != 1 {
		panic("stages: batch has no column " + name) // readers hold files to the table's columns
	}
	return rec.Column(at[0])
}

// forEach hands every batch of a stream to f and releases it.
func ForEach(in schema.Batches, f func(arrow.Record) error) error {
	for {
		rec, err := in.Next()
		if err != nil {
			return IgnoreEOF(err)
		}
		err = f(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

func IgnoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
