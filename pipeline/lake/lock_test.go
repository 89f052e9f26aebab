package lake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

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

// Sessions that share a scenario keep one that wants it alone out, and are kept out by it.
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

// Sessions that come and go never find the scenario taken.
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

// The next session removes what a killed one was writing.
func TestLockRemovesUnfinishedFiles(t *testing.T) {
	l := openLake(t)
	left := filepath.Join(l.Path(), tmpDir, at.owner(), "flows-1.parquet")
	if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o755), os.WriteFile(left, []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s := lock(t, l, at)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
	w, err := s.Create(schema.Nodes, at.File(schema.Nodes, 0))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.Abandon()
	if there(t, l, tmpDir) {
		t.Error("a closed session leaves its directory")
	}
}

// One process at a time begins a stage again; those that share it wait for it, and keep others from beginning.
func TestStageLock(t *testing.T) {
	l := openLake(t)
	path := at.StatePath("simulate.lock")
	first, alone, err := l.LockStage(path)
	if err != nil || !alone {
		t.Fatalf("alone %v, %v", alone, err)
	}
	second, alone, err := l.LockStage(path)
	if err != nil || alone {
		t.Fatalf("both are alone: %v", err)
	}
	done := make(chan error)
	go func() { done <- second.Share() }()
	if err := first.Share(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	third, alone, err := l.LockStage(path)
	if err != nil || alone {
		t.Errorf("alone beside two that share: %v", err)
	}
	for _, s := range []*FileLock{first, second, third} {
		s.Close()
	}
	if last, alone, err := l.LockStage(path); err != nil || !alone {
		t.Errorf("after all have closed: %v", err)
	} else {
		last.Close()
	}
}
