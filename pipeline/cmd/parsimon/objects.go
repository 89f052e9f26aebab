package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/cmd/publishing"
)

// Inputs may be URLs of objects. The program parsimon-publish, which has the clouds' drivers, copies them to
// a temporary directory before the command begins:
//
//	--topology s3://BUCKET/cables.csv ─► parsimon-publish fetch ─► --topology TMP/s3/BUCKET/cables.csv

// objectFlags are the flags that name files or directories to read.
var objectFlags = []string{"topology", "flows", "hosts", "labels", "mapping"}

// readsObjects are the commands whose inputs may be URLs. The arguments of those with true are files.
var readsObjects = map[string]bool{
	"ingest": true, "topology": true, "convert": true, "run": true, "what-if": false, "sweep": false,
	"compare": false, "validate": false, "stage": false,
}

// isObject finds the URL of an object, a prefix or a pattern of objects.
var isObject = regexp.MustCompile(`^(s3|gs|azblob|file)://`)

// checkFiles returns an error for an argument or flag that is a URL which the command does not read.
func (c command) checkFiles(f *pflag.FlagSet) (err error) {
	if _, ok := c.verb.(takesURL); ok {
		return nil
	}
	argsAreFiles, reads := readsObjects[c.name]
	const why = "is a URL, which is not read or written here: mount it or copy it first"
	for _, arg := range f.Args() {
		if isURL.MatchString(arg) && !(argsAreFiles && isObject.MatchString(arg)) {
			return fmt.Errorf("%q %s", arg, why)
		}
	}
	f.Visit(func(one *pflag.Flag) {
		text := one.Value.String()
		read := reads && slices.Contains(objectFlags, one.Name) && isObject.MatchString(text)
		if one.Value.Type() == "string" && isURL.MatchString(text) && !read {
			err = fmt.Errorf("--%s %q %s", one.Name, text, why)
		}
	})
	return err
}

// fetchInputs copies the objects that the inputs name, and returns the arguments with the paths of the
// copies. It sets the flags to them. An argument that names several objects becomes their directory or, for
// ingest, which takes any number of files, one argument each.
func (e *env) fetchInputs(ctx context.Context, f *pflag.FlagSet, args []string, most int) ([]string, error) {
	spool := ""
	fetch := func(from string) ([]fetched, error) {
		if path, ok := strings.CutPrefix(from, "file://"); ok {
			path, err := url.PathUnescape(path)
			return []fetched{{URL: from, Path: path}}, err
		}
		if spool == "" {
			made, err := os.MkdirTemp("", "parsimon-objects-")
			if err != nil {
				return nil, err
			}
			spool = made
			e.closers.addTemporary(spool)
		}
		return e.fetch(ctx, from, spool)
	}
	var local []string
	for _, arg := range args {
		if !isObject.MatchString(arg) {
			local = append(local, arg)
			continue
		}
		objects, err := fetch(arg)
		if err != nil {
			return nil, err
		}
		if most == 1 {
			local = append(local, commonPath(arg, spool, objects))
			continue
		}
		for _, o := range objects {
			local = append(local, o.Path)
		}
	}
	for _, name := range objectFlags {
		flag := f.Lookup(name)
		if flag == nil || !isObject.MatchString(flag.Value.String()) {
			continue
		}
		from := flag.Value.String()
		objects, err := fetch(from)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		if err := f.Set(name, commonPath(from, spool, objects)); err != nil {
			return nil, fmt.Errorf("--%s %s: %w", name, from, err)
		}
	}
	return local, nil
}

// commonPath returns the file or the directory with the copies of the objects of one URL.
func commonPath(from, spool string, objects []fetched) string {
	if len(objects) == 1 {
		return objects[0].Path
	}
	return filepath.Join(spool, strings.Replace(from, "://", "/", 1))
}

// A fetched is an object that parsimon-publish has copied.
type fetched struct {
	URL  string `json:"url"`
	Path string `json:"path"`
}

// fetch copies the objects of a URL below a directory.
func (e *env) fetch(ctx context.Context, from, dir string) (objects []fetched, err error) {
	program, err := findPublisher()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	var answer, message bytes.Buffer
	c := exec.CommandContext(ctx, program, "fetch", "--into="+dir, "--", from)
	c.Stdout = &answer
	c.Stderr = &message
	err = c.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*exec.ExitError)):
		text := strings.TrimSpace(message.String())
		return nil, errors.New(strings.TrimPrefix(text, publishing.Program+": "))
	case err != nil:
		return nil, err
	}
	err = json.Unmarshal(answer.Bytes(), &objects)
	return objects, err
}
