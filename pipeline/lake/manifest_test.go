package lake

import (
	"errors"
	"strings"
	"testing"

	"parsimon/schema"
)

// Readers see the files that the last commit names. They see neither files that are being written nor files
// of a writer that was killed before it committed. Files that no commit names are removed once no reader
// needs them.
func TestSnapshots(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	variant := ofFlow
	if _, found, err := l.ReadManifest(at); found || err != nil {
		t.Errorf("before the first commit: %v, %v", found, err)
	}
	old := []DataFile{write(t, s, at, schema.Nodes, 0, 10), write(t, s, at, schema.Links, 0, 20)}
	if err := s.Commit(at, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(variant, []DataFile{write(t, s, variant, schema.Slowdowns, 0, 5)}); err != nil {
		t.Fatal(err)
	}
	next := write(t, s, at, schema.Nodes, 1, 30)
	sees := func(when string, nodes string, rows int64) {
		t.Helper()
		m, found, err := l.ReadManifest(at)
		if err != nil || !found {
			t.Fatalf("%s: %v, %v", when, found, err)
		}
		files := FilesOf(m.Files, schema.Nodes)
		if got, err := count(l, schema.Nodes, files...); len(files) != 1 || files[0].Path != nodes || got != rows ||
			err != nil {
			t.Errorf("%s: %d rows of %+v, %v", when, got, files, err)
		}
	}
	sees("before the commit", old[0].Path, 10)
	if err := s.Commit(at, []DataFile{next, old[1]}); err != nil {
		t.Fatal(err)
	}
	sees("after it", next.Path, 30)

	keep := map[string]bool{}
	all, err := l.Manifests()
	if err != nil || len(all) != 2 || all[0].Place != at || all[1].Place != variant {
		t.Fatalf("manifests %+v, %v", all, err)
	}
	for _, m := range all {
		for _, f := range m.Files {
			keep[f.Path] = true
		}
	}
	remove := func() {
		t.Helper()
		if err := s.RemoveUnlisted(at, func(path string) bool { return keep[path] }); err != nil {
			t.Fatal(err)
		}
	}
	reader := l.LockForReading()
	remove()
	if n, err := count(l, schema.Nodes, old[0]); n != 10 || err != nil {
		t.Errorf("a reader's file: %d rows, %v", n, err)
	}
	reader.Close()
	remove()
	if there(t, l, old[0].Path) {
		t.Error("a file that nothing names stays")
	}
	for path := range keep {
		if !there(t, l, path) {
			t.Errorf("%s was removed", path)
		}
	}
}

// A file that no stage writes is added to the files of its place, and replaces a file with the same name.
func TestPublish(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	for i, want := range []int{1, 2, 2} {
		if err := s.Publish(at, write(t, s, at, schema.Nodes, []int{0, 1, 0}[i], 10+i)); err != nil {
			t.Fatal(err)
		}
		m, found, err := l.ReadManifest(at)
		if err != nil || !found || len(m.Files) != want {
			t.Errorf("after file %d: %+v, %v", i, m, err)
		}
	}
}

// Manifests of older programs name files of tables that no longer exist. Readers do not see them. When the
// place is committed again, they are removed.
func TestRemovedTablesAreSkipped(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	nodes := write(t, s, at, schema.Nodes, 0, 10)
	older := nodes
	older.Path = schema.Removed[0] + "/" + at.owner() + "/part-00000.parquet"
	if _, err := s.Share(nodes, older.Path); err != nil {
		t.Fatal(err)
	}
	err := s.WriteState(at.StatePath(manifestFile), Manifest{schema.Version, at, []DataFile{older, nodes}})
	if err != nil {
		t.Fatal(err)
	}
	m, found, err := l.ReadManifest(at)
	if err != nil || !found || len(m.Files) != 1 || m.Files[0].Path != nodes.Path {
		t.Errorf("manifest %+v, %v, %v", m, found, err)
	}
	if err := s.RemoveUnlisted(at, func(path string) bool { return path == nodes.Path }); err != nil {
		t.Fatal(err)
	}
	if there(t, l, older.Path) || !there(t, l, nodes.Path) {
		t.Errorf("files that stay: %v, %v", there(t, l, older.Path), there(t, l, nodes.Path))
	}
}

// Manifests that name files of another place or outside the lake are rejected, and so are manifests of
// another version.
func TestManifestsAreChecked(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	path := at.StatePath(manifestFile)
	for want, m := range map[string]Manifest{
		"it is the manifest of scenario beefbeefbeefbeef": {SchemaVersion: schema.Version,
			Place: Of("beefbeefbeefbeef")},
		"has schema version 1, this program reads": {SchemaVersion: 1, Place: at},
		"no table": {SchemaVersion: schema.Version, Place: at,
			Files: []DataFile{{Path: "../etc/passwd"}}},
		`it names file "nodes/../../x.parquet"`: {SchemaVersion: schema.Version, Place: at,
			Files: []DataFile{{Path: "nodes/../../x.parquet"}}},
		`it names file "nodes/scenario=beef`: {SchemaVersion: schema.Version, Place: at,
			Files: []DataFile{{Path: Of("beefbeefbeefbeef").File(schema.Nodes, 0)}}},
		`part-*.parquet"`: {SchemaVersion: schema.Version, Place: at,
			Files: []DataFile{{Path: at.Dir(schema.Nodes) + "/part-*.parquet"}}},
		`it names file "feedback`: {SchemaVersion: schema.Version, Place: at,
			Files: []DataFile{{Path: at.File(schema.Feedback, 0)}}},
	} {
		if err := s.WriteState(path, m); err != nil {
			t.Fatal(err)
		}
		_, _, err := l.ReadManifest(at)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	other := Of("0123456789abcdef")
	if err := s.Commit(other, []DataFile{write(t, s, other, schema.Nodes, 0, 5)}); err != nil {
		t.Fatal(err)
	}
	newer := Manifest{SchemaVersion: schema.Version + 1, Place: at}
	if err := s.WriteState(path, newer); err != nil {
		t.Fatal(err)
	}
	var version *VersionError // unlike a damaged manifest, it is not replaced
	if err := s.Commit(at, []DataFile{write(t, s, at, schema.Nodes, 0, 5)}); !errors.As(err, &version) {
		t.Errorf("commit over another version: %v", err)
	}
	all, err := l.Manifests() // the damaged manifest is reported, and the other one is read
	if err == nil || len(all) != 1 || all[0].Place != other {
		t.Errorf("%+v, %v", all, err)
	}
}
