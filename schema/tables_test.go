package schema

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
)

// Every table has descriptions and a key. Keys and sort orders name columns, and names of columns end with
// their unit.
func TestTablesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range Tables() {
		if seen[table.Name] {
			t.Errorf("two tables %s", table.Name)
		}
		seen[table.Name] = true
		if table.Doc == "" || table.Grain == "" || len(table.Key) == 0 {
			t.Errorf("%s: no doc, grain or key", table.Name)
		}
		columns := map[string]bool{}
		for _, c := range table.Columns {
			if columns[c.Name] || c.Doc == "" {
				t.Errorf("%s.%s is defined twice or has no doc", table.Name, c.Name)
			}
			columns[c.Name] = true
			for suffix, unit := range map[string]string{"_ns": "ns", "_bytes": "bytes", "_bps": "bps"} {
				if strings.HasSuffix(c.Name, suffix) != (c.Unit == unit) && c.Name != "bytes" {
					t.Errorf("%s.%s has unit %q", table.Name, c.Name, c.Unit)
				}
			}
		}
		for _, name := range slices.Concat(table.Key, table.Sort) {
			if !columns[name] {
				t.Errorf("%s: no column %s", table.Name, name)
			}
		}
		s := table.Arrow()
		if s.NumFields() != len(table.Columns) {
			t.Errorf("%s: %d Arrow fields for %d columns", table.Name, s.NumFields(), len(table.Columns))
		}
		if v, ok := s.Metadata().GetValue(VersionKey); !ok || v != strconv.Itoa(Version) {
			t.Errorf("%s: schema version %q", table.Name, v)
		}
		for i, c := range table.Columns {
			if table.Index(c.Name) != i || !arrow.TypeEqual(s.Field(i).Type, c.Type) {
				t.Errorf("%s.%s is not column %d", table.Name, c.Name, i)
			}
		}
		if got, err := ByName(table.Name); err != nil || got.Name != table.Name {
			t.Errorf("ByName(%s): %v", table.Name, err)
		}
	}
	if _, err := ByName("nonsense"); err == nil {
		t.Error("there is a table nonsense")
	}
}

// The glossary names every view.
func TestGlossaryNamesViews(t *testing.T) {
	text, err := os.ReadFile("GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range Tables() {
		for _, v := range table.Views() {
			name := strings.TrimSuffix(v.Name, AllVariants)
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("no `%s` in GLOSSARY.md", v.Name)
			}
		}
	}
}

// Imports between the top-level folders point one way. Otherwise no part could be understood alone.
func TestImportsPointOneWay(t *testing.T) {
	allowed := map[string][]string{
		"schema":    nil,
		"datasets":  nil,
		"simkernel": {"schema"},
		"stages":    {"simkernel", "schema", "queries/duckdb"},
		"queries":   {"schema"},
		"pipeline":  {"stages", "simkernel", "schema", "queries", "datasets"},
	}
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		folder := strings.Split(filepath.ToSlash(path), "/")[1]
		own, known := allowed[folder]
		if !known {
			t.Errorf("%s is in an unknown top-level folder", path)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(path, "_test.go")
		for _, imp := range f.Imports {
			full, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), "parsimon/")
			name, _, _ := strings.Cut(full, "/")
			allowed := slices.Contains(own, name) || slices.Contains(own, full)
			// Tests of ingest read and write Parquet files as the lake does.
			inTests := name == "datasets" || folder == "stages" && full == "pipeline/lake/parquet"
			if ours && name != folder && !allowed && !(test && inTests) {
				t.Errorf("%s imports %s", path, imp.Path.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 60 {
		t.Errorf("only %d Go files found", files)
	}
}
