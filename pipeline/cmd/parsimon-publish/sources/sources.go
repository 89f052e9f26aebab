// Package sources lists objects of buckets and copies them to files, for programs that read files.
//
//	s3://BUCKET/PREFIX/2026/01/*/*.gz ─► List, a folder at a time ─► objects ─► Copy, each to a file
package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/workloads"
	"parsimon/schema/together"
)

// Buckets gives access to objects. It opens each bucket once.
type Buckets struct {
	mu     sync.Mutex
	opened map[string]*blob.Bucket // by the part of URLs before the key
}

// List returns the objects that a URL names: one object, all below a prefix, or those that a pattern with *,
// ? and [] matches. Names that begin with a dot or an underscore are left out below a prefix. It returns all
// objects, in the order of their keys, or an error.
func (b *Buckets) List(ctx context.Context, from string) (all []workloads.Object, err error) {
	bucket, root, key, err := b.open(ctx, from)
	if err != nil {
		return nil, err
	}
	var found []*blob.ListObject
	err = repeat(ctx, func() error {
		l := &lister{bucket: bucket}
		err := l.find(ctx, key)
		found = l.found
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: matches no object", from)
	}
	slices.SortFunc(found, func(a, b *blob.ListObject) int { return strings.Compare(a.Key, b.Key) })
	all = make([]workloads.Object, len(found))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, o := range found {
		all[i] = workloads.Object{URL: root + o.Key, Bytes: o.Size}
		var listed types.Object
		if o.As(&listed) && listed.ETag != nil {
			all[i].ETag = *listed.ETag
			continue
		}
		group.Go(func() error {
			return together.Do(func() error { return describe(ctx, bucket, o.Key, &all[i]) })
		})
	}
	return all, group.Wait()
}

// atOnce is the number of objects that List asks for concurrently if listings have no ETags.
const atOnce = 8

// describe sets the size and the ETag of an object.
func describe(ctx context.Context, bucket *blob.Bucket, key string, o *workloads.Object) error {
	err := repeat(ctx, func() error {
		a, err := bucket.Attributes(ctx, key)
		if err == nil {
			o.Bytes = a.Size
			o.ETag = a.ETag
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.URL, err)
	}
	return nil
}

// Copy writes the content of an object to a new file. If the object is not the listed one, or changes
// meanwhile, it is an error. After an error there is no file.
func (b *Buckets) Copy(ctx context.Context, o workloads.Object, to string) error {
	bucket, _, key, err := b.open(ctx, o.URL)
	if err != nil {
		return err
	}
	err = repeat(ctx, func() error { return copyObject(ctx, bucket, key, o, to) })
	if err != nil {
		return fmt.Errorf("%s: %w", o.URL, err)
	}
	return nil
}

// Close closes all buckets.
func (b *Buckets) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all error
	for _, bucket := range b.opened {
		all = errors.Join(all, bucket.Close())
	}
	b.opened = nil
	return all
}

// open returns the bucket of a URL, the part of the URL before the key, and the key.
func (b *Buckets) open(ctx context.Context, from string) (bucket *blob.Bucket, root, key string, err error) {
	scheme, rest, _ := strings.Cut(from, "://")
	name, key, _ := strings.Cut(rest, "/")
	if name == "" || slices.Contains(strings.Split(key, "/"), "..") {
		return nil, "", "", fmt.Errorf("%s: want %s://NAME/KEY", from, scheme)
	}
	root = scheme + "://" + name + "/"
	b.mu.Lock()
	defer b.mu.Unlock()
	if opened, ok := b.opened[root]; ok {
		return opened, root, key, nil
	}
	if scheme == "azblob" {
		bucket, err = blob.OpenBucket(ctx, scheme+"://"+name)
	} else {
		var s *store.Store
		s, err = store.Open(ctx, scheme+"://"+name)
		if err == nil {
			bucket, err = s.Bucket()
		}
	}
	if err != nil {
		return nil, "", "", err
	}
	if b.opened == nil {
		b.opened = map[string]*blob.Bucket{}
	}
	b.opened[root] = bucket
	return bucket, root, key, nil
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
	bytes, err := l.sizeOf(ctx, pattern)
	if err == nil {
		l.found = append(l.found, &blob.ListObject{Key: pattern, Size: bytes})
		return nil
	}
	if pattern != "" && gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return l.below(ctx, strings.TrimSuffix(pattern, "/"))
}

// sizeOf returns the size of an object. If the service refuses the HEAD request, sizeOf reads the object:
// only the answer to GET has a body that says why, which the driver needs to correct a wrong clock.
func (l *lister) sizeOf(ctx context.Context, key string) (int64, error) {
	a, err := l.bucket.Attributes(ctx, key)
	if err == nil {
		return a.Size, nil
	}
	if gcerrors.Code(err) != gcerrors.PermissionDenied {
		return 0, err
	}
	in, err := l.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return 0, err
	}
	return in.Size(), in.Close()
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

// attempts is the number of times that an operation is tried. The clouds' drivers repeat requests, but not a
// body that is cut.
const attempts = 5

// repeat repeats an operation that fails with an error that may be temporary, after 0.25 to 2 s.
func repeat(ctx context.Context, operation func() error) error {
	for attempt := 1; ; attempt++ {
		err := operation()
		if err == nil || attempt == attempts || !worthRepeating(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second << attempt / 8):
		}
	}
}

// errChanged is the error of an object that is not the listed one.
var errChanged = errors.New("the object has changed since it was listed: repeat the command")

// worthRepeating reports whether a second attempt may succeed.
func worthRepeating(err error) bool {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.Canceled:
		return false
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && isRefusal(response.HTTPStatusCode()) {
		return false
	}
	return !errors.Is(err, errChanged) && !errors.As(err, new(*fs.PathError)) // the disk is full, for example
}

// isRefusal reports whether a status says that the same request will fail again. 409 is a conflict with a
// concurrent request.
func isRefusal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// copyObject makes one attempt to copy an object.
func copyObject(ctx context.Context, bucket *blob.Bucket, key string, o workloads.Object, to string) error {
	in, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	n, err := io.Copy(out, in)
	err = errors.Join(err, in.Close(), out.Close())
	if err == nil {
		err = checkListed(ctx, bucket, key, o)
	}
	if err == nil && n != o.Bytes {
		err = fmt.Errorf("%d of %d bytes arrived", n, o.Bytes)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// checkListed returns an error if an object is not the listed one any more.
func checkListed(ctx context.Context, bucket *blob.Bucket, key string, o workloads.Object) error {
	now, err := bucket.Attributes(ctx, key)
	if err != nil {
		return err
	}
	if now.ETag != o.ETag || now.Size != o.Bytes {
		return errChanged
	}
	return nil
}
