package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/gate"
	"parsimon/pipeline/text"
)

// A choice is the value of a flag that is one of some names.
type choice struct {
	to    *string
	names []string
}

func (c choice) String() string { return *c.to }
func (choice) Type() string     { return "string" }

// Set takes one of the names.
func (c choice) Set(name string) error {
	if !slices.Contains(c.names, name) {
		return errors.New("must be " + c.list())
	}
	*c.to = name
	return nil
}

func (c choice) list() string {
	last := len(c.names) - 1
	return strings.Join(c.names[:last], ", ") + " or " + c.names[last]
}

// checkGiven refuses arguments and values of flags that are given and empty, as those of a script are where a variable
// is not set: "parsimon rm ”" must not mean another scenario.
func checkGiven(f *pflag.FlagSet) (err error) {
	if slices.Contains(f.Args(), "") {
		return errors.New("an argument is empty: is a variable not set?")
	}
	f.Visit(func(one *pflag.Flag) {
		several, isList := one.Value.(pflag.SliceValue)
		if one.Value.Type() == "string" && one.Value.String() == "" || isList && slices.Contains(several.GetSlice(), "") {
			err = fmt.Errorf("--%s is empty: is a variable not set?", one.Name)
		}
	})
	return err
}

// declareTable declares --format of commands whose answer is a table.
func declareTable(f *pflag.FlagSet, form *string, others ...string) {
	*form = "table"
	c := choice{form, slices.Concat([]string{"table"}, others, []string{"json"})}
	f.Var(c, "format", c.list())
}

// declareFormat declares --format of commands that write text for people or JSON for scripts.
func declareFormat(f *pflag.FlagSet, form *string) {
	*form = "text"
	f.Var(choice{form, []string{"text", "json"}}, "format", "form of the answer: text, or json for scripts")
}

// declareForms declares --format of commands whose answer is a text.Answer: its first table is their CSV.
func declareForms(f *pflag.FlagSet, form *string) {
	*form = "text"
	f.Var(choice{form, []string{"text", "csv", "json"}}, "format", "form of the answer: text, csv (its first table), or json for scripts")
}

// write writes an answer in one form: value is that for scripts, people's is made only where it is asked for.
func (e *env) write(form string, value any, people func() (*text.Answer, error)) error {
	if form == "json" {
		return writeJSON(e.stdout, value)
	}
	a, err := people()
	if err != nil {
		return err
	}
	return a.Write(e.stdout, form)
}

// gateValue is the value of --fail-if. Conditions on changes need a base.
type gateValue struct {
	to   *[]gate.Gate
	base bool
}

func (gateValue) String() string { return "" }
func (gateValue) Type() string   { return "stringArray" }

// Set adds a condition.
func (v gateValue) Set(condition string) error {
	g, err := gate.Parse(condition)
	if err != nil {
		return err
	}
	if g.Change && !v.base {
		return errors.New("a change needs a base, which what-if and compare have")
	}
	*v.to = append(*v.to, g)
	return nil
}

// declareGates declares --fail-if.
func declareGates(f *pflag.FlagSet, gates *[]gate.Gate, base bool) {
	f.Var(gateValue{gates, base}, "fail-if", "exit with 3 if a condition is true, such as 'service=storage p99_slowdown > 5'; may be repeated. Selects flows by "+strings.Join(gate.Columns(), ", "))
}
