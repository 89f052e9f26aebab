package lake

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// Litter is what a killed process left half written. No reader sees it, and the next command that writes into the lake
// removes it.
type Litter struct {
	Path  string `json:"path"` // relative to the lake
	Bytes int64  `json:"bytes"`
}

// Litter lists what killed processes left. What processes that are at work are writing is not among it.
func (l *Lake) Litter() (all []Litter, err error) {
	entries, err := l.readDir(tmpDir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		lock := stateDir + "/" + e.Name() + "/" + lockFile
		if tmpDir+"/"+e.Name() == CatalogTemp {
			lock = catalogLock
		}
		if !l.locked(lock) {
			paths = append(paths, tmpDir+"/"+e.Name())
		}
	}
	for _, path := range paths {
		left := Litter{Path: path}
		err := fs.WalkDir(l.root.FS(), path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				left.Bytes += info.Size()
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, left)
	}
	return all, nil
}

// CatalogTemp is the lake-relative directory in which the catalog of views is written, by who holds LockCatalog.
const CatalogTemp = tmpDir + "/catalog"

// RemoveCatalogTemp removes CatalogTemp, as a killed process has left it.
func (l *Lake) RemoveCatalogTemp() error {
	err := l.root.RemoveAll(CatalogTemp)
	_ = l.root.Remove(tmpDir) // unless a session writes
	return err
}

// locked reports whether a process holds the lock at a lake-relative path. It takes the lock for a moment.
func (l *Lake) locked(path string) bool {
	f, err := l.openRegular(path)
	if err != nil {
		return false // no lock: nobody holds it
	}
	defer func() { _ = f.Close() }() // and with it the lock
	return errors.Is(flock(f, syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// removeLitter removes what killed processes left below _tmp, of scenarios and workloads that nobody works on.
func (l *Lake) removeLitter() error {
	entries, err := l.readDir(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p, ok := parseOwner(e.Name())
		if !ok {
			continue // no process of ours has written it
		}
		if err := l.removeLitterOf(p); err != nil {
			return err
		}
	}
	return nil
}

// removeLitterOf does nothing if another process holds the place's lock.
func (l *Lake) removeLitterOf(p Place) error {
	tmp := tmpDir + "/" + p.owner()
	f, err := l.openRegular(p.StatePath(lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return l.root.RemoveAll(tmp)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // and with it the lock
	if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	return l.root.RemoveAll(tmp)
}

// parseOwner is the inverse of Place.owner.
func parseOwner(name string) (p Place, ok bool) {
	if id, found := strings.CutPrefix(name, "scenario="); found {
		p.Scenario, _ = ParseScenarioID(id)
	} else if id, found := strings.CutPrefix(name, "workload="); found {
		p.Workload, _ = ParseWorkloadID(id)
	}
	return p, p.owner() == name && name != "scenario="
}
