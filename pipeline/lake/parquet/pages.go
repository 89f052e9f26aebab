package parquet

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	arrowparquet "github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"parsimon/schema"
)

// What this program writes most is flat columns without nulls, in the few encodings of parquet.go. A
// columnReader decodes those, by parquet-go's decoders, straight into the memory of Arrow columns: several
// times faster than pqarrow, which reads everything else. And it decodes the pages that are wanted only.
type columnReader struct {
	raw     []byte  // of a column chunk
	page    []byte  // decompressed
	indices []int32 // into dict
	words   []int64
	items   []byte
	offsets []uint32
	dict    dictionary
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
	chunk, err := f.MetaData().RowGroup(group).ColumnChunk(column)
	if err != nil {
		return nil, err
	}
	if err := r.load(f, chunk); err != nil {
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
	headers := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(input))
	for row := 0; row < to; {
		var h format.PageHeader
		page, err := r.nextPage(headers, input, &h)
		if err != nil {
			return nil, err
		}
		if h.Type == format.DictionaryPage {
			body, err := r.body(page, chunk.Compression(), int(h.UncompressedPageSize))
			if err == nil {
				err = r.dict.read(body, t)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		n, err := rowsOf(&h)
		if err != nil {
			return nil, err
		}
		if row+n > from { // other pages are not decompressed
			err := r.readPage(page, &h, chunk.Compression(), rowRange{n, max(0, from-row), min(n, to-row)}, out)
			if err != nil {
				return nil, err
			}
		}
		row += n
	}
	done = true
	return out.array(), nil
}

// load reads the bytes of a column chunk into r.raw.
func (r *columnReader) load(f *parquetFile, chunk *metadata.ColumnChunkMetaData) error {
	at := chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		at = min(at, chunk.DictionaryPageOffset())
	}
	size := chunk.TotalCompressedSize()
	if size < 0 || size > 1<<31 {
		return errPage
	}
	if int64(cap(r.raw)) < size {
		r.raw = make([]byte, size+size/4)
	}
	r.raw = r.raw[:size]
	_, err := f.bytes.ReadAt(r.raw, at)
	return err
}

// nextPage decodes the header at the input's position, returns the compressed page and moves to the next header.
func (r *columnReader) nextPage(headers *thrift.Decoder, input *bytes.Reader, h *format.PageHeader) ([]byte, error) {
	if err := headers.Decode(h); err != nil {
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
	return r.raw[begin:end], nil
}

// rowsOf returns the rows of a data page, which must be of version 2, flat and without nulls.
func rowsOf(h *format.PageHeader) (int, error) {
	if h.Type != format.DataPageV2 || !h.DataPageHeaderV2.Valid {
		return 0, fmt.Errorf("%w: a page of type %v", errPage, h.Type)
	}
	v := h.DataPageHeaderV2.V
	if v.NumValues <= 0 || v.NumNulls != 0 || v.DefinitionLevelsByteLength != 0 || v.RepetitionLevelsByteLength != 0 {
		return 0, errPage
	}
	return int(v.NumValues), nil
}

// readPage appends some rows of a data page to a column.
func (r *columnReader) readPage(page []byte, h *format.PageHeader, codec compress.Compression, rows rowRange,
	out *columnSink) error {
	v := h.DataPageHeaderV2.V
	if v.IsCompressed.Valid && !v.IsCompressed.V {
		codec = compress.Codecs.Uncompressed
	}
	body, err := r.body(page, codec, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	return r.decode(body, v.Encoding, rows, out)
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
