package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed manual/*.txt
var manual embed.FS

// A helpRequest records which help the command line requests, and its result.
type helpRequest struct {
	all   bool  // --help-all
	begun bool  // the command line is valid
	err   error // of writing the help
}

// A manualPage is a file of the manual:
//
//	parsimon NAME …    the usage line
//	summary            one line, for the list of commands
//	--flag --flag …    the flags that --help lists; an empty line: all
//	text
//
// The page of a topic has a summary and a text only.
type manualPage struct {
	usage   string // without the name of the program
	summary string
	first   []string
	text    string
}

// readPage reads a page of the manual. The pages are part of the program, so a missing one is a bug.
func readPage(name string) manualPage {
	data, err := manual.ReadFile("manual/" + name + ".txt")
	if err != nil {
		panic(err)
	}
	text := string(data)
	var p manualPage
	if !strings.HasPrefix(name, "topic-") {
		p.usage, text, _ = strings.Cut(strings.TrimPrefix(text, "parsimon "), "\n")
	}
	p.summary, text, _ = strings.Cut(text, "\n")
	if p.usage != "" {
		var first string
		first, text, _ = strings.Cut(text, "\n")
		p.first = strings.Fields(strings.ReplaceAll(first, "--", ""))
	}
	p.text = strings.TrimSpace(text)
	return p
}

// usageLine returns the usage line of the command that is running; empty if no command was found.
func (e *env) usageLine() string {
	if e.running == "" {
		return ""
	}
	if _, err := manual.ReadFile("manual/" + e.running + ".txt"); err != nil {
		return ""
	}
	return "usage: parsimon " + readPage(e.running).usage + "\n"
}

// helpCommand makes the command help.
func (e *env) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND|TOPIC]",
		Short:  "show the manual page of a command or topic",
		Hidden: true, // the first screen has a section on it
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, c := range root.Commands() {
				names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				return usageError{err}
			}
			return e.writeHelp(found, rest)
		},
	}
}

// showHelp writes the help of a command for --help.
func (e *env) showHelp(c *cobra.Command, _ []string) {
	e.help.begun = true
	e.help.err = e.writeHelp(c, c.Flags().Args())
}

// writeHelp writes the manual page of a command or topic. The arguments of query name a question.
func (e *env) writeHelp(c *cobra.Command, args []string) error {
	if c.Name() == "query" && len(args) > 0 {
		return e.helpQuery(args[0])
	}
	_, err := io.WriteString(e.stdout, e.pageOf(c))
	return err
}

// pageOf lays out the help of a command or topic.
func (e *env) pageOf(c *cobra.Command) string {
	if !c.HasParent() {
		return e.overview(c)
	}
	if !c.Runnable() || c.Name() == "completion" || c.Parent().HasParent() {
		return strings.TrimSpace(cmp.Or(c.Short+"\n\n"+c.Long)) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "parsimon %s: %s\n\nUsage:\n  parsimon %s\n", c.Name(), c.Short, c.Use)
	_ = c.InheritedFlags() // makes c.Flags complete
	text := c.Long
	if c.Name() == "topology" {
		text += "\n" + topologyTail()
	}
	first := readPage(c.Name()).first
	if len(first) > 0 && !e.help.all {
		shown := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, name := range first {
			shown.AddFlag(c.Flags().Lookup(name))
		}
		fmt.Fprintf(&b, "\nCommon flags (\"parsimon %s --help-all\" lists all):\n%s\n%s\n", c.Name(), usages(shown),
			text)
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(text))
	for _, g := range flagGroups(c.Flags()) {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, usages(g.flags))
	}
	return b.String()
}

// overview is the first screen: the front page of the manual, with the commands by group.
func (e *env) overview(root *cobra.Command) string {
	var b strings.Builder
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "%s:\n", g.Title)
		for _, c := range e.commands() {
			if c.group == g.ID {
				fmt.Fprintf(&b, "  %-10s %s\n", c.name, readPage(c.name).summary)
			}
		}
		b.WriteString("\n")
	}
	text, err := manual.ReadFile("manual/parsimon.txt")
	if err != nil {
		panic(err) // it is part of the program
	}
	return strings.Replace(string(text), "COMMANDS\n\n", b.String(), 1)
}

// A flagGroup has the flags under one heading of a manual page.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// flagGroups divides flags by their groups, in the order of declaration. Flags without a group come first.
func flagGroups(f *pflag.FlagSet) []*flagGroup {
	groups := []*flagGroup{}
	byTitle := map[string]*flagGroup{}
	f.VisitAll(func(flag *pflag.Flag) {
		title := cmp.Or(groupOf(flag), "Flags")
		if byTitle[title] == nil {
			byTitle[title] = &flagGroup{title, pflag.NewFlagSet("", pflag.ContinueOnError)}
			groups = append(groups, byTitle[title])
		}
		byTitle[title].flags.AddFlag(flag)
	})
	return groups
}

// usages lists flags with their descriptions.
func usages(f *pflag.FlagSet) string {
	f.SortFlags = false
	return f.FlagUsagesWrapped(100)
}

// groupKey is the annotation of a flag with the title of its group.
const groupKey = "group"

// group places the flags that declare declares under one heading of the manual page.
func group(f *pflag.FlagSet, title string, declare func()) {
	before := map[string]bool{}
	f.VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	declare()
	f.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] && groupOf(flag) == "" {
			_ = f.SetAnnotation(flag.Name, groupKey, []string{title}) // the flag is declared
		}
	})
}

// groupOf returns the title of a flag's group, or "" if it has none.
func groupOf(flag *pflag.Flag) string {
	title := flag.Annotations[groupKey]
	if title != nil {
		return title[0]
	}
	return ""
}
