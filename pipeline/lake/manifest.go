package lake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/together"
	"parsimon/schema/variant"
)

// A Manifest names the committed data files of one place: of a scenario, of one variant of a scenario, or of
// a workload. Readers see only the files that the manifests of a lake name.
//
//	write files ─► fsync files and directories ─► rename manifest ─► fsync directory ─► remove files that nothing names
//
// At any point, readers see either all files of the old manifest or all files of the new one. This also
// applies if the writer is killed.
type Manifest struct {
	SchemaVersion int `json:"schema_version"`
	Place
	Files []DataFile `json:"files"`
}

const manifestFile = "manifest.json"

// check returns an error if the manifest belongs to another place or names files of another place.
func (m Manifest) check(p Place) error {
	if m.Place != p {
		return fmt.Errorf("it is the manifest of %s", m.Place)
	}
	if !schema.Readable(m.SchemaVersion) {
		return &VersionError{p.String(), m.SchemaVersion}
	}
	for _, f := range m.Files {
		t, err := f.Table()
		if err != nil {
			return err
		}
		dir, name := filepath.Split(f.Path)
		named := strings.HasPrefix(name, "part-") && !strings.ContainsAny(name, `*?[]\:`)
		if dir != p.dirIn(m.SchemaVersion, t)+"/" || !named || t.Temporary {
			return fmt.Errorf("it names file %q", f.Path)
		}
	}
	return nil
}

// A VersionError reports that a program with another schema version has written a lake or a manifest.
type VersionError struct {
	Of      string
	Version int
}

// Error says what the user can do.
func (e *VersionError) Error() string {
	if schema.Readable(e.Version) {
		return fmt.Sprintf("%s has schema version %d, this program writes version %d: upgrade it first "+
			"(parsimon upgrade); parsimon query, report, status, du and rm work without that", e.Of, e.Version,
			schema.Version)
	}
	return fmt.Sprintf("%s has schema version %d, this program reads versions %d to %d: make it again in a "+
		"new lake, or use the program that wrote it. Its Parquet files stay readable, and parsimon du and rm work",
		e.Of, e.Version,
		schema.OldestVersion, schema.Version)
}

// ReadManifest reads the manifest of a place. If there is none, found is false.
func (l *Lake) ReadManifest(p Place) (m Manifest, found bool, err error) {
	path := p.StatePath(manifestFile)
	found, err = l.ReadState(path, &m)
	if err == nil && found {
		m.Files = slices.DeleteFunc(m.Files, DataFile.Removed)
		if err = m.check(p); err != nil {
			err = fmt.Errorf("%s: %w", filepath.Join(l.path, path), err)
		}
	}
	return m, found, err
}

