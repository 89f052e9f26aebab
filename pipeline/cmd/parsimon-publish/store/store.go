// Package store opens the place where tables are published: a directory or a bucket, and the catalog that
// names the current version of each table there.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud" // s3, gs and abfs
	"github.com/apache/iceberg-go/io/gocloud/blobfs"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/google/uuid"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"parsimon/pipeline/cmd/publishing"
)

// A Store is a directory or a prefix of a bucket. All paths that it takes begin with Root. An object is
// either there as a whole or not at all.
type Store struct {
	Root  string // without a slash at the end
	Props map[string]string
	local bool
	files files
}

// files has the methods of the Iceberg library's file systems that this package uses.
type files interface {
	iceio.ReadFileIO
	iceio.WriteFileIO
	iceio.ListableIO
	iceio.StatIO
}

// Open opens the place of a URL. It accesses nothing yet. Credentials come from the environment in the way of
// each cloud's own tools.
func Open(ctx context.Context, at string) (*Store, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme == "" {
		return openDirectory(at)
	}
	if u.RawQuery != "" || u.Fragment != "" || hasPassword(u) {
		return nil, fmt.Errorf("%s: a URL has no user, password or query; credentials come from the environment",
			u.Redacted())
	}
	if u.Scheme == "file" {
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return nil, fmt.Errorf("%s: want file:///DIRECTORY", at)
		}
		return openDirectory(u.Path)
	}
	s := &Store{Root: strings.TrimRight(at, "/"), Props: properties(os.Getenv, u.Host)}
	made, err := iceio.LoadFS(ctx, s.Props, s.Root)
	if errors.Is(err, iceio.ErrIOSchemeNotFound) {
		return nil, fmt.Errorf("%s: want %s", at, publishing.Schemes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	opened, ok := made.(*blobfs.FileIO)
	if !ok {
		return nil, fmt.Errorf("%s: want %s", at, publishing.Schemes)
	}
	s.files = opened
	return s, nil
}

// hasPassword reports whether a URL has credentials. The user of an abfss URL is the container.
func hasPassword(u *url.URL) bool {
	if u.User == nil {
		return false
	}
	_, password := u.User.Password()
	return password || !strings.HasPrefix(u.Scheme, "abfs") && !strings.HasPrefix(u.Scheme, "wasb")
}

func openDirectory(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("the URL is empty")
	}
	root, err := filepath.Abs(path)
	return &Store{Root: root, local: true, files: iceio.LocalFS{}}, err
}

// environment has the properties of the Iceberg library for the environment variables of the clouds' tools
// that it does not read itself. If two variables set one property, the last one counts.
var environment = []struct{ variable, property string }{
	{"AWS_ENDPOINT_URL", iceio.S3EndpointURL},
	{"AWS_ENDPOINT_URL_S3", iceio.S3EndpointURL},
	{"AZURE_STORAGE_DOMAIN", iceio.ADLSEndpoint},
}

// properties returns the properties of the Iceberg library for the environment and the host of a URL. The key
// of an Azure account is used if the host is that account's. A connection string is used if there is one.
// Otherwise, the library uses the identity of the user or machine.
func properties(env func(string) string, host string) map[string]string {
	props := map[string]string{}
	for _, e := range environment {
		value := env(e.variable)
		if value != "" {
			props[e.property] = value
		}
	}
	account := env("AZURE_STORAGE_ACCOUNT")
	key := env("AZURE_STORAGE_KEY")
	named, _, _ := strings.Cut(host, ".")
	if account != "" && key != "" && named == account {
		props[iceio.ADLSSharedKeyAccountName] = account
		props[iceio.ADLSSharedKeyAccountKey] = key
	}
	connection := env("AZURE_STORAGE_CONNECTION_STRING")
	for part := range strings.SplitSeq(connection, ";") {
		account, found := strings.CutPrefix(part, "AccountName=")
		if found {
			props[iceio.ADLSConnectionStringPrefix+account] = connection
		}
	}
	if env("STORAGE_EMULATOR_HOST") != "" { // Google's client then sends requests there
		props[iceio.GCSNoAuth] = "true"
	}
	return props
}

