package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/bitutil"
	"github.com/apache/arrow/go/v17/arrow/memory"
	arrowparquet "github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"parsimon/schema"
)

// What this program writes most is flat columns without nulls, in the few encodings of parquet.go. A
// columnReader decodes those, by parquet-go's decoders, straight into the memory of Arrow columns: several
// times faster than pqarrow, which reads everything else. And it decodes the pages that are wanted only.
type columnReader struct {
	raw     []byte // of a column chunk
	page    []byte // decompressed
	places  []int32
	words   []int64
	items   []byte
	offsets []uint32
	dict    dictionary
}

// A dictionary is what the values of a column chunk are named by.
type dictionary struct {
	numbers []int32
	items   []byte
	offsets []uint32
}

// flat says whether a columnReader can read a column of a file into Arrow's type.
func flat(f *parquetFile, column int, t arrow.DataType) bool {
	c := f.MetaData().Schema.Column(column)
	if c.MaxDefinitionLevel() != 0 || c.MaxRepetitionLevel() != 0 {
		return false
	}
	switch t.ID() {
	case arrow.INT16, arrow.INT32:
		return c.PhysicalType() == arrowparquet.Types.Int32
	case arrow.INT64:
		return c.PhysicalType() == arrowparquet.Types.Int64
	case arrow.FLOAT64:
		return c.PhysicalType() == arrowparquet.Types.Double
	case arrow.BOOL:
		return c.PhysicalType() == arrowparquet.Types.Boolean
	case arrow.STRING, arrow.BINARY:
		return c.PhysicalType() == arrowparquet.Types.ByteArray
	}
	return false
}

var errPage = errors.New("damaged Parquet file")

// read decodes rows from..to of a row group's column into an Arrow column.
func (r *columnReader) read(f *parquetFile, group, column, from, to int, t arrow.DataType) (arrow.Array, error) {
	rg := f.MetaData().RowGroup(group)
	chunk, err := rg.ColumnChunk(column)
	if err != nil {
		return nil, err
	}
	at := chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		at = min(at, chunk.DictionaryPageOffset())
	}
	size := chunk.TotalCompressedSize()
	if size < 0 || size > 1<<31 {
		return nil, errPage
	}
	if int64(cap(r.raw)) < size {
		r.raw = make([]byte, size+size/4)
	}
	r.raw = r.raw[:size]
	if _, err := f.bytes.ReadAt(r.raw, at); err != nil {
		return nil, err
	}
	out := newColumnSink(t, to-from)
	done := false
	defer func() {
		if !done {
			out.free()
		}
	}()
	input := bytes.NewReader(r.raw)
	var protocol thrift.CompactProtocol
	headers := thrift.NewDecoder(protocol.NewReader(input))
	for row := 0; row < to; {
		var h format.PageHeader
		if err := headers.Decode(&h); err != nil {
			return nil, fmt.Errorf("%w: %w", errPage, err)
		}
		begin := len(r.raw) - input.Len()
		end := begin + int(h.CompressedPageSize)
		if h.CompressedPageSize < 0 || end > len(r.raw) {
			return nil, errPage
		}
		if _, err := input.Seek(int64(end), 0); err != nil {
			return nil, err
		}
		if h.Type == format.DictionaryPage {
			body, err := r.body(r.raw[begin:end], chunk.Compression(), int(h.UncompressedPageSize))
			if err == nil {
				err = r.dict.read(body, t)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if h.Type != format.DataPageV2 || !h.DataPageHeaderV2.Valid {
			return nil, fmt.Errorf("%w: a page of type %v", errPage, h.Type)
		}
		v := h.DataPageHeaderV2.V
		n := int(v.NumValues)
		if n <= 0 || v.NumNulls != 0 || v.DefinitionLevelsByteLength != 0 || v.RepetitionLevelsByteLength != 0 {
			return nil, errPage
		}
		if row+n <= from { // before what is wanted
			row += n
			continue
		}
		codec := chunk.Compression()
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			codec = compress.Codecs.Uncompressed
		}
		body, err := r.body(r.raw[begin:end], codec, int(h.UncompressedPageSize))
		if err != nil {
			return nil, err
		}
		if err := r.decode(body, v.Encoding, n, max(0, from-row), min(n, to-row), out); err != nil {
			return nil, err
		}
		row += n
	}
	done = true
	return out.array(), nil
}

// flatPages says whether a columnReader knows a file's compression and its encodings.
func flatPages(f *parquetFile, group, column int) bool {
	chunk, err := f.MetaData().RowGroup(group).ColumnChunk(column)
	if err != nil {
		return false
	}
	if c := chunk.Compression(); c != compress.Codecs.Zstd && c != compress.Codecs.Uncompressed {
		return false
	}
	for _, e := range chunk.Encodings() {
		switch e {
		case arrowparquet.Encodings.Plain, arrowparquet.Encodings.RLE, arrowparquet.Encodings.RLEDict,
			arrowparquet.Encodings.DeltaBinaryPacked, arrowparquet.Encodings.DeltaLengthByteArray:
		default:
			return false
		}
	}
	return true
}

