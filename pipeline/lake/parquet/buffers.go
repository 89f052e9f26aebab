package parquet

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// A parquet.ColumnWriter takes values of 24 bytes, which it copies to its buffer one by one. For columns of
// numbers and Booleans, this file gives the Writer the buffer itself, which takes slices. The buffers of keys
// only count rows. Writing tables of hops takes 0.55 to 0.9 of the time, and the files are the same to the
// byte.
//
//	bufferedSchema ─ type of each column ─→ parquet.GenericWriter ─ NewColumnBuffer ─→ buffers of this file

// A bufferedSchema is a schema whose columns have other types.
type bufferedSchema struct {
	parquet.Node
	fields []parquet.Field
}

func (s bufferedSchema) Fields() []parquet.Field { return s.fields }

// A typedField is a column with another type.
type typedField struct {
	parquet.Field
	typ parquet.Type
}

func (f typedField) Type() parquet.Type { return f.typ }

// A bufferedType is the type of a column that is not encoded with a dictionary. It remembers the buffer that
// the column writer creates with its first values, which may be none.
type bufferedType struct {
	parquet.Type
	buffer parquet.ColumnBuffer
}

func (t *bufferedType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	switch t.Kind() {
	case parquet.Int32:
		t.buffer = &numberBuffer[int32]{ColumnBuffer: t.Type.NewColumnBuffer(column, 0)}
	case parquet.Int64:
		t.buffer = &numberBuffer[int64]{ColumnBuffer: t.Type.NewColumnBuffer(column, 0)}
	default:
		t.buffer = t.Type.NewColumnBuffer(column, values)
	}
	return t.buffer
}

// A numberBuffer is the buffer of a column of whole numbers. It keeps its memory from page to page, returns it
// to Recycled when the file is complete, and computes the bounds of a page while it copies the numbers.
type numberBuffer[T int32 | int64] struct {
	parquet.ColumnBuffer // without numbers
	numbers              []T
	least, greatest      T
	short                []int32 // see shortType
}

func (b *numberBuffer[T]) add(numbers []T) {
	if len(numbers) == 0 {
		return
	}
	if len(b.numbers) == 0 {
		b.least = numbers[0]
		b.greatest = numbers[0]
	}
	least := b.least
	greatest := b.greatest
	for _, n := range numbers {
		least = min(least, n)
		greatest = max(greatest, n)
	}
	b.least = least
	b.greatest = greatest
	b.numbers = append(withRoom(b.numbers, len(numbers)), numbers...)
}

// withRoom returns numbers with memory of Recycled for more of them.
func withRoom[T int32 | int64](numbers []T, more int) []T {
	n := len(numbers)
	if n+more <= cap(numbers) {
		return numbers
	}
	all := Recycled.Reallocate((n+more)*int(unsafe.Sizeof(T(0))), arrow.GetBytes(numbers))
	return arrow.GetData[T](all[:cap(all)])[:n]
}

// release returns the memory of the buffer to Recycled.
func (b *numberBuffer[T]) release() {
	Recycled.Free(arrow.GetBytes(b.numbers[:cap(b.numbers)]))
	Recycled.Free(arrow.GetBytes(b.short[:cap(b.short)]))
	b.numbers = nil
	b.short = nil
}

// Len returns the number of rows of the open page.
func (b *numberBuffer[T]) Len() int { return len(b.numbers) }

// Size returns the size of the open page in bytes.
func (b *numberBuffer[T]) Size() int64 { return int64(len(arrow.GetBytes(b.numbers))) }

// Reset removes all rows.
func (b *numberBuffer[T]) Reset() { b.numbers = b.numbers[:0] }

// Page returns the open page.
func (b *numberBuffer[T]) Page() parquet.Page { return numberPage[T]{b.ColumnBuffer.Page(), b} }

// A numberPage is the open page of a numberBuffer.
type numberPage[T int32 | int64] struct {
	parquet.Page // without numbers
	of           *numberBuffer[T]
}

// NumRows returns the number of rows.
func (p numberPage[T]) NumRows() int64 { return int64(len(p.of.numbers)) }

// NumValues returns the number of rows.
func (p numberPage[T]) NumValues() int64 { return p.NumRows() }

// Size returns the size of the numbers in bytes.
func (p numberPage[T]) Size() int64 { return p.of.Size() }

// Type returns the type of the column.
func (p numberPage[T]) Type() parquet.Type {
	if b, ok := any(p.of).(*numberBuffer[int64]); ok {
		return shortType{p.Page.Type(), b}
	}
	return p.Page.Type()
}

