package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parsimon/schema/together"
)

// program prepares the program as a separate process, with a command line of the shell.
func program(t *testing.T, line string, args ...string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", append([]string{"-c", line, executable}, args...)...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

// If write errors were not reported, a full disk or a closed output would truncate an answer, and a script
// would continue with a part of it.
func TestEveryAnswerReportsFailedWrites(t *testing.T) {
	r := tinyLake(t)
	trace := newTrace(t)
	lines := [][]string{
		{"help"}, {"completion", "bash"}, {"version"}, {"schema", "--format", "json"}, {"query", "--list"},
		{"query", "slowdown_by_size", "--lake", r.lake}, {"help", "run"}, {"help", "query", "slowdown_by_size"},
		{"run", "--help-all"}, {"version", "--format", "json"}, {"schema"},
		{"ingest", "--show-mapping", "csv"}, {"topology", "small-4to1"},
		{"topology", "small-4to1", "--format", "json"},
		{"status", "--lake", r.lake}, {"status", "--lake", r.lake, "--format", "json"}, {"du", "--lake", r.lake},
		{"query", "--lake", r.lake, "--format", "csv", "--sql", "FROM slowdowns"},
		{"report", "tiny", "--lake", r.lake, "--output", "/dev/stdout"},
		{"rm", "--older-than", "30d", "--lake", r.lake},
		append(trace.args(trace.lake, trace.first), "-q"),
	}
	if testing.Short() {
		lines = lines[:6]
	}
	for _, line := range lines {
		full := program(t, `exec "$0" "$@" > /dev/full`, line...)
		var log bytes.Buffer
		full.Stderr = &log
		_ = full.Run() // the exit code is checked
		code := full.ProcessState.ExitCode()
		if code != exitFailed || strings.Count(log.String(), "write the answer") != 1 {
			t.Errorf("%v into a full disk: exit %d, %s", line, code, log.String())
		}
	}
	closed := program(t, `exec "$0" version >&-`)
	if err := closed.Run(); closed.ProcessState.ExitCode() != exitFailed {
		t.Errorf("a closed output: %v", err)
	}
	head := program(t, `{ "$0" schema; echo $? >&2; } | head -1`)
	var code bytes.Buffer
	head.Stderr = &code
	if err := head.Run(); err != nil || code.String() != "0\n" {
		t.Errorf("a reader that has enough: %v, exit %s", err, code.String())
	}
}

// Files are as private as the caller asks: a new one obeys the umask, and one that is replaced keeps its
// permissions.
func TestPermissionsOfOutputs(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for _, of := range []struct {
		name       string
		have, want os.FileMode
	}{{"new.prom", 0, 0o600}, {"private.prom", 0o600, 0o600}, {"group.prom", 0o640, 0o640}} {
		path := filepath.Join(dir, of.name)
		if of.have != 0 {
			if err := errors.Join(os.WriteFile(path, nil, of.have), os.Chmod(path, of.have)); err != nil {
				t.Fatal(err)
			}
		}
		must(t, "rm", "--older-than", "30d", "--lake", tinyLake(t).lake, "--metrics-file", path)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != of.want || info.Size() == 0 {
			t.Errorf("%s has %v, want %v", of.name, info.Mode().Perm(), of.want)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Without a message, a limit on file sizes (ulimit -f) ends the program by SIGXFSZ.
func TestFileSizeLimit(t *testing.T) {
	c := program(t, `ulimit -f 1; exec "$0" schema --format json > "$1"`, filepath.Join(t.TempDir(), "out"))
	var log bytes.Buffer
	c.Stderr = &log
	_ = c.Run() // the exit code is checked
	code := c.ProcessState.ExitCode()
	if code != exitFailed || !strings.Contains(log.String(), "file too large") {
		t.Errorf("exit %d, %s", code, log.String())
	}
}

// A faultyWriter panics.
type faultyWriter struct{}

func (faultyWriter) Write([]byte) (int, error) { panic("index out of range") }

// Without the recovery, a user would see a stack trace, and exit code 2, which means a wrong command line.
func TestPanicIsAnInternalError(t *testing.T) {
	for level, trace := range map[string]bool{"info": false, "debug": true} {
		var log bytes.Buffer
		code := newEnv(faultyWriter{}, &log).main(t.Context(), []string{"version", "--log-level", level})
		text := log.String()
		if code != exitFailed || !strings.Contains(text, "internal error: index out of range") ||
			strings.Contains(text, "goroutine") != trace {
			t.Errorf("level %s: exit %d, %s", level, code, text)
		}
	}
}

// A panic of a goroutine reaches main as an error. Without this, a user would see "index out of range" as the
// reason why a file is bad.
func TestPanicOfAGoroutineIsAnInternalError(t *testing.T) {
	var log bytes.Buffer
	panicked := together.Do(func() error { panic("index out of range") })
	code := newEnv(&bytes.Buffer{}, &log).report(fmt.Errorf("flows.csv: %w", panicked))
	if code != exitFailed || !strings.Contains(log.String(), "internal error: index out of range") {
		t.Errorf("exit %d, %s", code, log.String())
	}
}

// A command that does not check its context still ends soon after an interruption.
func TestInterruptionEndsEveryCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	e := newEnv(&bytes.Buffer{}, &bytes.Buffer{})
	code := e.endWithin(ctx, 50*time.Millisecond, func() int {
		time.Sleep(time.Minute)
		return exitOK
	})
	took := time.Since(began)
	if code != exitInterrupt || took > 10*time.Second {
		t.Errorf("exit %d after %v", code, took)
	}
}

// If temporary files were removed before the profile is complete, no command could write a profile.
func TestProfileIsWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cpu.prof")
	must(t, "topology", "small-4to1", "--cpu-profile", path)
	profile, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(profile, []byte{0x1f, 0x8b}) {
		t.Errorf("profile of %d bytes, want a gzip file: %v", len(profile), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, want the profile only: %v", files, err)
	}
}
