package lake

import (
	"testing"

	"parsimon/schema"
)

// No file is overwritten. Until the next commit replaces the files, readers see those that the manifest
// names.
func TestListedFilesAreNotOverwritten(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	first := write(t, s, at, schema.Nodes, 3, 10)
	again := write(t, s, at, schema.Nodes, 3, 20)
	if again.Path == first.Path || l.Check(first) != nil {
		t.Errorf("an uncommitted file is overwritten: %s", again.Path)
	}
	files := []DataFile{write(t, s, at, schema.Nodes, 3, 10)}
	if err := s.Commit(at, files); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // each file replaces the previous one, alternating between two places
		old := files[0]
		d := write(t, s, at, schema.Nodes, 3, 11+i)
		if d.Path == old.Path || l.Check(old) != nil {
			t.Errorf("round %d: %s is overwritten", i, old.Path)
		}
		files = []DataFile{d}
		if err := s.Publish(at, d); err != nil {
			t.Fatal(err)
		}
		m, _, err := l.ReadManifest(at)
		if err != nil || len(m.Files) != 1 || m.Files[0].Path != d.Path || m.Files[0].Rows != int64(11+i) {
			t.Errorf("round %d: %+v, %v", i, m.Files, err)
		}
	}
	shared, err := s.Share(files[0], files[0].Path)
	if err != nil || shared.Path == files[0].Path || l.Check(files[0]) != nil {
		t.Errorf("shared as %s, %v", shared.Path, err)
	}
}
