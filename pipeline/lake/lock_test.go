package lake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"parsimon/schema"
)

func TestLockKeepsOthersOut(t *testing.T) {
	first := openLake(t)
	session, err := first.Lock(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(first.Path(), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(t.Context(), at); !errors.Is(err, ErrBusy) {
		t.Errorf("second lock: %v", err)
	}
	if beef, err := other.Lock(t.Context(), Of("beefbeefbeefbeef")); err != nil {
		t.Errorf("another scenario: %v", err)
	} else {
		beef.Close()
	}
	session.Close()
	if session, err = other.Lock(t.Context(), at); err != nil {
		t.Fatalf("after the first has closed: %v", err)
	}
	session.Close()
}

// Shared sessions on a scenario and an exclusive session exclude each other.
func TestSharedLock(t *testing.T) {
	l := openLake(t)
	a, err := l.LockShared(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.LockShared(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if a.TmpPath() == b.TmpPath() {
		t.Error("two sessions have one directory for unfinished files")
	}
	if _, err := l.Lock(t.Context(), at); !errors.Is(err, ErrBusy) {
		t.Errorf("alone beside shared ones: %v", err)
	}
	a.Close()
	b.Close()
	alone := lock(t, l, at)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := l.LockShared(stopped, at); err == nil {
		t.Error("shared beside one alone")
	}
	alone.Close()
}

// Shared sessions that open and close repeatedly are never refused.
func TestSharedSessionsComeAndGo(t *testing.T) {
	dir := openLake(t).Path()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				l, err := Open(dir, true)
				if err != nil {
					t.Error(err)
					return
				}
				s, err := l.LockShared(t.Context(), at)
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.WriteState(at.StatePath("observed"), 1); err != nil {
					t.Error(err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, tmpDir)); err == nil && len(left) > 0 {
		t.Errorf("%d files left in %s", len(left), tmpDir)
	}
}

// The next session removes the unfinished files of a killed session.
func TestLockRemovesUnfinishedFiles(t *testing.T) {
	l := openLake(t)
	left := filepath.Join(l.Path(), tmpDir, at.owner(), "flows-1.parquet")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o755),
		os.WriteFile(left, []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s := lock(t, l, at)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
	w, err := s.Create(schema.Nodes, at, at.File(schema.Nodes, 0))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.Abandon()
	if there(t, l, tmpDir) {
		t.Error("a closed session leaves its directory")
	}
}

// A session that has removed its place holds a lock that no other process sees. While it closes, or another
// process looks for litter, the unfinished files of the next session on the place must stay.
func TestClosingAfterRemovalLeavesTheNextSession(t *testing.T) {
	first := openLake(t)
	removing := lock(t, first, at)
	removed, err := first.openRegular(at.StatePath(lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer removed.Close()
	if err := removing.RemovePlace(at); err != nil {
		t.Fatal(err)
	}
	other, err := Open(first.Path(), true)
	if err != nil {
		t.Fatal(err)
	}
	next := lock(t, other, at)
	unfinished := filepath.Join(next.TmpPath(), "flows-1.parquet")
	if err := os.WriteFile(unfinished, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	litter, err := first.Litter()
	if err = errors.Join(err, first.removeLitter()); err != nil || len(litter) != 0 {
		t.Errorf("files of the next session are litter: %v, %v", litter, err)
	}
	removing.Close()
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("the session that removed the place also removes files of the next one: %v", err)
	}
	// A process that looks for litter may have opened the lock before the removal.
	idle, err := first.lockIdle(at.StatePath(lockFile), removed)
	if err != nil || idle {
		t.Errorf("the place seems idle by the lock that was removed: %v", err)
	}
}

// Sessions that begin and remove one place at the same time never remove what another has written.
func TestRemovalsAndSessionsAtOnce(t *testing.T) {
	dir := openLake(t).Path()
	work := func() error {
		l, err := Open(dir, true)
		if err != nil {
			return err
		}
		s, err := Waiting(t.Context(), time.Minute, func() (*Session, error) { return l.Lock(t.Context(), at) })
		if err != nil {
			return err
		}
		defer s.Close()
		unfinished := filepath.Join(s.TmpPath(), "flows-1.parquet")
		err = errors.Join(s.WriteState(at.SpecPath(), 1), os.WriteFile(unfinished, []byte("half"), 0o644))
		runtime.Gosched()
		_, specErr := os.Stat(filepath.Join(dir, at.SpecPath()))
		_, tmpErr := os.Stat(unfinished)
		return errors.Join(err, specErr, tmpErr, s.RemovePlace(at))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 30 {
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(filepath.Join(dir, stateDir, at.owner())); err == nil {
		t.Errorf("%d files left", len(left))
	}
}

// The errors of a lake that does not exist, and of one that cannot be written, name the lake.
func TestErrorsNameTheLake(t *testing.T) {
	l := openLake(t)
	if err := os.WriteFile(filepath.Join(l.Path(), stateDir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want := "lock of " + at.String() + " in lake " + l.Path() + ": "
	if _, err := l.Lock(t.Context(), at); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a lake that cannot be written: %v", err)
	}
	missing := filepath.Join(l.Path(), "missing")
	if _, err := Open(missing, false); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "no lake at "+missing) {
		t.Errorf("a lake that does not exist: %v", err)
	}
}

// LockAlone waits for the process that holds the lock, and ends with its context.
func TestLockAlone(t *testing.T) {
	l := openLake(t)
	first, err := l.LockAlone(t.Context(), at.StatePath("record.lock"))
	if err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := l.LockAlone(short, at.StatePath("record.lock")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock beside the first: %v", err)
	}
	other, err := l.LockAlone(t.Context(), at.StatePath("other.lock"))
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	done := make(chan error)
	go func() {
		second, err := l.LockAlone(t.Context(), at.StatePath("record.lock"))
		if err == nil {
			second.Close()
		}
		done <- err
	}()
	first.Close()
	if err := <-done; err != nil {
		t.Errorf("after the first has closed: %v", err)
	}
}

// Only one process at a time begins a stage again. Processes that share the stage wait for it, and prevent
// others from beginning the stage.
func TestStageLock(t *testing.T) {
	l := openLake(t)
	path := at.StatePath("simulate.lock")
	begun := 0
	begin := func() error { begun++; return nil }
	share := func(want int) *FileLock {
		t.Helper()
		lock, err := l.LockStage(path, begin)
		if err != nil || begun != want {
			t.Fatalf("begun %d times, %v", begun, err)
		}
		return lock
	}
	done := make(chan *FileLock)
	first, err := l.LockStage(path, func() error {
		go func() { // waits until the first has begun
			second, err := l.LockStage(path, begin)
			if err != nil {
				t.Error(err)
			}
			done <- second
		}()
		select {
		case <-done:
			t.Error("two begin at once")
		case <-time.After(50 * time.Millisecond):
		}
		return begin()
	})
	if err != nil {
		t.Fatal(err)
	}
	second := <-done
	third := share(1)
	for _, s := range []*FileLock{first, second, third} {
		s.Close()
	}
	share(2).Close()
	refused := errors.New("no")
	if _, err := l.LockStage(path, func() error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	share(3).Close()
}