// Manifests reads the manifests of the given scenarios or, if none are given, of the whole lake. Scenarios
// and their variants come first, followed by workloads. It returns all readable manifests, and the errors of
// damaged ones as one joined error.
func (l *Lake) Manifests(scenarios ...ScenarioID) (all []Manifest, errs error) {
	var places []Place
	for _, id := range scenarios {
		p := Of(id)
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if places == nil {
		places, errs = l.places()
		if errs != nil {
			return nil, errs
		}
	}
	for _, owner := range places {
		variants, err := l.variantsOf(owner)
		if err != nil {
			return nil, err
		}
		for _, p := range append([]Place{owner}, variants...) {
			m, found, err := l.ReadManifest(p)
			errs = errors.Join(errs, err)
			if err == nil && found {
				all = append(all, m)
			}
		}
	}
	return all, errs
}

// variantsOf returns the variants of a scenario. A workload and a variant have none.
func (l *Lake) variantsOf(p Place) (all []Place, err error) {
	if p.Scenario == "" || !p.Variant.IsZero() {
		return nil, nil
	}
	found, err := l.Variants(p.Scenario)
	return names.Of(found, func(v variant.Variant) Place { return Place{Scenario: p.Scenario, Variant: v} }), err
}

// Commit makes the given files the committed files of a place. If they are committed already, it does
// nothing. It replaces a damaged manifest, but not a manifest of another schema version.
func (s *Session) Commit(p Place, files []DataFile) error {
	old, found, err := s.ReadManifest(p)
	if err == nil && found && old.SchemaVersion != schema.Version {
		return &VersionError{p.String(), old.SchemaVersion}
	}
	other := (*VersionError)(nil)
	if errors.As(err, &other) || IsReadError(err) {
		return err
	}
	known := map[string]string{} // digests by path
	if err == nil && found {
		if slices.EqualFunc(old.Files, files, func(a, b DataFile) bool {
			return a.Path == b.Path &&
				a.Digest == b.Digest
		}) {
			return nil
		}
		for _, f := range old.Files {
			known[f.Path] = f.Digest
		}
	}
	if len(files) == 0 && !found {
		return nil
	}
	files, err = s.withVersions(files)
	if err != nil {
		return err
	}
	var changed []string
	dirs := map[string]bool{}
	for _, f := range files {
		if known[f.Path] == f.Digest {
			continue
		}
		changed = append(changed, f.Path)
		for dir := filepath.Dir(f.Path); dir != "."; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	if err := s.syncAll(changed); err != nil {
		return err
	}
	if err := s.syncAll(slices.Sorted(maps.Keys(dirs))); err != nil {
		return err
	}
	return s.WriteStateDurably(p.StatePath(manifestFile), Manifest{schema.Version, p, files})
}

// withVersions returns files with the versions of those that lack columns of their table.
func (s *Session) withVersions(files []DataFile) ([]DataFile, error) {
	files = slices.Clone(files)
	for i, f := range files {
		t, err := f.Table()
		if err != nil {
			return nil, err
		}
		if f.written || f.Version != 0 || !t.Grew() {
			continue
		}
		in, err := s.openRegular(f.Path)
		if err != nil {
			return nil, err
		}
		version, err := s.footers.Version(f.Path, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if version != schema.Version {
			files[i].Version = version
		}
	}
	return files, nil
}

// syncsAtOnce is the number of files that are synced concurrently, so that the file system can write them to
// the disk together.
const syncsAtOnce = 8

// syncAll makes files, or the entries of directories, durable.
func (s *Session) syncAll(paths []string) error {
	var all errgroup.Group
	all.SetLimit(syncsAtOnce)
	for _, path := range paths {
		all.Go(func() error {
			return together.Do(func() error { return s.root.Sync(path) })
		})
	}
	return all.Wait()
}

// Withdraw removes the manifests of a scenario and all its variants, of one variant, or of a workload.
// Readers then no longer see it. Its data files stay.
func (s *Session) Withdraw(p Place) error {
	variants, err := s.variantsOf(p)
	if err != nil {
		return err
	}
	for _, p := range append(variants, p) { // variants refer to the flows of the scenario, so they come first
		if !s.Exists(p.StatePath(manifestFile)) {
			continue
		}
		if err := s.root.Remove(p.StatePath(manifestFile)); err != nil {
			return err
		}
		if err := s.root.Sync(p.StatePath()); err != nil {
			return err
		}
	}
	return nil
}

// Publish adds files that no stage writes to the committed files of their place, all at once. They replace
// files that were written to the same paths before.
func (s *Session) Publish(p Place, files ...DataFile) error {
	m, _, err := s.ReadManifest(p)
	if err != nil {
		return err
	}
	replaced := map[string]bool{}
	for _, f := range files {
		replaced[original(f.Path)] = true
	}
	old := slices.DeleteFunc(slices.Clone(m.Files), func(f DataFile) bool { return replaced[original(f.Path)] })
	return s.Commit(p, append(old, files...))
}

// PublishRows writes tables that no stage writes, such as a comparison. It writes each table to a file with
// the given name, and publishes the files together.
func (s *Session) PublishRows(p Place, name string, tables ...arrow.Record) error {
	var files []DataFile
	for _, rec := range tables {
		of, _ := rec.Schema().Metadata().GetValue(schema.TableKey)
		t, err := schema.ByName(of)
		if err != nil {
			return err
		}
		d, err := s.WriteFile(t, p, p.Dir(t)+"/part-"+name+".parquet", rec)
		rec.Release()
		if err != nil {
			return err
		}
		files = append(files, d)
	}
	return s.Publish(p, files...)
}

// RemoveUnlisted removes the data files of a scenario or workload, including all its variants, for whose
// lake-relative paths keep returns false. While a reader holds LockForReading, it removes nothing and leaves
// the files to a later call.
func (s *Session) RemoveUnlisted(p Place, keep func(path string) bool) error {
	f, err := s.root.OpenLock(readersLock)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // this releases the lock
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.EachFile(p, func(f FileUsage) error {
		if f.Table == stateDir || keep(f.Path) {
			return nil
		}
		return s.root.Remove(f.Path)
	})
	for _, folder := range p.folders() { // those that are empty now
		_ = s.root.Remove(folder + "/" + p.owner())
		_ = s.root.Remove(folder)
	}
	return err
}

// A sealed is the content of a state file: a value, and a digest that reveals damage.
type sealed struct {
	Digest string          `json:"xxh3"` // of State without white space
	State  json.RawMessage `json:"state"`
}

// maxStateBytes is the maximum size of a state file.
const maxStateBytes = 256 << 20

// ReadState reads the state file at a lake-relative path into v. If the file does not exist, found is false.
// If it is damaged, the error names it.
func (l *Lake) ReadState(path string, v any) (found bool, err error) {
	f, err := l.openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxStateBytes))
	if err != nil {
		return false, err
	}
	fail := func(why any) (bool, error) {
		return false, &DamageError{filepath.Join(l.path, path), fmt.Sprintf("damaged state file: %v", why)}
	}
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return fail(err)
	}
	if digest, err := sealOf(s.State); err != nil || digest != s.Digest {
		return fail("its digest does not match")
	}
	if err := json.Unmarshal(s.State, v); err != nil {
		return fail(err)
	}
	return true, nil
}

