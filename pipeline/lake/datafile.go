package lake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/zeebo/xxh3"

	"parsimon/pipeline/lake/disk"
	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/footer"
)

// A DataFile is one committed file of a table.
type DataFile struct {
	Path   string `json:"path"` // relative to the lake
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"xxh3"` // of its bytes

	written bool // by this process
}

// Table is the table that the file belongs to.
func (d DataFile) Table() (schema.Table, error) {
	name, _, _ := strings.Cut(d.Path, "/")
	return schema.ByName(name)
}

// Of reports whether the file belongs to a table.
func (d DataFile) Of(t schema.Table) bool { return strings.HasPrefix(d.Path, t.Name+"/") }

// FilesOf selects the files of one table, in order.
func FilesOf(files []DataFile, t schema.Table) []DataFile {
	return slices.DeleteFunc(slices.Clone(files), func(f DataFile) bool { return !f.Of(t) })
}

// A CollectedError is the error of reading a file of a temporary table that is not there: it was removed because no
// stage needed it any more. The stage that writes it must run again.
type CollectedError struct{ Path string }

// Error names the file.
func (e *CollectedError) Error() string {
	return e.Path + " was removed when no stage needed it any more: run the stage that writes it again, or the scenario with --keep in another lake"
}

// IsCollected reports whether an error is, or wraps, a *CollectedError.
func IsCollected(err error) bool { return errors.As(err, new(*CollectedError)) }

// Collected reports whether a file was collected.
func (l *Lake) Collected(d DataFile) bool {
	t, err := d.Table()
	return err == nil && t.Temporary && !l.Exists(d.Path)
}

// Read streams data files of one table, in order. Each file is checked before this process reads it first. With keep,
// batches whose rows all lie outside the range are left out; rows outside it can still be returned.
func (l *Lake) Read(t schema.Table, files []DataFile, keep *Range) schema.Batches {
	var paths []string
	for _, f := range files {
		if l.Collected(f) {
			return failed{&CollectedError{f.Path}}
		}
		if err := l.verify(f); err != nil {
			return failed{err}
		}
		if f.Rows > 0 {
			paths = append(paths, f.Path)
		}
	}
	return parquet.NewReader(t, l.openRegular, paths, keep, l.footers).Within(l.bounds)
}

// A Range selects the rows whose value of a column is in [Lo, Hi).
type Range = parquet.Range

type failed struct{ err error }

func (f failed) Next(...string) (arrow.Record, error) { return nil, f.err }
func (f failed) Close() error                         { return nil }

// Check reports damage of a committed file: not there, of another size or with other bytes. It reads all of
// them, since a byte that rots changes neither size nor time of a file.
func (l *Lake) Check(d DataFile) error {
	if err := l.CheckSize(d); err != nil {
		return err
	}
	path := filepath.Join(l.path, d.Path)
	f, err := l.openRegular(d.Path)
	if err != nil {
		if l.Collected(d) { // meanwhile
			return &CollectedError{d.Path}
		}
		return err
	}
	digest, err := digestOf(f)
	var wrong error
	rows := d.Rows
	if err == nil && digest == d.Digest {
		rows, wrong = footer.Check(f, d.Bytes) // a stranger's lake has digests that match, too
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case digest != d.Digest:
		return &DamageError{path, "its bytes are not those that were committed"}
	case errors.As(wrong, new(*footer.Error)):
		return &DamageError{path, wrong.Error()}
	case wrong != nil:
		return fmt.Errorf("%s: %w", path, wrong)
	case rows != d.Rows:
		return &DamageError{path, fmt.Sprintf("it has %d rows, and its record says %d", rows, d.Rows)}
	}
	return nil
}

// verify is Check of a file that this process neither wrote nor verified.
func (l *Lake) verify(d DataFile) error {
	key := [2]string{d.Path, d.Digest}
	if _, done := l.verified.Load(key); done || d.written {
		return nil
	}
	err := l.Check(d)
	if err == nil {
		l.verified.Store(key, true)
	}
	return err
}

// A DamageError is the error of a file that is not as it was committed. Errors of another type, such as those of a disk
// or of permissions, say nothing about the file: it must not be given up for them.
type DamageError struct{ Path, Why string }

// Error names the file.
func (e *DamageError) Error() string { return e.Path + ": " + e.Why }

// IsReadError reports whether an error is one of the disk or of permissions, which says nothing about the file. That
// its path leads nowhere, as that of a link to itself, does say something.
func IsReadError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ELOOP && errno != syscall.ENOTDIR && errno != syscall.ENAMETOOLONG
}

func digestOf(f *os.File) (string, error) {
	hash := xxh3.New()
	if _, err := f.WriteTo(hash); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

// CheckSize reports a committed file that is not there or of another size.
func (l *Lake) CheckSize(d DataFile) error {
	path := filepath.Join(l.path, d.Path)
	info, err := l.root.Stat(d.Path)
	if l.Collected(d) {
		return &CollectedError{d.Path}
	}
	if err != nil {
		return &DamageError{path, err.Error()}
	}
	if filepath.Ext(path) != ".parquet" {
		return &DamageError{path, "it was written by another version"}
	}
	if info.Size() != d.Bytes {
		return &DamageError{path, fmt.Sprintf("%d bytes, %d were committed", info.Size(), d.Bytes)}
	}
	return nil
}

// A Writer writes one data file. It is a schema.Sink.
type Writer struct {
	session *Session
	path    string // where Commit installs the file, relative to the lake
	tmp     string
	file    *disk.File
	hash    *xxh3.Hasher
	encoder *parquet.Writer
	done    bool
}

// Create starts the file that Commit installs at a lake-relative path or, if there is a file, beside it.
func (s *Session) Create(t schema.Table, path string) (*Writer, error) {
	f, tmp, err := s.createTemp(t.Name, "parquet")
	if err != nil {
		return nil, err
	}
	hash := xxh3.New()
	w := parquet.NewWriter(t, io.MultiWriter(f, hash))
	return &Writer{session: s, path: path, tmp: tmp, file: f, hash: hash, encoder: w}, nil
}

// createTemp creates an unfinished file of the session and returns it with its lake-relative path.
func (s *Session) createTemp(name, extension string) (*disk.File, string, error) {
	path := fmt.Sprintf("%s/new-%s-%d.%s", s.tmp, name, s.next.Add(1), extension)
	f, err := s.root.Create(path)
	return f, path, err
}

// install renames an unfinished state file to its place.
func (s *Session) install(tmp, path string) error {
	if err := s.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return s.root.Rename(tmp, path)
}

// link makes a file also the file at another path or, if there is a file, at that of another one beside it, which it
// returns: part-00003.parquet becomes part-00003~1.parquet. No data file is ever overwritten: readers may see it, and
// another process may have recorded it. linked is false where the file system has no hard links; then no file has the
// returned name.
func (s *Session) link(from, path string) (to string, linked bool, err error) {
	if err := s.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", false, err
	}
	extension := filepath.Ext(path)
	to = path
	for n := 1; ; n++ {
		err = s.root.Link(from, to)
		if noHardLinks(err) {
			if _, err = s.root.Lstat(to); errors.Is(err, fs.ErrNotExist) {
				return to, false, nil
			}
		} else if !errors.Is(err, fs.ErrExist) {
			return to, err == nil, err
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", false, err
		}
		to = fmt.Sprintf("%s~%d%s", strings.TrimSuffix(path, extension), n, extension)
	}
}

// noHardLinks reports whether an error says that the file system has no hard links, or that a file has as many as it
// can have.
func noHardLinks(err error) bool {
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EMLINK,
		syscall.EXDEV} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

var suffix = regexp.MustCompile(`~[0-9]+(\.[a-z]+)$`)

// original is the path that a data file was to have before link.
func original(path string) string { return suffix.ReplaceAllString(path, "$1") }

// Write appends a batch.
func (w *Writer) Write(rec arrow.Record) error {
	if err := w.encoder.Write(rec); err != nil {
		return fmt.Errorf("writing %s: %w", w.path, err)
	}
	return nil
}

// Commit completes the file and installs it.
func (w *Writer) Commit() (d DataFile, err error) {
	info, err := w.complete()
	if err != nil {
		return DataFile{}, fmt.Errorf("writing %s: %w", w.path, err)
	}
	return DataFile{Path: w.path, Rows: w.encoder.Rows(), Bytes: info.Size(), Digest: fmt.Sprintf("%016x", w.hash.Sum64()),
		written: true}, nil
}

func (w *Writer) complete() (info fs.FileInfo, err error) {
	if err := w.encoder.Close(); err != nil {
		return nil, err
	}
	if info, err = w.file.Stat(); err != nil {
		return nil, err
	}
	if err := w.file.Close(); err != nil {
		return nil, err
	}
	to, linked, err := w.session.link(w.tmp, w.path)
	switch {
	case err != nil:
	case linked:
		err = w.session.root.Remove(w.tmp)
	default:
		err = w.session.install(w.tmp, to)
	}
	w.path, w.done = to, err == nil
	return info, err
}

// Abandon removes the file unless it was committed. Callers defer it after Create.
func (w *Writer) Abandon() {
	if !w.done {
		_ = w.file.Close() // a write error has been reported
		_ = w.session.root.Remove(w.tmp)
	}
}

// WriteFile writes one whole file of a table.
func (s *Session) WriteFile(t schema.Table, path string, recs ...arrow.Record) (DataFile, error) {
	w, err := s.Create(t, path)
	if err != nil {
		return DataFile{}, err
	}
	defer w.Abandon()
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			return DataFile{}, err
		}
	}
	return w.Commit()
}

// Share makes a committed file also the file at another lake-relative path or, if there is a file, beside it. It takes
// no space where the file system has hard links, and stays when either place is removed.
func (s *Session) Share(d DataFile, path string) (DataFile, error) {
	fail := func(err error) (DataFile, error) { return DataFile{}, fmt.Errorf("sharing %s: %w", d.Path, err) }
	in, err := s.openRegular(d.Path)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = in.Close() }() // only read
	from := d.Path
	var linked bool
	if d.Path, linked, err = s.link(from, path); err != nil || linked {
		return d, err
	}
	out, tmp, err := s.createTemp("shared", "parquet")
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(struct{ io.Writer }{out}, in) // by Write
	if err := errors.Join(err, out.Close()); err != nil {
		return fail(errors.Join(err, s.root.Remove(tmp)))
	}
	if err := s.install(tmp, d.Path); err != nil {
		return fail(err)
	}
	return d, nil
}

// RemoveTable removes the place's files of a table.
func (s *Session) RemoveTable(t schema.Table, p Place) error { return s.root.RemoveAll(p.Dir(t)) }

// RemoveUncommitted is RemovePlace for a place that this session made and did not complete. It removes nothing if
// other sessions may work on the place, or if a manifest of it names a file or cannot be read.
func (s *Session) RemoveUncommitted(p Place) error {
	if s.shared {
		return nil
	}
	variants, err := s.variantsOf(p)
	if err != nil {
		return err
	}
	for _, place := range append(variants, p) {
		if m, _, err := s.ReadManifest(place); err != nil || len(m.Files) > 0 {
			return err
		}
	}
	return s.RemovePlace(p)
}

// RemovePlace removes all files and the state of a scenario or workload: the manifests first, so that no reader sees a
// part of it, and what it is known by last, so that a killed removal can be repeated. The lock goes with that, so that
// no other process begins it again meanwhile.
func (s *Session) RemovePlace(p Place) error {
	if err := s.Withdraw(p); err != nil {
		return err
	}
	var errs error
	for _, t := range schema.Tables() {
		errs = errors.Join(errs, s.root.RemoveAll(t.Name+"/"+p.owner()))
		_ = s.root.Remove(t.Name) // if it is empty now
	}
	if errs != nil {
		return errs
	}
	kept := []string{lockFile, specFile, workloadFile, EphemeralFile} // until the end
	entries, errs := s.readDir(p.StatePath())
	for _, e := range entries {
		if name := e.Name(); !slices.Contains(kept, name) {
			errs = errors.Join(errs, s.root.RemoveAll(p.StatePath(name)))
		}
	}
	// Unfinished files go before it: who repeats a removal that was killed later finds nothing, and writes nothing.
	errs = errors.Join(errs, s.root.RemoveAll(filepath.Join(tmpDir, p.owner())))
	if errs != nil {
		return errs
	}
	_ = s.root.Remove(tmpDir) // unless another session writes
	return s.root.RemoveAll(p.StatePath())
}

// A FileUsage is one file below a scenario or workload.
type FileUsage struct {
	Path     string // relative to the lake
	Table    string // or _state
	Bytes    int64
	Links    uint64 // hard links: scenarios that share it
	Identity Identity
}

// An Identity distinguishes a file from others.
type Identity struct{ device, inode uint64 }

// EachFile calls do for every file of a scenario or workload, of its tables and its state.
func (l *Lake) EachFile(p Place, do func(f FileUsage) error) error {
	dirs := []string{stateDir}
	for _, t := range schema.Tables() {
		dirs = append(dirs, t.Name)
	}
	for _, dir := range dirs {
		err := fs.WalkDir(l.root.FS(), dir+"/"+p.owner(), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			f := FileUsage{Path: path, Table: dir, Bytes: info.Size(), Links: 1}
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				f.Links = uint64(s.Nlink)                   //nolint:unconvert // narrower on other systems
				f.Identity = Identity{uint64(s.Dev), s.Ino} //nolint:unconvert // likewise
			}
			return do(f)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// chunkRows is how many flows data file n of table flows holds, and so how many one task of route or sample works on:
// few at first, so that small workloads have several tasks, and more the longer the workload turns out to be, so that a
// range of links is worth reading from every file. It is part of the lake's layout, not a setting: the tasks of
// different runs must be the same.
func chunkRows(n int) int64 {
	const first, most = 1 << 15, 1 << 20
	return min(most, int64(first)<<min(n/16, 5))
}

// FlowStats say what some flows, in start order, are.
type FlowStats struct {
	Flows           int64 `json:"-"`
	FirstStartNS    int64 `json:"first_start_ns"`
	LastStartNS     int64 `json:"last_start_ns"`
	SyntheticStarts int64 `json:"synthetic_starts"` // flows whose start was not measured
	Bytes           int64 `json:"bytes,omitempty"`  // 0: not known, in lakes of older versions
}

// add adds the flows after those.
func (s *FlowStats) add(o FlowStats) {
	if s.Flows == 0 {
		s.FirstStartNS = o.FirstStartNS
	}
	s.LastStartNS = o.LastStartNS
	s.Flows += o.Flows
	s.SyntheticStarts += o.SyntheticStarts
	s.Bytes += o.Bytes
}

// A FlowWriter writes table flows, in start order, chunkRows(n) rows to data file n. It is a schema.Sink.
type FlowWriter struct {
	Chunks []FlowStats // of each data file

	session *Session
	place   Place
	add     func(rows int64)
	open    *Writer // the last data file; nil: the next row begins one
	files   []DataFile
}

// NewFlowWriter writes the flows of a scenario or workload. add is called with the number of rows written.
func NewFlowWriter(s *Session, p Place, add func(rows int64)) *FlowWriter {
	return &FlowWriter{session: s, place: p, add: add}
}

// Stats say what the flows written so far are.
func (c *FlowWriter) Stats() (all FlowStats) {
	for _, chunk := range c.Chunks {
		all.add(chunk)
	}
	return all
}

// Share makes a committed file of another place the next one, if it is as long as a FlowWriter makes it and none is
// open.
func (c *FlowWriter) Share(d DataFile, has FlowStats) (done bool, err error) {
	if c.open != nil || d.Rows != chunkRows(len(c.files)) {
		return false, nil
	}
	if d, err = c.session.Share(d, c.path()); err != nil {
		return false, err
	}
	has.Flows = d.Rows
	c.files, c.Chunks = append(c.files, d), append(c.Chunks, has)
	c.add(d.Rows)
	return true, nil
}

func (c *FlowWriter) path() string { return c.place.File(schema.Flows, len(c.files)) }

// Write appends a batch, across files where it must.
func (c *FlowWriter) Write(rec arrow.Record) error {
	for at := int64(0); at < rec.NumRows(); {
		if c.open == nil {
			w, err := c.session.Create(schema.Flows, c.path())
			if err != nil {
				return err
			}
			c.open, c.Chunks = w, append(c.Chunks, FlowStats{})
		}
		chunk, limit := &c.Chunks[len(c.files)], chunkRows(len(c.files))
		part := rec.NewSlice(at, min(rec.NumRows(), at+limit-chunk.Flows))
		err := c.open.Write(part)
		has := statsOf(part)
		part.Release()
		if err != nil {
			return err
		}
		at += has.Flows
		chunk.add(has)
		c.add(has.Flows)
		if chunk.Flows == limit {
			if err := c.closeFile(); err != nil {
				return err
			}
		}
	}
	return nil
}

func statsOf(flows arrow.Record) FlowStats {
	starts, synthetic := columns.Int64s(flows, "start_ns"), columns.Named(flows, "synthetic_start").(*array.Boolean)
	s := FlowStats{Flows: int64(len(starts)), FirstStartNS: starts[0], LastStartNS: starts[len(starts)-1]}
	for i, bytes := range columns.Int64s(flows, "size_bytes") {
		s.Bytes += bytes
		if synthetic.Value(i) {
			s.SyntheticStarts++
		}
	}
	return s
}

func (c *FlowWriter) closeFile() error {
	d, err := c.open.Commit()
	if err != nil {
		return err
	}
	c.files, c.open = append(c.files, d), nil
	return nil
}

// Finish commits the last file and returns all of them.
func (c *FlowWriter) Finish() ([]DataFile, error) {
	if c.open != nil {
		if err := c.closeFile(); err != nil {
			return nil, err
		}
	}
	return c.files, nil
}

// Abandon removes the file that is not finished. Callers defer it.
func (c *FlowWriter) Abandon() {
	if c.open != nil {
		c.open.Abandon()
	}
}
