package parquet

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// Columns with dictionaries and with nulls have their values in every page and row group: repeated and new
// ones, texts that the buffers do not know, and all, no or some rows that are null. Without this, rows would
// have the values of others.
func TestDictionariesAndNulls(t *testing.T) {
	const batch, batches = 9_000, 8 // two row groups, batches across pages
	number := func(row int) int32 { return int32(row*7919%100_003)*10 - 100 }
	rowOf := func(row int) columns.Row {
		r := columns.Row{
			"source": int32(1), "row": int64(row), "reverse": row%3 == 0, "src": number(row), "dst": int32(row % 5),
			"observer": fmt.Sprint("observer ", row%6_000), "size_bytes": int64(row), "start_ns": int64(row),
			"end_ns": int64(row), "resolution_ns": int64(0), "service": "", "vnet": []string{"a", "", "b"}[row/50%3],
		}
		someNull := row%7 < 3
		if !someNull {
			r["src_port"] = int32(row * 31 % 65_536)
			r["samples"] = int64(row%11) << 40
			r["dscp"] = int16(row % 64)
		}
		if row/batch%2 == 0 {
			r["packets"] = int64(math.MaxInt64) - int64(row)
			r["protocol"] = int16(6)
		}
		return r
	}
	file := filepath.Join(t.TempDir(), "records.parquet")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := NewWriter(schema.Records, out, Key{"workload", "w"})
	var want []string
	for b := range batches {
		rows := make([]int, batch)
		for i := range rows {
			rows[i] = b*batch + i
		}
		rec := columns.RecordOf(schema.Records, rows, rowOf)
		want = append(want, linesOf(rec)...)
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		rec.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = columns.ForEach(OpenFile(schema.Records, file), func(rec arrow.Record) error {
		got = append(got, linesOf(rec)...)
		return nil
	})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %v", len(got), len(want), err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("row %d is\n%s, want\n%s", i, got[i], want[i])
		}
	}
}

// Older files of a lake, and files of other programs, have numbers in dictionaries. Readers would otherwise find
// the indexes of these numbers.
func TestNumbersInDictionaries(t *testing.T) {
	type cluster struct {
		Link           int32   `parquet:"link_id,dict"`
		Representative int32   `parquet:"representative,dict"`
		Distance       float64 `parquet:"distance,dict"`
		Members        int32   `parquet:"members"`
	}
	var want []cluster
	for row := range int32(20_000) {
		want = append(want, cluster{row * 7 % 5_003, -row % 11, float64(row % 13), row})
	}
	file := filepath.Join(t.TempDir(), "clusters.parquet")
	if err := parquet.WriteFile(file, want); err != nil {
		t.Fatal(err)
	}
	type clusterRow struct {
		Link           int32   `col:"link_id"`
		Representative int32   `col:"representative"`
		Distance       float64 `col:"distance"`
		Members        int32   `col:"members"`
	}
	row := 0
	err := columns.Each(OpenForeign(schema.LinkClusters, file), func(got *clusterRow) error {
		if *got != clusterRow(want[row]) {
			t.Fatalf("row %d is %v, want %v", row, *got, want[row])
		}
		row++
		return nil
	})
	if err != nil || row != len(want) {
		t.Errorf("%d rows, want %d: %v", row, len(want), err)
	}
}

// linesOf returns the rows of a batch as texts.
func linesOf(rec arrow.Record) []string {
	lines := make([]string, rec.NumRows())
	for _, c := range rec.Columns() {
		for i := range lines {
			lines[i] += c.ValueStr(i) + " "
		}
	}
	return lines
}
