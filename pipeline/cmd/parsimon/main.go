// Command parsimon estimates the flow-completion-time slowdowns of a data-center network.
//
//	arguments ─► cobra (commands.go) ─► verb: declare(flags), run(ctx, args)
//	                                              │
//	          stdout: text, CSV or JSON ◄─────────┤
//	          stderr: log lines, progress, errors ◄┘──► exit code (exitCode)
//
// This package parses flags and prints. The work of a command is in the package that its run method calls. A
// command is a value of type verb and a line of the table in commands.go. Its manual page is manual/NAME.txt.
// Flags that several commands share are declared in flags.go. A flag is parsed and checked when it is read,
// so a mistake in the command line is found before any work. An answer is one value and its text, and
// env.write writes either.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"parsimon/pipeline/bundle"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/workloads"
	"parsimon/queries/subprocess"
	"parsimon/schema/together"
)

// Exit codes, which "parsimon help" explains.
const (
	exitOK        = 0
	exitFailed    = 1 // the work failed
	exitUsage     = 2 // the command line is wrong; nothing was done
	exitGate      = 3 // a condition of --fail-if is true
	exitBusy      = 4 // another process works on the scenario or workload
	exitDamaged   = 5 // files of the lake are damaged
	exitPartial   = 6 // done, except for sources that cannot be read
	exitOther     = 7 // done, but a bundle of another version has other rows
	exitInterrupt = 130
)

// interruptGrace is the time within which an interrupted command must stop. After that, the process ends.
// Every command can be killed at any time without losing what it has committed.
const interruptGrace = 900 * time.Millisecond

// An env has what the commands of one process share: the destinations of answers, log lines and progress.
type env struct {
	args    []string // the command line
	stdout  *answerWriter
	stderr  io.Writer
	lake    string // --lake
	logs    logFlags
	metrics metrics
	help    helpRequest
	running string // the name of the command
	writes  bool   // it commits tables
	dryRun  bool   // it was asked to commit nothing
	noViews bool   // the views of the lake are left as they are; set by tests
	closers closers
	objects objectStore
}

// logFlags are the flags of every command.
type logFlags struct {
	level      string
	form       string // auto, json or console
	quiet      bool
	cpuProfile string
	terminal   bool // stderr is one
}

// newEnv returns an env with the two outputs of a process.
func newEnv(stdout, stderr io.Writer) *env {
	e := &env{stdout: &answerWriter{w: stdout}, stderr: stderr}
	e.objects.env = e
	return e
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// Unwrap returns the mistake.
func (u usageError) Unwrap() error { return u.error }

// damagedError is the error of a scenario or workload whose files are damaged.
type damagedError struct{ error }

// reportedError is the exit code of a child process that has reported its error.
type reportedError int

// Error is never shown.
func (reportedError) Error() string { return "reported" }

// usagef makes an error that ends with exitUsage and prints the usage line.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// If these signals are not ignored, a reader that has closed its pipe or a limit on file sizes (ulimit
	// -f) ends the process without a message. If they are ignored, the write returns an error.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	// a panic of a goroutine shows its message only; --log-level debug shows the trace
	debug.SetTraceback("none")
	e := newEnv(standardOutput(), os.Stderr)
	e.logs.terminal = term.IsTerminal(int(os.Stderr.Fd()))
	code := e.endWithin(ctx, interruptGrace, func() int { return e.main(ctx, os.Args[1:]) })
	os.Exit(subprocess.ExitCode(code))
}

// endWithin runs work and returns its exit code. After an interruption it returns within grace, even if work
// does not.
func (e *env) endWithin(ctx context.Context, grace time.Duration, work func() int) int {
	ended := make(chan int, 1)
	go func() { ended <- work() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(grace):
	}
	e.closers.removeTemporary()
	code := e.report(context.Canceled)
	_ = e.writeMetrics(code) // the interruption matters more
	return code
}

// main runs one command line and returns the exit code.
func (e *env) main(ctx context.Context, args []string) (code int) {
	defer func() {
		fault := recover()
		if fault != nil {
			code = e.internalError(fault, debug.Stack())
		}
	}()
	e.args = args
	e.metrics.started = time.Now()
	err := e.execute(ctx, args)
	code = e.report(cmp.Or(err, e.stdout.finish()))
	if err := e.writeMetrics(code); err != nil {
		return max(code, e.report(err))
	}
	return code
}

