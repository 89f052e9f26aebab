package lake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrBusy is wrapped by the error of a command if another process is working on the same scenario or
// workload.
var ErrBusy = errors.New("another process is working on it (most commands have --wait)")

// lockFile is the name of the state file that serves as the lock of a scenario or workload.
const lockFile = "lock"

// A Session writes the files of one scenario or workload. It holds the lock of this place until Close. Its
// methods are safe for concurrent use.
type Session struct {
	*Lake
	tmp    string // lake-relative directory of unfinished files
	shared bool   // other sessions may work on the same place
	next   atomic.Int64
	unlock func()
}

// Close removes unfinished files and releases the lock.
func (s *Session) Close() { s.unlock() }

// TmpPath returns the absolute path of the session's directory for unfinished files. Close removes the
// directory.
func (s *Session) TmpPath() string { return filepath.Join(s.path, s.tmp) }

// Lock gives this session exclusive access to a scenario or workload. The lock is released when the process
// ends. Lock removes the unfinished files of killed processes. If another process holds the lock, the error
// wraps ErrBusy.
func (l *Lake) Lock(ctx context.Context, p Place) (*Session, error) {
	return l.session(ctx, p, syscall.LOCK_EX, 300*time.Millisecond)
}

// LockShared is Lock for one of several processes that divide the tasks of a scenario's stages among
// themselves. Each session writes unfinished files to its own directory. The last session to close
// removes the unfinished files of killed processes.
func (l *Lake) LockShared(ctx context.Context, p Place) (*Session, error) {
	// While the last session closes, it briefly holds the exclusive lock.
	return l.session(ctx, p, syscall.LOCK_SH, 2*time.Second)
}

func (l *Lake) session(ctx context.Context, p Place, how int, patience time.Duration) (*Session, error) {
	if err := l.checkWritable(); err != nil {
		return nil, err
	}
	f, err := l.lock(ctx, p, how, patience)
	if err != nil {
		return nil, err
	}
	all := filepath.Join(tmpDir, p.owner())
	s := &Session{Lake: l, tmp: all, shared: how == syscall.LOCK_SH}
	if how == syscall.LOCK_SH {
		s.tmp = filepath.Join(all, "shard-"+rand.Text())
	} else {
		err = errors.Join(ctx.Err(), l.root.RemoveAll(all), l.removeLitter())
	}
	if err = errors.Join(err, l.makeReadersLock(), l.root.MkdirAll(s.tmp, 0o755)); err != nil {
		_ = f.Close()
		return nil, err
	}
	s.unlock = func() {
		// After RemovePlace, another process may hold a new lock of the place, and write to the same directory.
		if ours, _ := l.is(p.StatePath(lockFile), f); ours {
			_ = l.root.RemoveAll(s.tmp)
			if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil { // no other session is left
				_ = l.root.RemoveAll(all)
				_ = l.root.Remove(tmpDir) // unless the session of another place writes
			}
		}
		_ = f.Close()
	}
	return s, nil
}

// Waiting calls lock repeatedly while another process holds the lock, up to the duration wait.
func Waiting(ctx context.Context, wait time.Duration, lock func() (*Session, error)) (s *Session, err error) {
	err = poll(ctx, wait, time.Second, func() error {
		s, err = lock()
		return err
	})
	return s, err
}

// poll calls lock at intervals of every while another process holds the lock, up to the duration wait.
func poll(ctx context.Context, wait, every time.Duration, lock func() error) error {
	for deadline := time.Now().Add(wait); ; {
		err := lock()
		busy := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, ErrBusy)
		if !busy || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(every, time.Until(deadline))):
		}
	}
}

// A FileLock is a lock that is released by Close or when the process ends.
type FileLock struct{ file *os.File }

// Close releases the lock.
func (l *FileLock) Close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// LockStage takes a shared lock at a lake-relative path, together with the processes that divide a stage's
// tasks. If no other process holds the lock, it first calls begin. Only then may the stage's state be
// replaced.
func (l *Lake) LockStage(path string, begin func() error) (*FileLock, error) {
	f, err := l.openLock(path)
	if err != nil {
		return nil, err
	}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		err = begin()
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = nil
	}
	if err == nil {
		err = flock(f, syscall.LOCK_SH)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &FileLock{f}, nil
}

