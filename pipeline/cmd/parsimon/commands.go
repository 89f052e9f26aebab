package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/cmd/publishing"
	"parsimon/pipeline/lake"
)

// A verb performs the work of a command.
type verb interface {
	declare(f *pflag.FlagSet)
	run(ctx context.Context, args []string) error
}

// A command is one line of the table of commands.
type command struct {
	name        string // its manual page is manual/NAME.txt
	group       string // empty: the first screen of help does not list it
	least, most int    // number of arguments
	// writes means that the command commits tables. Such a command has --metrics-file, and updates the views
	// of the lake when it ends, even after an error.
	writes  bool
	objects objectInputs
	verb    verb
	// complete completes arguments. If it is nil, the shell completes file names.
	complete cobra.CompletionFunc
}

// anyNumber as the maximum number of arguments means no limit.
const anyNumber = 1 << 30

// These are the groups of commands on the first screen of help.
const (
	groupEstimate = "estimate"
	groupRead     = "read"
	groupInput    = "input"
	groupLake     = "lake"
)

// commands lists the commands in the order in which a newcomer needs them.
func (e *env) commands() []command {
	scenarios := e.completeScenarios
	return []command{
		{"run", groupEstimate, 0, 1, true, objectArgument, &runVerb{env: e}, completeShipped},
		{"tour", groupEstimate, 0, 1, true, noObjects, &tourVerb{env: e}, completeShipped},
		{"what-if", groupEstimate, 1, 1, true, objectsInFlags, &whatIfVerb{env: e}, scenarios},
		{"sweep", groupEstimate, 1, 1, true, objectsInFlags, &sweepVerb{env: e}, scenarios},
		{"compare", groupEstimate, 2, 2, true, objectsInFlags, &compareVerb{env: e}, scenarios},
		{"validate", groupEstimate, 0, 0, true, objectsInFlags, &validateVerb{env: e}, cobra.NoFileCompletions},
		{"query", groupRead, 0, 1, false, noObjects, &queryVerb{env: e}, completeQuestions},
		{"report", groupRead, 1, 1, false, noObjects, &reportVerb{env: e}, scenarios},
		{"export", groupRead, 1, 1, false, noObjects, &exportVerb{env: e}, scenarios},
		{"schema", groupRead, 0, anyNumber, false, noObjects, &schemaVerb{env: e}, completeTables},
		{"publish", groupRead, 1, 1, false, anyURL, e.publisher("publish", &publishing.Options{}), nil},
		{"pull", groupInput, 2, 2, false, anyURL, e.publisher("pull", &publishing.PullOptions{}), nil},
		{"ingest", groupInput, 0, anyNumber, true, objectSources, &ingestVerb{env: e}, nil},
		{"convert", groupInput, 1, 1, false, objectArgument, &convertVerb{env: e}, nil},
		{"topology", groupInput, 1, 1, false, objectArgument, &topologyVerb{env: e}, completeTopologies},
		{"status", groupLake, 0, 0, false, noObjects, &statusVerb{env: e}, cobra.NoFileCompletions},
		{"du", groupLake, 0, 0, false, noObjects, &usageVerb{env: e}, cobra.NoFileCompletions},
		{"rm", groupLake, 0, anyNumber, true, noObjects, &removeVerb{env: e}, scenarios},
		{"upgrade", groupLake, 0, 0, true, noObjects, &upgradeVerb{env: e}, cobra.NoFileCompletions},
		{"stage", groupLake, 1, 2, true, objectsInFlags, &stageVerb{env: e}, completeStages},
		{"version", "", 0, 0, false, noObjects, &versionVerb{env: e}, cobra.NoFileCompletions},
		{"bench-kernel", "", 0, 0, false, noObjects, &benchKernelVerb{env: e}, cobra.NoFileCompletions},
	}
}

// topics are the pages of the manual that belong to no command: "parsimon help flows".
var topics = []string{"flows", "events", "metrics"}

// execute runs one command line. An error before the work of a command begins is a usageError.
func (e *env) execute(ctx context.Context, args []string) error {
	root := e.rootCommand()
	if args == nil {
		args = []string{} // cobra would take those of the process
	}
	root.SetArgs(args)
	if found, _, err := root.Find(args); err == nil && found != root {
		e.running = strings.TrimPrefix(found.CommandPath(), root.Name()+" ")
	}
	err := root.ExecuteContext(ctx)
	if err != nil && !e.help.begun {
		return usageError{err}
	}
	return cmp.Or(err, e.help.err)
}

