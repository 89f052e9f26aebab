package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/spf13/pflag"

	"parsimon/pipeline/gate"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/schema"
)

// An answerWriter is the standard output of a command. It keeps the first error, so that an incomplete answer
// is never reported as success, regardless of the command and the format.
type answerWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (a *answerWriter) Write(data []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.w.Write(data)
	if err != nil {
		a.err = fmt.Errorf("write the answer: %w", err)
	}
	return n, a.err
}

// finish returns the first error of any write. A file system may report a failed write only when the file is
// closed.
func (a *answerWriter) finish() error {
	if file, ok := a.w.(*os.File); ok && a.err == nil {
		if err := file.Close(); err != nil {
			a.err = fmt.Errorf("write the answer: %w", err)
		}
	}
	return a.err
}

// readerGone reports whether the reader of the answer has closed its end of the pipe.
func (a *answerWriter) readerGone() bool { return a.err == nil || errors.Is(a.err, syscall.EPIPE) }

// closedWriter is the standard output if the caller has closed it.
type closedWriter struct{}

// Write returns the error that the system would return.
func (closedWriter) Write([]byte) (int, error) { return 0, syscall.EBADF }

// standardOutput returns the standard output. If it is closed, Go opens /dev/null instead, and answers
// would be lost without an error.
func standardOutput() io.Writer {
	if standardOutputClosed() {
		return closedWriter{}
	}
	return os.Stdout
}

// checkOutput returns an error if a file that a flag names cannot be written. Commands check before they
// begin to work. A pipe is not opened, because its reader would see the end of the file.
func (e *env) checkOutput(flag, path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil
	}
	f, err := e.openOutput(path, 0)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return f.abandon()
}

// writeOutput writes a file that a flag names. A regular file is replaced atomically. Writing stops when ctx
// ends. A device, a pipe or a link is written to, and keeps its type.
func (e *env) writeOutput(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := e.openOutput(path, os.O_TRUNC)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(&cancelledWriter{ctx, f})
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return errors.Join(err, f.abandon())
	}
	return f.commit()
}

// A cancelledWriter writes until its context ends.
type cancelledWriter struct {
	ctx context.Context //nolint:containedctx // io.Writer has no context
	w   io.Writer
}

// Write implements io.Writer.
func (c *cancelledWriter) Write(data []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(data)
}

// An output is a file that is being written. Exactly one of its fields is set.
type output struct {
	pending *renameio.PendingFile // replaces the file at its path
	inPlace *os.File              // a device, a pipe, or the target of a link
	stdout  io.Writer             // the standard output of the process
}

// Write implements io.Writer.
func (o *output) Write(data []byte) (int, error) {
	switch {
	case o.pending != nil:
		return o.pending.Write(data)
	case o.inPlace != nil:
		return o.inPlace.Write(data)
	}
	return o.stdout.Write(data)
}

// openOutput opens a file for writing. It returns an error for directories and for files of a lake. A new
// file has the permissions that the umask allows. A replaced file keeps its permissions. A file that is not
// regular is opened with flag. A path that refers to the standard output of this process, such as
// /dev/stdout, is opened as that.
func (e *env) openOutput(path string, flag int) (*output, error) {
	if err := notOfLake(path); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		if e.isStandardOutput(path) {
			return &output{stdout: e.stdout}, nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o666)
		return &output{inPlace: f}, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithPermissions(0o666), renameio.WithExistingPermissions())
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	e.closers.addTemporary(f.Name())
	return &output{pending: f}, nil
}

// isStandardOutput reports whether a path leads to the standard output of this process.
func (e *env) isStandardOutput(path string) bool {
	there, err := os.Stat(path)
	out, outErr := os.Stdout.Stat()
	return err == nil && outErr == nil && os.SameFile(there, out)
}

// commit makes a file complete.
func (o *output) commit() error {
	switch {
	case o.inPlace != nil:
		return o.inPlace.Close()
	case o.stdout != nil:
		return nil
	}
	if err := o.pending.CloseAtomicallyReplace(); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", o.pending.Name(), err), o.pending.Cleanup())
	}
	return nil
}

// abandon closes a file. The previous file stays as it was.
func (o *output) abandon() error {
	switch {
	case o.inPlace != nil:
		return o.inPlace.Close()
	case o.stdout != nil:
		return nil
	}
	return o.pending.Cleanup()
}

// notOfLake returns an error if a path belongs to a lake: if it is in a directory of a lake, or is the
// database of its views. Other files, such as metrics, may lie beside these.
func notOfLake(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(full); err == nil {
		full = target
	} else if target, isLink := os.Readlink(full); isLink == nil && errors.Is(err, fs.ErrNotExist) {
		// nothing is there yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(full), target)
		}
		return notOfLake(target)
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(dir, filepath.Base(full))
	}
	for dir := filepath.Dir(full); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, "_state")); err == nil && info.IsDir() &&
			ownedByLake(dir, full) {
			return fmt.Errorf("%s belongs to the lake %s: name another file", path, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// ownedByLake reports whether a path below the directory of a lake is one of the lake's own.
func ownedByLake(dir, path string) bool {
	separator := string(filepath.Separator)
	first, _, below := strings.Cut(strings.TrimPrefix(path, dir+separator), separator)
	_, notTable := schema.ByFolder(first)
	return below || notTable == nil || strings.HasPrefix(first, queries.CatalogFile) ||
		strings.HasPrefix(first, "_")
}

// answerFlags are the flags for the format and the destination of an answer. Their defaults differ between
// commands.
type answerFlags struct {
	form  string      // --format
	gates []gate.Gate // --fail-if
}

// tableForms returns the forms of an answer that has a table: text for people, csv with the first table, and
// json with the value that the answer is made of.
func tableForms() []string { return []string{"text", "csv", "json"} }

// declareForm declares --format. The first form is the default.
func (a *answerFlags) declareForm(f *pflag.FlagSet, forms ...string) {
	choose(f, &a.form, "format", "form of the answer: %s", forms...)
}

// write writes an answer in the form of --format: value as JSON, people as text or CSV.
func (a *answerFlags) write(w io.Writer, value any, people *text.Answer) error {
	if a.form != "json" {
		return people.Write(w, a.form)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false) // "<10 KB" is no HTML
	return enc.Encode(value)
}

// judged writes an answer and returns the verdicts of its gates. If a gate cannot be evaluated, it writes no
// answer.
func (a *answerFlags) judged(w io.Writer, value any, people *text.Answer, verdict error) error {
	if verdict != nil && !errors.As(verdict, new(*gate.Error)) {
		return verdict
	}
	return errors.Join(a.write(w, value, people), verdict)
}

// declareGates declares --fail-if. A condition on a change needs a base to compare with.
func (a *answerFlags) declareGates(f *pflag.FlagSet, with comparison) {
	example := "'service=storage p99_slowdown > 5', 'link=leaf1:spine1 load > 80%'"
	if with == withBase {
		example += " or 'p99_change > 10%'"
	}
	parseEach(f, &a.gates, func(condition string) (gate.Gate, error) {
		g, err := gate.Parse(condition)
		if err == nil && g.Change && with == withoutBase {
			err = errors.New("a change needs a base, which what-if and compare have")
		}
		return g, err
	}, "fail-if", "exit with 3 if this condition is true, such as "+example+
		"; may be repeated. A condition selects "+
		"flows by "+strings.Join(gate.Columns(), ", ")+", or the most loaded link by link or tier")
}

// A comparison tells whether an answer is compared with that of a base.
type comparison int

const (
	withoutBase comparison = iota
	withBase
)
