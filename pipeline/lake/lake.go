// Package lake stores tables in a directory of hive-partitioned Parquet files:
//
//	LAKE/<table>/scenario=<id>[/variant=<name>]/part-NNNNN.parquet   results
//	LAKE/<table>/workload=<id>/part-NNNNN.parquet                    ingested traces
//	LAKE/parsimon.duckdb                                             views over the tables
//	LAKE/_state/scenario=<id>[/variant=<name>]/manifest.json         data files that readers see (manifest.go)
//	LAKE/_state/scenario=<id>[/variant=<name>]/...                   done tasks; JSON with a digest (manifest.go)
//	LAKE/_tmp/scenario=<id>/                                         files that are being written
//
// A data file is written below _tmp and moved to its place when it is complete, so that a reader never sees half a
// file. Where a file has its name it gets another (part-NNNNN~1.parquet): no data file is overwritten. It counts once
// a state file names it with its rows, bytes and digest.
//
// Nothing that a lake contains is trusted. Ids that name directories are types that parse or fail (ScenarioID,
// WorkloadID, Variant names), every path below the lake is opened through os.Root, which follows no link out
// of the directory, and only regular files are read.
//
// A Lake reads. A Session, which holds a lock on one scenario or workload, writes.
package lake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	verified *sync.Map      // files by path and digest
	bounds   parquet.Bounds // nil until Within
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
	return &Lake{path: path, root: root, footers: new(parquet.Footers), verified: new(sync.Map)}, nil
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

// A ScenarioID names a scenario: 16 hexadecimal digits, the beginning of the SHA-256 of its canonical form.
type ScenarioID string

// A WorkloadID names an ingested workload: up to 64 letters, digits, dots, dashes and underscores.
type WorkloadID string

var (
	scenarioPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)
	workloadPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	variantPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
)

// ParseScenarioID checks that text is a scenario id.
func ParseScenarioID(text string) (ScenarioID, error) {
	if !scenarioPattern.MatchString(text) {
		return "", fmt.Errorf("%q is not a scenario id: want 16 hexadecimal digits", text)
	}
	return ScenarioID(text), nil
}

// ParseWorkloadID checks that text can name a workload.
func ParseWorkloadID(text string) (WorkloadID, error) {
	if !workloadPattern.MatchString(text) {
		return "", fmt.Errorf("workload name %q: want up to 64 letters, digits, dots, dashes and underscores", text)
	}
	return WorkloadID(text), nil
}

// A Place says what the rows of a data file belong to: a scenario and, for tables that depend on how the
// scenario was estimated, a variant; or a workload.
type Place struct {
	Scenario ScenarioID `json:"scenario,omitempty"`
	Variant  string     `json:"variant,omitempty"`
	Workload WorkloadID `json:"workload,omitempty"`
}

// Of returns the place of a scenario's tables that do not depend on a variant.
func Of(id ScenarioID) Place { return Place{Scenario: id} }

// owner is the first path segment below a table or below _state.
func (p Place) owner() string {
	if p.Workload != "" {
		return "workload=" + string(p.Workload)
	}
	return "scenario=" + string(p.Scenario)
}

// String names the place in messages.
func (p Place) String() string {
	switch {
	case p.Workload != "":
		return "workload " + string(p.Workload)
	case p.Variant != "":
		return fmt.Sprintf("scenario %s, variant %s", p.Scenario, p.Variant)
	}
	return "scenario " + string(p.Scenario)
}

// Dir is the lake-relative directory of the place's files of a table.
func (p Place) Dir(t schema.Table) string {
	dir := t.Name + "/" + p.owner()
	if t.Variant && p.Workload == "" {
		dir += "/variant=" + p.Variant
	}
	return dir
}

// File is the lake-relative path of data file n of a table.
func (p Place) File(t schema.Table, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", p.Dir(t), n)
}

// StatePath is the lake-relative path of a state file of the place.
func (p Place) StatePath(elem ...string) string {
	path := stateDir + "/" + p.owner()
	if p.Variant != "" {
		path += "/variant=" + p.Variant
	}
	for _, e := range elem {
		path += "/" + e
	}
	return path
}
