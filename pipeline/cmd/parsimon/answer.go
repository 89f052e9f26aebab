package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/gate"
	"parsimon/pipeline/text"
)

// declareForm declares --format: the first form is the default. text and table are for people, csv is the first table
// of these, and json is the value that the answer is made of.
func declareForm(f *pflag.FlagSet, form *string, forms ...string) {
	choose(f, form, "format", "form of the answer: %s", forms...)
}

// declareForms declares --format of commands whose text for people has a table.
func declareForms(f *pflag.FlagSet, form *string) { declareForm(f, form, "text", "csv", "json") }

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

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false) // "<10 KB" is no HTML
	return enc.Encode(v)
}

// declareGates declares --fail-if. Conditions on changes need a base.
func declareGates(f *pflag.FlagSet, gates *[]gate.Gate, base bool) {
	parseEach(f, gates, func(condition string) (gate.Gate, error) {
		g, err := gate.Parse(condition)
		if err == nil && g.Change && !base {
			err = errors.New("a change needs a base, which what-if and compare have")
		}
		return g, err
	}, "fail-if", "exit with 3 if a condition is true, such as 'service=storage p99_slowdown > 5'; may be repeated. "+
		"Selects flows by "+strings.Join(gate.Columns(), ", "))
}