// rootCommand returns the tree of commands.
func (e *env) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:              "parsimon",
		Version:          buildVersion().Version,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { e.help.begun = true },
		RunE: func(root *cobra.Command, _ []string) error {
			_, _ = io.WriteString(e.stderr, e.overview(root))
			return reportedError(exitUsage)
		},
	}
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.AddGroup(
		&cobra.Group{ID: groupEstimate, Title: "Estimate"},
		&cobra.Group{ID: groupRead, Title: "Read answers"},
		&cobra.Group{ID: groupInput, Title: "Prepare inputs"},
		&cobra.Group{ID: groupLake, Title: "Manage a lake"},
	)
	e.declareGlobal(root.PersistentFlags())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	root.SetHelpFunc(e.showHelp)
	for _, c := range e.commands() {
		root.AddCommand(e.cobraCommand(c))
	}
	for _, topic := range topics {
		page := readPage("topic-" + topic)
		root.AddCommand(&cobra.Command{
			Use: topic, Aliases: []string{strings.TrimSuffix(topic, "s")}, Short: page.summary, Long: page.text,
			Hidden: true,
		})
	}
	root.SetHelpCommand(e.helpCommand(root))
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE = func(*cobra.Command, []string) error {
			return usagef("give a shell: bash, zsh, fish or powershell")
		}
	}
	return root
}

// declareGlobal declares the flags of all commands.
func (e *env) declareGlobal(f *pflag.FlagSet) {
	group(f, "Logs and help", func() {
		choose(f, &e.logs.level, "log-level", "least severe log line on stderr: %s", "info", "debug", "warn",
			"error")
		choose(f, &e.logs.form, "log-format", "form of log lines: %s; auto: console on a terminal, else json",
			"auto", "json", "console")
		f.BoolVarP(&e.logs.quiet, "quiet", "q", false, "show no progress, and no log line below a warning")
		f.StringVar(&e.logs.cpuProfile, "cpu-profile", "", "write a CPU profile for \"go tool pprof\" to this "+
			"`file`; samples have the label stage")
		f.BoolP("help", "h", false, "show the manual page with the common flags")
		f.BoolFunc("help-all", "show the manual page with all flags", func(string) error {
			e.help.all = true
			return pflag.ErrHelp
		})
	})
}

// cobraCommand makes a command of the tree.
func (e *env) cobraCommand(c command) *cobra.Command {
	page := readPage(c.name)
	made := &cobra.Command{
		Use:               page.usage,
		Short:             page.summary,
		Long:              page.text,
		GroupID:           c.group,
		Hidden:            c.group == "",
		ValidArgsFunction: c.complete,
		Args: func(made *cobra.Command, args []string) error {
			return cmp.Or(c.checkFiles(made.Flags()), checkGiven(made.Flags()), c.checkCount(args))
		},
		RunE: func(made *cobra.Command, args []string) error {
			e.writes = c.writes
			return e.runVerb(made, c, args)
		},
	}
	flags := made.Flags()
	flags.SortFlags = false
	c.verb.declare(flags)
	if c.writes {
		group(flags, "Answer", func() { e.metrics.declare(flags) })
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		names := flag.Annotations[choicesKey]
		if names != nil {
			_ = made.RegisterFlagCompletionFunc(flag.Name,
				cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	return made
}

// checkCount returns an error if there are fewer or more arguments than the command takes.
func (c command) checkCount(args []string) error {
	switch {
	case len(args) < c.least:
		return errors.New("an argument is missing")
	case len(args) > c.most:
		return fmt.Errorf("unexpected arguments %q", args[c.most:])
	}
	return nil
}

// runVerb runs a command whose flags and arguments have been checked.
func (e *env) runVerb(made *cobra.Command, c command, args []string) error {
	if err := e.checkMetrics(); err != nil {
		return err
	}
	ctx := made.Context()
	err := e.runToEnd(func() error {
		return e.profiled(ctx, func() error {
			local, err := e.fetchInputs(ctx, c, made.Flags(), args)
			if err != nil {
				return err
			}
			return c.verb.run(ctx, local)
		})
	})
	if c.writes {
		return e.updateViews(err)
	}
	return err
}

// runToEnd calls run and then closes everything that run has registered to be closed. Closing removes
// temporary files, among them files that run has begun to write but not completed.
func (e *env) runToEnd(run func() error) error {
	defer e.closers.close()
	return run()
}

// updateViews updates the views of the command's lake. err is the error of the command, which takes
// precedence.
func (e *env) updateViews(err error) error {
	if errors.As(err, new(usageError)) || e.lake == "" || e.dryRun || e.noViews {
		return err
	}
	l, lakeErr := lake.Open(e.lake, false)
	if lakeErr == nil {
		lakeErr = catalog.Write(l)
	} else if errors.As(lakeErr, new(*lake.VersionError)) { // rm works on lakes of all versions
		lakeErr = nil
	}
	return cmp.Or(err, lakeErr)
}

// profiled runs a command and writes the profile that --cpu-profile requests.
func (e *env) profiled(ctx context.Context, run func() error) error {
	if e.logs.cpuProfile == "" {
		return run()
	}
	f, err := e.openOutput(e.logs.cpuProfile, os.O_TRUNC)
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

// completeScenarios completes the names of scenarios that the lake holds.
func (e *env) completeScenarios(*cobra.Command, []string, string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	l, err := e.openLake(lake.Open)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return scenarioNames(l), cobra.ShellCompDirectiveDefault
}
