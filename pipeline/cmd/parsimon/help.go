package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// commands lists the verbs in the order a newcomer needs them.
func commands() []*command {
	return []*command{
		&runCommand, &ingestCommand, &topologyCommand, &queryCommand, &whatIfCommand, &compareCommand, &sweepCommand,
		&reportCommand, &statusCommand, &estimateCommand, &validateCommand,
		&stageCommand, &schemaCommand, &removeCommand, &usageCommand, &cacheCommand, &versionCommand, &benchKernelCommand,
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

func usageLine(c *command) string {
	return strings.TrimRight("parsimon "+c.name+" "+c.args, " ")
}

// printOverview writes the front page of the manual.
func printOverview(w io.Writer) {
	var b strings.Builder
	b.WriteString(`parsimon estimates the flow-completion-time slowdowns of a whole data-center network.

It divides the network into one small simulation per link direction, runs them in parallel, and
combines the per-link delays (Parsimon, NSDI'23). All data is stored in a lake, a directory of
Parquet files, and is queried in SQL.

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-15s %s\n", c.name, c.summary)
	}
	b.WriteString(`  help COMMAND    the manual page of a command (also: parsimon COMMAND --help; all flags: --help-all)

First steps:
  parsimon run small --lake lake               the example that ships: 256 hosts
  parsimon ingest LOGS --format vpc --hosts H.csv --topology T.json --lake lake
  parsimon query --list                        what can be asked
  parsimon query slowdown_by_service --lake lake
  parsimon query --lake lake --sql "SELECT tier, max(load) FROM link_stats GROUP BY tier"

Answers go to stdout, logs and progress to stderr.

Exit codes:
  0    done
  1    failed; the message names the file, row, flow or link. What was committed stays, and the
       same command continues from there
  2    the command line is wrong
  3    a condition of --fail-if is true
  4    another process works on the scenario or workload; --wait waits for it
  5    files of the lake are damaged; parsimon status names them
  130  interrupted (Ctrl-C); a command that writes continues where it stopped when it is given again
`)
	_, _ = io.WriteString(w, b.String())
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
	fmt.Fprintf(&b, "parsimon %s: %s\n\nUsage:\n  %s\n", c.name, c.summary, usageLine(c))
	help, byGroup, groups := strings.TrimSpace(c.help), map[string][]*pflag.Flag{}, []string{}
	if c.first != nil && !all {
		for _, name := range c.first {
			byGroup[""] = append(byGroup[""], f.Lookup(name))
		}
		fmt.Fprintf(&b, "\nFlags (all: parsimon %s --help-all):\n%s\n%s\n", c.name, usages(byGroup[""]), help)
		_, _ = io.WriteString(w, b.String())
		return
	}
	f.VisitAll(func(flag *pflag.Flag) {
		name := groupOf(flag)
		if byGroup[name] == nil {
			groups = append(groups, name)
		}
		byGroup[name] = append(byGroup[name], flag)
	})
	fmt.Fprintf(&b, "\n%s\n", help)
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
