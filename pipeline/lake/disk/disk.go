// Package disk has the operations with which lakes and caches change files. They correspond to those of
// os.Root: no path leads out of the directory.
//
// All changes pass through this package, so that tests can make any of them fail. If the linker sets injects
// (inject.go), the program counts its operations and fails one of them, as an environment variable specifies.
// Otherwise, operations are not counted, and a call costs as much as one of os.Root.
package disk

import (
	"errors"
	"io/fs"
	"os"
)

// A Root is a directory. The methods that it inherits from os.Root change nothing.
type Root struct{ *os.Root }

// OpenRoot opens an existing directory.
func OpenRoot(path string) (Root, error) {
	r, err := os.OpenRoot(path)
	return Root{r}, err
}

// guarded performs an operation unless a fault is injected.
func guarded(op, path string, do func() error) error {
	if err := before(op, path); err != nil {
		return err
	}
	return do()
}

// Create creates a file. It fails if the file exists.
func (r Root) Create(path string) (*File, error) {
	if err := before("create", path); err != nil {
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
	if err := before("open", path); err != nil {
		return nil, err
	}
	return r.Root.Open(path)
}

// OpenLock opens a lock file, and creates it if it does not exist.
func (r Root) OpenLock(path string) (*os.File, error) {
	if err := before("lock", path); err != nil {
		return nil, err
	}
	return r.Root.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
}

// MkdirAll is os.Root.MkdirAll. If another session removes an empty directory on the way, it makes it again.
func (r Root) MkdirAll(path string, perm fs.FileMode) error {
	return guarded("mkdir", path, func() error {
		const tries = 100
		err := r.Root.MkdirAll(path, perm)
		for n := 1; n < tries && errors.Is(err, fs.ErrNotExist); n++ {
			err = r.Root.MkdirAll(path, perm)
		}
		return err
	})
}

// Rename is os.Root.Rename.
func (r Root) Rename(from, to string) error {
	return guarded("rename", to, func() error { return r.Root.Rename(from, to) })
}

// Link is os.Root.Link.
func (r Root) Link(from, to string) error {
	return guarded("link", to, func() error { return r.Root.Link(from, to) })
}

// Remove is os.Root.Remove.
func (r Root) Remove(path string) error {
	return guarded("remove", path, func() error { return r.Root.Remove(path) })
}

// RemoveAll is os.Root.RemoveAll.
func (r Root) RemoveAll(path string) error {
	return guarded("removeall", path, func() error { return r.Root.RemoveAll(path) })
}

// Sync makes a file, or the entries of a directory, durable.
func (r Root) Sync(path string) error {
	if err := before("sync", path); err != nil {
		return err
	}
	f, err := r.Root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// A File is a file that is being written. The methods that it inherits from os.File write nothing.
type File struct {
	*os.File
	path string
}

// Write is os.File.Write. An injected fault writes half of p.
func (f *File) Write(p []byte) (int, error) {
	if err := before("write", f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

// Sync makes the file's content durable.
func (f *File) Sync() error { return guarded("sync", f.path, f.File.Sync) }

// Close is os.File.Close. After an injected fault, the file is closed nonetheless.
func (f *File) Close() error {
	if err := before("close", f.path); err != nil {
		_ = f.File.Close()
		return err
	}
	return f.File.Close()
}
