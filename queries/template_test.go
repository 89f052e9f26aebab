package queries

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the template of catalogs")

// mostStaleViews is the number of views of the template that may be out of date. The view of a question takes
// about 10 milliseconds of every command that writes a catalog.
const mostStaleViews = 3

// With an old template, catalogs are right, but are written as slowly as without one.
func TestCatalogTemplateIsRecent(t *testing.T) {
	catalog, err := NewCatalog(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		writeTemplate(t, catalog.views)
		return
	}
	changed, removed := shippedTemplate().differences(catalog.views)
	if len(changed)+len(removed) > mostStaleViews {
		t.Errorf("%d views changed and %d were removed since queries/template was written: "+
			"go test ./queries -run TestCatalogTemplateIsRecent -update", len(changed), len(removed))
	}
}

// writeTemplate writes the template of catalogs with the given views.
func writeTemplate(t *testing.T, all []view) {
	t.Helper()
	path := filepath.Join(t.TempDir(), CatalogFile)
	if err := createCatalog(path, all, template{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	digests := viewDigests(all)
	for _, key := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(&lines, "%s %s\n", digests[key], key)
	}
	for name, content := range map[string][]byte{
		"catalog.duckdb.gz": packed.Bytes(), "views.txt": []byte(lines.String()),
	} {
		if err := os.WriteFile(filepath.Join("template", name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The columns of all questions have simple types. WriteKnown would write others as DuckDB does, for example
// lists not as JSON.
func TestQuestionsHaveSimpleColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), CatalogFile)
	if err := shippedTemplate().unpack(path); err != nil {
		t.Fatal(err)
	}
	db := openCatalog(t, path)
	defer func() { _ = db.Close() }()
	rows, err := db.Query("SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns := map[string]int{} // by question
	for rows.Next() {
		var view, column, kind string
		if err := rows.Scan(&view, &column, &kind); err != nil {
			t.Fatal(err)
		}
		if _, err := Get(view); err != nil {
			continue
		}
		columns[view]++
		simple := []string{"VARCHAR", "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"}
		if !slices.Contains(simple, kind) {
			t.Errorf("question %s, column %s: type %s", view, column, kind)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	all, err := List()
	if err != nil || len(columns) != len(all) {
		t.Errorf("%d of %d questions have columns: %v", len(columns), len(all), err)
	}
}

// A catalog is the same by the template, by an old one and by none. Otherwise the views that a user of DuckDB
// reads would depend on when the template was written.
func TestTemplatesDoNotChangeCatalogs(t *testing.T) {
	lake := makeKnownLake(t)
	files, err := findFiles(lake)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := NewCatalog(lake, files)
	if err != nil {
		t.Fatal(err)
	}
	old := shippedTemplate()
	for _, key := range []string{`VIEW "hops"`, `VIEW "p99_links"`, `MACRO TABLE "percentiles_of"`} {
		if old.digests[key] == "" {
			t.Fatalf("the template has no %s", key)
		}
		old.digests[key] = "of an earlier version"
	}
	old.digests[`VIEW "slowdown_cdf"`] = "" // it is new
	var want string
	for name, from := range map[string]template{"": {}, "template": shippedTemplate(), "old template": old} {
		path := filepath.Join(t.TempDir(), CatalogFile)
		if err := createCatalog(path, catalog.views, from); err != nil {
			t.Fatal(err)
		}
		got := entriesOf(t, path)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("by %q:\n%s", name, firstDifference(want, got))
		}
	}
}

// Views and macros that the program no longer has are not in the catalog, although the template has them.
func TestTemplateWithRemovedViews(t *testing.T) {
	catalog, err := NewCatalog(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.DeleteFunc(catalog.views, func(v view) bool {
		return !v.ofLake && !slices.Equal(v.needs, []string{"sql_of_" + v.name})
	})
	path := filepath.Join(t.TempDir(), CatalogFile)
	if err := createCatalog(path, kept, shippedTemplate()); err != nil {
		t.Fatal(err)
	}
	got := entriesOf(t, path)
	for entry, want := range map[string]bool{
		"view headline": false, "macro percentiles_of": false, "view slowdowns": true, "macro lake_files": true,
	} {
		if strings.Contains(got, "\n"+entry+" ") != want {
			t.Errorf("%s: want %t", entry, want)
		}
	}
}

// entriesOf lists everything in a catalog: views, their columns with comments, and macros. DuckDB writes the
// names of EXCLUDE in no fixed order, so they are omitted.
func entriesOf(t *testing.T, path string) string {
	t.Helper()
	db := openCatalog(t, path)
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all sql.NullString
	err := db.QueryRow(`WITH entries AS (
		SELECT concat_ws(' ', 'view', view_name, comment, sql) AS entry FROM duckdb_views() WHERE NOT internal
		UNION ALL SELECT concat_ws(' ', 'column', table_name, column_name, column_index, data_type, comment)
			FROM duckdb_columns() WHERE NOT internal
		UNION ALL SELECT concat_ws(' ', 'macro', function_name, function_type, parameters, macro_definition)
			FROM duckdb_functions() WHERE NOT internal
		UNION ALL SELECT concat_ws(' ', 'table', table_name) FROM duckdb_tables())
	SELECT string_agg(regexp_replace(replace(entry, chr(10), ' '), 'EXCLUDE \([^)]*\)', 'EXCLUDE', 'g'),
		chr(10) ORDER BY entry) FROM entries`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(all.String, "\n")
	if lines < 300 {
		t.Fatalf("%d entries", lines)
	}
	return all.String
}

// firstDifference returns where two texts begin to differ.
func firstDifference(one, other string) string {
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			from := max(0, i-200)
			return fmt.Sprintf("want …%.300s\ngot  …%.300s", one[from:], other[from:])
		}
	}
	return fmt.Sprintf("%d and %d bytes", len(one), len(other))
}
