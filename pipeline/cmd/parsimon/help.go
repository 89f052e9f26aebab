package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// commands lists the verbs in the order a newcomer needs them.
func commands() []*command {
	all := []*command{
		&runCommand, &ingestCommand, &topologyCommand, &queryCommand, &whatIfCommand, &compareCommand, &sweepCommand,
		&reportCommand, &statusCommand, &estimateCommand, &validateCommand,
		&generateCommand,
	}
	for i := range stageCommands {
		all = append(all, &stageCommands[i])
	}
	return append(all, &schemaCommand, &removeCommand, &usageCommand, &cacheCommand, &versionCommand, &benchKernelCommand)
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
	b.WriteString(`  help COMMAND    the manual page of a command (also: parsimon COMMAND --help)

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

// printManual writes a command's manual page.
func printManual(w io.Writer, c *command, f *pflag.FlagSet) {
	_, _ = fmt.Fprintf(w, "parsimon %s: %s\n\nUsage:\n  %s\n\n%s\n\nFlags:\n%s", c.name, c.summary, usageLine(c), strings.TrimSpace(c.help), f.FlagUsagesWrapped(100))
}
