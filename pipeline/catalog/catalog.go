// Package catalog turns the manifests of a lake into the files that queries read, and keeps the views in
// LAKE/parsimon.duckdb up to date with them.
package catalog

import (
	"errors"
	"fmt"

	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// Options are those of queries.Open that read and verify exactly the committed files.
func Options(l *lake.Lake, limits duckdb.Options) (queries.Options, error) {
	files, byPath, err := committed(l)
	verify := func(path string) error { return l.Check(byPath[path]) }
	return queries.Options{Options: limits, Files: files, Verify: verify}, err
}

// committed are the files that the manifests name, for queries and by their paths. Damaged manifests are returned as an
// error beside the files of the others.
func committed(l *lake.Lake) ([]queries.File, map[string]lake.DataFile, error) {
	manifests, err := l.Manifests()
	files, byPath := []queries.File{}, map[string]lake.DataFile{}
	for _, m := range manifests {
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
	return files, byPath, err
}

// Write brings the lake's views up to date with the manifests. Commands do so at their end, once: views take longer to
// write than a small estimate.
func Write(l *lake.Lake) error {
	lock, err := l.LockCatalog()
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := l.RemoveUnfinishedCatalogs(); err != nil {
		return err
	}
	files, byPath, err := committed(l)
	if err != nil {
		return err
	}
	err = queries.WriteCatalog(l.Path(), files)
	if err == nil {
		return nil
	}
	for _, f := range byPath { // a view cannot be made of a damaged file, and DuckDB does not name it
		if damage := l.Check(f); damage != nil {
			return fmt.Errorf("the views of the lake cannot be written: %w (parsimon status lists all damage)", damage)
		}
	}
	return err
}
