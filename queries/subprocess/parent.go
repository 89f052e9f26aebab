package subprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// drainTime is how long Run waits for out to take the rest of the answer after the child has ended.
const drainTime = 5 * time.Second

// Run answers the request in a child process and writes the answer to out. It returns when the child has ended. If
// the context ends first, Run kills the child and returns the cause of the context's end; out may then have a part
// of the answer.
//
// Errors: those of package queries; *MemoryError; an error that says how the child crashed.
func Run(ctx context.Context, r Request, out io.Writer) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the query process: %w", err)
	}
	request, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("start the query process: %w", err)
	}
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the query process: %w", err)
	}
	defer func() { _ = reports.Close() }()
	stderr := &tail{}
	c := exec.CommandContext(ctx, executable)
	c.Env = append(os.Environ(), variable+"=1")
	c.Stdout, c.Stderr, c.ExtraFiles, c.WaitDelay = out, stderr, []*os.File{reportEnd}, drainTime
	stdin, err := c.StdinPipe() // closed by Wait: open until the child ends
	if err == nil {
		err = c.Start()
	}
	_ = reportEnd.Close() // the child has its own
	if err != nil {
		return errors.Join(fmt.Errorf("start the query process: %w", err), context.Cause(ctx))
	}
	_, _ = stdin.Write(request)                           // fails if the child has ended, which Wait reports
	text, _ := io.ReadAll(io.LimitReader(reports, 1<<20)) // ends when the child does
	ended := c.Wait()
	var sent report
	switch {
	case ended == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case json.Unmarshal(text, &sent) == nil:
		return sent.err()
	}
	return crash(ended, stderr.String())
}

// memorySigns are parts of the messages with which C++ and Go's runtime end a process after a failed allocation.
var memorySigns = []string{
	"out of memory", "cannot allocate memory", "bad_alloc", "pthread_create failed", "failed to allocate",
}

// crash returns the error for a child that ended without a report.
func crash(ended error, stderr string) error {
	var exit *exec.ExitError
	if !errors.As(ended, &exit) {
		return fmt.Errorf("the query process: %w", ended) // out failed
	}
	for _, sign := range memorySigns {
		if strings.Contains(strings.ToLower(stderr), sign) {
			return &MemoryError{sign}
		}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return &MemoryError{"the operating system killed the query process"}
	}
	return fmt.Errorf("the query process crashed: %w\n%s", ended, strings.TrimSpace(stderr))
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

const tailBytes = 4 << 10

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if extra := t.Len() - tailBytes; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}
