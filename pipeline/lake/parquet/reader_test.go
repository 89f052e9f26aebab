package parquet

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
	"parsimon/schema/footer"
)

// A range of the column that a file is sorted by returns exactly its rows, in every column, regardless of
// where the range begins and ends within pages and row groups.
func TestRangesOfSortedFiles(t *testing.T) {
	for _, table := range []schema.Table{schema.Hops, schema.Feedback, schema.HopObservations,
		schema.SenderFCTs} {
		t.Run(table.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			rows := 2*rowGroupRows + pageRows + 99
			random := fixture.Batch(table, rng, rows)
			key := table.Index(table.Sort[0])
			columns := append([]arrow.Array(nil), random.Columns()...)
			keys := array.NewBuilder(memory.DefaultAllocator, table.Columns[key].Type)
			value := func(row int) int64 { return int64(row / 7) }
			for row := range rows {
				switch b := keys.(type) {
				case *array.Int32Builder:
					b.Append(int32(value(row)))
				case *array.Int64Builder:
					b.Append(value(row))
				}
			}
			columns[key] = keys.NewArray()
			want := array.NewRecord(table.Arrow(), columns, int64(rows))
			path := filepath.Join(t.TempDir(), "f.parquet")
			writeFile(t, path, table, want)
			last := value(rows - 1)
			for _, r := range [][2]int64{{0, last + 1}, {-5, 1}, {last, last + 9}, {3, 3},
				{pageRows / 7, pageRows/7 + 1}, {1000, 4000}, {rowGroupRows/7 - 2, rowGroupRows/7 + 2},
				{2000, 2 * rowGroupRows / 7}} {
				from := 0
				to := 0
				for row := range rows {
					if value(row) < r[0] {
						from = row + 1
					}
					if value(row) < r[1] {
						to = row + 1
					}
				}
				at := from
				reader := openTable(table, []string{path}, &Range{Column: table.Sort[0], Lo: r[0], Hi: r[1]})
				for _, rec := range readAll(t, reader) {
					slice := want.NewSlice(int64(at), int64(at)+rec.NumRows())
					for c := range table.Columns {
						if !array.Equal(slice.Column(c), rec.Column(c)) {
							t.Fatalf("range %v: column %s differs from row %d on", r, table.Columns[c].Name, at)
						}
					}
					at += int(rec.NumRows())
				}
				if at != max(from, to) {
					t.Errorf("range %v: rows %d to %d, want %d to %d", r, from, at, from, to)
				}
			}
		})
	}
}

// A file whose rows are not in the sort order of its table is rejected, not read in part, even if the rows of
// each page are in order.
func TestUnsortedFile(t *testing.T) {
	random := fixture.Batch(schema.SenderFCTs, rand.New(rand.NewPCG(7, 8)), 4*pageRows)
	firsts := []int64{0, 3 * pageRows, pageRows, 5 * pageRows} // keys of the pages
	keys := array.NewInt64Builder(memory.DefaultAllocator)
	for row := range int64(4 * pageRows) {
		keys.Append(firsts[row/pageRows] + row%pageRows)
	}
	columns := append([]arrow.Array{keys.NewArray()}, random.Columns()[1:]...)
	swapped := array.NewRecord(random.Schema(), columns, random.NumRows())
	for name, rec := range map[string]arrow.Record{"random": random, "swapped pages": swapped} {
		path := filepath.Join(t.TempDir(), "f.parquet")
		writeFile(t, path, schema.SenderFCTs, rec)
		if _, err := openTable(schema.SenderFCTs, []string{path},
			&Range{Column: "flow_row", Lo: 3 * pageRows, Hi: 3*pageRows + 10}).Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: read without an error", name)
		}
	}
}

// A page index that declares more than it can contain is an error. parquet-go would allocate 50 GB for it.
func TestDamagedPageIndex(t *testing.T) {
	for _, index := range []string{"column", "offset"} {
		file, groups := rowGroupsOf(t, schema.SenderFCTs, 1000)
		chunk := groups[0].chunk(parquet.LeafColumn{})
		read := func() (err error) {
			if index == "column" {
				_, err = chunk.columnIndex(file)
			} else {
				_, err = chunk.offsetIndex(file)
			}
			return err
		}
		longest := chunk.indexBytes
		chunk.indexBytes = math.MaxInt32
		if err := read(); err == nil {
			t.Errorf("%s: an index of 2 GB is read", index)
		}
		chunk.indexBytes = longest
		at := groups[0].meta.Columns[0].OffsetIndexOffset
		list := byte(0x19) // field 1
		if index == "column" {
			at = groups[0].meta.Columns[0].ColumnIndexOffset
			list = 0x29
		}
		damaged, err := os.OpenFile(file.Name(), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := damaged.WriteAt(append([]byte{list, 0xf8}, "\xff\xff\xff\xff\x07"...), at); err != nil {
			t.Fatal(err)
		}
		if err := damaged.Close(); err != nil {
			t.Fatal(err)
		}
		var fault *footer.Error
		if err := read(); !errors.As(err, &fault) {
			t.Errorf("%s: an index with a list of 2^31-1 elements: %v", index, err)
		}
	}
}

// A few bytes of a file can repeat a long byte string many times. Columns that they make too long are errors:
// the offsets of Arrow have 31 bits.
func TestRepeatedBytes(t *testing.T) {
	dictionary := parquet.ByteArrayType.NewDictionary(0, 1, encoding.ByteArrayValues(make([]byte, 1<<20),
		[]uint32{0, 1 << 20}))
	page := dictionary.Type().NewPage(0, 1100, encoding.Int32Values(make([]int32, 1100)))
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	if err := appendBytes(b, page, 0, 2); err != nil || b.DataLen() != 2<<20 {
		t.Errorf("two rows of 1 MB are read as %d bytes: %v", b.DataLen(), err)
	}
	if err := appendBytes(b, page, 0, 1100); err == nil {
		t.Error("1100 rows of 1 MB are read")
	}
	if err := appendValue(b, parquet.ByteArrayValue(make([]byte, maxColumnBytes))); err == nil {
		t.Error("1 GB after 2 MB is read")
	}
}
