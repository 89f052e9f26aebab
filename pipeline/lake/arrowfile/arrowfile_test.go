package arrowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

func TestMain(m *testing.M) {
	parquet.PoisonFreed = true
	os.Exit(m.Run())
}

// table is sorted by flow_row.
var table = schema.SenderFCTs

// temporary lists the tables that are stored as Arrow files.
func temporary() (tables []schema.Table) {
	for _, t := range schema.Tables() {
		if t.Temporary {
			tables = append(tables, t)
		}
	}
	return tables
}

// batch is n rows of a table; three rows in turn have the same key, from the given one on.
func batch(t schema.Table, seed uint64, first int64, n int) arrow.Record {
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = first + int64(i/3)
	}
	return fixture.Sorted(t, rand.New(rand.NewPCG(seed, 2)), keys)
}

// write writes batches to a file and returns the bounds that the reader needs.
func write(t *testing.T, path string, table schema.Table, recs ...arrow.Record) [][2]int64 {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(table, &out)
	rows := int64(0)
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		rows += rec.NumRows()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != rows {
		t.Errorf("%d rows written of %d", w.Rows(), rows)
	}
	fixture.WriteFile(t, path, out.String())
	return w.Bounds()
}

// read calls do for every batch of a stream, which it closes.
func read(t *testing.T, in schema.Batches, do func(rec arrow.Record)) {
	t.Helper()
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		do(rec)
		rec.Release()
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// opens opens files and counts how often.
func opens(n *int) func(path string) (*os.File, error) {
	return func(path string) (*os.File, error) {
		*n++
		return os.Open(path)
	}
}

// Every temporary table comes back as it was written, column by column, from several files of several batches.
func TestRoundTrip(t *testing.T) {
	for _, table := range append(temporary(), table) {
		t.Run(table.Name, func(t *testing.T) {
			dir := t.TempDir()
			paths := []string{filepath.Join(dir, "a.arrow"), filepath.Join(dir, "empty.arrow"), filepath.Join(dir, "b.arrow")}
			recs := []arrow.Record{batch(table, 1, 0, 700), batch(table, 2, 300, 1), batch(table, 3, 400, 65_536)}
			bounds := [][][2]int64{write(t, paths[0], table, recs[0], recs[1]), write(t, paths[1], table), write(t, paths[2], table, recs[2])}
			for _, columns := range [][]string{nil, {table.Columns[len(table.Columns)-1].Name, table.Sort[0]}} {
				at := 0
				read(t, NewReader(table, os.Open, paths, bounds, columns, nil), func(rec arrow.Record) {
					want := recs[at]
					at++
					names := columns
					if names == nil {
						for _, c := range table.Columns {
							names = append(names, c.Name)
						}
					}
					if int(rec.NumCols()) != len(names) {
						t.Fatalf("%d columns, want %v", rec.NumCols(), names)
					}
					for i, name := range names {
						if rec.ColumnName(i) != name || !array.Equal(rec.Column(i), want.Column(table.Index(name))) {
							t.Errorf("batch %d: column %s differs", at, name)
						}
					}
				})
				if at != len(recs) {
					t.Errorf("%d batches, want %d", at, len(recs))
				}
			}
			f, err := os.Open(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if rows, err := Rows(f); rows != 701 || err != nil {
				t.Errorf("%d rows, %v", rows, err)
			}
		})
	}
}

// A range gives its rows, all of them and no others. Batches outside of it are not read, and files that have only such
// batches are not opened.
func TestRangesReadOnlyTheirBatches(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a.arrow"), filepath.Join(dir, "b.arrow")}
	keys := func(first int64) arrow.Record { return batch(table, uint64(first), first, 300) } // first to first + 99
	bounds := [][][2]int64{write(t, paths[0], table, keys(0), keys(100), keys(200)), write(t, paths[1], table, keys(1000))}
	if got := fmt.Sprint(bounds); got != "[[[0 99] [100 199] [200 299]] [[1000 1099]]]" {
		t.Errorf("bounds %s", got)
	}
	for _, c := range []struct{ lo, hi, from, to, batches, files int64 }{
		{0, 2000, 0, 2000, 4, 2}, {-9, 1, 0, 1, 1, 1}, {100, 200, 100, 200, 1, 1}, {99, 101, 99, 101, 2, 1}, {150, 151, 150, 151, 1, 1},
		{250, 1050, 250, 1050, 2, 2}, {300, 1000, 0, 0, 0, 0}, {1099, 1100, 1099, 1100, 1, 1}, {5, 5, 0, 0, 0, 0}, {2000, 3000, 0, 0, 0, 0},
	} {
		files, batches, rows := 0, int64(0), int64(0)
		in := NewReader(table, opens(&files), paths, bounds, []string{"flow_row"}, &parquet.Range{Column: "flow_row", Lo: c.lo, Hi: c.hi})
		read(t, in, func(rec arrow.Record) {
			batches++
			rows += rec.NumRows()
			for _, k := range rec.Column(0).(*array.Int64).Int64Values() {
				if k < c.from || k >= c.to {
					t.Errorf("%d to %d: row %d", c.lo, c.hi, k)
				}
			}
		})
		want := int64(0)
		for _, file := range [][2]int64{{0, 300}, {1000, 1100}} {
			want += 3 * max(0, min(c.to, file[1])-max(c.from, file[0]))
		}
		if rows != want || batches != c.batches || int64(files) != c.files {
			t.Errorf("%d to %d: %d rows of %d batches of %d files, want %d of %d of %d", c.lo, c.hi, rows, batches, files, want, c.batches, c.files)
		}
	}
	files, rows := 0, int64(0)
	read(t, NewReader(table, opens(&files), paths, make([][][2]int64, 2), nil, &parquet.Range{Column: "flow_row", Lo: 150, Hi: 151}), func(rec arrow.Record) { rows += rec.NumRows() })
	if rows != 3 || files != 2 {
		t.Errorf("without bounds: %d rows of %d files, want 3 of 2", rows, files)
	}
}

// A table whose rows cannot be pruned by their first sort column is refused when it is written.
func TestWriterRefusesOtherKeys(t *testing.T) {
	named := schema.Table{Name: "named", Sort: []string{"name"}, Columns: []schema.Column{{Name: "name", Type: arrow.BinaryTypes.String}}}
	rec := fixture.Batch(named, rand.New(rand.NewPCG(1, 1)), 3)
	defer rec.Release()
	if err := NewWriter(named, io.Discard).Write(rec); err == nil || !strings.Contains(err.Error(), "table named: cannot be sorted by a column of type utf8") {
		t.Errorf("%v", err)
	}
}

// Damaged bytes, anywhere, are an error with the file's name or other values, and never a panic. A file of another
// table is an error.
func TestDamage(t *testing.T) {
	for _, table := range []schema.Table{table, schema.HopObservations} {
		t.Run(table.Name, func(t *testing.T) { testDamage(t, table) })
	}
}

func testDamage(t *testing.T, table schema.Table) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.arrow")
	bounds := write(t, good, table, batch(table, 1, 0, 200), batch(table, 2, 400, 200))
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.arrow")
	try := func(what string, data []byte, mustFail bool) {
		t.Helper()
		fixture.WriteFile(t, bad, string(data))
		for _, b := range [][][2]int64{bounds, nil, {{0, 1}, {2, 3}, {4, 5}}} { // also bounds of another file
			in := NewReader(table, os.Open, []string{bad}, [][][2]int64{b}, nil, nil)
			rec, err := in.Next()
			for err == nil {
				useAll(rec)
				rec.Release()
				rec, err = in.Next()
			}
			switch {
			case errors.Is(err, io.EOF) && mustFail:
				t.Errorf("%s: read to the end", what)
			case !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "bad.arrow"):
				t.Errorf("%s: the error does not name the file: %v", what, err)
			}
			_ = in.Close() // whatever state it is in
		}
		f, err := os.Open(bad)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := Rows(f); err == nil && mustFail {
			t.Errorf("%s: its rows are counted", what)
		}
	}
	try("empty", nil, true)
	try("text", []byte("flow_id,src,dst\n1,2,3\n"), true)
	for _, cut := range []int{1, 8, 100, len(data) / 2, len(data) - 1} {
		try(fmt.Sprintf("cut at %d", cut), data[:cut], true)
	}
	for i := range 600 {
		flipped := bytes.Clone(data)
		at := (i * 7919) % len(flipped)
		switch i % 3 { // the footer and the beginning are what is decoded
		case 0:
			at = len(flipped) - 1 - i
		case 1:
			at = i
		}
		flipped[at] ^= 0x55
		try(fmt.Sprintf("byte %d", at), flipped, false)
	}
	other := filepath.Join(dir, "other.arrow")
	write(t, other, schema.Feedback, batch(schema.Feedback, 1, 0, 10))
	if _, err := NewReader(table, os.Open, []string{other}, [][][2]int64{nil}, nil, nil).Next(); err == nil || !strings.Contains(err.Error(), "not a file of table "+table.Name) {
		t.Errorf("another table: %v", err)
	}
	if _, err := NewReader(table, os.Open, []string{filepath.Join(dir, "none")}, [][][2]int64{nil}, nil, nil).Next(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// useAll takes every value of a batch.
func useAll(rec arrow.Record) {
	for _, c := range rec.Columns() {
		for row := range c.Len() {
			_ = c.ValueStr(row)
		}
	}
}
