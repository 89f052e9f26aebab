// Package disk has the operations by which lakes and caches change files. They are those of os.Root: no path leads out
// of the directory.
//
// All of them pass through this package, so that tests can make each of them fail. Built with the tag faults, the
// program counts its operations and fails one of them, as the environment says (inject_faults.go). Without the tag
// nothing is counted, and a call costs what that of os.Root does.
package disk

import (
	"errors"
	"io/fs"
	"os"
)

// A Root is a directory. Its methods that are not here, which change nothing, are those of os.Root.
type Root struct{ *os.Root }

// OpenRoot opens a directory that exists.
func OpenRoot(path string) (Root, error) {
	r, err := os.OpenRoot(path)
	return Root{r}, err
}

// guarded does an operation unless it is to fail.
func guarded(op, path string, do func() error) error {
	if err := before(op, path); err != nil {
		return err
	}
	return do()
}

// Create creates a file that must not exist.
func (r Root) Create(path string) (*File, error) {
	if err := before(opCreate, path); err != nil {
		return nil, err
	}
	f, err := r.Root.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Open opens a file for reading.
func (r Root) Open(path string) (*os.File, error) {
	if err := before(opOpen, path); err != nil {
		return nil, err
	}
	return r.Root.Open(path)
}

// OpenLock opens a file without content, and makes it if there is none.
func (r Root) OpenLock(path string) (*os.File, error) {
	if err := before(opLock, path); err != nil {
		return nil, err
	}
	return r.Root.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
}

// MkdirAll is that of os.Root.
func (r Root) MkdirAll(path string, perm fs.FileMode) error {
	return guarded(opMkdir, path, func() error { return r.Root.MkdirAll(path, perm) })
}

// Rename is that of os.Root.
func (r Root) Rename(from, to string) error {
	return guarded(opRename, to, func() error { return r.Root.Rename(from, to) })
}

// Link is that of os.Root.
func (r Root) Link(from, to string) error {
	return guarded(opLink, to, func() error { return r.Root.Link(from, to) })
}

// Remove is that of os.Root.
func (r Root) Remove(path string) error {
	return guarded(opRemove, path, func() error { return r.Root.Remove(path) })
}

// RemoveAll is that of os.Root.
func (r Root) RemoveAll(path string) error {
	return guarded(opRemoveAll, path, func() error { return r.Root.RemoveAll(path) })
}

// Sync makes a file or the entries of a directory durable.
func (r Root) Sync(path string) error {
	if err := before(opSync, path); err != nil {
		return err
	}
	f, err := r.Root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// A File is one that is being written.
type File struct {
	file *os.File
	path string
}

// Write is that of os.File. Where it is made to fail, half of p is written.
func (f *File) Write(p []byte) (int, error) {
	if err := before(opWrite, f.path); err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

// ReadAt is that of os.File.
func (f *File) ReadAt(p []byte, at int64) (int, error) { return f.file.ReadAt(p, at) }

// Stat is that of os.File.
func (f *File) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Sync makes the file's content durable.
func (f *File) Sync() error {
	return guarded(opSync, f.path, f.file.Sync)
}

// Close is that of os.File. Where it is made to fail, the file is closed all the same.
func (f *File) Close() error {
	if err := before(opClose, f.path); err != nil {
		_ = f.file.Close()
		return err
	}
	return f.file.Close()
}

// Fd is that of os.File, for locks.
func (f *File) Fd() uintptr { return f.file.Fd() }

// Operations, as the tag faults counts them.
const (
	opCreate    = "create"
	opOpen      = "open"
	opLock      = "lock"
	opMkdir     = "mkdir"
	opRename    = "rename"
	opLink      = "link"
	opRemove    = "remove"
	opRemoveAll = "removeall"
	opSync      = "sync"
	opWrite     = "write"
	opClose     = "close"
)
