// Command parsimon estimates the flow-completion-time slowdowns of a data-center network.
//
//	args ─► command (commands) ─► setup declares flags ─► run(ctx, args)
//	                                                        │
//	          stdout: env.write ◄── text, CSV or JSON ◄─────┤
//	          stderr: log lines, progress, errors ◄─────────┘─► exit code (env.exit)
//
// This package parses flags and prints; what a command does is in the package that its run function calls. A verb is
// one value of type command: name, flags and what runs it. Its page of the manual is manual/NAME.txt: the usage line, a
// summary of one line, a line of the flags that --help lists or an empty one, the text. Flags that several verbs share
// are declared in groups (flags.go). Flags are read where they are given: a mistake in the command line is a usageError
// and is found before any work. An answer is one value and its text, which env.write writes in each form. A command
// that commits tables sets writes, and its lake's views are brought up to date even when it fails.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/queries/subprocess"
	"parsimon/schema/names"
)

// Exit codes, as "parsimon help" explains them.
const (
	exitOK        = 0
	exitFailed    = 1 // the work
	exitUsage     = 2 // of the command line; nothing was done
	exitGate      = 3 // a condition of --fail-if is true
	exitBusy      = 4 // another process works on the scenario or workload
	exitDamaged   = 5 // files of the lake
	exitInterrupt = 130
)

// A command is one verb of the program.
type command struct {
	name string
	// tail is text that the program adds to the command's page of the manual.
	tail func() string
	// writes says that the command commits tables: at its end the lake's views are brought up to date, and it has
	// --metrics-file.
	writes      bool
	least, most int // number of arguments
	// setup declares the flags and answers what runs the command with the arguments left over.
	setup func(e *env, f *pflag.FlagSet) runFunc
}

// A runFunc runs a command with its arguments.
type runFunc = func(ctx context.Context, args []string) error

// anyNumber as the most arguments is no limit.
const anyNumber = 1 << 30

// env is what commands share: where answers, logs and progress go.
type env struct {
	args           []string // the command line
	stdout, stderr io.Writer
	terminal       bool        // stderr is one
	lake, form     string      // --lake and --format
	gates          []gate.Gate // --fail-if
	logLevel       string
	logFormat      string // auto, json or console
	quiet          bool
	metrics        metrics
	atEnd          []func() // functions that close files and databases, in the order of opening
	cpuProfile     string
	helpAll        bool
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// damagedError is the error of a scenario or workload whose files are damaged.
type damagedError struct{ error }

// reportedError is the exit code of a child process that has reported its error.
type reportedError int

func (reportedError) Error() string { return "reported" }

// usagef is an error that ends with exitUsage and prints the usage line.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // writing to a reader that has gone is an error like any other
	context.AfterFunc(ctx, stop)   // a second Ctrl-C ends the program at once
	e := &env{stdout: os.Stdout, stderr: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
	os.Exit(subprocess.ExitCode(e.main(ctx, os.Args[1:])))
}

// main runs one command line and answers the exit code.
func (e *env) main(ctx context.Context, args []string) int {
	e.args = args
	if len(args) == 0 {
		printOverview(e.stderr)
		return exitUsage
	}
	help := args[0] == "help" || args[0] == "-h" || args[0] == "--help"
	if help && len(args) == 1 {
		printOverview(e.stdout)
		return exitOK
	}
	if help {
		args = []string{args[1], "--help"}
	}
	cmd, ok := find(args[0])
	if topic, err := manual.ReadFile("manual/topic-" + strings.TrimSuffix(args[0], "s") + ".txt"); help && err == nil {
		_, _ = e.stdout.Write(topic)
		return exitOK
	}
	if !ok {
		_, _ = fmt.Fprintf(e.stderr, "parsimon: no command %q; \"parsimon help\" lists them\n", args[0])
		return exitUsage
	}
	flags, run := e.flags(cmd)
	e.metrics.started = time.Now()
	err := flags.Parse(args[1:])
	topic := slices.IndexFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") }) // a question
	switch {
	case errors.Is(err, pflag.ErrHelp) && cmd.name == "query" && topic >= 0:
		return e.exit(cmd, helpQuery(e.stdout, args[1+topic]))
	case errors.Is(err, pflag.ErrHelp) || err == nil && e.helpAll:
		printManual(e.stdout, cmd, flags, e.helpAll)
		return exitOK
	case err == nil:
		err = cmp.Or(checkGiven(flags), cmd.check(flags.Args()))
	}
	if err != nil {
		err = usageError{err}
	} else if err = e.metrics.check(); err == nil {
		err = e.profiled(func() error {
			defer func() {
				for _, end := range slices.Backward(e.atEnd) {
					end()
				}
			}()
			return run(ctx, flags.Args())
		})
		if cmd.writes {
			err = updateViews(flags, err)
		}
	}
	code := e.exit(cmd, err)
	if err := e.metrics.write(cmd.name, code); err != nil {
		return max(code, e.exit(cmd, err))
	}
	return code
}

// check returns an error if there are not as many arguments as the command takes.
func (c *command) check(args []string) error {
	switch {
	case len(args) < c.least:
		return errors.New("an argument is missing")
	case len(args) > c.most:
		return fmt.Errorf("unexpected arguments %q", args[c.most:])
	}
	return nil
}

// updateViews brings the views of a command's lake up to date. err is the command's own error, which matters more.
func updateViews(flags *pflag.FlagSet, err error) error {
	dir, dry := flags.Lookup("lake").Value.String(), flags.Lookup("dry-run")
	if errors.As(err, new(usageError)) || dir == "" || dry != nil && dry.Value.String() == "true" {
		return err
	}
	l, lakeErr := lake.Open(dir, false)
	if lakeErr == nil {
		lakeErr = catalog.Write(l)
	} else if errors.As(lakeErr, new(*lake.VersionError)) { // rm takes lakes of all versions
		lakeErr = nil
	}
	return cmp.Or(err, lakeErr)
}

// profiled runs a command and writes the profile that --cpu-profile asks for.
func (e *env) profiled(run func() error) (err error) {
	if e.cpuProfile == "" {
		return run()
	}
	f, err := openOutput(e.cpuProfile, os.O_TRUNC)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.commit())
}

