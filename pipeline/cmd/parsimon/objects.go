package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"parsimon/pipeline/cmd/publishing"
	"parsimon/pipeline/workloads"
	"parsimon/schema/together"
)

// Inputs may be URLs of objects. The program parsimon-publish, which has the clouds' drivers, lists and
// copies them. Inputs that are read as a whole are copied to a temporary directory before the command begins:
//
//	--topology s3://BUCKET/cables.csv ─► objectStore ─► --topology TMP/s3/BUCKET/cables.csv
//
// The sources of ingest are copied and removed one after another while they are read.

// objectInputs says which inputs of a command may be URLs.
type objectInputs int

const (
	noObjects      objectInputs = iota
	objectsInFlags              // the flags of objectFlags
	objectArgument              // also the arguments, which are copied before the command begins
	objectSources               // also the arguments, which the command copies itself
	anyURL                      // arguments are URLs that parsimon-publish knows
)

// objectFlags are the flags that name files or directories to read.
var objectFlags = []string{"topology", "flows", "hosts", "labels", "mapping"}

// isObject finds the URL of an object, a prefix or a pattern of objects.
var isObject = regexp.MustCompile(`^(s3|gs|azblob|file)://`)

// checkFiles returns an error for an argument or flag that is a URL which the command does not read.
func (c command) checkFiles(f *pflag.FlagSet) (err error) {
	if c.objects == anyURL {
		return nil
	}
	const why = "is a URL, which is not read or written here: mount it or copy it first"
	for _, arg := range f.Args() {
		reads := c.objects >= objectArgument && isObject.MatchString(arg)
		if isURL.MatchString(arg) && !reads {
			return fmt.Errorf("%q %s", arg, why)
		}
	}
	f.Visit(func(one *pflag.Flag) {
		text := one.Value.String()
		reads := c.objects != noObjects && slices.Contains(objectFlags, one.Name) && isObject.MatchString(text)
		if one.Value.Type() == "string" && isURL.MatchString(text) && !reads {
			err = fmt.Errorf("--%s %q %s", one.Name, text, why)
		}
	})
	return err
}

// fetchInputs copies the objects that the inputs of a command name, except for sources that the command
// copies itself. It sets the flags to the copies, and returns the arguments with the paths of the copies.
func (e *env) fetchInputs(ctx context.Context, c command, f *pflag.FlagSet, args []string) ([]string, error) {
	if c.objects == noObjects || c.objects == anyURL {
		return args, nil
	}
	var local []string
	for _, arg := range args {
		path := arg
		if isObject.MatchString(arg) && (c.objects != objectSources || isFileURL(arg)) {
			var err error
			path, err = e.objects.fetch(ctx, arg)
			if err != nil {
				return nil, err
			}
		}
		local = append(local, path)
	}
	for _, name := range objectFlags {
		flag := f.Lookup(name)
		if flag == nil || !isObject.MatchString(flag.Value.String()) {
			continue
		}
		from := flag.Value.String()
		path, err := e.objects.fetch(ctx, from)
		if err == nil {
			err = f.Set(name, path)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	return local, nil
}

func isFileURL(at string) bool { return strings.HasPrefix(at, "file://") }

// An objectStore calls parsimon-publish, which it starts for the first call. The command ends it.
type objectStore struct {
	*env
	mu     sync.Mutex
	client *rpc.Client
	errors *lockedBuffer // what parsimon-publish has written to stderr
	dir    string        // of the copies that fetch makes
	urls   map[string]string
}

// fetch returns the path of a copy of an object, or of a directory with copies of all objects of a prefix or
// pattern. The copies exist until the command ends.
func (s *objectStore) fetch(ctx context.Context, from string) (string, error) {
	if isFileURL(from) {
		return url.PathUnescape(strings.TrimPrefix(from, "file://"))
	}
	all, err := s.List(ctx, from)
	if err != nil {
		return "", err
	}
	group, copying := errgroup.WithContext(ctx)
	group.SetLimit(fetchesAtOnce)
	for _, o := range all {
		group.Go(func() error {
			return together.Do(func() error { return s.copyTo(copying, o) })
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	path := s.pathOf(from)
	if len(all) == 1 {
		path = s.pathOf(all[0].URL)
	}
	s.urls[path] = from
	return path, nil
}

// copyTo copies an object to the path that pathOf returns.
func (s *objectStore) copyTo(ctx context.Context, o workloads.Object) error {
	to := s.pathOf(o.URL)
	if !strings.HasPrefix(to, s.dir+string(filepath.Separator)) {
		return fmt.Errorf("%s: the key has .. as a part", o.URL)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return s.Copy(ctx, o, to)
}

// fetchesAtOnce is the number of objects that fetch copies concurrently.
const fetchesAtOnce = 8

// pathOf returns the path of the copy that fetch makes of an object.
func (s *objectStore) pathOf(object string) string {
	return filepath.Join(s.dir, filepath.FromSlash(strings.Replace(object, "://", "/", 1)))
}

// urlOf returns the URL of which a path is a copy, or an empty string.
func (s *objectStore) urlOf(path string) string { return s.urls[path] }

// List implements workloads.ObjectStore.
func (s *objectStore) List(ctx context.Context, from string) (all []workloads.Object, err error) {
	err = s.call(ctx, publishing.ListMethod, from, &all)
	return all, err
}

// Copy implements workloads.ObjectStore.
func (s *objectStore) Copy(ctx context.Context, o workloads.Object, to string) error {
	return s.call(ctx, publishing.CopyMethod, publishing.Copy{Object: o, To: to}, &publishing.Done{})
}

// call calls a method of parsimon-publish. If the context ends, the call may go on until the command ends.
func (s *objectStore) call(ctx context.Context, method string, args, reply any) error {
	client, err := s.start()
	if err != nil {
		return err
	}
	call := client.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-call.Done:
	}
	var said rpc.ServerError
	switch {
	case call.Error == nil:
		return nil
	case ctx.Err() != nil: // an interruption also ends parsimon-publish
		return ctx.Err()
	case errors.As(call.Error, &said):
		return errors.New(string(said))
	}
	return fmt.Errorf("%s ended: %w: %s", publishing.Program, call.Error, strings.TrimSpace(s.errors.String()))
}

// start starts parsimon-publish. It ends when its standard input is closed, also if this process is killed,
// and then removes the directory of the copies.
func (s *objectStore) start() (*rpc.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	program, err := findPublisher()
	if err != nil {
		return nil, err
	}
	s.dir, err = s.closers.makeTemporary("parsimon-objects-")
	if err != nil {
		return nil, err
	}
	s.urls = map[string]string{}
	s.errors = &lockedBuffer{}
	c := exec.Command(program, publishing.Fetch, "--into="+s.dir)
	c.Stderr = s.errors
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	s.client = jsonrpc.NewClient(pipes{out, in})
	s.closers.add(func() {
		_ = s.client.Close()
		_ = c.Wait() // its answers have arrived
	})
	return s.client, nil
}

// pipes are the standard output and input of a process.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// A lockedBuffer is a buffer that several goroutines use.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
