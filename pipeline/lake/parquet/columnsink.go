package parquet

import (
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/bitutil"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// A columnSink is an Arrow column being decoded, in Recycled memory.
type columnSink struct {
	typ    arrow.DataType
	rows   int
	values []byte // offsets, for strings
	used   int
	items  []byte // of strings
}

func newColumnSink(t arrow.DataType, rows int) *columnSink {
	s := &columnSink{typ: t, rows: rows}
	switch t.ID() {
	case arrow.BOOL:
		s.values = Recycled.Allocate((rows + 7) / 8)
	case arrow.STRING, arrow.BINARY:
		s.values = Recycled.Allocate(4 * (rows + 1))
		as[int32](s.values)[0] = 0
		s.used = 4
	default:
		s.values = Recycled.Allocate(rows * t.(arrow.FixedWidthDataType).Bytes())
	}
	return s
}

func (s *columnSink) free() {
	Recycled.Free(s.values)
	Recycled.Free(s.items)
}

// grow returns the memory of the next values.
func (s *columnSink) grow(bytes int) []byte {
	at := s.used
	s.used += bytes
	return s.values[at:s.used]
}

func (s *columnSink) bits(body []byte, from, to int) {
	if s.used == 0 {
		clear(s.values)
	}
	bitutil.CopyBitmap(body, from, to-from, s.values, s.used) // used counts bits here
	s.used += to - from
}

func (s *columnSink) room(bytes int) {
	need := len(s.items) + bytes
	if need <= cap(s.items) {
		return
	}
	more := Recycled.Allocate(max(need, 2*cap(s.items)))[:len(s.items)]
	copy(more, s.items)
	Recycled.Free(s.items)
	s.items = more
}

func (s *columnSink) appendItems(items []byte, offsets []uint32) error {
	first, last := offsets[0], offsets[len(offsets)-1]
	if int(last) > len(items) || first > last {
		return errPage
	}
	base := int32(len(s.items)) - int32(first)
	s.room(int(last - first))
	s.items = append(s.items, items[first:last]...)
	ends := as[int32](s.grow(4 * (len(offsets) - 1)))
	for i := range ends {
		ends[i] = base + int32(offsets[i+1])
	}
	return nil
}

// appendIndexed appends values of a dictionary by index.
func (s *columnSink) appendIndexed(indices []int32, d *dictionary) error {
	ends := as[int32](s.grow(4 * len(indices)))
	for i, p := range indices {
		if p < 0 || int(p) >= len(d.offsets)-1 {
			return errPage
		}
		item := d.items[d.offsets[p]:d.offsets[p+1]]
		if len(item) > 0 {
			s.room(len(item))
			s.items = append(s.items, item...)
		}
		ends[i] = int32(len(s.items))
	}
	return nil
}

// array returns the column. Its memory is used again once it is released.
func (s *columnSink) array() arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferWithAllocator(s.values, &Recycled)}
	if s.typ.ID() == arrow.STRING || s.typ.ID() == arrow.BINARY {
		buffers = append(buffers, memory.NewBufferWithAllocator(s.items, &Recycled))
	}
	data := array.NewData(s.typ, s.rows, buffers, nil, 0, 0)
	for _, b := range buffers[1:] {
		b.Release()
	}
	defer data.Release()
	return array.MakeFromData(data)
}

// as returns memory as numbers, without a remainder at its end.
func as[T int16 | int32 | int64](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