// LockAlone waits until no other process holds the lock at a lake-relative path, and takes it.
func (l *Lake) LockAlone(ctx context.Context, path string) (*FileLock, error) {
	f, err := l.openLock(path)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, math.MaxInt64, 50*time.Millisecond, func() error {
		return flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &FileLock{f}, nil
}

// catalogLock and readersLock are the lake-relative paths of the lock of the catalog of views and of the lock
// of readers.
const (
	catalogLock = stateDir + "/catalog.lock"
	readersLock = stateDir + "/readers.lock"
)

// LockCatalog waits until no other process writes the catalog of views. It prevents other processes from
// writing the catalog until Close.
func (l *Lake) LockCatalog() (*FileLock, error) {
	f, err := l.openLock(catalogLock)
	if err != nil {
		return nil, err
	}
	return &FileLock{f}, flock(f, syscall.LOCK_EX)
}

// LockForReading prevents the removal of the files that the current manifests name, until Close. A process
// without write permission uses the lock file that every session creates. If that file does not exist or
// cannot be locked, LockForReading locks nothing. Files that are removed in the meantime then cause read
// errors. They cannot cause wrong results, because no file is overwritten.
func (l *Lake) LockForReading() *FileLock {
	f, err := l.root.OpenLock(readersLock)
	if err != nil {
		f, err = l.openRegular(readersLock)
	}
	if err != nil {
		return &FileLock{}
	}
	if flock(f, syscall.LOCK_SH) != nil {
		_ = f.Close()
		return &FileLock{}
	}
	return &FileLock{f}
}

// makeReadersLock creates the lock file of readers, for readers that may not write to the lake.
func (l *Lake) makeReadersLock() error {
	if l.Exists(readersLock) {
		return nil
	}
	f, err := l.openLock(readersLock)
	if err != nil {
		return err
	}
	return f.Close()
}

// LockOutReaders prevents reading until Close. If readers are still active after the duration wait, the error
// wraps ErrBusy.
func (l *Lake) LockOutReaders(ctx context.Context, wait time.Duration) (*FileLock, error) {
	f, err := l.openLock(readersLock)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, wait, 50*time.Millisecond, func() error { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) })
	if err == nil {
		return &FileLock{f}, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("lake %s is being read: %w: %w", l.path, ErrBusy, err)
	}
	return nil, err
}

