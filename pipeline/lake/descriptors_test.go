package lake

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

// If a lock file cannot be inspected, locking fails. An earlier version treated this as a file that another
// process had replaced, and retried forever at full CPU load, ignoring signals.
func TestLockWithoutDescriptors(t *testing.T) {
	l := openLake(t)
	lock(t, l, at).Close()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	failed := 0
	for n := uint64(3); n < 40; n++ { // each number of free descriptors, from none to enough
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			s, err := l.Lock(context.Background(), at)
			if err == nil {
				s.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, syscall.EMFILE) {
				t.Errorf("%d descriptors: %v", n, err)
			}
			if err != nil {
				failed++
			}
		case <-time.After(10 * time.Second):
			restore()
			t.Fatalf("%d descriptors: Lock does not return", n)
		}
	}
	if failed == 0 {
		t.Error("no number of descriptors was too low")
	}
}

// Locking ends when its context ends, even if the lock file is replaced over and over.
func TestLockEndsWithItsContext(t *testing.T) {
	l := openLake(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := l.tryLock(stopped, at.StatePath(lockFile), syscall.LOCK_EX); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
