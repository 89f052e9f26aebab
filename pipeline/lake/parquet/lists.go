package parquet

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
)

// parquet-go's buffer of a list takes a value of 24 bytes for each number. It keeps whether a value begins a
// row, and passes the value to a second buffer. As for columns with nulls, this file passes it values without
// content, and the numbers themselves to the second buffer. The files are the same to the byte.

// A listType is the type of the numbers of a list. It remembers the buffer that the column writer creates.
type listType struct {
	parquet.Type
	buffer *listBuffer
}

func (t *listType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	t.buffer = &listBuffer{ColumnBuffer: t.Type.NewColumnBuffer(column, values)}
	return t.buffer
}

// A listField is a node of a list, down to its numbers, which have another type.
type listField struct {
	parquet.Field
	fields []parquet.Field
}

func (f listField) Fields() []parquet.Field { return f.fields }

// withNumbers returns a list whose numbers have another type.
func withNumbers(f parquet.Field, typ parquet.Type) parquet.Field {
	if f.Leaf() {
		return typedField{f, typ}
	}
	list := listField{Field: f}
	for _, below := range f.Fields() {
		list.fields = append(list.fields, withNumbers(below, typ))
	}
	return list
}

// numbersOf returns the type of the numbers of a list.
func numbersOf(f parquet.Field) parquet.Type {
	for !f.Leaf() {
		f = f.Fields()[0]
	}
	return f.Type()
}

// A listBuffer is the buffer of the numbers of lists.
type listBuffer struct {
	parquet.ColumnBuffer
	next []float64       // numbers that are written next
	row  []parquet.Value // values without content, as many as the longest list had
}

// WriteValues writes as many of the next numbers as there are values.
func (b *listBuffer) WriteValues(values []parquet.Value) (int, error) {
	to, ok := b.ColumnBuffer.(parquet.DoubleWriter)
	if !ok || len(values) > len(b.next) {
		return 0, errors.New("there are more values than numbers")
	}
	numbers := b.next[:len(values)]
	b.next = b.next[len(values):]
	return to.WriteDoubles(numbers)
}

// rowOf returns the values of a list of n numbers.
func (b *listBuffer) rowOf(n int) []parquet.Value {
	for len(b.row) < n {
		value := present[0]
		if len(b.row) > 0 {
			value = value.Level(1, 1, 0)
		}
		b.row = append(b.row, value)
	}
	if n == 0 {
		return nulls[:1]
	}
	return b.row[:n]
}

// writeLists writes rows from..to of a column of lists.
func writeLists(out *parquet.ColumnWriter, buffer *listBuffer, lists *array.List, from, to int) error {
	numbers, ok := lists.ListValues().(*array.Float64)
	if !ok {
		return fmt.Errorf("cannot write Arrow type %s", lists.DataType())
	}
	for i := from; i < to; i++ {
		begin, end := lists.ValueOffsets(i)
		buffer.next = numbers.Float64Values()[begin:end]
		if _, err := out.WriteRowValues(buffer.rowOf(int(end - begin))); err != nil {
			return err
		}
	}
	return nil
}

// appendLists appends the rows of a page of lists. It appends nothing, and returns false, if a list is
// empty or began on another page.
func appendLists(b *array.ListBuilder, page parquet.Page) bool {
	begins := page.RepetitionLevels() // 0: of another list than the number before
	data := page.Data()
	to, ok := b.ValueBuilder().(*array.Float64Builder)
	if !ok || page.Dictionary() != nil || page.NumNulls() > 0 || len(begins) == 0 || begins[0] > 0 {
		return false
	}
	numbers := data.Double()
	if len(numbers) != len(begins) {
		return false
	}
	for from := 0; from < len(numbers); {
		end := from + 1
		for end < len(begins) && begins[end] > 0 {
			end++
		}
		b.Append(true)
		to.AppendValues(numbers[from:end], nil)
		from = end
	}
	return true
}
