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
	Digest string `json:"xxh3"` // of the file's bytes
	// Version is the schema version of the file. 0 stands for that of the manifest, or for a file that has
	// all columns of that version.
	Version int `json:"schema_version,omitempty"`

	written bool // by this process
}

// Table returns the table that the file belongs to.
func (d DataFile) Table() (schema.Table, error) {
	return schema.ByFolder(d.folder())
}

// folder returns the folder of the table that the file belongs to.
func (d DataFile) folder() string {
	folder, _, _ := strings.Cut(strings.TrimPrefix(d.Path, hiddenDir+"/"), "/")
	return folder
}

// Of reports whether the file belongs to a table.
func (d DataFile) Of(t schema.Table) bool {
	return slices.Contains(t.Folders(), d.folder())
}

// Is reports whether the file is data file n of a table of a place, or one that was installed beside it.
func (d DataFile) Is(p Place, t schema.Table, n int) bool { return original(d.Path) == p.File(t, n) }

// Removed reports whether the file belongs to a table that this program no longer has.
func (d DataFile) Removed() bool { return slices.Contains(schema.Removed, d.folder()) }

// FilesOf returns the files of one table, in order.
func FilesOf(files []DataFile, t schema.Table) []DataFile {
	return slices.DeleteFunc(slices.Clone(files), func(f DataFile) bool { return !f.Of(t) })
}

// A CollectedError is the error of reading a file of a temporary table that was removed because no stage
// needed it any longer. The stage that writes the table must run again.
type CollectedError struct{ Path string }

// Error names the file.
func (e *CollectedError) Error() string {
	return e.Path + " was removed when no stage needed it any more: run the stage that writes it again, or the " +
		"scenario with --keep in another lake"
}

// IsCollected reports whether an error is, or wraps, a *CollectedError.
func IsCollected(err error) bool { return errors.As(err, new(*CollectedError)) }

// Collected reports whether a file was collected.
func (l *Lake) Collected(d DataFile) bool {
	t, err := d.Table()
	return err == nil && t.Temporary && !l.Exists(d.Path)
}

// Read streams data files of one table, in order. Each file is verified before this process reads it for the
// first time. If keep is set, batches without rows in the range are skipped. The other batches can still
// contain rows outside it.
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

// OpenFile opens a committed file. It does not compare the bytes with the digest, which is left to the
// caller.
func (l *Lake) OpenFile(d DataFile) (*os.File, error) {
	if err := l.CheckSize(d); err != nil {
		return nil, err
	}
	return l.openRegular(d.Path)
}

// A Range selects the rows whose value of a column is in [Lo, Hi).
type Range = parquet.Range

type failed struct{ err error }

func (f failed) Next(...string) (arrow.Record, error) { return nil, f.err }
func (f failed) Close() error                         { return nil }