// internalError reports a panic: a fault of the program, not of its input.
func (e *env) internalError(fault any, trace []byte) int {
	message := text.Clean(fmt.Sprint(fault))
	_, _ = fmt.Fprintf(e.stderr, "parsimon %s: internal error: %s\n"+
		"This is a bug in parsimon. Please report it with this message, the command line and the output of "+
		"\"parsimon version\".\n", e.running, message)
	if e.logs.level == zerolog.DebugLevel.String() {
		_, _ = e.stderr.Write(trace)
	} else {
		_, _ = fmt.Fprintln(e.stderr, "--log-level debug shows where it happened.")
	}
	return exitFailed
}

// report prints an error and returns the exit code that it stands for.
func (e *env) report(err error) int {
	var reported reportedError
	if errors.As(err, &reported) {
		return int(reported)
	}
	fault, panicked := errors.AsType[*together.Panic](err)
	if panicked {
		return e.internalError(fault, fault.Stack)
	}
	code := e.exitCode(err)
	name := strings.TrimSpace("parsimon " + e.running)
	switch code {
	case exitOK:
	case exitInterrupt:
		then := ""
		if e.writes {
			then = "; completed tasks are kept, and the same command continues from there"
		}
		_, _ = fmt.Fprintf(e.stderr, "parsimon: interrupted%s\n", then)
	case exitUsage:
		message := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\t", "  ")
		_, _ = fmt.Fprintf(e.stderr, "%s: %s\n%s", name, text.Clean(message), e.usageLine())
	default:
		message := strings.ReplaceAll(err.Error(), "\n", "\n  ")
		_, _ = fmt.Fprintf(e.stderr, "%s: %s\n", name, text.Clean(message))
	}
	return code
}

// exitCode returns the exit code of an error. If the only error is that the reader of the answer has closed
// its end of the pipe, as "head" does, the exit code is 0.
func (e *env) exitCode(err error) int {
	differs, _ := errors.AsType[*bundle.DifferenceError](err) // else nil
	switch {
	case err == nil:
		return exitOK
	case differs != nil && differs.OtherVersion:
		return exitOther
	case differs != nil:
		return exitFailed
	case errors.As(err, new(*gate.Error)):
		return exitGate
	case errors.Is(err, context.Canceled):
		return exitInterrupt
	case errors.As(err, new(usageError)), errors.As(err, new(scenario.Refusal)):
		return exitUsage
	case errors.Is(err, lake.ErrBusy), errors.As(err, new(*scenario.ChangedError)):
		return exitBusy
	case errors.As(err, new(*workloads.SkippedError)):
		return exitPartial
	case errors.As(err, new(*lake.DamageError)), errors.As(err, new(damagedError)):
		return exitDamaged
	case errors.Is(err, syscall.EPIPE) && e.stdout.readerGone():
		return exitOK
	}
	return exitFailed
}

// logger returns the logger of the command. Log lines are readable on a terminal and JSON elsewhere.
func (e *env) logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(e.logs.level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if level == zerolog.DebugLevel {
		debug.SetTraceback("all")
	}
	if e.logs.quiet {
		level = max(level, zerolog.WarnLevel)
	}
	w := e.stderr
	if e.logs.form == "console" || e.logs.form == "auto" && e.logs.terminal {
		w = zerolog.ConsoleWriter{Out: e.stderr, TimeFormat: time.TimeOnly, NoColor: !e.logs.terminal}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("run", runID()).Logger(), nil
}

// runID identifies the log lines of one process.
var runID = sync.OnceValue(func() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
})

// closers close what a command has open: files, databases, locks, temporary files.
type closers struct {
	atEnd []func() // in the order of opening

	mu        sync.Mutex
	temporary []string // files and directories that only this process needs
}

// add registers a function to be called when the command ends.
func (c *closers) add(end func()) { c.atEnd = append(c.atEnd, end) }

// close closes everything in reverse order.
func (c *closers) close() {
	for _, end := range slices.Backward(c.atEnd) {
		end()
	}
	c.atEnd = nil
	c.removeTemporary()
}

// addTemporary registers a file or directory to be removed when the command ends, even after an interruption.
func (c *closers) addTemporary(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.temporary = append(c.temporary, path)
}

// makeTemporary makes a directory that is removed when the command ends, even after an interruption. The
// pattern of its name is that of os.MkdirTemp.
func (c *closers) makeTemporary(pattern string) (dir string, err error) {
	dir, err = os.MkdirTemp("", pattern)
	if err == nil {
		c.addTemporary(dir)
	}
	return dir, err
}

func (c *closers) removeTemporary() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.temporary {
		_ = os.RemoveAll(path) // nothing depends on it
	}
	c.temporary = nil
}
