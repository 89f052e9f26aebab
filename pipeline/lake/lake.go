// Package lake stores tables in a directory of hive-partitioned Parquet files:
//
//	LAKE/<table>/scenario=<id>[/variant=<name>]/part-NNNNN.parquet   results
//	LAKE/workload_<table>/workload=<id>/part-NNNNN.parquet           ingested traces
//	LAKE/_windows/<table>/scenario=windows-<id>/...                  of hidden scenarios: windows of a sample
//	LAKE/parsimon.duckdb                                             views over the tables
//	LAKE/_state/scenario=<id>[/variant=<name>]/manifest.json         data files that readers see (manifest.go)
//	LAKE/_state/scenario=<id>[/variant=<name>]/...                   complete tasks; JSON with a digest (manifest.go)
//	LAKE/_tmp/scenario=<id>/                                         files that are being written
//	LAKE/_tmp/queries/                                               what queries spill
//
// A data file is written below _tmp and moved to its final path when it is complete, so that readers never
// see incomplete files. No data file is overwritten. If the path exists already, the file gets another name
// (part-NNNNN~1.parquet). A data file becomes valid once a state file lists it with its rows, bytes and
// digest.
//
// No content of a lake is trusted. Ids that name directories have types whose parsers reject invalid names
// (ScenarioID, WorkloadID, variant.Variant). Every path below the lake is opened through os.Root, which does
// not follow links out of the directory. Only regular files are read.
//
// A Lake reads files. A Session, which holds the lock of one scenario or workload, writes files.
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
	"parsimon/schema/variant"
)

const stateDir, tmpDir, cacheDir = "_state", "_tmp", "_cache"

// specFile is the name of the state file that registers a scenario.
const specFile = "spec.json"

// EphemeralFile is the name of the state file that marks a scenario as temporary: the command that created
// the scenario will delete it.
const EphemeralFile = "ephemeral.json"

// A Lake reads the files of one directory. It is safe for concurrent use.
type Lake struct {
	path     string // absolute
	root     disk.Root
	footers  *parquet.Footers
	verified *sync.Map      // of verifiedFile
	bounds   parquet.Bounds // nil until Within
	version  int            // of the schema; 0: OpenAnyVersion
}

// Open opens the lake in a directory. If create is set and the directory does not exist, Open creates it. If
// a program with a schema version that this program does not read has written the lake, the error is a
// *VersionError. A lake of an older version is opened for reading: its locks return a *VersionError.
func Open(dir string, create bool) (*Lake, error) {
	l, err := OpenAnyVersion(dir, create)
	if err != nil {
		return nil, err
	}
	if l.version, err = l.readVersion(); err != nil {
		return nil, err
	}
	if !schema.Readable(l.version) {
		return nil, &VersionError{l.path, l.version}
	}
	return l, nil
}

// Version returns the schema version of the lake. It is 0 if OpenAnyVersion opened the lake.
func (l *Lake) Version() int { return l.version }

// Old reports whether the lake has an older schema version, so that it can only be read.
func (l *Lake) Old() bool { return l.version != 0 && l.version != schema.Version }

// readVersion reads one manifest. All manifests of a lake have the same version, except while it is
// upgraded, which ends with the manifest that is read here. A lake without manifests has the current
// version.
func (l *Lake) readVersion() (int, error) {
	places, err := l.places()
	for _, p := range places {
		var m struct {
			SchemaVersion int `json:"schema_version"`
		}
		found, err := l.ReadState(p.StatePath(manifestFile), &m)
		if found && err == nil {
			return m.SchemaVersion, nil
		}
	}
	return schema.Version, err
}

// checkWritable returns an error for a lake of an older version. Commands that work on lakes of all versions
// may write.
func (l *Lake) checkWritable() error {
	if l.Old() {
		return &VersionError{l.path, l.version}
	}
	return nil
}