// openLock opens a lock file, and creates it if it does not exist. Another process may remove its directory
// with the place at any time.
func (l *Lake) openLock(path string) (f *os.File, err error) {
	const attempts = 100
	for range attempts {
		if err = l.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			break
		}
		var info fs.FileInfo
		info, err = l.root.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: not a regular file", filepath.Join(l.path, path))
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			f, err = l.root.OpenLock(path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, err
}

// lock opens and locks the lock file of a place. It waits up to the duration patience, because the status
// command briefly holds a lock to find out whether another process holds it.
func (l *Lake) lock(ctx context.Context, p Place, how int, patience time.Duration) (f *os.File, err error) {
	err = poll(ctx, patience, 50*time.Millisecond, func() error {
		f, err = l.tryLock(ctx, p.StatePath(lockFile), how)
		return err
	})
	switch {
	case err == nil:
		return f, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return nil, fmt.Errorf("lock of %s in lake %s: %w", p, l.path, err)
	}
	return nil, fmt.Errorf("%s in lake %s: %w", p, l.path, ErrBusy)
}

// tryLock opens and locks a lock file without waiting. A process that removes a scenario also removes its
// lock file. If this happens between opening and locking, the path may belong to a new file. tryLock then
// locks the new file.
func (l *Lake) tryLock(ctx context.Context, path string, how int) (*os.File, error) {
	for ctx.Err() == nil {
		f, err := l.openLock(path)
		if err != nil {
			return nil, err
		}
		current := false
		if err = flock(f, how|syscall.LOCK_NB); err == nil {
			current, err = l.is(path, f)
		}
		if current {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

// is reports whether a path still refers to an open file.
func (l *Lake) is(path string, f *os.File) (bool, error) {
	there, err := l.root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(there, open), err
}

// flock locks a file. If the call may not wait and the file is locked, the error wraps EWOULDBLOCK.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		return nil
	}
}

// Litter describes the unfinished files of a killed process. Readers do not see them, and the next command
// that writes to the lake removes them.
type Litter struct {
	Path  string `json:"path"` // relative to the lake
	Bytes int64  `json:"bytes"`
}

// Litter lists the unfinished files of killed processes. It omits the files of running processes.
func (l *Lake) Litter() (all []Litter, err error) {
	err = l.eachIdle(func(path string) error {
		left := Litter{Path: path}
		err := fs.WalkDir(l.root.FS(), path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				left.Bytes += info.Size()
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) { // removed in the meantime
			return nil
		}
		all = append(all, left)
		return err
	})
	return all, err
}

// queriesTemp is the lake-relative directory in which each running query has a directory.
const queriesTemp = tmpDir + "/queries"

// BeginQuery is LockForReading for a query that may need more memory than it has. It also makes the directory
// to which the query spills, and returns its absolute path, which is empty if the lake cannot be written. The
// caller calls end.
func (l *Lake) BeginQuery() (spillDir string, end func()) {
	lock := l.LockForReading() // otherwise another process treats the directory as Litter
	dir := queriesTemp + "/" + rand.Text()
	if l.root.MkdirAll(dir, 0o755) != nil {
		return "", lock.Close
	}
	return filepath.Join(l.path, dir), func() {
		_ = l.root.RemoveAll(dir)
		_ = l.root.Remove(queriesTemp) // unless another query runs
		_ = l.root.Remove(tmpDir)      // unless a session writes
		lock.Close()
	}
}

// CatalogTemp is the lake-relative directory in which the holder of LockCatalog writes the catalog of views.
const CatalogTemp = tmpDir + "/catalog"

// RemoveCatalogTemp removes CatalogTemp if a killed process has left it.
func (l *Lake) RemoveCatalogTemp() error {
	err := l.root.RemoveAll(CatalogTemp)
	_ = l.root.Remove(tmpDir) // unless a session writes
	return err
}

// eachIdle calls do for each directory below _tmp that belongs to a place on which no process works, or to
// queries if none runs. It holds the lock of the place, or of readers, during the call.
func (l *Lake) eachIdle(do func(path string) error) error {
	entries, err := l.readDir(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := tmpDir + "/" + e.Name()
		lock := stateDir + "/" + e.Name() + "/" + lockFile
		switch path {
		case CatalogTemp:
			lock = catalogLock
		case queriesTemp:
			lock = readersLock
		}
		f, err := l.openRegular(lock)
		switch {
		case err != nil && IsReadError(err) && !errors.Is(err, fs.ErrNotExist):
		case err != nil: // there is no lock
			err = do(path)
		default:
			var idle bool
			if idle, err = l.lockIdle(lock, f); idle {
				err = do(path)
			}
		}
		if f != nil {
			_ = f.Close() // this releases the lock
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockIdle locks the open lock file of a path unless another process holds the lock. It reports false if the
// path no longer refers to the file: the place was removed, and another process may have begun it again.
func (l *Lake) lockIdle(path string, f *os.File) (bool, error) {
	if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, nil
	}
	return l.is(path, f)
}

// removeLitter removes the files of killed processes below _tmp, for scenarios and workloads on which no
// process works, and for queries.
func (l *Lake) removeLitter() error {
	return l.eachIdle(func(path string) error {
		_, ours := parseOwner(strings.TrimPrefix(path, tmpDir+"/"))
		if !ours && path != queriesTemp {
			return nil
		}
		return l.root.RemoveAll(path)
	})
}

// parseOwner is the inverse of Place.owner.
func parseOwner(name string) (p Place, ok bool) {
	id, found := strings.CutPrefix(name, "scenario=")
	if found {
		p.Scenario, _ = ParseScenarioID(id)
	} else if id, found := strings.CutPrefix(name, "workload="); found {
		p.Workload, _ = ParseWorkloadID(id)
	}
	return p, p.owner() == name && name != "scenario="
}
