package pipeline

import (
	"maps"
	"slices"
	"strings"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
)

// Publish commits the tables of all complete stages of the scenario and removes data files that nothing names. The
// views of LAKE/parsimon.duckdb follow at the end of a command: catalog.Write.
//
// If the views name any of those, they are written before the files are removed. Shards remove nothing, since another
// one may have installed a file that it has not recorded yet.
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

// commit commits the tables of all complete stages, and returns the data files that manifests and records name, and
// whether they replace others. Shards commit one after the other: each finds at least the complete stages that the one
// before it has found.
func (e *Estimation) commit() (named map[string]bool, replaced bool, err error) {
	lock, err := e.Lake.LockCatalog()
	if err != nil {
		return nil, false, err
	}
	defer lock.Close()
	session := e.exec.Session()
	all, _, err := begunStages(e.Lake, e.Model)
	if err != nil {
		return nil, false, err
	}
	committed, before := map[lake.Place][]lake.DataFile{e.base(): nil}, []lake.DataFile(nil)
	named = map[string]bool{}
	for _, s := range all {
		r, found, err := engine.ReadRecords(e.Lake, s)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err != nil || !found {
			continue // status reports it
		}
		for _, rec := range r.Done {
			if rec == nil {
				continue
			}
			for _, f := range rec.Files {
				named[f.Path] = true
			}
		}
		if r.Complete(methodVersion) {
			committed[s.Place] = append(committed[s.Place], lasting(r)...)
		}
	}
	places := slices.Collect(maps.Keys(committed))
	slices.SortFunc(places, func(a, b lake.Place) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range places {
		files := committed[p]
		old, _, err := e.Lake.ReadManifest(p)
		if lake.IsReadError(err) {
			return nil, false, err
		}
		if err == nil {
			before = append(before, old.Files...)
			for _, f := range old.Files {
				if t, err := f.Table(); err == nil && t.Published {
					files = append(files, f)
				}
			}
		}
		for _, f := range files {
			named[f.Path] = true
		}
		if err := session.Commit(p, files); err != nil {
			return nil, false, err
		}
	}
	return named, slices.ContainsFunc(before, func(f lake.DataFile) bool { return !named[f.Path] }), nil
}

// lasting are the data files of a complete stage that are not temporary, by table and then by task.
func lasting(r engine.Records) (files []lake.DataFile) {
	seen := map[string]bool{}
	for _, rec := range r.Done {
		for _, f := range rec.Files {
			t, err := f.Table()
			if err != nil || t.Temporary || seen[t.Name] {
				continue
			}
			seen[t.Name] = true
			files = append(files, r.Files(t)...)
		}
	}
	return files
}
