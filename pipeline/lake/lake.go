package lake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"parsimon/pipeline/lake/disk"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

const stateDir, tmpDir, cacheDir = "_state", "_tmp", "_cache"

// specFile is the state file that makes a scenario known.
const specFile = "spec.json"

// EphemeralFile is the state file of a scenario that a command has made and will delete: it goes with the scenario.
const EphemeralFile = "ephemeral.json"

// A Lake reads the files of one directory. It is safe for any number of goroutines.
type Lake struct {
	path     string // absolute
	root     disk.Root
	footers  *parquet.Footers
	verified sync.Map // files by path and digest
}

// Open opens the lake in a directory. With create, Open makes the directory if there is none. The error for a lake that
// a program of another schema version has written is a *VersionError.
func Open(dir string, create bool) (*Lake, error) {
	l, err := OpenAnyVersion(dir, create)
	if err != nil {
		return nil, err
	}
	return l, l.checkVersion()
}

// checkVersion looks at one manifest: all of a lake are of one version.
func (l *Lake) checkVersion() error {
	places, err := l.places()
	for _, p := range places {
		var m Manifest
		found, err := l.ReadState(p.StatePath(manifestFile), &m)
		switch {
		case !found || err != nil:
			continue
		case m.SchemaVersion != schema.Version:
			return &VersionError{l.path, m.SchemaVersion}
		}
		return nil
	}
	return err
}

// OpenAnyVersion is Open for what works on files of any version: to list and to remove them.
func OpenAnyVersion(dir string, create bool) (*Lake, error) {
	if dir == "" {
		return nil, errors.New("no lake given")
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	root, err := disk.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Lake{path: path, root: root, footers: new(parquet.Footers)}, nil
}

// Path is the lake's directory, absolute.
func (l *Lake) Path() string { return l.path }

// CachePath is the directory of the lake's own cache of link-case results.
func CachePath(lake string) string { return filepath.Join(lake, cacheDir) }

// Scenarios lists the scenarios of the lake, the one last worked on last. Directories that are not named by
// a scenario id are passed over.
func (l *Lake) Scenarios() ([]ScenarioID, error) {
	places, err := l.places()
	if err != nil {
		return nil, err
	}
	modified := map[ScenarioID]time.Time{}
	for _, p := range places {
		info, err := l.root.Lstat(p.StatePath(specFile))
		if p.Scenario == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		modified[p.Scenario] = info.ModTime()
	}
	return slices.SortedFunc(maps.Keys(modified), func(a, b ScenarioID) int {
		return cmp.Or(modified[a].Compare(modified[b]), cmp.Compare(a, b))
	}), nil
}

// Workloads lists the ingested workloads of the lake, in the order of their names.
func (l *Lake) Workloads() (ids []WorkloadID, err error) {
	places, err := l.places()
	for _, p := range places {
		if p.Workload != "" && l.Exists(p.StatePath(workloadFile)) {
			ids = append(ids, p.Workload)
		}
	}
	return ids, err
}

// workloadFile is the state file that makes a workload known.
const workloadFile = "workload.json"

// SpecPath is the lake-relative path of the state file that makes a scenario known.
func (p Place) SpecPath() string { return Of(p.Scenario).StatePath(specFile) }

// WorkloadPath is SpecPath of a workload.
func (p Place) WorkloadPath() string { return Place{Workload: p.Workload}.StatePath(workloadFile) }

// Variants lists the variants of a scenario that have state, in the order of their names.
func (l *Lake) Variants(id ScenarioID) ([]string, error) {
	entries, err := l.readDir(Of(id).StatePath())
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), "variant="); ok && variantPattern.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// places lists the scenarios and workloads below _state, in the order of names.
func (l *Lake) places() (all []Place, err error) {
	entries, err := l.readDir(stateDir)
	for _, e := range entries {
		if p, ok := parseOwner(e.Name()); ok {
			all = append(all, p)
		}
	}
	return all, err
}

// readDir lists a lake-relative directory in the order of names; one that is not there is empty.
func (l *Lake) readDir(path string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(l.root.FS(), path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Exists reports whether there is a file at a lake-relative path.
func (l *Lake) Exists(path string) bool {
	_, err := l.root.Lstat(path)
	return err == nil
}

// openRegular opens a lake-relative path that must be a regular file inside the lake.
func (l *Lake) openRegular(path string) (*os.File, error) {
	info, err := l.root.Stat(path) // before Open, which would wait for the writer of a named pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &DamageError{filepath.Join(l.path, path), "not a regular file"}
	}
	return l.root.Open(path)
}
