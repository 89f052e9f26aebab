package lake

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Litter lists the files of killed processes with their sizes, but not files that running processes are
// writing. The next session removes them.
func TestLitter(t *testing.T) {
	l := openLake(t)
	writing := lock(t, l, at)
	reading := l.LockForReading()
	files := map[string]string{
		"_tmp/catalog/parsimon.duckdb":             "1",
		".catalog-1/mine":                          "of another program",
		"_tmp/scenario=0123456789abcdef/new-1":     "22",
		"_tmp/workload=day/deep/new-1":             "333",
		"_tmp/" + at.owner() + "/new-1.of-at-work": "4444",
		"_tmp/queries/killed/duckdb_temp_1":        "55555",
	}
	for path, text := range files {
		file := filepath.Join(l.Path(), path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := []Litter{{"_tmp/catalog", 1}, {"_tmp/scenario=0123456789abcdef", 2}, {"_tmp/workload=day", 3}}
	if all, err := l.Litter(); err != nil || !slices.Equal(all, want) {
		t.Errorf("beside a query litter is %v, %v, want %v", all, err, want)
	}
	reading.Close()
	want = slices.Insert(want, 1, Litter{"_tmp/queries", 5})
	if all, err := l.Litter(); err != nil || !slices.Equal(all, want) {
		t.Errorf("litter %v, %v, want %v", all, err, want)
	}
	lock(t, l, Place{Workload: "other"}).Close()
	if all, err := l.Litter(); err != nil || !slices.Equal(all, want[:1]) {
		t.Errorf("after another session litter is %v, %v", all, err)
	}
	if err := l.RemoveCatalogTemp(); err != nil {
		t.Error(err)
	}
	writing.Close()
	if !l.Exists(".catalog-1/mine") {
		t.Error("a directory of another program was removed")
	}
	if all, err := l.Litter(); err != nil || len(all) > 0 {
		t.Errorf("after all sessions litter is %v, %v", all, err)
	}
}

// A query has a directory to spill to, which no other process treats as litter and its end removes. If the
// lake cannot be written, the query has none.
func TestBeginQuery(t *testing.T) {
	l := openLake(t)
	lock(t, l, at).Close() // makes the lock of readers
	dir, end := l.BeginQuery()
	if err := os.WriteFile(filepath.Join(dir, "duckdb_temp_1"), []byte("55555"), 0o644); err != nil {
		t.Fatal(err)
	}
	if all, err := l.Litter(); err != nil || len(all) > 0 {
		t.Errorf("beside the query litter is %v, %v", all, err)
	}
	end()
	if there(t, l, tmpDir) {
		t.Error("the query leaves its directory behind")
	}
	if err := os.WriteFile(filepath.Join(l.Path(), tmpDir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir, end = l.BeginQuery()
	if dir != "" {
		t.Errorf("the directory is %s", dir)
	}
	end()
}