// exit reports an error and answers the exit code it stands for.
func (e *env) exit(cmd *command, err error) int {
	var reported reportedError
	if errors.As(err, &reported) {
		return int(reported)
	}
	code := exitCode(err)
	switch code {
	case exitOK:
	case exitInterrupt:
		then := ""
		if cmd.writes {
			then = "; what is complete is kept: the same command does the rest, and a stage of one task, such as exact, anew"
		}
		_, _ = fmt.Fprintf(e.stderr, "parsimon: interrupted%s\n", then)
	case exitUsage:
		_, _ = fmt.Fprintf(e.stderr, "parsimon %s: %s\nusage: %s\n", cmd.name, text.Clean(err.Error()), cmd.page().usage)
	default:
		message := strings.ReplaceAll(err.Error(), "\n", "\n  ")
		_, _ = fmt.Fprintf(e.stderr, "parsimon %s: %s\n", cmd.name, text.Clean(message))
	}
	return code
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupt
	case errors.As(err, new(usageError)), errors.As(err, new(scenario.Refusal)):
		return exitUsage
	case errors.Is(err, syscall.EPIPE): // the reader of our answer has enough
		return exitOK
	case errors.As(err, new(*gate.Error)):
		return exitGate
	case errors.Is(err, lake.ErrBusy):
		return exitBusy
	case errors.As(err, new(*lake.DamageError)), errors.As(err, new(damagedError)):
		return exitDamaged
	}
	return exitFailed
}

// flags declares a command's flags, and those of every command.
func (e *env) flags(cmd *command) (*pflag.FlagSet, runFunc) {
	f := pflag.NewFlagSet(cmd.name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.SortFlags = false
	run := cmd.setup(e, f)
	group(f, "Logs and metrics", func() {
		if cmd.writes {
			e.metrics.declare(f)
		}
		if len(cmd.page().first) > 0 {
			f.BoolVar(&e.helpAll, "help-all", false, "list all flags")
		}
		choose(f, &e.logLevel, "log-level", "least severe log line on stderr: %s", "info", "debug", "warn", "error")
		choose(f, &e.logFormat, "log-format", "form of log lines: %s; console is for people, auto is console on a "+
			"terminal, else json", "auto", "json", "console")
		f.BoolVarP(&e.quiet, "quiet", "q", false, "no progress and no log lines but warnings")
		f.StringVar(&e.cpuProfile, "cpu-profile", "", "file for a profile of where processor time goes, for go tool "+
			"pprof; samples carry the stage (-tagfocus)")
	})
	return f, run
}

// logger is where log lines go: readable on a terminal, otherwise JSON.
func (e *env) logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(e.logLevel)
	if err != nil {
		return zerolog.Nop(), err
	}
	if e.quiet {
		level = max(level, zerolog.WarnLevel)
	}
	w := e.stderr
	if e.logFormat == "console" || e.logFormat == "auto" && e.terminal {
		w = zerolog.ConsoleWriter{Out: e.stderr, TimeFormat: time.TimeOnly, NoColor: !e.terminal}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("run", runID()).Logger(), nil
}

// runID marks the log lines of one process.
var runID = sync.OnceValue(func() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
})

