package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"parsimon/queries"
	"parsimon/schema"
)

// checkOutput returns an error if a file that a flag names cannot be written: commands check before they begin to work.
func checkOutput(flag, path string) error {
	f, err := openOutput(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return f.abandon()
}

// writeOutput writes a file that a flag names. A regular file is there whole or not at all. What is no regular file (a
// device, a pipe, a link) is written to, and stays what it is.
func writeOutput(path string, write func(io.Writer) error) (size int64, err error) {
	f, err := openOutput(path)
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriter(f)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return 0, errors.Join(err, f.abandon())
	}
	return f.written, f.commit()
}

// An output is a file that is being written.
type output struct {
	*os.File
	path    string // what File is renamed to; empty: File is written in place
	written int64
	shared  bool // with the standard output of the process
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.File.Write(p)
	o.written += int64(n)
	return n, err
}

// openOutput begins a file. It refuses directories and what belongs to a lake.
func openOutput(path string) (*output, error) {
	if err := notOfLake(path); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		return openInPlace(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &output{File: f, path: path}, nil
}

// openInPlace opens what is no regular file. /dev/stdout is this process's standard output, at its present end.
func openInPlace(path string) (*output, error) {
	if there, err := os.Stat(path); err == nil {
		if out, err := os.Stdout.Stat(); err == nil && os.SameFile(there, out) {
			fd, err := syscall.Dup(int(os.Stdout.Fd()))
			return &output{File: os.NewFile(uintptr(fd), path), shared: true}, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	return &output{File: f}, err
}

func (o *output) commit() error {
	if o.path == "" { // a link may lead to a longer file; devices and pipes have no length
		if info, err := o.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > o.written && !o.shared {
			return errors.Join(o.Truncate(o.written), o.Close())
		}
		return o.Close()
	}
	err := errors.Join(o.Chmod(0o644), o.Sync(), o.Close())
	if err == nil {
		err = os.Rename(o.Name(), o.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", o.path, err), os.Remove(o.Name()))
	}
	return nil
}

func (o *output) abandon() error {
	err := o.Close()
	if o.path != "" {
		err = errors.Join(err, os.Remove(o.Name()))
	}
	return err
}

// notOfLake returns an error for a path of a file or directory that is a lake's own: one in a directory of a lake, or
// the database of its views. Other files may stand beside these, such as metrics.
func notOfLake(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(full); err == nil {
		full = target
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(dir, filepath.Base(full))
	}
	for dir := filepath.Dir(full); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, "_state")); err == nil && info.IsDir() {
			first, _, below := strings.Cut(strings.TrimPrefix(full, dir+string(filepath.Separator)), string(filepath.Separator))
			isTable := slices.ContainsFunc(schema.Tables(), func(t schema.Table) bool { return t.Name == first })
			if below || isTable || strings.HasPrefix(first, queries.CatalogFile) || strings.HasPrefix(first, "_") {
				return fmt.Errorf("%s belongs to the lake %s: name another file", path, dir)
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
