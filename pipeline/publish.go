package pipeline

import (
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
)

// Publish commits the tables of all complete stages of the scenario and removes data files that nothing names. The
// views of LAKE/parsimon.duckdb follow at the end of a command: catalog.Write.
//
// Shards commit one after the other: each finds at least the complete stages that the one before it has found. They
// remove nothing, since another shard may have installed a file that it has not recorded yet.
func (e *Estimation) Publish() error {
	if e.Ephemeral {
		return nil
	}
	lock, err := e.Lake.LockCatalog()
	if err != nil {
		return err
	}
	defer lock.Close()
	session := e.exec.Session()
	all, _, err := begunStages(e.Lake, e.Model)
	if err != nil {
		return err
	}
	committed, named := map[lake.Place][]lake.DataFile{e.base(): nil}, map[string]bool{}
	for _, s := range all {
		r, found, err := engine.ReadRecords(e.Lake, s)
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
	for p, files := range committed {
		old, _, err := e.Lake.ReadManifest(p)
		if err == nil {
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
			return err
		}
	}
	if e.Shard.Count > 0 {
		return nil
	}
	return session.RemoveUnlisted(e.base(), func(path string) bool { return named[path] })
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