// StateFiles returns the names of the files in a lake-relative directory of state files. If the directory
// does not exist, it returns none.
func (l *Lake) StateFiles(path string) (map[string]bool, error) {
	entries, err := l.readDir(path)
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names, err
}

// sealOf returns the digest of a state without white space.
func sealOf(state []byte) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, state); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", xxh3.Hash(b.Bytes())), nil
}

// WriteState replaces the state file at a lake-relative path atomically. A power failure may undo the
// replacement.
func (s *Session) WriteState(path string, v any) error { return s.writeState(path, v, false) }

// WriteStateDurably is WriteState, but a power failure does not undo the replacement.
func (s *Session) WriteStateDurably(path string, v any) error { return s.writeState(path, v, true) }

func (s *Session) writeState(path string, v any, durably bool) error {
	state, err := json.Marshal(v)
	if err != nil {
		return err
	}
	digest, err := sealOf(state)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(sealed{digest, state}, "", " ")
	if err != nil {
		return err
	}
	f, tmp, err := s.createTemp("state", "json")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil && durably {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), s.root.Remove(tmp))
	}
	if err := s.install(tmp, path); err != nil || !durably {
		return err
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if err := s.root.Sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// RemoveState removes a state file or a directory of state files. It is not an error if the path does not
// exist.
func (s *Session) RemoveState(path string) error { return s.root.RemoveAll(path) }

// answerFile is the name of the state file that records the answer of a scenario.
const answerFile = "answer.json"

// Answer returns the variant of the final estimate of a scenario's last run. If there is none, or it cannot
// be read, Answer returns the zero value, and readers use the best available variant.
func (l *Lake) Answer(id ScenarioID) variant.Variant {
	v, _ := l.ReadAnswer(id)
	return v
}

// ReadAnswer is Answer, but returns the errors of reading the file.
func (l *Lake) ReadAnswer(id ScenarioID) (variant.Variant, error) {
	var v variant.Variant
	found, err := l.ReadState(Of(id).StatePath(answerFile), &v)
	if err != nil || !found {
		return variant.Variant{}, err
	}
	return v, nil
}

// SetAnswer records a variant as the answer of a scenario.
func (s *Session) SetAnswer(id ScenarioID, v variant.Variant) error {
	if s.Answer(id) == v {
		return nil
	}
	return s.WriteStateDurably(Of(id).StatePath(answerFile), v)
}
