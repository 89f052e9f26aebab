// Package sources copies objects of a bucket to a directory, for programs that read files.
//
//	s3://BUCKET/PREFIX/2026/01/*/*.gz ─► list, a folder at a time ─► DIR/s3/BUCKET/PREFIX/2026/01/31/a.gz
package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"parsimon/pipeline/cmd/parsimon-publish/store"
)

// An Object is a copied object.
type Object struct {
	URL   string `json:"url"`
	Path  string `json:"path"` // of the copy
	Bytes int64  `json:"bytes"`
	ETag  string `json:"etag"`
}

// atOnce is the number of objects that are copied concurrently.
const atOnce = 8

// Fetch copies the objects that a URL names below a directory: one object, all below a prefix, or those that
// a pattern with *, ? and [] matches. Names that begin with a dot or an underscore are left out below a
// prefix. If it fails, the directory may have some of the copies, each complete.
func Fetch(ctx context.Context, from, dir string) ([]Object, error) {
	bucket, key, err := open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = bucket.Close() }() // only read
	root := strings.TrimSuffix(from, key)
	l := &lister{bucket: bucket}
	if err := l.find(ctx, key); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(l.found) == 0 {
		return nil, fmt.Errorf("%s: matches no object", from)
	}
	slices.SortFunc(l.found, func(a, b *blob.ListObject) int { return strings.Compare(a.Key, b.Key) })
	objects := make([]Object, len(l.found))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, o := range l.found {
		group.Go(func() (err error) {
			to := filepath.Join(dir, strings.Replace(root, "://", "/", 1), filepath.FromSlash(o.Key))
			objects[i] = Object{URL: root + o.Key, Path: to}
			err = fetchOne(ctx, bucket, o.Key, &objects[i])
			if err != nil {
				err = fmt.Errorf("%s: %w", root+o.Key, err)
			}
			return err
		})
	}
	return objects, group.Wait()
}

// open opens the bucket of a URL, and returns the key that the URL has.
func open(ctx context.Context, from string) (*blob.Bucket, string, error) {
	scheme, rest, _ := strings.Cut(from, "://")
	name, key, _ := strings.Cut(rest, "/")
	if name == "" || strings.Contains(key, "../") {
		return nil, "", fmt.Errorf("%s: want %s://NAME/KEY", from, scheme)
	}
	if scheme == "azblob" {
		bucket, err := blob.OpenBucket(ctx, scheme+"://"+name)
		return bucket, key, err
	}
	s, err := store.Open(ctx, scheme+"://"+name)
	if err != nil {
		return nil, "", err
	}
	bucket, err := s.Bucket()
	return bucket, key, err
}

// A lister finds objects by a pattern.
type lister struct {
	bucket *blob.Bucket
	found  []*blob.ListObject
}

const wildcards = "*?["

// find finds the objects of a key, a prefix or a pattern.
func (l *lister) find(ctx context.Context, pattern string) error {
	if strings.ContainsAny(pattern, wildcards) {
		return l.match(ctx, "", strings.Split(pattern, "/"))
	}
	a, err := l.bucket.Attributes(ctx, pattern)
	if err == nil {
		l.found = append(l.found, &blob.ListObject{Key: pattern, Size: a.Size})
		return nil
	}
	if pattern != "" && gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return l.below(ctx, strings.TrimSuffix(pattern, "/"))
}

// below finds all objects below a prefix.
func (l *lister) below(ctx context.Context, prefix string) error {
	if prefix != "" {
		prefix += "/"
	}
	return l.list(ctx, &blob.ListOptions{Prefix: prefix}, func(o *blob.ListObject) error {
		hidden := false
		for name := range strings.SplitSeq(strings.TrimPrefix(o.Key, prefix), "/") {
			hidden = hidden || name == "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		}
		if !hidden {
			l.found = append(l.found, o)
		}
		return nil
	})
}

// match finds the objects below a prefix whose names match the segments of a pattern. It lists only the
// folders that match, so the pattern of a day does not list a year.
func (l *lister) match(ctx context.Context, prefix string, segments []string) error {
	segment := segments[0]
	rest := segments[1:]
	if !strings.ContainsAny(segment, wildcards) {
		if len(rest) == 0 {
			return l.find(ctx, prefix+segment)
		}
		return l.match(ctx, prefix+segment+"/", rest)
	}
	return l.list(ctx, &blob.ListOptions{Prefix: prefix, Delimiter: "/"}, func(o *blob.ListObject) error {
		name := strings.TrimSuffix(strings.TrimPrefix(o.Key, prefix), "/")
		matches, err := path.Match(segment, name)
		switch {
		case err != nil || !matches || name == "":
			return err
		case o.IsDir && len(rest) == 0:
			return l.below(ctx, prefix+name)
		case o.IsDir:
			return l.match(ctx, prefix+name+"/", rest)
		case len(rest) == 0:
			l.found = append(l.found, o)
		}
		return nil
	})
}

func (l *lister) list(ctx context.Context, o *blob.ListOptions, do func(*blob.ListObject) error) error {
	all := l.bucket.List(o)
	for {
		next, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(next)
		}
		if err != nil {
			return err
		}
	}
}

// attempts is the number of times that an object is read. The clouds' drivers repeat requests, but not a body
// that is cut.
const attempts = 5

// fetchOne copies one object.
func fetchOne(ctx context.Context, bucket *blob.Bucket, key string, o *Object) error {
	err := os.MkdirAll(filepath.Dir(o.Path), 0o755)
	for attempt := range attempts {
		if err != nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second << attempt / 4):
			}
		}
		if err = copyObject(ctx, bucket, key, o); err == nil || !worthRepeating(err) {
			return err
		}
	}
	return err
}

// worthRepeating reports whether a second attempt may succeed.
func worthRepeating(err error) bool {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Canceled:
		return false
	}
	return !errors.As(err, new(*fs.PathError)) // the disk is full, for example
}

// copyObject copies one object, and checks that it did not change meanwhile.
func copyObject(ctx context.Context, bucket *blob.Bucket, key string, o *Object) error {
	before, err := bucket.Attributes(ctx, key)
	if err != nil {
		return err
	}
	in, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	out, err := os.Create(o.Path + ".part")
	if err != nil {
		return errors.Join(err, in.Close())
	}
	o.Bytes, err = io.Copy(out, in)
	if err := errors.Join(err, in.Close(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(o.Path+".part"))
	}
	after, err := bucket.Attributes(ctx, key)
	if err != nil {
		return err
	}
	if o.Bytes != before.Size || before.ETag != after.ETag {
		return errors.New("the object changed while it was read")
	}
	o.ETag = after.ETag
	return os.Rename(o.Path+".part", o.Path)
}
