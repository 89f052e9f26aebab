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
	err = l.eachIdle(func(path string) error {
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
			return nil
		}
		all = append(all, left)
		return err
	})
	return all, err
}

// CatalogTemp is the lake-relative directory in which the catalog of views is written, by who holds LockCatalog.
const CatalogTemp = tmpDir + "/catalog"

// RemoveCatalogTemp removes CatalogTemp, as a killed process has left it.
func (l *Lake) RemoveCatalogTemp() error {
	err := l.root.RemoveAll(CatalogTemp)
	_ = l.root.Remove(tmpDir) // unless a session writes
	return err
}

// eachIdle calls do for each directory below _tmp of a place that no process works on, whose lock it holds meanwhile.
func (l *Lake) eachIdle(do func(path string) error) error {
	entries, err := l.readDir(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path, lock := tmpDir+"/"+e.Name(), stateDir+"/"+e.Name()+"/"+lockFile
		if path == CatalogTemp {
			lock = catalogLock
		}
		f, err := l.openRegular(lock)
		switch {
		case err != nil && IsReadError(err) && !errors.Is(err, fs.ErrNotExist):
		case err != nil || flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil: // no lock, or nobody holds it
			err = do(path)
		}
		if f != nil {
			_ = f.Close() // and with it the lock
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeLitter removes what killed processes left below _tmp, of scenarios and workloads that nobody works on.
func (l *Lake) removeLitter() error {
	return l.eachIdle(func(path string) error {
		if _, ours := parseOwner(strings.TrimPrefix(path, tmpDir+"/")); !ours {
			return nil
		}
		return l.root.RemoveAll(path)
	})
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