// OpenAnyVersion is Open for commands that can list and remove files of any version.
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no lake at %s: %w", path, fs.ErrNotExist)
	}
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

// Begun reports whether any command has worked on the lake. A directory in which no command has worked is not
// a lake.
func (l *Lake) Begun() bool { return l.Exists(stateDir) }

// Path returns the absolute path of the lake's directory.
func (l *Lake) Path() string { return l.path }

// CachePath returns the directory of the lake's own cache of link-case results.
func CachePath(lake string) string { return filepath.Join(lake, cacheDir) }

// Scenarios lists the scenarios of the lake by the time when they were last worked on, the newest last. It
// skips directories whose names are not scenario ids.
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

// Workloads lists the ingested workloads of the lake, sorted by name.
func (l *Lake) Workloads() (ids []WorkloadID, err error) {
	ids, err = l.BegunWorkloads()
	return slices.DeleteFunc(ids, func(id WorkloadID) bool {
		return !l.Exists(Place{Workload: id}.WorkloadPath())
	}), err
}

// BegunWorkloads is Workloads with those whose first ingest is not complete.
func (l *Lake) BegunWorkloads() (ids []WorkloadID, err error) {
	places, err := l.places()
	for _, p := range places {
		if p.Workload != "" {
			ids = append(ids, p.Workload)
		}
	}
	return ids, err
}

// workloadFile is the name of the state file that registers a workload.
const workloadFile = "workload.json"

// SpecPath returns the lake-relative path of the state file that registers the scenario.
func (p Place) SpecPath() string { return Of(p.Scenario).StatePath(specFile) }

// WorkloadPath returns the lake-relative path of the state file that registers the workload.
func (p Place) WorkloadPath() string { return Place{Workload: p.Workload}.StatePath(workloadFile) }

// Variants lists the variants of a scenario that have state, sorted by name. It skips directories whose
// names are not those of variants.
func (l *Lake) Variants(id ScenarioID) (all []variant.Variant, err error) {
	entries, err := l.readDir(Of(id).StatePath())
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), "variant=")
		if !ok {
			continue
		}
		v, unknown := variant.Parse(name)
		if unknown == nil {
			all = append(all, v)
		}
	}
	return all, err
}

// places lists the scenarios and workloads below _state, sorted by name.
func (l *Lake) places() (all []Place, err error) {
	entries, err := l.readDir(stateDir)
	for _, e := range entries {
		if p, ok := parseOwner(e.Name()); ok {
			all = append(all, p)
		}
	}
	return all, err
}