// Check returns an error if a committed file is damaged: if it is missing or its size or its bytes have
// changed. It reads the whole file, because a corrupted byte changes neither the file's size nor its time.
func (l *Lake) Check(d DataFile) error {
	if err := l.CheckSize(d); err != nil {
		return err
	}
	path := filepath.Join(l.path, d.Path)
	f, err := l.openRegular(d.Path)
	if err != nil {
		if l.Collected(d) { // removed in the meantime
			return &CollectedError{d.Path}
		}
		return err
	}
	digest, err := digestOf(f)
	var wrong error
	rows := d.Rows
	if err == nil && digest == d.Digest {
		// In a lake from an untrusted source, a damaged file can have a matching digest.
		rows, wrong = footer.Check(f, d.Bytes)
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

// A verifiedFile identifies the bytes of a file that was verified. A file that was replaced or written since
// has another inode, size or modification time.
type verifiedFile struct {
	path, digest string
	identity     Identity
	bytes        int64
	modifiedNS   int64
}

// verify calls Check unless this process wrote the file, or verified it and the file has not changed since.
func (l *Lake) verify(d DataFile) error {
	if d.written {
		return nil
	}
	info, err := l.root.Stat(d.Path) // before Check, so that a later change is found
	if err != nil {
		return l.Check(d)
	}
	key := verifiedFile{d.Path, d.Digest, identityOf(info), info.Size(), info.ModTime().UnixNano()}
	_, done := l.verified.Load(key)
	if done {
		return nil
	}
	if err := l.Check(d); err != nil {
		return err
	}
	l.verified.Store(key, true)
	return nil
}

// A DamageError reports that a file differs from what was committed. Errors of other types, such as I/O or
// permission errors, say nothing about the content of the file. They are no reason to discard it.
type DamageError struct{ Path, Why string }

// Error names the file.
func (e *DamageError) Error() string { return e.Path + ": " + e.Why }

// IsReadError reports whether an error is an I/O or permission error, which says nothing about the content of
// the file. A path that cannot be resolved, such as a link to itself, does count as damage.
func IsReadError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ELOOP && errno != syscall.ENOTDIR &&
		errno != syscall.ENAMETOOLONG
}

func digestOf(f *os.File) (string, error) {
	hash := xxh3.New()
	if _, err := f.WriteTo(hash); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

// Verification says how closely a data file is checked.
type Verification int

// The ways to check a data file.
const (
	BySize    Verification = iota // that it exists and has the committed size
	ByContent                     // that it also has the committed bytes
)

// Verify returns an error if a committed file is damaged, as far as the given check can tell.
func (l *Lake) Verify(d DataFile, how Verification) error {
	if how == ByContent {
		return l.Check(d)
	}
	return l.CheckSize(d)
}

// CheckSize returns an error if a committed file is missing or has another size.
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

// Create creates an unfinished file of a place, which Commit installs at a lake-relative path. If that path
// exists, Commit installs the file beside it.
func (s *Session) Create(t schema.Table, p Place, path string) (*Writer, error) {
	f, tmp, err := s.createTemp(t.Name, "parquet")
	if err != nil {
		return nil, err
	}
	hash := xxh3.New()
	w := parquet.NewWriter(t, io.MultiWriter(f, hash), p.keys(t)...)
	return &Writer{session: s, path: path, tmp: tmp, file: f, hash: hash, encoder: w}, nil
}

// createTemp creates an unfinished file of the session and returns it with its lake-relative path.
func (s *Session) createTemp(name, extension string) (*disk.File, string, error) {
	path := fmt.Sprintf("%s/new-%s-%d.%s", s.tmp, name, s.next.Add(1), extension)
	f, err := s.root.Create(path)
	return f, path, err
}

// install moves an unfinished state file to its final path.
func (s *Session) install(tmp, path string) error {
	if err := s.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return s.root.Rename(tmp, path)
}

// link adds a hard link at another path to a file. If that path exists, link uses a new path beside it:
// part-00003.parquet becomes part-00003~1.parquet. It returns the path that it used. Data files are never
// overwritten, because readers may be reading them and other processes may have recorded them. If the file
// system has no hard links, linked is false and no file is created.
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

// noHardLinks reports whether an error means that the file system has no hard links, or that a file has
// reached the maximum number of links.
func noHardLinks(err error) bool {
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS,
		syscall.EMLINK, syscall.EXDEV} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

var suffix = regexp.MustCompile(`~[0-9]+(\.[a-z]+)$`)

// original returns the path that was requested for a data file before link added a suffix.
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
	return DataFile{Path: w.path, Rows: w.encoder.Rows(), Bytes: info.Size(),
		Digest: fmt.Sprintf("%016x", w.hash.Sum64()), written: true}, nil
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
	w.path = to
	w.done = err == nil
	return info, err
}

// Abandon removes the file unless it was committed. Callers defer it after Create.
func (w *Writer) Abandon() {
	if !w.done {
		_ = w.file.Close() // a write error has been reported before
		_ = w.session.root.Remove(w.tmp)
	}
}

// WriteFile writes one complete file of a table of a place.
func (s *Session) WriteFile(t schema.Table, p Place, path string, recs ...arrow.Record) (DataFile, error) {
	w, err := s.Create(t, p, path)
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

// Share makes a committed file available at another lake-relative path or, if that path exists, beside it. If
// the file system has hard links, this takes no disk space. Removing either place keeps the file of the
// other.
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

// Import installs a data file of another lake, whose bytes r has, at its path or, if that exists, beside it.
// If the bytes are not those that d describes, Import returns an error and installs nothing.
func (s *Session) Import(d DataFile, r io.Reader) (DataFile, error) {
	fail := func(err error) (DataFile, error) { return DataFile{}, fmt.Errorf("importing %s: %w", d.Path, err) }
	out, tmp, err := s.createTemp("imported", "parquet")
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(struct{ io.Writer }{out}, r)
	copied := d
	copied.Path = tmp
	if err = errors.Join(err, out.Close()); err == nil {
		err = s.Check(copied)
	}
	if err != nil {
		return fail(errors.Join(err, s.root.Remove(tmp)))
	}
	to, linked, err := s.link(tmp, d.Path)
	switch {
	case err != nil:
	case linked:
		err = s.root.Remove(tmp)
	default:
		err = s.install(tmp, to)
	}
	if err != nil {
		return fail(err)
	}
	d.Path = to
	return d, nil
}

// RemoveTable removes the place's files of a table.
func (s *Session) RemoveTable(t schema.Table, p Place) error { return s.root.RemoveAll(p.Dir(t)) }

// RemoveUncommitted calls RemovePlace for a place that this session created but did not complete. It removes
// nothing if other sessions may work on the place, or if a manifest of the place names a file or cannot be
// read.
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

// RemovePlace removes all files and the state of a scenario or workload. It removes the manifests first, so
// that no reader sees a part of the place. It removes the files that identify the place after all others, so
// that a killed removal can be repeated. The lock file is the last one. Another process can then begin the
// place again at once, and this session writes no more.
func (s *Session) RemovePlace(p Place) error {
	if err := s.Withdraw(p); err != nil {
		return err
	}
	var errs error
	for _, folder := range p.folders() {
		dir := folder + "/" + p.owner()
		if _, err := s.root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, s.root.RemoveAll(dir))
		}
		_ = s.root.Remove(folder) // if it is empty now
	}
	_ = s.root.Remove(hiddenDir) // fails while the folder has files
	if errs != nil {
		return errs
	}
	last := []string{specFile, workloadFile, EphemeralFile, lockFile} // in this order
	entries, errs := s.readDir(p.StatePath())
	for _, e := range entries {
		name := e.Name()
		if !slices.Contains(last, name) {
			errs = errors.Join(errs, s.root.RemoveAll(p.StatePath(name)))
		}
	}
	// If a removal is killed after this point, repeating it finds no files and writes nothing.
	errs = errors.Join(errs, s.root.RemoveAll(filepath.Join(tmpDir, p.owner())))
	if errs != nil {
		return errs
	}
	_ = s.root.Remove(tmpDir) // unless another session writes
	for _, name := range last {
		if err := s.root.RemoveAll(p.StatePath(name)); err != nil {
			return err
		}
	}
	_ = s.root.Remove(p.StatePath()) // unless another process has begun the place again
	return nil
}

