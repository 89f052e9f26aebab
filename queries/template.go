package queries

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"parsimon/queries/duckdb"
)

// A template is the catalog of a lake without files. DuckDB needs about 0.35 seconds of processor time to
// create all views of a catalog and their comments. Only the functions that name files differ between lakes
// (throughFunctions), so a catalog is written by copying the template and replacing these.
//
//	template/catalog.duckdb.gz   the catalog
//	template/views.txt           DIGEST KIND NAME of each of its views and macros
//
// The template of a program may be older than the program: the views whose digests differ are created again.
// TestCatalogTemplateIsRecent reports when there are many of them.
type template struct {
	packed  []byte            // the catalog, compressed by gzip; nil: a catalog without views
	digests map[string]string // of each view or macro, by view.key
}

//go:embed template/catalog.duckdb.gz
var packedTemplate []byte

//go:embed template/views.txt
var templateViews string

// shippedTemplate returns the template of the program.
func shippedTemplate() template {
	t := template{packedTemplate, map[string]string{}}
	for line := range strings.Lines(templateViews) {
		digest, key, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		t.digests[key] = digest
	}
	return t
}

// unpack writes the catalog of the template to a new file.
func (t template) unpack(path string) (err error) {
	if t.packed == nil {
		return nil
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(t.packed))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, unzipped)
	return errors.Join(err, f.Close())
}

// differences returns the views of a catalog that the template does not have, and the statements that remove
// the views of the template that the catalog does not have.
func (t template) differences(all []view) (changed []view, removed []string) {
	digests := viewDigests(all)
	for _, v := range all {
		if digests[v.key()] == t.digests[v.key()] {
			if !v.ofLake || v.quick == "" {
				continue
			}
			v.quick = "" // its columns are those of the template, so the other views stay
		}
		changed = append(changed, v)
	}
	for _, key := range slices.Sorted(maps.Keys(t.digests)) {
		if digests[key] == "" {
			removed = append(removed, "DROP "+key)
		}
	}
	return changed, removed
}

// key returns the kind and the name of a view as DuckDB's DROP statement has them.
func (v view) key() string {
	return string(v.kind) + " " + duckdb.Ident(v.name)
}

// viewDigests returns a digest of each view, by view.key. Views with equal digests have the same entry in the
// catalog of a lake without files. The digest of a view therefore includes those of the views that it reads.
func viewDigests(all []view) map[string]string {
	byName := map[string]string{}
	byKey := map[string]string{}
	for _, v := range all { // each after those that it reads
		h := xxh3.New()
		add := func(text string) { _, _ = h.WriteString(text + "\x00") } // never fails
		for _, f := range functions() {
			add(f.sql)
		}
		add(v.shape())
		add(v.comment)
		for _, column := range slices.Sorted(maps.Keys(v.columns)) {
			add(column)
			add(v.columns[column])
		}
		for _, name := range v.needs {
			add(byName[name])
		}
		digest := hexDigest(h)
		byName[v.name] = digest
		byKey[v.key()] = digest
	}
	return byKey
}

// shape returns the SQL that determines the columns of a view and their types.
func (v view) shape() string {
	if v.ofLake && v.quick != "" {
		return v.quick
	}
	return v.sql
}
