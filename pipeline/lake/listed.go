package lake

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"parsimon/schema"
)

// listedFiles are the files that manifests name, by place, as far as a session had to know them.
type listedFiles struct {
	mu sync.Mutex
	of map[Place]map[string]bool
}

// forget makes the session read the manifest of a place again.
func (l *listedFiles) forget(p Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, p)
}

// unlisted returns a lake-relative path of a data file or, if the manifest of its place names the file that is there,
// the path of another one beside it: part-00003.parquet becomes part-00003~1.parquet.
func (s *Session) unlisted(path string) (string, error) {
	p, ok := placeOf(path)
	if !ok {
		return path, nil
	}
	s.listed.mu.Lock()
	defer s.listed.mu.Unlock()
	listed, known := s.listed.of[p]
	if !known {
		listed = map[string]bool{}
		m, _, err := s.ReadManifest(p) // no reader sees the files of a damaged one
		if IsReadError(err) {
			return "", err
		}
		for _, f := range m.Files {
			listed[f.Path] = true
		}
		if s.listed.of == nil {
			s.listed.of = map[Place]map[string]bool{}
		}
		s.listed.of[p] = listed
	}
	extension := filepath.Ext(path)
	other := path
	for n := 1; listed[other]; n++ {
		other = fmt.Sprintf("%s~%d%s", strings.TrimSuffix(path, extension), n, extension)
	}
	return other, nil
}

var suffix = regexp.MustCompile(`~[0-9]+(\.[a-z]+)$`)

// original is the path that a data file had been given before unlisted.
func original(path string) string { return suffix.ReplaceAllString(path, "$1") }

// placeOf is the place whose manifest may name a data file.
func placeOf(path string) (p Place, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) < 3 {
		return p, false
	}
	t, err := schema.ByName(parts[0])
	if err != nil || t.Temporary {
		return p, false
	}
	if p, ok = parseOwner(parts[1]); ok && len(parts) == 4 {
		p.Variant, ok = strings.CutPrefix(parts[2], "variant=")
	}
	return p, ok && filepath.Dir(path) == p.Dir(t)
}
