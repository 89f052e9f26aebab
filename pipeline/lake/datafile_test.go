package lake

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
)

// Check accepts a file that equals what its writer recorded, and finds any difference, in either format.
func TestCheckFindsDamage(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	for _, table := range []schema.Table{schema.Nodes, schema.HopObservations} {
		d := write(t, s, at, table, 0, 1000)
		n, err := count(l, table, d)
		if err != nil || n != 1000 || d.Rows != 1000 {
			t.Errorf("%s: %d rows, %v, %+v", table.Name, n, err, d)
		}
		sound := func(what string, want bool) {
			t.Helper()
			if err := l.Check(d); (err == nil) != want || err != nil && !strings.Contains(err.Error(), d.Path) {
				t.Errorf("%s, %s: %v", table.Name, what, err)
			}
		}
		sound("as written", true)
		change(t, l, d.Path, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
		sound("a bit", false)
		change(t, l, d.Path, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
		sound("written anew with the same bytes", true)
		change(t, l, d.Path, func(data []byte) []byte { return data[:len(data)-1] })
		sound("cut short", false)
		if err := os.Remove(filepath.Join(l.Path(), d.Path)); err != nil {
			t.Fatal(err)
		}
		sound("removed", false)
		if err := l.Check(d); IsCollected(err) != table.Temporary {
			t.Errorf("%s: removed: %v", table.Name, err)
		}
		if _, err := count(l, table, d); err == nil || IsCollected(err) != table.Temporary {
			t.Errorf("%s: reading a removed file: %v", table.Name, err)
		}
	}
}

// Check and Read find a corrupted byte even if the inode, time and size of the file have not changed.
func TestRottenByte(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	d := write(t, s, at, schema.Nodes, 0, 100)
	d.written = false // pretend that another process has written it
	file := filepath.Join(l.Path(), d.Path)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	change(t, l, d.Path, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(d); err == nil {
		t.Error("Check does not see it")
	}
	var damage *DamageError
	if _, err := count(l, schema.Nodes, d); !errors.As(err, &damage) {
		t.Errorf("Read: %v", err)
	}
}

// A file that this process has read is verified again if its bytes change later. Otherwise, a query that runs
// for hours could return wrong rows of a file that another program has overwritten.
func TestChangedAfterItWasVerified(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	d := write(t, s, at, schema.Nodes, 0, 100)
	d.written = false // pretend that another process has written it
	for range 2 {
		if _, err := count(l, schema.Nodes, d); err != nil {
			t.Fatal(err)
		}
	}
	change(t, l, d.Path, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
	var damage *DamageError
	if _, err := count(l, schema.Nodes, d); !errors.As(err, &damage) {
		t.Errorf("Read: %v", err)
	}
}

// A writer that fails leaves no file behind, and its error names the file.
func TestWriteErrorLeavesNothing(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	for _, table := range []schema.Table{schema.Nodes, schema.HopObservations} {
		path := at.File(table, 0)
		w, err := s.Create(table, at, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.file.Close(); err != nil { // every write fails from here on, like on a full disk
			t.Fatal(err)
		}
		rec := rows(table, 1, 100)
		_ = w.Write(rec) // a writer may report the error only when it flushes
		rec.Release()
		if _, err := w.Commit(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("commit: %v", err)
		}
		w.Abandon()
		if there(t, l, path) {
			t.Errorf("%s was installed", path)
		}
	}
	left, _ := os.ReadDir(s.TmpPath())
	if len(left) != 0 {
		t.Errorf("%d temporary files left", len(left))
	}
}

// A shared file takes no space, and stays when the original place is removed.
func TestShare(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	other := Of("beefbeefbeefbeef")
	d := write(t, s, other, schema.Nodes, 0, 100)
	shared, err := s.Share(d, at.File(schema.Nodes, 3))
	if err != nil {
		t.Fatal(err)
	}
	if shared.Path != at.File(schema.Nodes, 3) || shared.Digest != d.Digest {
		t.Errorf("%+v", shared)
	}
	if err := s.RemovePlace(other); err != nil {
		t.Fatal(err)
	}
	if n, err := count(l, schema.Nodes, shared); n != 100 || err != nil || l.Check(shared) != nil ||
		there(t, l, d.Path) {
		t.Errorf("%d rows, %v", n, err)
	}
	if _, err := s.Share(d, at.File(schema.Nodes, 4)); err == nil {
		t.Error("a file that is not there is shared")
	}
}

// A removal that was killed may leave an empty folder of a table. The next one removes it.
func TestRemovalOfAnEmptyFolder(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	folder := filepath.Dir(at.Dir(schema.Nodes))
	if err := os.MkdirAll(filepath.Join(l.Path(), folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.RemovePlace(at); err != nil || there(t, l, folder) {
		t.Errorf("folder %s stays: %v", folder, err)
	}
}

// The first files of flows have 32,768 rows, regardless of the batches. Together, the files contain all rows
// in order.
func TestFlowWriter(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	var added int64
	w := NewFlowWriter(s, at, func(n int64) { added += n })
	defer w.Abandon()
	rec := rows(schema.Flows, 1, 50_000)
	defer rec.Release()
	for range 3 {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	files, err := w.Finish()
	if err != nil || added != 150_000 {
		t.Fatalf("%d rows, %v", added, err)
	}
	var sizes []int64
	for n, f := range files {
		sizes = append(sizes, f.Rows)
		if f.Path != at.File(schema.Flows, n) {
			t.Errorf("file %d is %s", n, f.Path)
		}
	}
	want := []int64{1 << 15, 1 << 15, 1 << 15, 1 << 15, 150_000 - 1<<17}
	if !slices.Equal(sizes, want) {
		t.Errorf("files of %v rows", sizes)
	}
	if n, err := count(l, schema.Flows, files...); n != 150_000 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}
