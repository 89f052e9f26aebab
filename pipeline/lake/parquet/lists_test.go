package parquet

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// Each list keeps its numbers: one or many, more than a page has, and none, in all rows or in some. Otherwise
// flows would draw the delays of other buckets.
func TestListsKeepTheirNumbers(t *testing.T) {
	lengths := []int{1, 100, 7, 513, 40_000, 2, 1, 1}
	cases := map[string]int{"no list is empty": 0, "some are empty": 3, "all are empty": 50_000}
	for name, least := range cases {
		var want [][]float64
		for row := range 3_000 {
			n := lengths[row%len(lengths)]
			if row > 20 {
				n = min(n, 11)
			}
			if n <= least {
				n = 0
			}
			var list []float64
			for i := range n {
				list = append(list, float64(row)+float64(i)/1e6)
			}
			want = append(want, list)
		}
		file := filepath.Join(t.TempDir(), "buckets.parquet")
		writeBuckets(t, file, want)
		row := 0
		in := OpenFile(schema.DelayBuckets, file)
		err := columns.ForEach(in, func(rec arrow.Record) error {
			lists := columns.Named(rec, "delays").(*array.List)
			numbers := lists.ListValues().(*array.Float64).Float64Values()
			for i := range lists.Len() {
				from, to := lists.ValueOffsets(i)
				if !slices.Equal(numbers[from:to], want[row]) {
					t.Fatalf("%s: row %d has %d numbers, want %d", name, row, to-from, len(want[row]))
				}
				row++
			}
			return nil
		})
		if err != nil || row != len(want) {
			t.Errorf("%s: %d rows, want %d, %v", name, row, len(want), err)
		}
	}
}

// A bucket is a row of table delay_buckets.
type bucket struct {
	LinkID       int32     `col:"link_id"`
	Bucket       int32     `col:"bucket"`
	SizeMinBytes int64     `col:"size_min_bytes"`
	SizeMaxBytes int64     `col:"size_max_bytes"`
	N            int64     `col:"n"`
	LargeN       int64     `col:"large_n"`
	SmallDelay   float64   `col:"small_delay"`
	LargeDelay   float64   `col:"large_delay"`
	Delays       []float64 `col:"delays"`
}

// writeBuckets writes table delay_buckets with these delays.
func writeBuckets(t *testing.T, file string, delays [][]float64) {
	t.Helper()
	var rows []bucket
	for _, list := range delays {
		rows = append(rows, bucket{Delays: list})
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(schema.DelayBuckets, out)
	err = errors.Join(columns.TableOf[bucket](schema.DelayBuckets).Write(w, rows), w.Close(), out.Close())
	if err != nil {
		t.Fatal(err)
	}
}
