package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"parsimon/pipeline/scenario"
	"parsimon/schema/together"
	"parsimon/stages/ingest"
)

// An Object is a source in an object store, as a listing describes it.
type Object struct {
	URL   string `json:"url"`
	Bytes int64  `json:"bytes"` // as it is stored
	ETag  string `json:"etag"`  // not empty
}

// An ObjectStore gives access to objects. Its methods may be called concurrently.
type ObjectStore interface {
	// List returns the objects that a URL names: one object, all below a prefix, or the matches of a pattern.
	// It returns all of them, at least one, or an error.
	List(ctx context.Context, url string) ([]Object, error)
	// Copy writes the content of an object to a new file. An object that has changed since it was listed is
	// an error.
	Copy(ctx context.Context, o Object, to string) error
}

// object describes a source that is in an object store.
func (s *Source) object() Object { return Object{URL: s.File, Bytes: s.FileBytes, ETag: s.ETag} }

// isObject reports whether a source is in an object store.
func (s *Source) isObject() bool { return s.ETag != "" }

// isSameObject reports whether an object is a source of a workload or one of its copies, unchanged since it
// was read.
func (s *Source) isSameObject(of Source) bool {
	return s.isObject() && (s.object() == of.object() || slices.Contains(of.Copies, s.object()))
}

// identity identifies a source among those of all workloads. Files are identified by their content. Objects
// are identified by their URL, because they are not read before the workload is known.
func (s *Source) identity() string {
	if s.isObject() {
		return scenario.BytesDigest([]byte(s.File))
	}
	return s.Digest
}

// listObjects lists the objects of the trace, each once.
func (in *ingestion) listObjects(ctx context.Context) (objects []Source, err error) {
	seen := map[string]bool{}
	for _, url := range in.Objects {
		listed, err := in.Store.List(ctx, url)
		if err != nil {
			return nil, err
		}
		for _, o := range listed {
			if !seen[o.URL] {
				seen[o.URL] = true
				objects = append(objects, Source{File: o.URL, FileBytes: o.Bytes, ETag: o.ETag})
			}
		}
	}
	return objects, nil
}

// defaultSpoolBytes is the default of Settings.SpoolBytes.
const defaultSpoolBytes = 1 << 30

// copiesAtOnce is the number of objects that are copied concurrently.
const copiesAtOnce = 8