// commands lists the verbs in the order a newcomer needs them.
func commands() []*command {
	return []*command{
		&runCommand, &ingestCommand, &convertCommand, &topologyCommand, &queryCommand, &whatIfCommand, &compareCommand,
		&sweepCommand, &reportCommand, &statusCommand, &validateCommand, &stageCommand, &schemaCommand, &removeCommand,
		&usageCommand, &versionCommand, &benchKernelCommand,
	}
}

func find(name string) (*command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return nil, false
}

//go:embed manual/*.txt
var manual embed.FS

// page is a page of the manual.
func page(name string) string {
	text, err := manual.ReadFile("manual/" + name + ".txt")
	if err != nil {
		panic("parsimon: " + err.Error()) // embedded
	}
	return string(text)
}

// A commandPage is the page of the manual of a command. Its first flags are those that --help lists; without them it
// lists all. --help-all lists all, by group.
type commandPage struct {
	usage, summary, help string
	first                []string
}

// page divides the command's page of the manual.
func (c *command) page() commandPage {
	usage, rest, _ := strings.Cut(page(c.name), "\n")
	summary, rest, _ := strings.Cut(rest, "\n")
	first, help, _ := strings.Cut(rest, "\n")
	if c.tail != nil {
		help += c.tail()
	}
	return commandPage{usage, summary, strings.TrimSpace(help), strings.Fields(strings.ReplaceAll(first, "--", ""))}
}

// printOverview writes the front page of the manual.
func printOverview(w io.Writer) {
	var b strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-15s %s\n", c.name, c.page().summary)
	}
	_, _ = io.WriteString(w, strings.Replace(page("parsimon"), "COMMANDS\n", b.String(), 1))
}

// groupKey is the annotation of a flag with the name of its group.
const groupKey = "group"

// group makes the flags that declare declares a group of the manual page.
func group(f *pflag.FlagSet, name string, declare func()) {
	before := map[string]bool{}
	f.VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	declare()
	f.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] && groupOf(flag) == "" {
			_ = f.SetAnnotation(flag.Name, groupKey, []string{name}) // the flag is declared
		}
	})
}

// groupOf is the name of a flag's group; empty: none.
func groupOf(flag *pflag.Flag) string {
	if of := flag.Annotations[groupKey]; of != nil {
		return of[0]
	}
	return ""
}

// printManual writes a command's manual page. Where the command says which flags come first, the page has those, or all
// by group.
func printManual(w io.Writer, c *command, f *pflag.FlagSet, all bool) {
	var b strings.Builder
	page := c.page()
	fmt.Fprintf(&b, "parsimon %s: %s\n\nUsage:\n  %s\n", c.name, page.summary, page.usage)
	if len(page.first) > 0 && !all {
		fmt.Fprintf(&b, "\nFlags (all: parsimon %s --help-all):\n%s\n%s\n", c.name, usages(names.Of(page.first, f.Lookup)),
			page.help)
		_, _ = io.WriteString(w, b.String())
		return
	}
	byGroup, groups := map[string][]*pflag.Flag{}, []string{}
	f.VisitAll(func(flag *pflag.Flag) {
		name := groupOf(flag)
		if byGroup[name] == nil {
			groups = append(groups, name)
		}
		byGroup[name] = append(byGroup[name], flag)
	})
	fmt.Fprintf(&b, "\n%s\n", page.help)
	for _, name := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", cmp.Or(name, "Flags"), usages(byGroup[name]))
	}
	_, _ = io.WriteString(w, b.String())
}

// usages are the lines of flags.
func usages(flags []*pflag.Flag) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	for _, flag := range flags {
		f.AddFlag(flag)
	}
	return f.FlagUsagesWrapped(100)
}
