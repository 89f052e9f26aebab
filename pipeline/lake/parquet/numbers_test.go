package parquet

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
)

// rowGroupsOf opens a file of a table with random rows.
func rowGroupsOf(t *testing.T, table schema.Table, rows int) (*os.File, []rowGroup) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.parquet")
	writeFile(t, path, table, fixture.Batch(table, rand.New(rand.NewPCG(9, 10)), rows))
	r := NewReader(table, os.Open, []string{path}, nil, nil)
	if err := r.openNext(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r.file, r.groups
}

// All columns of numbers that a Writer writes are decoded without parquet-go, to the same values: whole row
// groups, ranges that begin or end in a page, and single rows. Otherwise reading would be slow, or wrong.
func TestNumbersAsByParquetGo(t *testing.T) {
	for _, table := range []schema.Table{schema.Hops, schema.Slowdowns, schema.HopContributions,
		schema.SenderFCTs, schema.LinkStats} {
		file, groups := rowGroupsOf(t, table, 2*pageRows+77)
		for i, c := range table.Columns {
			chunk := groups[0].chunk(parquet.LeafColumn{ColumnIndex: i})
			isNumber := c.Type.ID() == arrow.FLOAT64 || arrow.IsInteger(c.Type.ID())
			for _, rows := range [][2]int64{{0, chunk.rows}, {1, chunk.rows}, {0, pageRows}, {pageRows - 1, pageRows + 1},
				{pageRows, 2 * pageRows}, {5, 6}, {2*pageRows + 76, chunk.rows}} {
				var d decoder
				got, ok, err := d.numbers(file, chunk, c, rows[0], rows[1])
				if err != nil || ok != (isNumber && !c.Nullable) {
					t.Fatalf("%s.%s, rows %v: read by numbers: %v, %v", table.Name, c.Name, rows, ok, err)
				}
				if !ok {
					continue
				}
				want, err := d.readValues(file, chunk, c, rows[0], rows[1])
				if err != nil || !array.Equal(got, want) {
					t.Errorf("%s.%s, rows %v: other values than parquet-go's, %v", table.Name, c.Name, rows, err)
				}
			}
		}
	}
}

// A damaged page is an error or left to parquet-go, never a panic: its header may declare any length, and its
// values may be fewer or more than its rows.
func TestDamagedNumbers(t *testing.T) {
	file, groups := rowGroupsOf(t, schema.SenderFCTs, 1000)
	chunk := groups[0].chunk(parquet.LeafColumn{})
	page := make([]byte, chunk.meta.TotalCompressedSize)
	if _, err := file.ReadAt(page, chunk.meta.DataPageOffset); err != nil {
		t.Fatal(err)
	}
	h, ok := readPageHeader(page)
	if !ok || h.rows != 1000 || h.length+h.compressed != int64(len(page)) {
		t.Fatalf("header %+v, %v", h, ok)
	}
	for n := range h.length + h.compressed {
		if h, ok := readPageHeader(page[:n]); ok {
			t.Errorf("%d bytes of the page have the header %+v", n, h)
		}
	}
	var d decoder
	values := page[h.length:]
	for i := range 60 * 255 {
		damaged := append([]byte(nil), page...)
		damaged[i/255] ^= byte(1 + i%255)
		_, _ = readPageHeader(damaged)
		if rows := declared(damaged[h.length:]); i/255 >= int(h.length) && rows == h.rows {
			_, _ = d.decode(arrow.INT64, make([]byte, 8*h.rows), h, damaged[h.length:], 0)
		}
	}
	h.rows--
	if _, err := d.decode(arrow.INT64, make([]byte, 8*h.rows), h, values, 0); err == nil {
		t.Error("a page with more values than rows is read")
	}
	if _, err := d.decompressed(chunk.meta.Codec, h, values[1:]); err == nil {
		t.Error("a page with another checksum is read")
	}
	for _, codec := range []compress.Codec{zstdFast, &snappy.Codec{}} {
		expectDamaged(t, codec)
	}
	h.encoding = 0
	if _, err := d.decode(arrow.INT64, make([]byte, 8*h.rows), h, values, 0); err == nil {
		t.Error("a page with fewer bytes than its numbers take is read")
	}
}

// expectDamaged expects an error for a page whose header declares another length than it has, without memory
// for many times as many bytes. A damaged page may have wrong bytes, but does not cause a panic.
func expectDamaged(t *testing.T, codec compress.Codec) {
	t.Helper()
	zeros := make([]byte, 1<<20)
	page, err := codec.Encode(nil, zeros)
	if err != nil {
		t.Fatal(err)
	}
	var d decoder
	h := pageHeader{isCompressed: true}
	for _, h.uncompressed = range []int64{1<<20 - 1, 1000, int64(len(page)), 1<<20 + 1} {
		if _, err := d.decompressed(codec.CompressionCodec(), h, page); err == nil || cap(d.page) > 2<<20 {
			t.Errorf("%s: a page of 1 MB is read, and its header declares %d bytes", codec, h.uncompressed)
		}
	}
	h.uncompressed = 1 << 20
	if got, err := d.decompressed(codec.CompressionCodec(), h, page); err != nil || !bytes.Equal(got, zeros) {
		t.Errorf("%s: %d bytes are read, %v", codec, len(got), err)
	}
	for i := range min(len(page), 100) {
		damaged := append([]byte(nil), page...)
		damaged[i] ^= 0x55
		_, _ = d.decompressed(codec.CompressionCodec(), h, damaged)
	}
}

// A row group that declares 2^40 rows is an error before memory for as many is allocated.
func TestRowsThatNoGroupHas(t *testing.T) {
	file, groups := rowGroupsOf(t, schema.SenderFCTs, 1000)
	chunk := groups[0].chunk(parquet.LeafColumn{})
	chunk.rows = 1 << 40
	var d decoder
	if _, err := d.read(file, chunk, schema.SenderFCTs.Columns[0], 0, chunk.rows); err == nil {
		t.Error("read without an error")
	}
	column := schema.HopContributions.Columns[schema.HopContributions.Index("case_delay_ns")]
	if _, err := emptyColumn(column, chunk.rows); err == nil {
		t.Error("a column that the file lacks is made without an error")
	}
}