// A shortType is the type of a column of int64, whose open page is of.
type shortType struct {
	parquet.Type
	of *numberBuffer[int64]
}

// Encode encodes the open page. The differences of numbers from 0 to 2^31-1 have the same bytes as those of
// int32. parquet-go encodes these in less time, but only if they have at most 16 bits.
func (t shortType) Encode(to []byte, page encoding.Values, by encoding.Encoding) ([]byte, error) {
	b := t.of
	if by.Encoding() != format.DeltaBinaryPacked || b.least < 0 || b.greatest > math.MaxInt32 {
		return t.Type.Encode(to, page, by)
	}
	if b.greatest-b.least >= 1<<15 {
		return appendDeltas(to[:0], b.numbers), nil
	}
	b.short = withRoom(b.short[:0], len(b.numbers))
	for _, n := range b.numbers {
		b.short = append(b.short, int32(n))
	}
	return by.EncodeInt32(to, b.short)
}

// Data returns the numbers.
func (p numberPage[T]) Data() encoding.Values {
	switch numbers := any(p.of.numbers).(type) {
	case []int32:
		return encoding.Int32Values(numbers)
	case []int64:
		return encoding.Int64Values(numbers)
	}
	return encoding.Values{}
}

// Bounds returns the least and the greatest number.
func (p numberPage[T]) Bounds() (least, greatest parquet.Value, ok bool) {
	return parquet.ValueOf(p.of.least), parquet.ValueOf(p.of.greatest), len(p.of.numbers) > 0
}

// takesSlices reports whether the buffer of a column takes slices (writeSlice): it has numbers or Booleans
// without nulls, and no dictionary.
func takesSlices(f parquet.Field) bool {
	if !f.Leaf() || !f.Required() || f.Encoding() == encoding.Encoding(&parquet.RLEDictionary) {
		return false
	}
	switch f.Type().Kind() {
	case parquet.Int32, parquet.Int64, parquet.Double, parquet.Boolean:
		return true
	}
	return false
}

// writeSlice appends values to the open page of a column. It does not begin another page.
func writeSlice[T int32 | int64 | float64 | bool](to *bufferedType, values []T) (err error) {
	switch values := any(values).(type) {
	case []int32:
		if b, ok := to.buffer.(*numberBuffer[int32]); ok {
			b.add(values)
			return nil
		}
	case []int64:
		if b, ok := to.buffer.(*numberBuffer[int64]); ok {
			b.add(values)
			return nil
		}
	case []bool:
		if b, ok := to.buffer.(parquet.BooleanWriter); ok {
			_, err = b.WriteBooleans(values)
			return err
		}
	case []float64:
		if b, ok := to.buffer.(parquet.DoubleWriter); ok {
			_, err = b.WriteDoubles(values)
			return err
		}
	}
	return fmt.Errorf("a column of type %s takes no %T", to.Kind(), values)
}

// A keyType is the type of a column with a dictionary and the same value in all rows.
type keyType struct{ parquet.Type }

func (t keyType) NewDictionary(column, values int, data encoding.Values) parquet.Dictionary {
	return keyDictionary{t.Type.NewDictionary(column, values, data)}
}

type keyDictionary struct{ parquet.Dictionary }

func (d keyDictionary) Type() parquet.Type { return keyIndexType{d.Dictionary.Type()} }

// A keyIndexType is the type of the column's indexes into the dictionary.
type keyIndexType struct{ parquet.Type }

func (t keyIndexType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	return &keyBuffer{newIndexBuffer(t.Type, column)}
}

// A keyBuffer is the buffer of a column with the same value in all rows. All indexes are 0.
type keyBuffer struct{ indexBuffer }

// WriteValues adds rows.
func (b *keyBuffer) WriteValues(values []parquet.Value) (int, error) {
	clear(b.add(len(values)))
	dictionary := b.Dictionary()
	if dictionary.Len() == 0 && len(values) > 0 { // a new row group
		dictionary.Insert(make([]int32, 1), values[:1])
	}
	return len(values), nil
}

// Page returns the open page.
func (b *keyBuffer) Page() parquet.Page { return keyPage{b.indexBuffer.Page()} }

// A keyPage is a page with the same value in all rows.
type keyPage struct{ parquet.Page }

// Bounds returns the value.
func (p keyPage) Bounds() (least, greatest parquet.Value, ok bool) {
	value := p.Dictionary().Index(0)
	return value, value, true
}
