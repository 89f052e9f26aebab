package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"parsimon/schema"
)

// Upgrade converts a lake of an older version to the current version. It adopts the data files as they are:
// readers find empty values in columns that are newer than a file. It rewrites the manifests, and moves the
// files of workloads to the folders of this version. It waits up to wait for queries to end, and fails with
// an error that wraps ErrBusy while another process works on a scenario or workload. The lake comes from
// OpenAnyVersion.
//
//	link files to new folders ─► rewrite state ─► rewrite manifest ─► remove old folders
//
// The lake counts as one of the old version until its first manifest is rewritten, which happens last. An
// upgrade that was killed is repeated from the beginning. Damaged manifests are returned as errors, and
// left as they are.
func (l *Lake) Upgrade(ctx context.Context, wait time.Duration) (upgraded []Place, errs error) {
	places, err := l.places()
	if err != nil {
		return nil, err
	}
	readers, err := l.LockOutReaders(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer readers.Close()
	for _, p := range slices.Backward(places) {
		changed, err := l.upgradePlace(ctx, p)
		if errors.Is(err, ErrBusy) || ctx.Err() != nil || IsReadError(err) {
			return upgraded, errors.Join(errs, err)
		}
		errs = errors.Join(errs, err)
		if changed {
			upgraded = append(upgraded, p)
		}
	}
	return upgraded, errs
}

// upgradePlace upgrades a scenario, with its variants, or a workload. It reports whether there was anything
// to do.
func (l *Lake) upgradePlace(ctx context.Context, p Place) (changed bool, err error) {
	s, err := l.Lock(ctx, p)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if p.Workload != "" {
		return s.upgradeWorkload(p)
	}
	variants, err := s.variantsOf(p)
	for _, at := range append(variants, p) {
		m, found, failed := s.ReadManifest(at)
		if failed == nil && found && m.SchemaVersion != schema.Version {
			changed = true
			failed = s.writeUpgraded(m)
		}
		err = errors.Join(err, failed)
	}
	return changed, err
}

// writeUpgraded writes a manifest as one of this version.
func (s *Session) writeUpgraded(m Manifest) (err error) {
	m.SchemaVersion = schema.Version
	if err := m.check(m.Place); err != nil {
		return err
	}
	if m.Files, err = s.withVersions(m.Files); err != nil {
		return err
	}
	return s.WriteStateDurably(m.StatePath(manifestFile), m)
}

// upgradeWorkload moves the files of a workload to the folders of this version.
func (s *Session) upgradeWorkload(p Place) (changed bool, err error) {
	m, found, err := s.ReadManifest(p)
	if err != nil || found && m.SchemaVersion == schema.Version {
		return false, errors.Join(err, s.removeOldFolders(p))
	}
	if err := s.linkToNewFolders(p); err != nil {
		return false, err
	}
	if err := s.rewritePaths(p); err != nil {
		return false, err
	}
	if found {
		for i, f := range m.Files {
			m.Files[i].Path = p.newPath(f.Path)
		}
		if err := s.writeUpgraded(m); err != nil {
			return false, err
		}
	}
	return true, s.removeOldFolders(p)
}

// movedTables returns the tables whose files of workloads were in the folder of the scenarios.
func movedTables() []schema.Table {
	return slices.DeleteFunc(schema.Tables(), func(t schema.Table) bool { return t.WorkloadName() == t.Name })
}

// oldFolder returns the folder of a table's files of the workload in older versions.
func (p Place) oldFolder(t schema.Table) string { return t.Name + "/" + p.owner() }

// newPath returns the path in this version of a data file of an older version.
func (p Place) newPath(file string) string {
	for _, t := range movedTables() {
		if path.Dir(file) == p.oldFolder(t) {
			return p.Dir(t) + "/" + path.Base(file)
		}
	}
	return file
}

// linkToNewFolders makes the files of the old folders also available in the new ones, durably. It replaces
// files that an upgrade that was killed has left there.
func (s *Session) linkToNewFolders(p Place) error {
	for _, t := range movedTables() {
		entries, err := s.readDir(p.oldFolder(t))
		if err != nil {
			return err
		}
		var linked []string
		for _, e := range entries {
			to := p.Dir(t) + "/" + e.Name()
			if err := s.root.RemoveAll(to); err != nil {
				return err
			}
			d, err := s.Share(DataFile{Path: p.oldFolder(t) + "/" + e.Name()}, to)
			if err != nil {
				return err
			}
			linked = append(linked, d.Path)
		}
		if len(linked) > 0 {
			linked = append(linked, p.Dir(t), t.WorkloadName(), ".")
		}
		if err := s.syncAll(linked); err != nil {
			return err
		}
	}
	return nil
}

// rewritePaths replaces the old folders in all state files of a workload, except for the manifest.
func (s *Session) rewritePaths(p Place) error {
	return fs.WalkDir(s.root.FS(), p.StatePath(), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(file) != ".json" || path.Base(file) == manifestFile {
			return err
		}
		var state json.RawMessage
		found, err := s.ReadState(file, &state)
		if err != nil || !found {
			return err
		}
		now := slices.Clone(state)
		for _, t := range movedTables() {
			now = bytes.ReplaceAll(now, quoted(p.oldFolder(t)), quoted(p.Dir(t)))
		}
		if bytes.Equal(now, state) {
			return nil
		}
		return s.WriteStateDurably(file, now)
	})
}

// quoted returns the beginning of the JSON text of a path in a folder.
func quoted(folder string) []byte { return fmt.Appendf(nil, "%q", folder+"/")[:len(folder)+2] }

// removeOldFolders removes the folders of a workload that older versions had.
func (s *Session) removeOldFolders(p Place) (errs error) {
	for _, t := range movedTables() {
		errs = errors.Join(errs, s.root.RemoveAll(p.oldFolder(t)))
		_ = s.root.Remove(t.Name) // if it is empty now
	}
	return errs
}