func (r *columnReader) body(raw []byte, codec compress.Compression, size int) (body []byte, err error) {
	if codec == compress.Codecs.Uncompressed {
		return raw, nil
	}
	r.page, err = zstdFast.Decode(r.page[:0], raw)
	if err == nil && len(r.page) != size {
		err = errPage
	}
	return r.page, err
}

// read takes the values of a dictionary page, which are plain.
func (d *dictionary) read(body []byte, t arrow.DataType) (err error) {
	switch t.ID() {
	case arrow.INT16, arrow.INT32:
		d.numbers = append(d.numbers[:0], as[int32](body)...)
	case arrow.STRING, arrow.BINARY:
		d.items, d.offsets, err = new(plain.Encoding).DecodeByteArray(d.items[:0], body, d.offsets[:0])
	default:
		err = fmt.Errorf("%w: a dictionary of type %s", errPage, t)
	}
	return err
}

// decode appends values from..to of a page of n to a column.
func (r *columnReader) decode(body []byte, e format.Encoding, n, from, to int, out *columnSink) (err error) {
	named := e == format.RLEDictionary
	if named {
		if r.places, err = new(rle.DictionaryEncoding).DecodeInt32(r.places[:0], body); err != nil {
			return err
		}
		if len(r.places) < n {
			return errPage
		}
	}
	switch out.typ.ID() {
	case arrow.INT16, arrow.INT32:
		numbers := as[int32](body)
		if named {
			numbers = r.places[:n]
			for i, p := range numbers {
				if int(p) >= len(r.dict.numbers) || p < 0 {
					return errPage
				}
				numbers[i] = r.dict.numbers[p]
			}
		} else if e != format.Plain || len(numbers) < n {
			return errPage
		}
		if out.typ.ID() == arrow.INT32 {
			copy(as[int32](out.grow(4*(to-from))), numbers[from:to])
			return nil
		}
		short := as[int16](out.grow(2 * (to - from)))
		for i := range short {
			short[i] = int16(numbers[from+i])
		}
	case arrow.INT64:
		if e == format.DeltaBinaryPacked && from == 0 && to == n { // in place
			room := as[int64](out.grow(8 * n))
			decoded, err := new(delta.BinaryPackedEncoding).DecodeInt64(room[:0], body)
			if err != nil || len(decoded) != n {
				return errors.Join(errPage, err)
			}
			if &decoded[0] != &room[0] {
				copy(room, decoded)
			}
			return nil
		}
		words := as[int64](body)
		if e == format.DeltaBinaryPacked {
			if r.words, err = new(delta.BinaryPackedEncoding).DecodeInt64(r.words[:0], body); err != nil {
				return err
			}
			words = r.words
		} else if e != format.Plain {
			return errPage
		}
		if len(words) < n {
			return errPage
		}
		copy(as[int64](out.grow(8*(to-from))), words[from:to])
	case arrow.FLOAT64:
		if e != format.Plain || len(body) < 8*n {
			return errPage
		}
		copy(out.grow(8*(to-from)), body[8*from:8*to])
	case arrow.BOOL:
		if e != format.Plain || len(body) < (n+7)/8 {
			return errPage
		}
		out.bits(body, from, to)
	case arrow.STRING, arrow.BINARY:
		if named {
			return out.appendNamed(r.places[from:to], &r.dict)
		}
		switch e {
		case format.Plain:
			r.items, r.offsets, err = new(plain.Encoding).DecodeByteArray(r.items[:0], body, r.offsets[:0])
		case format.DeltaLengthByteArray:
			r.items, r.offsets, err = new(delta.LengthByteArrayEncoding).DecodeByteArray(r.items[:0], body, r.offsets[:0])
		default:
			err = errPage
		}
		if err != nil {
			return err
		}
		if len(r.offsets) < n+1 {
			return errPage
		}
		return out.appendItems(r.items, r.offsets[from:to+1])
	}
	return nil
}

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

// grow is the place of the next values.
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

func (s *columnSink) appendNamed(places []int32, d *dictionary) error {
	ends := as[int32](s.grow(4 * len(places)))
	for i, p := range places {
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

// array is the column; it goes back to be used again when it is released.
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

// as is memory as numbers; what is left over does not count.
func as[T int16 | int32 | int64](b []byte) []T {
	var zero T
	n := len(b) / int(unsafe.Sizeof(zero))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// SortedRange finds the rows of an ascending key column whose keys are in [lo, hi).
func SortedRange(keys arrow.Array, lo, hi int64) (from, to int, err error) {
	switch a := keys.(type) {
	case *array.Int32:
		return rangeOf(a.Int32Values(), lo, hi)
	case *array.Int64:
		return rangeOf(a.Int64Values(), lo, hi)
	}
	return 0, keys.Len(), nil
}

func rangeOf[T int32 | int64](keys []T, lo, hi int64) (from, to int, err error) {
	for i, k := range keys {
		if i > 0 && k < keys[i-1] {
			return 0, 0, errors.New("its rows are not in order")
		}
		if int64(k) < lo {
			from = i + 1
		}
		if int64(k) < hi {
			to = i + 1
		}
	}
	return from, to, nil
}

// sorted says whether a table's rows ascend by a column.
func sorted(t schema.Table, column string) bool { return len(t.Sort) > 0 && t.Sort[0] == column }
