package lake

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A reader without write permission prevents removals, too. It locks the file that a session has created.
// Otherwise a removal would delete files that a query of another user is reading.
func TestReaderWithoutWritePermission(t *testing.T) {
	l := openLake(t)
	lock(t, l, at).Close()
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	state := filepath.Join(l.Path(), stateDir)
	for path, mode := range map[string]os.FileMode{filepath.Join(l.Path(), readersLock): 0o444, state: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = os.Chmod(state, 0o755) }()
	reading := l.LockForReading()
	defer reading.Close()
	if err := errors.Join(os.Chmod(state, 0o755),
		os.Chmod(filepath.Join(l.Path(), readersLock), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.LockOutReaders(t.Context(), time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Errorf("a removal beside the reader: %v", err)
	}
}

// Every session leaves the lock file of readers behind.
func TestSessionMakesReadersLock(t *testing.T) {
	l := openLake(t)
	lock(t, l, at).Close()
	if !l.Exists(readersLock) {
		t.Error("there is no " + readersLock)
	}
}
