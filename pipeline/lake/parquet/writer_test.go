package parquet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/pipeline/internal/fixture"
	"parsimon/schema"
)

// Programs that read single files filter by keys and days. Without them in every row of every page and row
// group, and in the statistics of row groups, these programs would lose rows.
func TestDerivedColumnsOfEveryRow(t *testing.T) {
	const batch, batches = 10_000, 5 // two row groups, with pages of 8,192 rows, and shorter ones at their ends
	rec := fixture.Batch(schema.Flows, rand.New(rand.NewPCG(1, 2)), batch)
	var buf bytes.Buffer
	w := NewWriter(schema.Flows, &buf, Key{"scenario", "s1"}, Key{"variant", ""})
	for range batches {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.RowGroups()) != 2 {
		t.Errorf("%d row groups, want 2", len(f.RowGroups()))
	}
	for column, key := range map[string]string{"scenario": "s1", "variant": ""} {
		want := slices.Repeat([]string{key}, batch*batches)
		if got := valuesOf(t, f, column, parquet.Value.String); !slices.Equal(got, want) {
			t.Errorf("column %s has %d values, not %d times %q", column, len(got), len(want), key)
		}
		for i, group := range f.RowGroups() {
			least, greatest, ok := chunkOf(t, f, group, column).Bounds()
			if !ok || least.String() != key || greatest.String() != key {
				t.Errorf("row group %d: column %s is from %q to %q, want %q", i, column, least, greatest, key)
			}
		}
	}
	starts := valuesOf(t, f, "start_ns", parquet.Value.Int64)
	times := valuesOf(t, f, schema.StartTime, parquet.Value.Int64)
	days := valuesOf(t, f, schema.StartDay, parquet.Value.Int32)
	if len(starts) != batch*batches || len(times) != len(starts) || len(days) != len(starts) {
		t.Fatalf("%d starts, %d times, %d days of %d rows", len(starts), len(times), len(days), batch*batches)
	}
	for i, ns := range starts {
		if times[i] != floorDivide(ns, 1_000) || int64(days[i]) != floorDivide(ns, 86_400_000_000_000) {
			t.Fatalf("row %d starts at %d ns, %d us, on day %d", i, ns, times[i], days[i])
		}
	}
}

// chunkOf returns a column of a row group.
func chunkOf(t *testing.T, f *parquet.File, group parquet.RowGroup, column string) *parquet.FileColumnChunk {
	t.Helper()
	leaf, ok := f.Schema().Lookup(column)
	if !ok {
		t.Fatalf("no column %s", column)
	}
	return group.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk)
}

// valuesOf returns a column of all rows.
func valuesOf[T any](t *testing.T, f *parquet.File, column string, value func(parquet.Value) T) (all []T) {
	t.Helper()
	for _, group := range f.RowGroups() {
		pages := chunkOf(t, f, group, column).Pages()
		for {
			page, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			values := make([]parquet.Value, page.NumValues())
			if _, err := page.Values().ReadValues(values); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			for _, v := range values {
				all = append(all, value(v))
			}
		}
		if err := pages.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