// A spool copies objects to a directory, in their order and ahead of their use. The total size of the copies
// that exist at any time is limited. A single copy may exceed the limit.
type spool struct {
	dir    string
	limit  int64 // bytes
	space  *semaphore.Weighted
	copied map[string]chan error // by URL; it has the result of the copy
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// newSpool starts to copy the objects among the sources to a new directory. The caller waits for each object
// in order, and removes its copy. It closes the spool.
func newSpool(ctx context.Context, store ObjectStore, sources []Source, dir string, limit int64) (
	*spool, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &spool{dir: dir, limit: limit, space: semaphore.NewWeighted(limit), cancel: cancel}
	s.copied = map[string]chan error{}
	var objects []Source
	for i := range sources {
		source := &sources[i]
		source.path = source.File
		if source.isObject() {
			source.path = filepath.Join(dir, fmt.Sprintf("%06d%s", i, extensionOf(source.File)))
			s.copied[source.File] = make(chan error, 1)
			objects = append(objects, *source)
		}
	}
	if len(objects) == 0 {
		return s, nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		cancel()
		return nil, err
	}
	s.all.Go(func() { s.copyAll(ctx, store, objects) })
	return s, nil
}

// copyAll copies objects as soon as there is space.
func (s *spool) copyAll(ctx context.Context, store ObjectStore, objects []Source) {
	var copies errgroup.Group
	copies.SetLimit(copiesAtOnce)
	for i := range objects {
		o := &objects[i]
		err := s.space.Acquire(ctx, s.weight(o))
		if err != nil {
			s.copied[o.File] <- err
			continue
		}
		copies.Go(func() error {
			s.copied[o.File] <- together.Do(func() error { return store.Copy(ctx, o.object(), o.path) })
			return nil
		})
	}
	_ = copies.Wait() // the results are in copied
}

// weight returns the space that the copy of an object takes. A large object takes all of it.
func (s *spool) weight(o *Source) int64 { return min(max(o.FileBytes, 1), s.limit) }

// A copyError says that an object could not be copied.
type copyError struct{ error }

// Unwrap returns the cause.
func (e *copyError) Unwrap() error { return e.error }

// wait waits until the copy of an object exists.
func (s *spool) wait(ctx context.Context, o *Source) error {
	var err error
	select {
	case err = <-s.copied[o.File]:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return &copyError{err}
	}
	return nil
}

// remove removes the copy of an object.
func (s *spool) remove(o *Source) error {
	defer s.space.Release(s.weight(o))
	return os.Remove(o.path)
}

// close ends copies that are under way, and removes the directory.
func (s *spool) close() error {
	s.cancel()
	s.all.Wait()
	return os.RemoveAll(s.dir)
}

var plainExtension = regexp.MustCompile(`^\.[A-Za-z0-9]+$`)

// extensionOf returns the last extension of an object's name, which states the compression.
func extensionOf(url string) string {
	extension := path.Ext(url)
	if !plainExtension.MatchString(extension) {
		return ""
	}
	return extension
}

// An objectError is an error about the copy of an object. Its message names the object.
type objectError struct {
	error
	source *Source
}

// Error returns the message.
func (e *objectError) Error() string { return e.source.rename(e.error.Error()) }

// Unwrap returns the error about the copy.
func (e *objectError) Unwrap() error { return e.error }

// rename replaces the path of the copy in a text by the URL of the object.
func (s *Source) rename(text string) string { return strings.ReplaceAll(text, s.path, s.File) }

// addObject adds one object, or nothing if the workload has its content already.
func (in *ingestion) addObject(ctx context.Context, ingester *ingest.Ingester, copies *spool, o *Source) (
	added bool, err error) {
	if err := copies.wait(ctx, o); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, copies.remove(o)) }()
	added, err = in.addCopy(ctx, ingester, o)
	if err != nil {
		err = &objectError{err, o}
	}
	return added, err
}

// addCopy adds the copy of an object.
func (in *ingestion) addCopy(ctx context.Context, ingester *ingest.Ingester, o *Source) (
	added bool, err error) {
	digests, err := ingest.Digest(ctx, "flow file", o.path)
	if err != nil {
		return false, err
	}
	o.Digest = digests.SHA256
	if in.known[o.Digest] {
		in.report.KnownFiles++
		in.recognize(o)
		return false, nil
	}
	o.N = in.number(o.Digest)
	if err := in.addFile(ctx, ingester, o); err != nil {
		return false, err
	}
	in.known[o.Digest] = true
	if slices.ContainsFunc(in.state.Sources, func(s Source) bool { return s.File == o.File }) {
		in.changed = append(in.changed, fmt.Sprintf("%[1]s has changed since it was ingested: its rows count "+
			"beside those of its earlier content; if they replace them, parsimon rm --workload %[2]s --lake %[3]s, "+
			"and ingest all of its objects again", o.File, in.state.ID, in.session.Path()))
	}
	return true, nil
}

// recognize records an object that was read and has the content of a source, so that it is not copied
// again. A source that was rewritten gets the new ETag. Another object becomes a copy of its source.
func (in *ingestion) recognize(o *Source) {
	for i := range in.state.Sources {
		s := &in.state.Sources[i]
		if s.File == o.File && s.Digest == o.Digest {
			s.ETag = o.ETag
			s.FileBytes = o.FileBytes
			in.renewed = true
			return
		}
	}
	in.copies = append(in.copies, *o)
}

// recordCopies adds the copies that this call has found to their sources.
func (in *ingestion) recordCopies() {
	for i := range in.copies {
		found := &in.copies[i]
		for k := range in.state.Sources {
			s := &in.state.Sources[k]
			if s.Digest == found.Digest {
				s.Copies = slices.DeleteFunc(s.Copies, func(c Object) bool { return c.URL == found.File })
				s.Copies = append(s.Copies, found.object())
			}
		}
	}
}