// folders returns the folders that can have tables of the place, also in a lake of an older version.
func (p Place) folders() (all []string) {
	for _, t := range schema.Tables() {
		all = append(all, t.Folders()...)
	}
	all = append(all, schema.Removed...)
	if p.Scenario.Hidden() {
		for i := range all {
			all[i] = hiddenDir + "/" + all[i]
		}
	}
	return all
}

// A FileUsage describes one file of a scenario or workload.
type FileUsage struct {
	Path     string // relative to the lake
	Table    string // the folder of the table, or _state
	Bytes    int64
	Links    uint64 // number of hard links: scenarios that share the file
	Identity Identity
}

// An Identity identifies a file regardless of its path.
type Identity struct{ device, inode uint64 }

// identityOf returns the identity of a file, or none on systems without it.
func identityOf(info fs.FileInfo) Identity {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return Identity{uint64(s.Dev), s.Ino} //nolint:unconvert // narrower on other systems
	}
	return Identity{}
}

// EachFile calls do for every file of a scenario or workload, both of its tables and of its state.
func (l *Lake) EachFile(p Place, do func(f FileUsage) error) error {
	for _, dir := range append([]string{stateDir}, p.folders()...) {
		err := fs.WalkDir(l.root.FS(), dir+"/"+p.owner(), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			f := FileUsage{Path: path, Table: dir, Bytes: info.Size(), Links: 1, Identity: identityOf(info)}
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				f.Links = uint64(s.Nlink) //nolint:unconvert // narrower on other systems
			}
			return do(f)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// chunkRows returns the number of flows in data file n of table flows. It is also the number of flows of one
// task of route or sample. The first files are small, so that small workloads have several tasks. Later files
// are larger, so that reading one range of links from every file stays efficient. The sizes are part of the
// layout of the lake, not a setting, because the tasks of different runs must be the same.
func chunkRows(n int) int64 {
	const first, most = 1 << 15, 1 << 20
	return min(most, int64(first)<<min(n/16, 5))
}

// FlowStats are statistics of some flows, in start order.
type FlowStats struct {
	Flows           int64 `json:"-"`
	FirstStartNS    int64 `json:"first_start_ns"`
	LastStartNS     int64 `json:"last_start_ns"`
	SyntheticStarts int64 `json:"synthetic_starts"` // flows whose start was not measured
	Bytes           int64 `json:"bytes,omitempty"`  // 0: not known, in lakes of older versions
}

// add adds the statistics of the flows that come next in start order.
func (s *FlowStats) add(o FlowStats) {
	if s.Flows == 0 {
		s.FirstStartNS = o.FirstStartNS
	}
	s.LastStartNS = o.LastStartNS
	s.Flows += o.Flows
	s.SyntheticStarts += o.SyntheticStarts
	s.Bytes += o.Bytes
}

// A FlowWriter writes table flows in start order, with chunkRows(n) rows in data file n. It is a schema.Sink.
type FlowWriter struct {
	Chunks []FlowStats // of each data file

	session *Session
	place   Place
	add     func(rows int64)
	open    *Writer // the last data file; nil: the next row starts a new file
	files   []DataFile
}

// NewFlowWriter returns a writer for the flows of a scenario or workload. It calls add with the number of
// rows of each write.
func NewFlowWriter(s *Session, p Place, add func(rows int64)) *FlowWriter {
	return &FlowWriter{session: s, place: p, add: add}
}

// Stats returns the statistics of the flows written so far.
func (c *FlowWriter) Stats() (all FlowStats) {
	for _, chunk := range c.Chunks {
		all.add(chunk)
	}
	return all
}

// Share shares a committed file of another place as the next data file. It does so only if the file has the
// number of rows that the FlowWriter would write to it and no file is open.
func (c *FlowWriter) Share(d DataFile, has FlowStats) (done bool, err error) {
	if c.open != nil || d.Rows != chunkRows(len(c.files)) {
		return false, nil
	}
	if d, err = c.session.Share(d, c.path()); err != nil {
		return false, err
	}
	has.Flows = d.Rows
	c.files = append(c.files, d)
	c.Chunks = append(c.Chunks, has)
	c.add(d.Rows)
	return true, nil
}

func (c *FlowWriter) path() string { return c.place.File(schema.Flows, len(c.files)) }

// Write appends a batch. It splits the batch if it does not fit into the current file.
func (c *FlowWriter) Write(rec arrow.Record) error {
	for at := int64(0); at < rec.NumRows(); {
		if c.open == nil {
			w, err := c.session.Create(schema.Flows, c.place, c.path())
			if err != nil {
				return err
			}
			c.open = w
			c.Chunks = append(c.Chunks, FlowStats{})
		}
		chunk := &c.Chunks[len(c.files)]
		limit := chunkRows(len(c.files))
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
	starts := columns.Int64s(flows, "start_ns")
	synthetic := columns.Named(flows, "synthetic_start").(*array.Boolean)
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
	c.files = append(c.files, d)
	c.open = nil
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

// Abandon removes the unfinished file. Callers defer it.
func (c *FlowWriter) Abandon() {
	if c.open != nil {
		c.open.Abandon()
	}
}
