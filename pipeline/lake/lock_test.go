package lake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
