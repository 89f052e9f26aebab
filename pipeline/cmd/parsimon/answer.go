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
