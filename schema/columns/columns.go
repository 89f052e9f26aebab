package columns

import (
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// fixedWidth are the Go types of the tables' fixed-width columns.
type fixedWidth interface {
	int16 | int32 | int64 | float64
}

// Of returns a column of the values. It does not copy them: the column is valid until they change.
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
	offsets := unsafe.Slice((*byte)(unsafe.Pointer(&ends[0])), 4*len(ends))
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(offsets), memory.NewBufferBytes(items)}
	data := array.NewData(typ, len(ends)-1, buffers, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}
