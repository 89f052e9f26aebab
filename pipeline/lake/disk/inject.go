package disk

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
)

// injects makes the program fail operations. Only the linker sets it, for the tests of package faults, so
// that their program is compiled from the same code as others:
//
//	go build -ldflags "-X parsimon/pipeline/lake/disk.injects=true"
//
// Then PARSIMON_FAULT=KIND:N makes operation N of the process fail, counted from 1:
//
//	crash    the process ends at once, like after kill -9
//	EIO      the operation fails with an I/O error; later operations do not
//	ENOSPC   the disk is full: from this operation on, all operations that need space fail
//
// PARSIMON_FAULT_LOG names a file to which every operation is appended as a line "OPERATION PATH".
var injects string

// An injection counts the operations of the process, and fails one of them.
type injection struct {
	mu   sync.Mutex
	kind string
	at   int
	done int
	log  *os.File
}

var plan = sync.OnceValue(func() *injection {
	in := new(injection)
	if text := os.Getenv("PARSIMON_FAULT"); text != "" {
		kind, n, _ := strings.Cut(text, ":")
		if _, err := fmt.Sscan(n, &in.at); err != nil {
			panic("PARSIMON_FAULT=" + text)
		}
		in.kind = kind
	}
	if path := os.Getenv("PARSIMON_FAULT_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			panic(err)
		}
		in.log = f
	}
	return in
})

// space lists the operations that fail on a full disk.
var space = map[string]bool{"create": true, "lock": true, "mkdir": true, "link": true, "write": true,
	"sync": true}

// before is called before each operation. If it returns an error, the operation fails with it.
func before(op, path string) error {
	if injects == "" {
		return nil
	}
	return plan().before(op, path)
}

func (in *injection) before(op, path string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done++
	if in.log != nil {
		_, _ = fmt.Fprintf(in.log, "%s %s\n", op, path)
	}
	switch {
	case in.kind == "crash" && in.done == in.at:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	case in.kind == "EIO" && in.done == in.at:
		return &fs.PathError{Op: op, Path: path, Err: syscall.EIO}
	case in.kind == "ENOSPC" && in.done >= in.at && space[op]:
		return &fs.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
	}
	return nil
}
