package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zeebo/xxh3"

	"parsimon/schema"
)

// A Lake is a directory of hive-partitioned Parquet:
//
//	LAKE/<table>/scenario=<id>[/variant=<estimator>]/part-NNNNN.parquet    what people read
//	LAKE/<table>/workload=<id>/part-NNNNN.parquet                          ingested traces
//	LAKE/parsimon.duckdb                                                   views over it
//	LAKE/_state/scenario=<id>/...                                          what is done (JSON)
//	LAKE/_tmp/scenario=<id>/                                               files being written
//
// A file is written below _tmp and renamed to its place when it is complete, so nothing half
// written is ever read. A task of a stage is done when its record stands in _state, which is
// written after the task's files; a record whose files are gone or damaged does not count.
type Lake struct {
	root string
	tmp  string // where files are written; set by lock

	footers *footers
}

// fork is the same lake for another that writes to it.
func (l *Lake) fork() *Lake { return &Lake{root: l.root, footers: l.footers} }

const stateDir, tmpDir = "_state", "_tmp"

// OpenLake opens the lake in a directory; with create, it makes the directory.
func OpenLake(dir string, create bool) (*Lake, error) {
	if dir == "" {
		return nil, fmt.Errorf("no lake given")
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if create {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	return &Lake{root: root, footers: new(footers)}, nil
}

// Root is the lake's directory, absolute.
func (l *Lake) Root() string { return l.root }

// place says where results stand: a scenario and, for tables that depend on it, how they were
// estimated.
type place struct {
	scenario, variant string
}

// dir is the lake-relative directory of a table's files.
func (p place) dir(t schema.Table) string {
	d := t.Name + "/scenario=" + p.scenario
	if t.Variant {
		d += "/variant=" + p.variant
	}
	return d
}

// file is the lake-relative path of a table's n-th part.
func (p place) file(t schema.Table, n int) string {
	return fmt.Sprintf("%s/part-%05d.parquet", p.dir(t), n)
}

// A part is one committed file of a table.
type part struct {
	Path   string `json:"path"` // relative to the lake
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"xxh3"`           // of its bytes
	Gone   bool   `json:"gone,omitempty"` // let go when nobody needed it any more (tidy.go)

	file os.FileInfo // of the file that this process put there, if it did
}

// A partWriter is a file of a table being written; it is a schema.Sink.
type partWriter struct {
	lake *Lake
	rel  string
	file *os.File
	hash *xxh3.Hasher
	w    *tableWriter
	done bool
}

// create starts a file that commit will put at the lake-relative path rel.
func (l *Lake) create(t schema.Table, rel string) (*partWriter, error) {
	f, err := os.CreateTemp(l.tmp, t.Name+"-*.parquet")
	if err != nil {
		return nil, err
	}
	hash := xxh3.New()
	return &partWriter{lake: l, rel: rel, file: f, hash: hash, w: newTableWriter(t, io.MultiWriter(f, hash))}, nil
}

// Write appends a batch.
func (p *partWriter) Write(rec arrow.Record) error {
	if err := p.w.write(rec); err != nil {
		return fmt.Errorf("writing %s: %w", p.rel, err)
	}
	return nil
}

// commit completes the file and puts it in its place.
func (p *partWriter) commit() (part, error) {
	fail := func(err error) (part, error) {
		return part{}, fmt.Errorf("writing %s: %w", p.rel, err)
	}
	if err := p.w.close(); err != nil {
		return fail(err)
	}
	info, err := p.file.Stat()
	if err != nil {
		return fail(err)
	}
	if err := p.file.Chmod(0o644); err != nil {
		return fail(err)
	}
	if err := p.file.Close(); err != nil {
		return fail(err)
	}
	target := filepath.Join(p.lake.root, filepath.FromSlash(p.rel))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fail(err)
	}
	if err := os.Rename(p.file.Name(), target); err != nil {
		return fail(err)
	}
	p.done = true
	return part{Path: p.rel, Rows: p.w.rows, Bytes: info.Size(), Digest: fmt.Sprintf("%016x", p.hash.Sum64()), file: info}, nil
}

// abandon removes the file unless it was committed. Deferred after create.
func (p *partWriter) abandon() {
	if !p.done {
		_ = p.file.Close() // the write error, if any, has been reported
		_ = os.Remove(p.file.Name())
	}
}

// writePart writes one whole file of a table.
func (l *Lake) writePart(t schema.Table, rel string, recs ...arrow.Record) (part, error) {
	w, err := l.create(t, rel)
	if err != nil {
		return part{}, err
	}
	defer w.abandon()
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			return part{}, err
		}
	}
	return w.commit()
}

// read streams columns (all if nil) of committed parts of a table.
func (l *Lake) read(t schema.Table, parts []part, columns []string, keep *keyRange) schema.Batches {
	files := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Gone {
			return goneBatches{p.Path}
		}
		if p.Rows > 0 {
			files = append(files, filepath.Join(l.root, filepath.FromSlash(p.Path)))
		}
	}
	return &tableReader{table: t, files: files, columns: columns, keep: keep, footers: l.footers}
}

// check reports what is wrong with a committed part: gone, of another size, with other bytes, or not
// readable as the table it belongs to.
func (l *Lake) check(p part) error {
	if err := l.checkSize(p); err != nil {
		return err
	}
	t, err := tableOf(p.Path)
	if err != nil {
		return err
	}
	path := filepath.Join(l.root, filepath.FromSlash(p.Path))
	rows, err := parquetRows(path, t)
	if err != nil {
		return err
	}
	if rows != p.Rows {
		return fmt.Errorf("%s: %d rows, %d were committed", path, rows, p.Rows)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	digest, err := digestFile(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if digest != p.Digest {
		return fmt.Errorf("%s: its bytes are not those that were committed", path)
	}
	return nil
}

// checkSize reports a committed part that is gone or of another size.
func (l *Lake) checkSize(p part) error {
	if p.Gone {
		return &tidiedError{p.Path}
	}
	path := filepath.Join(l.root, filepath.FromSlash(p.Path))
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() != p.Bytes {
		return fmt.Errorf("%s: %d bytes, %d were committed", path, info.Size(), p.Bytes)
	}
	return nil
}

// removeTable deletes a table's files of one place.
func (l *Lake) removeTable(t schema.Table, at place) error {
	return os.RemoveAll(filepath.Join(l.root, filepath.FromSlash(at.dir(t))))
}

// statePath is the path of a state file of a place.
func (l *Lake) statePath(at place, elem ...string) string {
	parts := []string{l.root, stateDir, "scenario=" + at.scenario}
	if at.variant != "" {
		parts = append(parts, "variant="+at.variant)
	}
	return filepath.Join(append(parts, elem...)...)
}

// A sealed is a state file: what it says, and a digest by which damage shows.
type sealed struct {
	Digest string          `json:"xxh3"` // of State, white space removed
	State  json.RawMessage `json:"state"`
}

func seal(state []byte) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, state); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", xxh3.Hash(b.Bytes())), nil
}

// writeState puts a state file in place, whole or not at all.
func (l *Lake) writeState(path string, v any) error {
	state, err := json.Marshal(v)
	if err != nil {
		return err
	}
	digest, err := seal(state)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(sealed{digest, state}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(l.tmp, "state-*.json")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

// readState reads a state file; found is false where there is none.
func (l *Lake) readState(path string, v any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return false, fmt.Errorf("%s: damaged state file: %w", path, err)
	}
	digest, err := seal(s.State)
	if err != nil || digest != s.Digest {
		return false, fmt.Errorf("%s: damaged state file: it is not as it was written", path)
	}
	if err := json.Unmarshal(s.State, v); err != nil {
		return false, fmt.Errorf("%s: damaged state file: %w", path, err)
	}
	return true, nil
}

// ErrBusy is wrapped by the error of a run that finds another at work on the same scenario.
var ErrBusy = errors.New("another run is at work on it")

// lock keeps a scenario of the lake to one process; the lock goes with the process that holds it.
// It clears what a killed run left half written.
func (l *Lake) lock(scenario string) (unlock func(), err error) {
	return l.lockAt("scenario="+scenario, "scenario "+scenario)
}

// lockAt is lock for anything that has a directory of its own below _state.
func (l *Lake) lockAt(dir, what string) (unlock func(), err error) {
	path := filepath.Join(l.root, stateDir, dir, "lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s in lake %s: %w", what, l.root, ErrBusy)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	l.tmp = filepath.Join(l.root, tmpDir, dir)
	if err := errors.Join(os.RemoveAll(l.tmp), os.MkdirAll(l.tmp, 0o755)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() {
		_ = os.RemoveAll(l.tmp)
		_ = os.Remove(filepath.Dir(l.tmp)) // if no other scenario is being written
		_ = f.Close()
	}, nil
}

// scenarios lists the ids of the scenarios the lake knows, most recently worked on last.
func (l *Lake) scenarios() ([]string, error) {
	type entry struct {
		id  string
		mod int64
	}
	dirs, err := os.ReadDir(filepath.Join(l.root, stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []entry
	for _, d := range dirs {
		id, ok := strings.CutPrefix(d.Name(), "scenario=")
		if !ok {
			continue
		}
		info, err := os.Stat(l.statePath(place{scenario: id}, "spec.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, entry{id, info.ModTime().UnixNano()})
	}
	slices.SortFunc(found, func(a, b entry) int {
		if a.mod != b.mod {
			return int(min(1, max(-1, a.mod-b.mod)))
		}
		return strings.Compare(a.id, b.id)
	})
	ids := make([]string, len(found))
	for i, e := range found {
		ids[i] = e.id
	}
	return ids, nil
}
