package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"

	"parsimon/schema"
)

// Columns of numbers without nulls are most of what a lake has. This file decodes their pages into the memory
// of an Arrow column:
//
//	file ─ one read ─→ pages of a column chunk ─ header, checksum, codec ─→ delta or plain ─→ column
//
// parquet-go reads each page separately, decodes its header by reflection and the values into memory of its
// own. The decoder takes only pages as a Writer writes them, and leaves other column chunks to parquet-go.

// maxChunkBytes and maxPageRows limit the size of a column chunk, and of a page, that numbers reads. They also
// limit the length of a page index, and the rows of a row group.
const maxChunkBytes, maxPageRows = 1 << 20, 1 << 17

// A columnChunk is a column chunk of an open file.
type columnChunk struct {
	*parquet.FileColumnChunk
	meta       *format.ColumnMetaData
	indexBytes int32 // length of the longer one of its page indexes
	rows       int64
}

// hasNumbers reports whether numbers can read a column chunk: it has numbers without nulls, and no dictionary.
func (c columnChunk) hasNumbers(of schema.Column) bool {
	switch of.Type.ID() {
	case arrow.INT16, arrow.INT32, arrow.INT64, arrow.FLOAT64:
	default:
		return false
	}
	codecs := []format.CompressionCodec{format.Uncompressed, format.Zstd, format.Snappy}
	return slices.Contains(codecs, c.meta.Codec) && c.Node().Required() && c.meta.DictionaryPageOffset == 0
}

// numbers reads rows from..to of a column chunk. ok is false if parquet-go has to read it.
func (d *decoder) numbers(
	in io.ReaderAt, chunk columnChunk, c schema.Column, from, to int64,
) (column arrow.Array, ok bool, err error) {
	if !chunk.hasNumbers(c) || from >= to || to-from > maxPageRows {
		return nil, false, nil
	}
	first, pages, ok, err := d.pages(in, chunk, from, to)
	if err != nil || !ok {
		return nil, false, err
	}
	rows := int(to - from)
	width := c.Type.(arrow.FixedWidthDataType).Bytes()
	out := memory.NewResizableBuffer(&Recycled)
	defer out.Release()
	out.Resize(rows * width)
	for at := 0; at < rows; {
		h, ok := readPageHeader(pages)
		if !ok {
			return nil, false, nil
		}
		page := pages[h.length:][:h.compressed]
		pages = pages[h.length+h.compressed:]
		lo := max(0, from-first)
		hi := min(h.rows, to-first)
		first += h.rows
		if lo >= hi {
			continue
		}
		if page, err = d.decompressed(chunk.meta.Codec, h, page); err != nil {
			return nil, false, err
		}
		place := out.Bytes()[at*width:][:int(hi-lo)*width]
		if ok, err := d.decode(c.Type.ID(), place, h, page, int(lo)); err != nil || !ok {
			return nil, false, err
		}
		at += int(hi - lo)
	}
	data := array.NewData(c.Type, rows, []*memory.Buffer{nil, out}, nil, 0, 0)
	defer data.Release()
	return array.MakeFromData(data), true, nil
}

// pageZstd decompresses pages. It fails for a page that is longer than its place.
var pageZstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))

// zstdSlack is the memory beyond a page with which the decoder is fastest.
const zstdSlack = 32

// decompressed checks the checksum of a page, and decompresses the page.
func (d *decoder) decompressed(codec format.CompressionCodec, h pageHeader, page []byte) ([]byte, error) {
	if h.crc != 0 && h.crc != crc32.ChecksumIEEE(page) {
		return nil, errors.New("the checksum of a page is wrong")
	}
	if codec == format.Uncompressed || !h.isCompressed {
		return page, nil
	}
	d.page = slices.Grow(d.page[:0], int(h.uncompressed+zstdSlack))
	size := int64(0)
	var err error
	if codec == format.Snappy {
		var n int
		n, err = snappy.DecodedLen(page)
		size = int64(n)
		if err == nil && size == h.uncompressed {
			page, err = snappy.Decode(d.page[:size], page)
		}
	} else {
		page, err = pageZstd.DecodeAll(page, d.page[:0:h.uncompressed+zstdSlack])
		size = int64(len(page))
	}
	if err == nil && size != h.uncompressed {
		err = fmt.Errorf("a page of %d bytes has %d", h.uncompressed, size)
	}
	return page, err
}

// decode decodes rows of a page, from row lo on, until they fill the memory of a column. ok is false if
// parquet-go has to read the page.
func (d *decoder) decode(typ arrow.Type, to []byte, h pageHeader, page []byte, lo int) (ok bool, err error) {
	switch {
	case h.encoding == format.DeltaBinaryPacked && declared(page) != h.rows:
		return false, fmt.Errorf("a page of %d rows has %d values", h.rows, declared(page))
	case h.encoding == format.DeltaBinaryPacked && typ == arrow.INT64:
		d.int64s, err = decodeDeltas(deltas.DecodeInt64, d.int64s, arrow.Int64Traits.CastFromBytes(to), page, lo)
	case h.encoding == format.DeltaBinaryPacked && typ == arrow.INT32:
		d.int32s, err = decodeDeltas(deltas.DecodeInt32, d.int32s, arrow.Int32Traits.CastFromBytes(to), page, lo)
	case h.encoding == format.DeltaBinaryPacked && typ == arrow.INT16:
		d.int32s, err = deltas.DecodeInt32(d.int32s, page)
		if err == nil {
			narrow(arrow.Int16Traits.CastFromBytes(to), d.int32s[lo:])
		}
	case h.encoding == format.Plain && typ != arrow.INT16:
		width := 8
		if typ == arrow.INT32 {
			width = 4
		}
		if len(page) != int(h.rows)*width {
			return false, fmt.Errorf("a page of %d rows has %d bytes", h.rows, len(page))
		}
		copy(to, page[lo*width:])
	default:
		return false, nil
	}
	return true, err
}

