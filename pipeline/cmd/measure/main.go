// Command measure repeats the measurements whose figures stand in the pages of this repository.
//
//	go run ./pipeline/cmd/measure NAME [flags] [ARGUMENT …]
//
// Each measurement is one function. It runs bin/parsimon (make build) as a user would, in lakes of its
// own, and prints Markdown tables. With --write it also writes them to datasets/results/NAME.md, with commit, date and
// machine.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A measurement is a page of results and the function that measures them.
type measurement struct {
	name    string
	args    string // what the arguments are; "" for none
	summary string
	run     func(ctx context.Context, b *bench)
}

func measurements() []measurement {
	return []measurement{
		{"accuracy", "SCENARIO", "estimators against ns-3 on the shared scenarios",
			compared("95", (*bench).groundTruths, "independent", "flow", "auto")},
		{"own-accuracy", "SCENARIO", "estimators against --exact on the shipped scenarios",
			compared("parking-lot/short-correlated", shipped("accuracy", "parking-lot"), "independent", "flow", "auto")},
		{"constants", "SCENARIO", "unusual transport constants, against --exact",
			compared("constants/jumbo-9000", shipped("constants"), "flow", "auto")},
		{"honesty", "SCENARIO", "warnings and intervals of the default against its errors",
			compared("mini-mix", otherKinds, "flow", "auto")},
		{"held-out", "SCENARIO", "the same on networks and traffic of other kinds, against --exact",
			compared("held-out/microbursts", shipped("held-out"), "flow", "auto")},
		{"bench-kernel", "", "link kernel against the reference link simulator", benchKernel},
		{"bench-run", "SCENARIO", "a whole estimate against the reference", benchRun},
		{"bench-exact", "SCENARIO", "two passes of link cases against the whole network", benchExact},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// command runs one measurement in a temporary directory, which it removes.
func command(ctx context.Context, args []string) (err error) {
	b := &bench{}
	flags := pflag.NewFlagSet("measure", pflag.ContinueOnError)
	flags.StringVar(&b.program, "parsimon", "bin/parsimon", "the program to measure")
	flags.StringVar(&b.shared, "shared", "../shared", "folder of the ground truth and of the reference's programs")
	flags.BoolVar(&b.short, "short", false, "a small part of the measurement, to try it")
	flags.BoolVar(&b.write, "write", false, "write datasets/results/NAME.md")
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage(flags)) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return nil
	}
	b.args = flags.Args()[1:]
	for _, m := range measurements() {
		if m.name != flags.Arg(0) {
			continue
		}
		if b.write && (b.short || len(b.args) > 0) {
			return errors.New("--write is for the whole measurement: without --short and arguments")
		}
		if b.tmp, err = os.MkdirTemp("", "measure-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
		if m.run(ctx, b); b.err != nil || !b.write {
			return b.err
		}
		text := fmt.Sprintf("# %s\n\n%s%s. Written by `make %s ARGS=--write`.\n\n%s\n\n%s\n", m.name,
			strings.ToUpper(m.summary[:1]), m.summary[1:], m.name, b.provenance(ctx), strings.TrimSpace(b.out.String()))
		return os.WriteFile(filepath.Join("datasets", "results", m.name+".md"), []byte(text), 0o644)
	}
	return fmt.Errorf("no measurement %q: \"measure\" lists them", flags.Arg(0))
}

// provenance says at which commit, when and where figures were measured.
func (b *bench) provenance(ctx context.Context) string {
	commit := b.execute(ctx, nil, "git", "describe", "--always", "--dirty", "--exclude=*")
	info, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	processor := runtime.GOARCH
	if found := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(info); found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("Measured at commit `%s` on %s, %d cores (%s).", strings.TrimSpace(commit),
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor)
}

func usage(flags *pflag.FlagSet) string {
	var s strings.Builder
	s.WriteString("measure NAME [flags] [ARGUMENT …]\n\n")
	for _, m := range measurements() {
		fmt.Fprintf(&s, "  %-19s%-12s%s\n", m.name, m.args, m.summary)
	}
	return s.String() + "\n" + flags.FlagUsages()
}

// A bench is what all measurements share: the settings of the command line, a temporary directory, and the output.
type bench struct {
	program, shared string
	short, write    bool
	args            []string

	tmp       string
	out       strings.Builder // the Markdown that was printed
	processor time.Duration   // of the last program, user and system
	err       error
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

// lake returns a new lake in place of the last one.
func (b *bench) lake() string {
	path := filepath.Join(b.tmp, "lake")
	b.fail(os.RemoveAll(path))
	return path
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

// execute runs a program and returns its stdout.
func (b *bench) execute(ctx context.Context, env []string, program string, args ...string) string {
	if b.err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		b.fail(fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, log.String()))
		return ""
	}
	b.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return out.String()
}

// parsimon runs a command of the program.
func (b *bench) parsimon(ctx context.Context, args ...string) string {
	return b.execute(ctx, nil, b.program, append(args, "--quiet")...)
}

// query answers a SELECT. The names of its columns are the JSON names of T's fields.
func query[T any](ctx context.Context, b *bench, lake, sql string) (rows []T) {
	b.decode(b.parsimon(ctx, "query", "--lake", lake, "--format", "json", "--sql", sql), &rows)
	return rows
}

// question answers a question of the library about an estimate.
func question[T any](ctx context.Context, b *bench, lake, name string, e estimate) (rows []T) {
	b.decode(b.parsimon(ctx, "query", name, "--lake", lake, "--format", "json",
		"--param", "scenario="+e.Scenario, "--param", "variant="+e.Variant), &rows)
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
