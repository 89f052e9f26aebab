// Package subprocess runs the program a second time, in a child process whose memory and time the operating
// system limits. DuckDB does not count all of its allocations, and does not look for an interrupt inside a
// long function: SELECT len(range(2000000000)) passes any memory limit and cannot be cancelled.
//
//	parent                                       child: the same program and command line
//	Run(ctx, child, out, log) ── stdin: open   ─→ Begin: RLIMIT_DATA; ends when stdin does
//	                          ←─ stdout: answer
//	                          ←─ stderr, and the exit code that ExitCode marks as the program's own
//
// The parent kills the child when its context ends. The child reads the lake and writes only temporary files,
// into Child.SpillDir, so that it can be killed at any time. The caller of Run removes the directory. If the
// parent is killed, the child removes its files and ends. The limit of the process is the memory limit of the
// query plus an allowance for the program, the threads and the answer. It is set on Linux only. On other
// systems the child has no limit.
package subprocess

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"parsimon/queries/duckdb"
	"parsimon/schema/together"
)

const (
	variable = "PARSIMON_QUERY_PROCESS" // the environment of a child has its SpillDir there
	ended    = 64                       // added to the exit code of a child that ends without a crash
	// DuckDB's allocator returns free address space. Otherwise it keeps it to use it again, and RLIMIT_DATA
	// counts it: a query that spills then fails with "bad allocation", although its memory is within the limit
	// (jemalloc issue 1538).
	allocator = "DUCKDB_JE_MALLOC_CONF=retain:false"
	// of Go's heap, above which its collector works harder: room for batches of rows
	heapBytes = 96 << 20
)

// IsChild reports whether Run has started this process.
func IsChild() bool {
	_, is := os.LookupEnv(variable)
	return is
}

// Begin sets the SpillDir of a child, and limits its memory, and its life to that of its parent.
func Begin(o *duckdb.Options) error {
	dir := os.Getenv(variable)
	o.SpillDir = dir
	go func() { // until the process ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		removeSpilled(dir)
		os.Exit(1)
	}()
	debug.SetMemoryLimit(heapBytes)
	_, err := o.LimitProcess()
	return err
}

// removeSpilled removes DuckDB's temporary files from a directory, and the directory if it is empty then. It
// removes no other files, because the path is from the environment.
func removeSpilled(dir string) {
	files, _ := os.ReadDir(dir) // those that it could read
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "duckdb_temp_") {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
	_ = os.Remove(dir)
}

// ExitCode returns the exit code of this process for code. In a child it is shifted, so that Run
// distinguishes it from a crash.
func ExitCode(code int) int {
	if IsChild() {
		return ended + code
	}
	return code
}

// MemoryError is the error of a child that runs out of memory.
type MemoryError struct{ Reason string }

// Error returns the reason.
func (e *MemoryError) Error() string {
	return "the process needs more memory than its limit: " + e.Reason
}

// A Child is a child process to run.
type Child struct {
	Args     []string // of this program
	SpillDir string   // see duckdb.Options; an absolute path, or empty
}

// Run runs this program in a child process, and returns its exit code. It copies the standard output of the
// child to out, at the pace of its reader, and then the child's stderr to log. If the context ends first, Run
// kills the child and returns the cause of the context's end; out may then have a part of the answer.
//
// Errors: an error of a write to out, after which the child is killed; *MemoryError; or one that says how the
// child crashed.
func Run(ctx context.Context, of Child, out, log io.Writer) (code int, err error) {
	executable, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("start the query process: %w", err)
	}
	running, kill := context.WithCancel(ctx)
	defer kill()
	stderr := &bytes.Buffer{}
	c := exec.CommandContext(running, executable, of.Args...)
	c.Env = append(os.Environ(), variable+"="+of.SpillDir, allocator)
	c.Stderr = stderr
	// The child always writes to a pipe, because it opens /dev/stdout again, which fails for a socket and
	// truncates a file.
	stdout, err := start(c)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("start the query process: %w", err), context.Cause(ctx))
	}
	copied := make(chan error, 1) // the copy may wait for the reader of out when the context has ended
	go func() {
		copied <- together.Do(func() error {
			_, err := io.Copy(out, stdout)
			return err
		})
	}()
	var failed error
	select {
	case failed = <-copied:
	case <-ctx.Done():
	}
	if failed != nil {
		kill()
	}
	end := c.Wait() // which closes stdout
	switch code := c.ProcessState.ExitCode(); {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case failed != nil:
		return 0, failed
	case code >= ended:
		_, err := log.Write(stderr.Bytes())
		return code - ended, err
	}
	return 0, crash(end, stderr.String())
}

// start starts a child whose standard input stays open until it ends, and returns its standard output.
func start(c *exec.Cmd) (stdout io.Reader, err error) {
	if _, err := c.StdinPipe(); err != nil {
		return nil, err
	}
	if stdout, err = c.StdoutPipe(); err != nil {
		return nil, err
	}
	return stdout, c.Start()
}

// memorySigns are parts of the messages with which C++ and Go's runtime end a process after a failed
// allocation.
var memorySigns = []string{
	"out of memory", "cannot allocate memory", "bad_alloc", "pthread_create failed", "failed to allocate",
}

// crash returns the error for a child that crashed, with the first line of its stderr. The others are a trace
// of its stack.
func crash(end error, stderr string) error {
	for _, sign := range memorySigns {
		if strings.Contains(strings.ToLower(stderr), sign) {
			return &MemoryError{sign}
		}
	}
	var exit *exec.ExitError
	if errors.As(end, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() &&
			status.Signal() == syscall.SIGKILL {
			return &MemoryError{"the operating system killed the query process"}
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	return fmt.Errorf("the query process crashed: %w (%s)", end, cmp.Or(line, "without a message"))
}
