package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// A bench is what all measurements share: the settings of the command line, a temporary directory, and the output.
type bench struct {
	program, shared, keep, how string
	rounds                     int
	short, write               bool
	args                       []string

	tmp  string
	peak float64         // bytes of memory of the last process
	out  strings.Builder // the Markdown that was printed
	err  error
}

// fail records the first error. After it nothing is run or printed, and all values are zero.
func (b *bench) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// printf prints a line of the result.
func (b *bench) printf(format string, args ...any) {
	if b.err != nil {
		return
	}
	line := fmt.Sprintf(format, args...) + "\n"
	b.out.WriteString(line)
	fmt.Print(line)
}

// header prints the first two lines of a table.
func (b *bench) header(cells ...string) {
	b.printf("\n| %s |\n|%s", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
}

// row prints a line of a table.
func (b *bench) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	b.printf("| %s |", strings.Join(text, " | "))
}

// lake returns the lake to use: the one of --lake, or a new one in place of the last temporary one.
func (b *bench) lake() string {
	if b.keep != "" {
		return b.keep
	}
	path := filepath.Join(b.tmp, "lake")
	b.fail(os.RemoveAll(path))
	return path
}

// ways returns the values of --ways, or the given ones.
func (b *bench) ways(otherwise ...string) (ways []string) {
	if b.how == "" {
		return otherwise
	}
	for way := range strings.SplitSeq(b.how, ";") {
		ways = append(ways, strings.TrimSpace(way))
	}
	return ways
}

// estimator turns a way into flags.
func estimator(way string) []string { return append([]string{"--estimator"}, strings.Fields(way)...) }

// count returns the value of --rounds, 1 with --short, or the given one.
func (b *bench) count(otherwise int) int {
	switch {
	case b.rounds > 0:
		return b.rounds
	case b.short:
		return 1
	}
	return otherwise
}

// names returns the arguments, or the given names: the short ones with --short.
func (b *bench) names(short, long []string) []string {
	switch {
	case len(b.args) > 0:
		return b.args
	case b.short:
		return short
	}
	return long
}

// sharedPath returns a path below the shared folder, which must exist.
func (b *bench) sharedPath(elem ...string) string {
	path, err := filepath.Abs(filepath.Join(append([]string{b.shared}, elem...)...))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		b.fail(fmt.Errorf("nothing to compare with: %w (--shared)", err))
	}
	return path
}

// file writes a temporary file.
func (b *bench) file(name, content string) string {
	path := filepath.Join(b.tmp, name)
	b.fail(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// execute runs a program and returns its stdout and the processor seconds it took.
func (b *bench) execute(ctx context.Context, env []string, program string, args ...string) (string, float64) {
	if b.err != nil {
		return "", 0
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		b.fail(fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, log.String()))
		return "", 0
	}
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		b.peak = float64(used.Maxrss) * 1024
	}
	return out.String(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// parsimon runs a command of the program.
func (b *bench) parsimon(ctx context.Context, args ...string) (string, float64) {
	return b.execute(ctx, nil, b.program, append(args, "--quiet")...)
}

// query answers a SELECT. The names of its columns are the JSON names of T's fields.
func query[T any](ctx context.Context, b *bench, lake, sql string) (rows []T) {
	text, _ := b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql", sql)
	b.decode(text, &rows)
	return rows
}

// question answers a question of the library about an estimate.
func question[T any](ctx context.Context, b *bench, lake, name string, e estimate) (rows []T) {
	text, _ := b.parsimon(ctx, "query", name, "--lake", lake, "--format", "json",
		"--param", "scenario="+e.Scenario, "--param", "variant="+e.Variant)
	b.decode(text, &rows)
	return rows
}

// decode reads JSON.
func (b *bench) decode(text string, to any) {
	if b.err == nil {
		b.fail(json.Unmarshal([]byte(text), to))
	}
}

// match returns the groups of the first match of a pattern, which must be there.
func (b *bench) match(text, pattern string) []string {
	expression := regexp.MustCompile("(?m)" + pattern)
	if found := expression.FindStringSubmatch(text); found != nil {
		return found[1:]
	}
	b.fail(fmt.Errorf("no %q in:\n%s", pattern, text))
	return make([]string, expression.NumSubexp())
}

// number is match for a pattern with one group, a number.
func (b *bench) number(text, pattern string) float64 { return b.parse(b.match(text, pattern)[0]) }

func (b *bench) parse(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	b.fail(err)
	return x
}
