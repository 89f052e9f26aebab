package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
)

func writeFile(t *testing.T, path string, table schema.Table, recs ...arrow.Record) {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(table, &buf)
	for _, r := range recs {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, b schema.Batches, columns ...string) []arrow.Record {
	t.Helper()
	var out []arrow.Record
	for {
		rec, err := b.Next(columns...)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
}

// Every table survives a round trip through Parquet, for any boundaries of batches and row groups.
func TestParquetRoundTrip(t *testing.T) {
	for _, table := range schema.Tables() {
		t.Run(table.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			rows := 3000
			if table.Name != schema.DelayBuckets.Name {
				rows = rowGroupRows + 777
			}
			a := fixture.Batch(table, rng, 123)
			b := fixture.Batch(table, rng, rows)
			path := filepath.Join(t.TempDir(), "f.parquet")
			writeFile(t, path, table, a, b)
			got := readAll(t, openTable(table, []string{path}, nil))
			for ci, c := range table.Columns {
				parts := make([]arrow.Array, 0, len(got))
				for _, r := range got {
					parts = append(parts, r.Column(ci))
				}
				all, err := array.Concatenate(parts, memory.DefaultAllocator)
				if err != nil {
					t.Fatal(err)
				}
				want, err := array.Concatenate([]arrow.Array{a.Column(ci), b.Column(ci)}, memory.DefaultAllocator)
				if err != nil {
					t.Fatal(err)
				}
				if list, ok := all.(*array.List); ok { // the names of the list items may differ
					w := want.(*array.List)
					if !slices.Equal(w.Offsets(), list.Offsets()) || !array.Equal(w.ListValues(), list.ListValues()) {
						t.Errorf("column %s differs after the round trip", c.Name)
					}
				} else if !array.Equal(want, all) {
					t.Errorf("column %s differs after the round trip (%s, %s)", c.Name, want.DataType(), all.DataType())
				}
			}
		})
	}
}

func TestKeyRangePrunesRowGroups(t *testing.T) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.HopContributions.Arrow())
	rows := 5 * rowGroupRows
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Int16Builder).Append(0)
		b.Field(2).(*array.Int16Builder).Append(1)
		b.Field(3).(*array.Int32Builder).Append(1)
		b.Field(4).(*array.Float64Builder).Append(1)
		b.Field(5).(*array.Float64Builder).Append(0)
		b.Field(6).(*array.Int64Builder).Append(0)
		b.Field(7).(*array.Int64Builder).Append(0)
	}
	path := filepath.Join(t.TempDir(), "f.parquet")
	writeFile(t, path, schema.HopContributions, b.NewRecord())
	var n int64
	lo := int64(rowGroupRows + 5)
	hi := int64(2 * rowGroupRows)
	in := openTable(schema.HopContributions, []string{path}, &Range{Column: "flow_row", Lo: lo, Hi: hi})
	for _, rec := range readAll(t, in, "flow_row") {
		n += rec.NumRows()
		if rec.NumCols() != 1 {
			t.Errorf("read %d columns for one", rec.NumCols())
		}
	}
	if n != hi-lo { // the file is sorted by flow_row
		t.Errorf("read %d rows for a range of %d", n, hi-lo)
	}
}

// A truncated file, a file with a flipped byte anywhere in its footer, and a file of another format give an
// error that names the file, and never a panic.
func TestDamagedParquet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.parquet")
	writeFile(t, path, schema.Hops, fixture.Batch(schema.Hops, rand.New(rand.NewPCG(3, 4)), 5000))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, data []byte, mustFail bool) {
		bad := filepath.Join(dir, "bad.parquet")
		if err := os.WriteFile(bad, data, 0o644); err != nil {
			t.Fatal(err)
		}
		b := openTable(schema.Hops, []string{bad}, nil)
		defer b.Close()
		for {
			rec, err := b.Next()
			if err == nil {
				rec.Release()
				continue
			}
			if errors.Is(err, io.EOF) {
				if mustFail {
					t.Errorf("%s: read as if sound", name)
				}
			} else if !strings.Contains(err.Error(), "bad.parquet") {
				t.Errorf("%s: error does not name the file: %v", name, err)
			}
			return
		}
	}
	try("empty", nil, true)
	try("text", []byte("flow_id,src,dst\n1,2,3\n"), true)
	for _, cut := range []int{1, 8, len(good) / 2, len(good) - 1} {
		try(fmt.Sprintf("cut at %d", cut), good[:cut], true)
	}
	for i := range 400 { // a single flipped byte gives an error or other values, but never a panic
		data := bytes.Clone(good)
		data[(i*7919)%len(data)] ^= 0x55
		try(fmt.Sprintf("flip %d", i), data, false)
	}
	writeFile(t, path, schema.Nodes, fixture.Batch(schema.Nodes, rand.New(rand.NewPCG(3, 4)), 10))
	other, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try("another table", other, true)
}

func BenchmarkParquet(b *testing.B) {
	rec := fixture.Batch(schema.Hops, rand.New(rand.NewPCG(1, 2)), 65_536)
	b.Run("write", func(b *testing.B) {
		w := NewWriter(schema.Hops, io.Discard)
		for b.Loop() {
			if err := w.Write(rec); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*65.536/float64(b.Elapsed().Milliseconds()+1), "krows/ms")
	})
	b.Run("read", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "f.parquet")
		var buf bytes.Buffer
		w := NewWriter(schema.Hops, &buf)
		_ = w.Write(rec)
		_ = w.Close()
		_ = os.WriteFile(path, buf.Bytes(), 0o644)
		for b.Loop() {
			r := openTable(schema.Hops, []string{path}, nil)
			for {
				rec, err := r.Next()
				if err != nil {
					break
				}
				rec.Release()
			}
		}
		b.ReportMetric(float64(b.N)*65.536/float64(b.Elapsed().Milliseconds()+1), "krows/ms")
	})
}

// openTable streams files of a table.
func openTable(t schema.Table, files []string, keep *Range) schema.Batches {
	return NewReader(t, os.Open, files, keep, nil)
}
