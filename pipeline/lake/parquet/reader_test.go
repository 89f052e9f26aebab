package parquet

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
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

// A file whose rows are not in the sort order of its table is rejected, not read in part.
func TestUnsortedFile(t *testing.T) {
	random := fixture.Batch(schema.SenderFCTs, rand.New(rand.NewPCG(7, 8)), 1000)
	path := filepath.Join(t.TempDir(), "f.parquet")
	writeFile(t, path, schema.SenderFCTs, random)
	if _, err := openTable(schema.SenderFCTs, []string{path},
		&Range{Column: "flow_row", Lo: 0, Hi: 10}).Next(); err == nil {
		t.Error("read without an error")
	}
}
