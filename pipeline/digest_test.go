package pipeline

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// RowDigest hashes every committed row of the given tables of all scenarios of a lake, including rows of
// temporary tables that were kept. It omits column cached of link_stats, which only says whether a result
// came from the cache.
func RowDigest(t testing.TB, dir string, tables ...schema.Table) string {
	t.Helper()
	l := openLake(t, dir)
	manifests, err := l.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a()
	n := 0
	for _, table := range tables {
		var files []lake.DataFile
		for _, m := range manifests {
			files = append(files, lake.FilesOf(m.Files, table)...)
		}
		value := func(text string) { _, _ = h.Write(append([]byte(text), 0)) }
		read := func(in schema.Batches) { n += eachValue(t, in, value) }
		read(l.Read(table, files, nil))
		if table.Temporary {
			for _, path := range dataPaths(t, dir, table) {
				read(parquet.OpenFile(table, filepath.Join(dir, path)))
			}
		}
		if n == 0 {
			t.Fatalf("no rows of table %s", table.Name)
		}
	}
	return fmt.Sprintf("%d rows %x", n, h.Sum64())
}

// eachValue calls value for each value of a stream, except those of column cached. It closes the stream and
// returns the number of its rows.
func eachValue(t testing.TB, in schema.Batches, value func(string)) (n int) {
	t.Helper()
	err := columns.ForEach(in, func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			for c := range int(rec.NumCols()) {
				if rec.ColumnName(c) != "cached" {
					value(rec.Column(c).ValueStr(i))
				}
			}
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dataPaths returns the lake-relative paths of the existing data files of a table, in all scenarios and
// variants.
func dataPaths(t testing.TB, dir string, table schema.Table) []string {
	t.Helper()
	pattern := filepath.Join(dir, table.Name, "*", "part-*")
	if table.Variant {
		pattern = filepath.Join(dir, table.Name, "*", "variant=*", "part-*")
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if found[i], err = filepath.Rel(dir, found[i]); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
