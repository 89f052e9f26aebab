package pipeline

import (
	"maps"
	"slices"
	"strings"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
)

// Publish commits the tables of all complete stages of the scenario, and removes data files that no manifest
// or record names. The views of LAKE/parsimon.duckdb are written at the end of a command (catalog.Write).
//
// If the views name files that are to be removed, the views are written first. Shards do not remove files,
// because another shard may have installed a file that it has not recorded yet.
func (e *Estimation) Publish() error {
	if e.Ephemeral {
		return nil
	}
	named, replaced, err := e.commit()
	if err != nil || e.Shard.Count > 0 {
		return err
	}
	if replaced {
		if err := catalog.Write(e.Lake); err != nil {
			return err
		}
	}
	return e.exec.Session().RemoveUnlisted(e.base(), func(path string) bool { return named[path] })
}

// commit commits the tables of all complete stages. It returns the data files that manifests and records
// name, and whether they replace others. Shards commit one after the other, so each shard finds at least the
// complete stages that the previous shard found.
func (e *Estimation) commit() (named map[string]bool, replaced bool, err error) {
	lock, err := e.Lake.LockCatalog()
	if err != nil {
		return nil, false, err
	}
	defer lock.Close()
	all, _, err := begunStages(e.Lake, e.Model)
	if err != nil {
		return nil, false, err
	}
	named = map[string]bool{}
	tables, err := e.completeTables(all, named)
	if err != nil {
		return nil, false, err
	}
	var before []lake.DataFile
	byName := func(a, b lake.Place) int { return strings.Compare(a.String(), b.String()) }
	for _, p := range slices.SortedFunc(maps.Keys(tables), byName) {
		files := tables[p]
		old, _, err := e.Lake.ReadManifest(p)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err == nil {
			before = append(before, old.Files...)
			files = append(files, published(old.Files)...)
		}
		for _, f := range files {
			named[f.Path] = true
		}
		if err := e.exec.Session().Commit(p, files); err != nil {
			return nil, false, err
		}
	}
	return named, slices.ContainsFunc(before, func(f lake.DataFile) bool { return !named[f.Path] }), nil
}

// completeTables returns the data files that complete stages wrote for good, by place. It adds the files of
// all records to named.
func (e *Estimation) completeTables(
	stages []*engine.Stage, named map[string]bool,
) (map[lake.Place][]lake.DataFile, error) {
	tables := map[lake.Place][]lake.DataFile{e.base(): nil}
	for _, s := range stages {
		r, found, err := engine.ReadRecords(e.Lake, s)
		if lake.IsReadError(err) {
			return nil, err
		}
		if err != nil || !found {
			continue // status reports the error
		}
		complete := r.Complete(MethodVersion)
		for _, f := range r.AllFiles() {
			named[f.Path] = true
			if t, err := f.Table(); complete && err == nil && !t.Temporary {
				tables[s.Place] = append(tables[s.Place], f)
			}
		}
	}
	return tables, nil
}

// published returns the files of tables that commands add to an estimate later.
func published(files []lake.DataFile) (out []lake.DataFile) {
	for _, f := range files {
		if t, err := f.Table(); err == nil && t.Published {
			out = append(out, f)
		}
	}
	return out
}
