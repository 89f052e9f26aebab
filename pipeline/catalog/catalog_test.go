package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"parsimon/pipeline/lake"
	"parsimon/queries"
)

// Views are written if they have changed, or if the catalog file is not the one that was written. Otherwise
// they are not written again.
func TestWriteLeavesViewsThatDidNotChange(t *testing.T) {
	dir := t.TempDir()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, queries.CatalogFile)
	write := func() os.FileInfo {
		t.Helper()
		if err := Write(l); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write()
	if !os.SameFile(first, write()) {
		t.Error("unchanged views were written again")
	}
	for name, change := range map[string]func() error{
		"catalog removed":   func() error { return os.Remove(path) },
		"catalog truncated": func() error { return os.Truncate(path, 10) },
		"other views noted": func() error {
			return os.WriteFile(filepath.Join(dir, writtenFile), []byte("x"), 0o644)
		},
		"note is a link": func() error {
			note := filepath.Join(dir, writtenFile)
			if err := os.Remove(note); err != nil {
				return err
			}
			return os.Symlink("../"+queries.CatalogFile, note)
		},
	} {
		before, err := os.Open(path) // prevents its inode from being reused
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		old, err := before.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		now := write()
		if os.SameFile(old, now) || now.Size() != first.Size() {
			t.Errorf("%s: the views were not written again", name)
		}
	}
}
