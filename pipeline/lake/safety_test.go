package lake

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parsimon/schema"
)

// outside creates a directory with one file beside the lake.
func outside(t *testing.T, l *Lake, name, content string) (dir string) {
	t.Helper()
	dir = filepath.Join(filepath.Dir(l.Path()), "outside")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// plant creates a symbolic link at a lake-relative path.
func plant(t *testing.T, l *Lake, target, path string) {
	t.Helper()
	at := filepath.Join(l.Path(), path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
}

// Symbolic links out of the lake are not followed by reads of state and data, by writes, or by removals.
func TestLinksOutOfTheLakeAreRefused(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	d := write(t, s, at, schema.Nodes, 0, 10)
	data, err := os.ReadFile(filepath.Join(l.Path(), d.Path))
	if err != nil {
		t.Fatal(err)
	}
	dir := outside(t, l, filepath.Base(d.Path), string(data)) // with exactly the bytes that were committed

	escapes := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("%s: %v", what, err)
		}
	}
	plant(t, l, filepath.Join(dir, filepath.Base(d.Path)), d.Path)
	_, err = count(l, schema.Nodes, d)
	escapes("reading a linked file", err)
	escapes("checking a linked file", l.Check(d))
	_, err = s.Share(d, at.File(schema.Nodes, 1))
	escapes("sharing a linked file", err)
	var v any
	plant(t, l, filepath.Join(dir, "state.json"), at.SpecPath())
	_, err = l.ReadState(at.SpecPath(), &v)
	escapes("reading a linked state file", err)

	plant(t, l, dir, at.Dir(schema.Nodes))
	_, err = count(l, schema.Nodes, d)
	escapes("reading from a linked directory", err)
	rec := rows(schema.Nodes, 1, 10)
	defer rec.Release()
	_, err = s.WriteFile(schema.Nodes, at, at.File(schema.Nodes, 7), rec)
	escapes("writing into a linked directory", err)
	if err := s.RemoveTable(schema.Nodes, at); err != nil {
		t.Error(err)
	}
	plant(t, l, dir, "_state/scenario=0123456789abcdef")
	_, err = l.Lock(t.Context(), Of("0123456789abcdef"))
	escapes("locking through a link", err)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("outside of the lake there are %v, %v", left, err)
	}
}

// Paths in state files cannot lead out of the lake.
func TestPathsOutOfTheLakeAreRefused(t *testing.T) {
	l := openLake(t)
	dir := outside(t, l, "x.parquet", "x")
	for _, path := range []string{"../outside/x.parquet", "nodes/../../outside/x.parquet",
		filepath.Join(dir, "x.parquet")} {
		if _, err := count(l, schema.Nodes, DataFile{Path: path, Rows: 1}); err == nil ||
			strings.Contains(err.Error(), "Parquet") {
			t.Errorf("%s: %v", path, err)
		}
		if err := l.CheckSize(DataFile{Path: path, Bytes: 1}); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// A named pipe instead of a file is refused. Opening it would block until a writer opens it, too.
func TestPipesAreRefused(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	d := write(t, s, at, schema.Nodes, 0, 10)
	for _, path := range []string{d.Path, at.StatePath("plan.json"), "_state/scenario=0123456789abcdef/lock"} {
		file := filepath.Join(l.Path(), path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(file)
		if err := syscall.Mkfifo(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var v any
	_, readState := l.ReadState(at.StatePath("plan.json"), &v)
	_, read := count(l, schema.Nodes, d)
	d.Bytes = 0 // the size of a pipe
	check := l.Check(d)
	_, lock := l.Lock(t.Context(), Of("0123456789abcdef"))
	for what, err := range map[string]error{"state": readState, "read": read, "check": check, "lock": lock} {
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
