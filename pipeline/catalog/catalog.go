// Package catalog turns the manifests of a lake into the files that queries read, and keeps the views in
// LAKE/parsimon.duckdb up to date with them.
//
//	manifests ─► committed files ─┬─► Options ─► queries.Open, which verifies each file before it reads it
//	                              └─► Write ─► LAKE/parsimon.duckdb, and its digest in LAKE/_state/views
package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// Options are those of queries.Open that read and verify exactly the committed files: of scenarios or, if none are
// named, of the whole lake.
func Options(l *lake.Lake, limits duckdb.Options, scenarios ...lake.ScenarioID) (queries.Options, error) {
	files, byPath, err := committed(l, scenarios...)
	verify := func(path string) error { return l.Check(byPath[path]) }
	return queries.Options{Options: limits, Files: files, Verify: verify}, err
}

// committed are the files that the manifests name, for queries and by their paths. Damaged manifests are returned as an
// error beside the files of the others.
func committed(l *lake.Lake, scenarios ...lake.ScenarioID) ([]queries.File, map[string]lake.DataFile, error) {
	manifests, err := l.Manifests(scenarios...)
	files, byPath := []queries.File{}, map[string]lake.DataFile{}
	answers := map[string]string{}
	for _, m := range manifests {
		if m.Variant == "" && m.Scenario != "" {
			answers[string(m.Scenario)] = l.Answer(m.Scenario)
		}
		for _, f := range m.Files {
			t, terr := f.Table()
			if terr != nil {
				err = errors.Join(err, terr)
				continue
			}
			file := queries.File{Table: t.Name, Path: f.Path, Scenario: string(m.Scenario), Workload: string(m.Workload)}
			if t.Variant {
				file.Variant = m.Variant
			}
			files = append(files, file)
			byPath[f.Path] = f
		}
	}
	queries.MarkAnswers(files, answers)
	return files, byPath, err
}

// Write brings the lake's views up to date with the manifests. Commands do so at their end: views take longer to write
// than a small estimate, so those that are up to date are not written again.
func Write(l *lake.Lake) error {
	lock, err := l.LockCatalog()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := l.RemoveCatalogTemp(); err != nil {
		return err
	}
	files, byPath, err := committed(l)
	if other := (*lake.VersionError)(nil); errors.As(err, &other) { // its views would name files that may be gone
		if err = os.Remove(filepath.Join(l.Path(), queries.CatalogFile)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(l.Path())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // its writes may be lost
	digest, err := queries.CatalogDigest(l.Path(), files)
	if err != nil || upToDate(root, digest) {
		return err
	}
	err = errors.Join(queries.WriteCatalog(l.Path(), lake.CatalogTemp, files), l.RemoveCatalogTemp())
	if err == nil {
		noteWritten(root, digest)
		return nil
	}
	for _, f := range byPath { // a view cannot be made of a damaged file, and DuckDB does not name it
		if damage := l.Check(f); damage != nil {
			return fmt.Errorf("the views of the lake cannot be written: %w (parsimon status lists all damage)", damage)
		}
	}
	return err
}

// writtenFile is the state file that says which views LAKE/parsimon.duckdb has: their digest, and the size and the
// modification time of the file.
const writtenFile = "_state/views"

// stamp is what writtenFile says while the catalog has the views of a digest; empty where there is no catalog.
func stamp(root *os.Root, digest string) string {
	info, err := root.Lstat(queries.CatalogFile)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d\n", digest, info.Size(), info.ModTime().UnixNano())
}

// upToDate reports whether the catalog has the views of a digest and was not changed since it was written.
func upToDate(root *os.Root, digest string) bool {
	want := stamp(root, digest)
	if info, err := root.Lstat(writtenFile); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
		return false // a pipe, for example, would block
	}
	written, err := root.ReadFile(writtenFile)
	return err == nil && want != "" && string(written) == want
}

// noteWritten notes that the catalog has the views of a digest. Where that fails, the next command writes it again.
func noteWritten(root *os.Root, digest string) {
	_ = root.Remove(writtenFile) // it may be a link
	if f, err := root.OpenFile(writtenFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		_, _ = f.WriteString(stamp(root, digest))
		_ = f.Close()
	}
}
