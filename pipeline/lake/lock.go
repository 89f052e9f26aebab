package lake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrBusy is wrapped by the error of a command that finds another process at work on the same scenario or workload.
var ErrBusy = errors.New("another process is working on it (most commands have --wait)")

// lockFile is the state file that is the lock of a scenario or workload.
const lockFile = "lock"

// A Session writes the files of one scenario or workload, whose lock it holds until Close. Its methods are
// safe for any number of goroutines.
type Session struct {
	*Lake
	tmp    string // lake-relative directory of unfinished files
	shared bool   // other sessions may work on the same place
	next   atomic.Int64
	unlock func()
}

// Close removes unfinished files and gives up the lock.
func (s *Session) Close() { s.unlock() }

// TmpPath is the absolute path of the session's directory for unfinished files, which Close removes.
func (s *Session) TmpPath() string { return filepath.Join(s.path, s.tmp) }

// Lock keeps a scenario or workload to this session. The lock ends with the process that holds it. Lock removes
// what killed processes left half written. The error wraps ErrBusy if another process holds the lock.
func (l *Lake) Lock(ctx context.Context, p Place) (*Session, error) {
	return l.session(ctx, p, syscall.LOCK_EX, 300*time.Millisecond)
}

// LockShared is Lock for one of several processes that divide the tasks of a scenario's stages among themselves.
// Unfinished files go to a directory of the session's own. The last session to close removes what killed ones left.
func (l *Lake) LockShared(ctx context.Context, p Place) (*Session, error) {
	// A session that closes holds the lock alone for a moment if it is the last.
	return l.session(ctx, p, syscall.LOCK_SH, 2*time.Second)
}

func (l *Lake) session(ctx context.Context, p Place, how int, patience time.Duration) (*Session, error) {
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
		_ = l.root.RemoveAll(s.tmp)
		if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil { // no other session is left
			_ = l.root.RemoveAll(all)
			_ = l.root.Remove(tmpDir) // unless another place's session writes
		}
		_ = f.Close()
	}
	return s, nil
}

// Waiting calls lock again while another process holds the lock, for as long as wait.
func Waiting(ctx context.Context, wait time.Duration, lock func() (*Session, error)) (s *Session, err error) {
	err = poll(ctx, wait, time.Second, func() error {
		s, err = lock()
		return err
	})
	return s, err
}

// poll calls lock again while another process holds the lock, for as long as wait.
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

// A FileLock is a lock that ends with Close, or with the process.
type FileLock struct{ file *os.File }

// Close gives up the lock.
func (l *FileLock) Close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

// LockStage shares the lock at a lake-relative path with processes that divide a stage's tasks. It calls begin first if
// no other process holds the lock: only then may the stage's state be replaced.
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

// catalogLock and readersLock are the lake-relative paths of the lock of the catalog of views, and of that of readers.
const (
	catalogLock = stateDir + "/catalog.lock"
	readersLock = stateDir + "/readers.lock"
)

// LockCatalog waits until no other process writes the catalog of views, and keeps others from doing so until Close.
func (l *Lake) LockCatalog() (*FileLock, error) {
	f, err := l.openLock(catalogLock)
	if err != nil {
		return nil, err
	}
	return &FileLock{f}, flock(f, syscall.LOCK_EX)
}

// LockForReading keeps the files that the present manifests name until Close. A process that may not write the lake
// locks the lock file that every session makes. If there is none, or it cannot be locked, LockForReading locks nothing:
// files that are removed meanwhile are then errors of reading, since no file is overwritten.
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

// makeReadersLock makes the lock file of readers, for those that may not write the lake.
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

// LockOutReaders keeps readers out until Close. The error wraps ErrBusy if some are still at work after wait.
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

func (l *Lake) openLock(path string) (*os.File, error) {
	if err := l.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if info, err := l.root.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", filepath.Join(l.path, path))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return l.root.OpenLock(path)
}

// lock opens and locks the lock file of a place. It waits for others for as long as patience: status holds a lock for a
// moment to find out whether another process does.
func (l *Lake) lock(ctx context.Context, p Place, how int, patience time.Duration) (f *os.File, err error) {
	err = poll(ctx, patience, 50*time.Millisecond, func() error {
		f, err = l.tryLock(ctx, p.StatePath(lockFile), how)
		return err
	})
	switch {
	case err == nil:
		return f, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return nil, err
	}
	return nil, fmt.Errorf("%s in lake %s: %w", p, l.path, ErrBusy)
}

// tryLock opens and locks a lock file without waiting. A process that removes a scenario removes its lock file, too. If
// that happened between opening and locking, another file has the name now, and tryLock takes that one.
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

// is reports whether an open file is the one that has the name now.
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

// flock locks a file. The error wraps EWOULDBLOCK where the call may not wait.
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

// Litter is the incomplete files of a killed process. No reader sees it, and the next command that writes into the lake
// removes it.
type Litter struct {
	Path  string `json:"path"` // relative to the lake
	Bytes int64  `json:"bytes"`
}

// Litter lists what killed processes left. What processes that are at work are writing is not among it.
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
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		all = append(all, left)
		return err
	})
	return all, err
}

// CatalogTemp is the lake-relative directory in which the catalog of views is written, by who holds LockCatalog.
const CatalogTemp = tmpDir + "/catalog"

// RemoveCatalogTemp removes CatalogTemp, as a killed process has left it.
func (l *Lake) RemoveCatalogTemp() error {
	err := l.root.RemoveAll(CatalogTemp)
	_ = l.root.Remove(tmpDir) // unless a session writes
	return err
}

// eachIdle calls do for each directory below _tmp of a place that no process works on, whose lock it holds meanwhile.
func (l *Lake) eachIdle(do func(path string) error) error {
	entries, err := l.readDir(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path, lock := tmpDir+"/"+e.Name(), stateDir+"/"+e.Name()+"/"+lockFile
		if path == CatalogTemp {
			lock = catalogLock
		}
		f, err := l.openRegular(lock)
		switch {
		case err != nil && IsReadError(err) && !errors.Is(err, fs.ErrNotExist):
		case err != nil || flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil: // no lock, or nobody holds it
			err = do(path)
		}
		if f != nil {
			_ = f.Close() // and with it the lock
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeLitter removes what killed processes left below _tmp, of scenarios and workloads that nobody works on.
func (l *Lake) removeLitter() error {
	return l.eachIdle(func(path string) error {
		if _, ours := parseOwner(strings.TrimPrefix(path, tmpDir+"/")); !ours {
			return nil
		}
		return l.root.RemoveAll(path)
	})
}

// parseOwner is the inverse of Place.owner.
func parseOwner(name string) (p Place, ok bool) {
	if id, found := strings.CutPrefix(name, "scenario="); found {
		p.Scenario, _ = ParseScenarioID(id)
	} else if id, found := strings.CutPrefix(name, "workload="); found {
		p.Workload, _ = ParseWorkloadID(id)
	}
	return p, p.owner() == name && name != "scenario="
}