// readDir lists a lake-relative directory, sorted by name. A directory that does not exist is treated as
// empty.
func (l *Lake) readDir(path string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(l.root.FS(), path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Exists reports whether a lake-relative path exists.
func (l *Lake) Exists(path string) bool {
	_, err := l.root.Lstat(path)
	return err == nil
}

// openRegular opens a lake-relative path. It must be a regular file inside the lake.
func (l *Lake) openRegular(path string) (*os.File, error) {
	info, err := l.root.Stat(path) // before Open, which would block on a named pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &DamageError{filepath.Join(l.path, path), "not a regular file"}
	}
	return l.root.Open(path)
}

// A ScenarioID identifies a scenario. It consists of the first 16 hexadecimal digits of the SHA-256 of the
// scenario's canonical form. The ids of hidden scenarios begin with windowsPrefix.
type ScenarioID string

// A WorkloadID identifies an ingested workload. It has up to 64 letters, digits, dots, dashes and
// underscores.
type WorkloadID string

// windowsPrefix begins the ids of hidden scenarios: those that consist of windows of time of another one.
const windowsPrefix = "windows-"

// hiddenDir is the folder of the tables of hidden scenarios. A reader that globs the folder of
// a table does not see them.
const hiddenDir = "_windows"

// WindowsID returns the id of a hidden scenario from the hash of its canonical form.
func WindowsID(hash string) ScenarioID { return ScenarioID(windowsPrefix + hash) }

// Hidden reports whether the id is that of a hidden scenario.
func (id ScenarioID) Hidden() bool { return strings.HasPrefix(string(id), windowsPrefix) }

var (
	scenarioPattern = regexp.MustCompile(`^(` + windowsPrefix + `)?[0-9a-f]{16}$`)
	workloadPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// ParseScenarioID converts text to a scenario id. It returns an error if the text is not a scenario id.
func ParseScenarioID(text string) (ScenarioID, error) {
	if !scenarioPattern.MatchString(text) {
		return "", fmt.Errorf("%q is not a scenario id: want 16 hexadecimal digits", text)
	}
	return ScenarioID(text), nil
}

// ParseWorkloadID converts text to a workload id. It returns an error if the text cannot name a workload.
func ParseWorkloadID(text string) (WorkloadID, error) {
	if !workloadPattern.MatchString(text) {
		return "", fmt.Errorf("workload name %q: want up to 64 letters, digits, dots, dashes and underscores", text)
	}
	return WorkloadID(text), nil
}

// A Place identifies what the rows of a data file belong to: a scenario, a variant of a scenario, or a
// workload. Tables that depend on how the scenario was estimated belong to a variant.
type Place struct {
	Scenario ScenarioID      `json:"scenario,omitempty"`
	Variant  variant.Variant `json:"variant,omitzero"`
	Workload WorkloadID      `json:"workload,omitempty"`
}

// Of returns the place of a scenario's tables that do not depend on a variant.
func Of(id ScenarioID) Place { return Place{Scenario: id} }

// owner returns the first path segment below a table or below _state.
func (p Place) owner() string {
	if p.Workload != "" {
		return "workload=" + string(p.Workload)
	}
	return "scenario=" + string(p.Scenario)
}

// String returns the name of the place in messages.
func (p Place) String() string {
	switch {
	case p.Workload != "":
		return "workload " + string(p.Workload)
	case !p.Variant.IsZero():
		return fmt.Sprintf("scenario %s, variant %s", p.Scenario, p.Variant)
	}
	return "scenario " + string(p.Scenario)
}

// Dir returns the lake-relative directory of the place's files of a table.
func (p Place) Dir(t schema.Table) string {
	if p.Workload != "" {
		return t.WorkloadName() + "/" + p.owner()
	}
	dir := t.Name + "/" + p.owner()
	if p.Scenario.Hidden() {
		dir = hiddenDir + "/" + dir
	}
	if t.Variant {
		dir += "/variant=" + p.Variant.String()
	}
	return dir
}

// dirIn is Dir for a lake of another version.
func (p Place) dirIn(version int, t schema.Table) string {
	if p.Workload != "" && version < schema.WorkloadFolders {
		return t.Name + "/" + p.owner()
	}
	return p.Dir(t)
}

// keys returns the columns of a table's files that identify the place.
func (p Place) keys(t schema.Table) (keys []parquet.Key) {
	if p.Workload != "" {
		if t.Temporary || t.Shared {
			return nil
		}
		return []parquet.Key{{Column: schema.WorkloadKey, Value: string(p.Workload)}}
	}
	for _, column := range t.ScenarioKeys() {
		value := string(p.Scenario)
		if column == schema.VariantKey {
			value = p.Variant.String()
		}
		keys = append(keys, parquet.Key{Column: column, Value: value})
	}
	return keys
}

// File returns the lake-relative path of data file n of a table.
func (p Place) File(t schema.Table, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", p.Dir(t), n)
}

// StatePath returns the lake-relative path of a state file of the place.
func (p Place) StatePath(elem ...string) string {
	path := stateDir + "/" + p.owner()
	if !p.Variant.IsZero() {
		path += "/variant=" + p.Variant.String()
	}
	for _, e := range elem {
		path += "/" + e
	}
	return path
}