var deltas delta.BinaryPackedEncoding

// declared returns the number of values that a page of differences declares to have, or -1 if it declares
// none. The decoder allocates memory for as many.
func declared(page []byte) int64 {
	var n uint64
	for range 3 { // values of a block, parts of a block, values
		v, length := binary.Uvarint(page)
		if length <= 0 {
			return -1
		}
		page = page[length:]
		n = v
	}
	return int64(min(n, math.MaxInt32))
}

// decodeDeltas decodes the values of a page from row lo on, until they fill to. It decodes a whole page to its
// place, and other pages to memory, which it returns.
func decodeDeltas[T int32 | int64](
	decode func([]T, []byte) ([]T, error), memory, to []T, page []byte, lo int,
) ([]T, error) {
	if lo == 0 && int64(len(to)) == declared(page) {
		_, err := decode(to[:len(to):len(to)], page)
		return memory, err
	}
	memory, err := decode(memory, page)
	if err == nil {
		copy(to, memory[lo:])
	}
	return memory, err
}

func narrow(to []int16, from []int32) {
	for i := range to {
		to[i] = int16(from[i])
	}
}

// pages reads the pages of a column chunk that have rows from..to. first is the number of their first row.
func (d *decoder) pages(in io.ReaderAt, chunk columnChunk, from, to int64) (
	first int64, pages []byte, ok bool, err error,
) {
	begin := chunk.meta.DataPageOffset
	end := begin + chunk.meta.TotalCompressedSize
	if from > 0 || to < chunk.rows {
		index, err := chunk.offsetIndex(in)
		if errors.Is(err, parquet.ErrMissingOffsetIndex) {
			return 0, nil, false, nil
		}
		if err != nil {
			return 0, nil, false, err
		}
		n := index.NumPages()
		page := max(0, sort.Search(n, func(i int) bool { return index.FirstRowIndex(i) > from })-1)
		next := sort.Search(n, func(i int) bool { return index.FirstRowIndex(i) >= to })
		if page < n {
			first = index.FirstRowIndex(page)
			begin = index.Offset(page)
		}
		if next < n {
			end = index.Offset(next)
		}
	}
	if first < 0 || first > from || begin < 0 || end < begin || end-begin > maxChunkBytes {
		return 0, nil, false, nil
	}
	d.bytes = slices.Grow(d.bytes[:0], int(end-begin))[:end-begin]
	if _, err := in.ReadAt(d.bytes, begin); err != nil {
		return 0, nil, false, err
	}
	return first, d.bytes, true, nil
}

// A pageHeader is the header of a data page without nulls (format.PageHeader).
type pageHeader struct {
	length       int64 // of the header itself, in bytes
	uncompressed int64 // length of the page in memory, in bytes
	compressed   int64 // length of the page in the file, in bytes
	crc          uint32
	rows         int64
	encoding     format.Encoding
	isCompressed bool
}

// Types of fields in Thrift's compact protocol.
const thriftTrue, thriftFalse, thriftInt32, thriftInt64, thriftStruct = 1, 2, 5, 6, 12

// readPageHeader reads the header of the first of some pages. ok is false if it is not that of a data page of
// the second version without nulls and levels, or if the page is longer than pages.
//
//	1 type · 2 uncompressed_page_size · 3 compressed_page_size · 4 crc · 8 { 1 num_values · 2 num_nulls ·
//	3 num_rows · 4 encoding · 5, 6 lengths of the levels · 7 is_compressed · 8 { 3 null_count } }
func readPageHeader(pages []byte) (h pageHeader, ok bool) {
	in := thriftFields{rest: pages}
	var page, data, statistics [9]int64 // by number of the field
	data[7] = 1
	in.read(&page, func() { in.read(&data, func() { in.read(&statistics, nil) }) })
	h = pageHeader{
		length:       int64(len(pages) - len(in.rest)),
		uncompressed: page[2],
		compressed:   page[3],
		crc:          uint32(page[4]),
		rows:         data[3],
		encoding:     format.Encoding(data[4]),
		isCompressed: data[7] != 0,
	}
	ok = !in.failed && format.PageType(page[1]) == format.DataPageV2 &&
		h.uncompressed >= 0 && h.uncompressed <= maxChunkBytes &&
		h.compressed >= 0 && h.compressed <= int64(len(in.rest)) &&
		h.rows > 0 && h.rows <= maxPageRows && data[1] == h.rows && data[2] == 0 && data[5]|data[6] == 0
	return h, ok
}

// thriftFields reads the fields of structures in Thrift's compact protocol.
type thriftFields struct {
	rest   []byte
	failed bool // other fields than those that a Writer writes, or too few bytes
}

// read reads a structure of numbers. It calls inner for field 8 if that is a structure.
func (f *thriftFields) read(to *[9]int64, inner func()) {
	for id := 0; !f.failed && len(f.rest) > 0; {
		b := f.rest[0]
		f.rest = f.rest[1:]
		if b == 0 {
			return
		}
		id += int(b >> 4)
		typ := b & 15
		switch {
		case b>>4 == 0 || id >= len(to):
			f.failed = true
		case typ == thriftTrue || typ == thriftFalse:
			to[id] = int64(thriftFalse - typ)
		case typ == thriftInt32 || typ == thriftInt64:
			v, n := binary.Varint(f.rest)
			f.failed = n <= 0
			f.rest = f.rest[max(0, n):]
			to[id] = v
		case typ == thriftStruct && id == 8 && inner != nil:
			inner()
		default:
			f.failed = true
		}
	}
	f.failed = true // no end
}
