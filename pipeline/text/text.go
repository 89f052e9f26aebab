// Package text writes the answers of commands for people.
//
//	Linef, Block, Table ─► Answer ─ Write ─┬─► text: lines and aligned tables, in their order
//	                                       └─► csv: the first table, with all digits
//
// Names in an answer come from traces and lakes of strangers. They can neither change the display of a
// terminal nor begin a new line.
package text

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"parsimon/queries/format"
)

// An Answer is the text output of a command.
type Answer struct{ parts []any } // string or *Table

// A Table is a part of an answer. Its values are strings, integers, floats, Figure, Percent, or nil for no
// value.
type Table struct {
	columns []string
	rows    [][]any
}

// A Percent is a share, written as a change in percent: +1.2%. CSV has the share.
type Percent float64

// String returns the share in percent, with its sign. A share below 0.05% has three decimals.
func (p Percent) String() string {
	switch x := math.Abs(float64(p)); {
	case math.IsNaN(x):
		return "-"
	case x > 0 && x < 0.0005:
		return fmt.Sprintf("%+.3f%%", 100*float64(p))
	}
	return fmt.Sprintf("%+.1f%%", 100*float64(p))
}

// A Figure is a float with five significant digits, for tables in which small differences count. CSV has all
// digits.
type Figure float64

// String returns the figure with at most ten decimals.
func (f Figure) String() string {
	x := math.Abs(float64(f))
	digitsBeforePoint := 1
	if x > 0 && !math.IsInf(x, 0) {
		digitsBeforePoint = 1 + int(math.Floor(math.Log10(x)))
	}
	return strconv.FormatFloat(float64(f), 'f', min(10, max(0, 5-digitsBeforePoint)), 64)
}

// Linef adds a line. Line ends of the format begin new lines. Those of the arguments are written as \n,
// because an argument may be a name that somebody else chose.
func (a *Answer) Linef(format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		safe[i] = arg
		kind := reflect.ValueOf(arg).Kind()
		if kind < reflect.Bool || kind > reflect.Complex128 {
			safe[i] = escaped{arg}
		}
	}
	a.parts = append(a.parts, fmt.Sprintf(format, safe...))
}

// escaped formats a value as package fmt does, and then escapes the text.
type escaped struct{ value any }

// Format implements fmt.Formatter.
func (e escaped) Format(state fmt.State, verb rune) {
	_, _ = io.WriteString(state, format.Escape(fmt.Sprintf(fmt.FormatString(state, verb), e.value)))
}

// Block adds a text of several lines, whose line ends stay. It must not contain a foreign name with a line
// end.
func (a *Answer) Block(text string) { a.parts = append(a.parts, text) }

// Table adds a table.
func (a *Answer) Table(columns ...string) *Table {
	t := &Table{columns: columns}
	a.parts = append(a.parts, t)
	return t
}

// Add adds a row.
func (t *Table) Add(values ...any) { t.rows = append(t.rows, values) }

// Write writes the answer as "csv", which is its first table, or as text.
func (a *Answer) Write(w io.Writer, form string) (err error) {
	for _, part := range a.parts {
		switch part := part.(type) {
		case string:
			if form != "csv" {
				_, err = io.WriteString(w, Clean(part)+"\n")
			}
		case *Table:
			if form == "csv" {
				return part.writeCSV(w)
			}
			err = format.Align(w, part.columns, part.rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clean escapes each line of a text with format.Escape. Line ends stay.
func Clean(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = format.Escape(line)
	}
	return strings.Join(lines, "\n")
}

func (t *Table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(t.columns) // out.Error returns its errors
	for _, row := range t.rows {
		record := make([]string, len(row))
		for i, value := range row {
			record[i] = field(value)
		}
		_ = out.Write(record)
	}
	out.Flush()
	return out.Error()
}

// field returns a value of a table as a field of CSV. No value and NaN are empty.
func field(value any) string {
	switch x := reflect.ValueOf(value); {
	case value == nil, x.CanFloat() && math.IsNaN(x.Float()):
		return ""
	case x.CanFloat():
		return strconv.FormatFloat(x.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(value)
}