// Bucket returns the bucket of the store, or an error if it is a directory.
func (s *Store) Bucket() (*blob.Bucket, error) {
	opened, ok := s.files.(*blobfs.FileIO)
	if !ok {
		return nil, fmt.Errorf("%s is a directory", s.Root)
	}
	return opened.Bucket, nil
}

// FS returns the file system for the tables of this store.
func (s *Store) FS(context.Context) (iceio.IO, error) { return s.files, nil }

// Stat returns the size and the time of an object. If there is none, the error is fs.ErrNotExist.
func (s *Store) Stat(path string) (bytes int64, written time.Time, err error) {
	if opened, ok := s.files.(*blobfs.FileIO); ok { // its Stat also accepts prefixes, with more requests
		a, err := opened.Attributes(context.Background(), s.key(path))
		if err != nil {
			return 0, time.Time{}, classify(err)
		}
		return a.Size, a.ModTime, nil
	}
	info, err := s.files.Stat(path)
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.Size(), info.ModTime(), nil
}

// key returns the key of an object in its bucket.
func (s *Store) key(path string) string {
	_, rest, _ := strings.Cut(path, "://")
	_, key, _ := strings.Cut(rest, "/")
	return key
}

// classify returns an error as one of package fs if there is one, and says what to do about a wrong clock.
func classify(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case gcerrors.FailedPrecondition:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	var answer interface{ ErrorCode() string }
	if errors.As(err, &answer) && answer.ErrorCode() == "RequestTimeTooSkewed" {
		return fmt.Errorf("the clocks of this machine and of the server differ too much: correct them: %w", err)
	}
	return err
}

// Read returns the content of an object.
func (s *Store) Read(path string) ([]byte, error) {
	data, err := s.files.ReadFile(path)
	if err != nil {
		return nil, classify(err)
	}
	return data, nil
}

// Open opens an object.
func (s *Store) Open(path string) (io.ReadCloser, error) { return s.files.Open(path) }

// Put writes an object, or replaces it. If write fails, it leaves nothing.
func (s *Store) Put(ctx context.Context, path string, write func(io.Writer) error) error {
	return s.put(ctx, path, mayExist, write)
}

// Create writes an object that must not exist yet. If it does, the error is fs.ErrExist. Of several
// processes that create the same object at once, one succeeds.
func (s *Store) Create(ctx context.Context, path string, content []byte) error {
	for attempt := 1; ; attempt++ {
		err := s.put(ctx, path, mustBeNew, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if errors.Is(err, fs.ErrExist) && s.has(path, content) {
			return nil
		}
		if attempt == createAttempts || !isConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.IntN(100*attempt)) * time.Millisecond):
		}
	}
}

// createAttempts is the number of times that Create is tried while other requests conflict with it.
const createAttempts = 10

// isConflict reports whether a conditional write failed because of a concurrent request. It does not say
// whether the object exists: S3 asks clients to repeat the write.
func isConflict(err error) bool {
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusConflict
}

// has reports whether an object of a bucket has a content. If the answer to a request is lost, the driver
// repeats it, and finds the object that the first request has made.
func (s *Store) has(path string, content []byte) bool {
	if s.local {
		return false
	}
	now, err := s.Read(path)
	return err == nil && bytes.Equal(now, content)
}

// A condition says which objects put may write.
type condition int

const (
	mayExist condition = iota
	mustBeNew
)

func (s *Store) put(ctx context.Context, path string, c condition, write func(io.Writer) error) error {
	opened, ok := s.files.(*blobfs.FileIO)
	if !ok {
		return putFile(path, c, write)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := opened.Bucket.NewWriter(ctx, s.key(path), &blob.WriterOptions{IfNotExist: c == mustBeNew,
		ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		cancel() // Close then writes nothing
		_ = w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return classify(err)
	}
	return nil
}

// putFile writes a file below another name, makes it durable and renames it.
func putFile(path string, c condition, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, ".new-"+uuid.NewString())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if c == mustBeNew {
		err = os.Link(temp, path)
		err = errors.Join(err, os.Remove(temp))
	} else {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return syncDirectory(dir)
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove removes an object.
func (s *Store) Remove(path string) error { return s.files.Remove(path) }

// List calls do for each object below a path, with its full path.
func (s *Store) List(path string, do func(path string) error) error {
	err := s.files.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return do(path)
	})
	if err != nil {
		return classify(err)
	}
	return nil
}
