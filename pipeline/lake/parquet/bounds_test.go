package parquet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// Reading a value out of bounds fails with an error that names table, row and column. Without bounds, in a
// lake from an untrusted source, a link number of -1 would be used to index a slice, and a count of 2^40 to
// allocate one.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, links ...int32) string {
		path := filepath.Join(dir, name)
		rec := columns.RecordOf(schema.LinkClusters, links, func(link int32) columns.Row {
			return columns.Row{"link_id": link, "representative": int32(0), "distance": 0.0, "members": int32(1)}
		})
		defer rec.Release()
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(schema.LinkClusters, f)
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		links []int32
		want  string // in the error; empty: none
	}{
		"within":    {[]int32{0, 5, 9}, ""},
		"below":     {[]int32{0, -1}, "table link_clusters, row 2: link_id is -1, want 0 to 9"},
		"above":     {[]int32{10}, "table link_clusters, row 1: link_id is 10, want 0 to 9"},
		"above all": {[]int32{1<<31 - 1}, "row 1: link_id is 2147483647"},
	} {
		in := NewReader(schema.LinkClusters, os.Open, []string{write(name, c.links...)}, nil, nil).
			Within(Bounds{"link_id": {0, 9}})
		err := columns.ForEach(in, func(arrow.Record) error { return nil })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
