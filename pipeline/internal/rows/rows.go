// Package rows reads what a lake holds, for tests: the committed rows of tables, answers of SQL, and which files there
// are.
package rows

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
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

// Text is every committed row of a table of a scenario and variant, one a line, in the order of the files; without some
// columns.
func Text(t testing.TB, dir string, table schema.Table, id lake.ScenarioID, variant string, without ...string) string {
	t.Helper()
	l := Open(t, dir)
	p := lake.Of(id)
	if table.Variant {
		p.Variant = variant
	}
	m, found, err := l.ReadManifest(p)
	if err != nil || !found {
		t.Fatalf("%s: manifest %v, %v", p, found, err)
	}
	files := lake.FilesOf(m.Files, table)
	if len(files) == 0 {
		t.Fatalf("%s has no files of table %s", p, table.Name)
	}
	var b strings.Builder
	value := func(text string) { b.WriteString(text + " ") }
	each(t, l.Read(table, files, nil, nil), without, value, func() { b.WriteByte('\n') })
	return b.String()
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
		read := func(in schema.Batches) { each(t, in, []string{"cached"}, value, func() { n++ }) }
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

// each calls value for each value of a stream, and row after those of a row. It closes the stream.
func each(t testing.TB, in schema.Batches, without []string, value func(string), row func()) {
	t.Helper()
	err := columns.Consume(in, func(rec arrow.Record) error {
		for i := range int(rec.NumRows()) {
			for c := range int(rec.NumCols()) {
				if !slices.Contains(without, rec.ColumnName(c)) {
					value(rec.Column(c).ValueStr(i))
				}
			}
			row()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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

// Files counts the data files of some tables that exist, of all scenarios and variants.
func Files(t testing.TB, dir string, tables ...schema.Table) (n int) {
	t.Helper()
	for _, table := range tables {
		n += len(paths(t, dir, table))
	}
	return n
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
