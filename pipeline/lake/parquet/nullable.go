package parquet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// parquet-go's buffer of a column that can be null takes values, of which it only reads whether they are
// null. It passes the others to a second buffer. This file passes it values without content, and the numbers
// themselves to the second buffer.
//
//	rows ─┬─ null or not ─→ buffer of levels
//	      │                     └ how many are not null ─┐
//	      └─ numbers that are not null ─────────────────→ buffer of numbers

// A nullableType is the type of a column of numbers and nulls without a dictionary. It remembers the buffer
// that the column writer creates.
type nullableType struct {
	parquet.Type
	buffer *nullableBuffer
}

func (t *nullableType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	t.buffer = &nullableBuffer{ColumnBuffer: t.Type.NewColumnBuffer(column, values)}
	return t.buffer
}

// isNullable reports whether a column has whole numbers and nulls.
func isNullable(f parquet.Field) bool {
	return f.Leaf() && f.Optional() && (f.Type().Kind() == parquet.Int32 || f.Type().Kind() == parquet.Int64)
}

// A deltaField is a column whose numbers are encoded by their differences.
type deltaField struct{ parquet.Field }

func (deltaField) Encoding() encoding.Encoding { return &parquet.DeltaBinaryPacked }

// A nullableBuffer is the buffer of the numbers of a column with nulls.
type nullableBuffer struct {
	parquet.ColumnBuffer
	next   []int64 // numbers that are written next
	int32s []int32
}

// WriteValues writes as many of the next numbers as there are values.
func (b *nullableBuffer) WriteValues(values []parquet.Value) (int, error) {
	if len(values) > len(b.next) {
		return 0, errors.New("there are more values than numbers")
	}
	numbers := b.next[:len(values)]
	b.next = b.next[len(values):]
	switch to := b.ColumnBuffer.(type) {
	case parquet.Int64Writer:
		return to.WriteInt64s(numbers)
	case parquet.Int32Writer:
		b.int32s = b.int32s[:0]
		for _, n := range numbers {
			b.int32s = append(b.int32s, int32(n))
		}
		return to.WriteInt32s(b.int32s)
	}
	return 0, fmt.Errorf("a column of type %s takes no numbers", b.Type())
}

// Values without content. They are not changed.
var (
	nulls   = slices.Repeat([]parquet.Value{parquet.NullValue().Level(0, 0, 0)}, valueChunk)
	present = slices.Repeat([]parquet.Value{parquet.Int32Value(0).Level(0, 1, 0)}, valueChunk)
)

// writeNullable writes rows from..to of an Arrow column of numbers and nulls to a Parquet column. buffer is the
// buffer of its numbers.
func (tw *Writer) writeNullable(out *parquet.ColumnWriter, buffer *nullableBuffer, col arrow.Array,
	from, to int) error {
	switch a := col.(type) {
	case *array.Int16:
		tw.int64s = appendKnown(tw.int64s[:0], a, a.Int16Values(), from, to)
	case *array.Int32:
		tw.int64s = appendKnown(tw.int64s[:0], a, a.Int32Values(), from, to)
	case *array.Int64:
		tw.int64s = appendKnown(tw.int64s[:0], a, a.Int64Values(), from, to)
	default:
		return fmt.Errorf("cannot write Arrow type %s", col.DataType())
	}
	buffer.next = tw.int64s
	defer func() { buffer.next = nil }()
	for at := from; at < to; at += valueChunk {
		n := min(valueChunk, to-at)
		values := present[:n]
		switch col.NullN() {
		case 0:
		case col.Len():
			values = nulls[:n]
		default:
			values = tw.values[:n]
			for i := range values {
				values[i] = present[0]
				if col.IsNull(at + i) {
					values[i] = nulls[0]
				}
			}
		}
		if _, err := out.WriteRowValues(values); err != nil {
			return err
		}
	}
	return nil
}

// appendKnown appends the numbers of rows from..to that are not null.
func appendKnown[T int16 | int32 | int64](to []int64, a arrow.Array, values []T, from, until int) []int64 {
	anyNull := a.NullN() > 0
	for i := from; i < until; i++ {
		if !anyNull || a.IsValid(i) {
			to = append(to, int64(values[i]))
		}
	}
	return to
}
