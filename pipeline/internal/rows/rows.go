// Package rows reads what a lake holds, for tests: the committed rows of tables, answers of SQL, and which files there
// are.
package rows

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// Open opens a lake that exists.
func Open(t testing.TB, dir string) *lake.Lake {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Digest hashes every committed row of some tables of all scenarios of a lake, and those of temporary tables that were
// kept. Column cached of link_stats is left out: it says where a result is from.
func Digest(t testing.TB, dir string, tables ...schema.Table) string {
	t.Helper()
	l := Open(t, dir)
	manifests, err := l.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	h, n := fnv.New64a(), 0
	for _, table := range tables {
		var files []lake.DataFile
		for _, m := range manifests {
			files = append(files, lake.FilesOf(m.Files, table)...)
		}
		value := func(text string) { _, _ = h.Write(append([]byte(text), 0)) }
		read := func(in schema.Batches) { n += each(t, in, value) }
		read(l.Read(table, files, nil, nil))
		if table.Temporary {
			for _, path := range paths(t, dir, table) {
				read(parquet.OpenFile(table, filepath.Join(dir, path)))
			}
		}
		if n == 0 {
			t.Fatalf("no rows of table %s", table.Name)
		}
	}
	return fmt.Sprintf("%d rows %x", n, h.Sum64())
}

// each calls value for each value of a stream, but those of column cached. It closes the stream and counts its rows.
func each(t testing.TB, in schema.Batches, value func(string)) (n int) {
	t.Helper()
	err := columns.Consume(in, func(rec arrow.Record) error {
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

// paths are the lake-relative paths of the data files of a table that exist, of all scenarios and variants.
func paths(t testing.TB, dir string, table schema.Table) []string {
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

// Ask is the first row that a SELECT over the views of a lake returns, in brackets, values parted by spaces.
func Ask(t testing.TB, dir, text string) string {
	t.Helper()
	o, err := catalog.Options(Open(t, dir), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := queries.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer, err := db.SQL(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	values, err := answer.Next()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	line := fmt.Sprint(slices.Clone(values))
	if err := answer.Close(); err != nil {
		t.Fatal(err)
	}
	return line
}
