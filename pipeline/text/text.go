// Package text writes answers for people.
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

// An Answer is the text output of a command: lines and tables, in their order. Names and values in it cannot change
// the display of a terminal.
type Answer struct{ parts []any } // string or *Table

// A Table is a part of an answer. Its values are texts, whole numbers, floats, Figure, Percent, or nil for none.
type Table struct {
	columns []string
	rows    [][]any
}

// A Percent is a share, written as a change in percent: +1.2%. CSV has the share.
type Percent float64

// String is the share in percent, with its sign. A share below 0.05% has three decimals.
func (p Percent) String() string {
	switch x := math.Abs(float64(p)); {
	case math.IsNaN(x):
		return "-"
	case x > 0 && x < 0.0005:
		return fmt.Sprintf("%+.3f%%", 100*float64(p))
	}
	return fmt.Sprintf("%+.1f%%", 100*float64(p))
}

// A Figure is a float with five significant digits, for tables in which small differences count. CSV has all digits.
type Figure float64

// String has at most ten decimals.
func (f Figure) String() string {
	x, before := math.Abs(float64(f)), 1 // digits before the point
	if x > 0 && !math.IsInf(x, 0) {
		before = 1 + int(math.Floor(math.Log10(x)))
	}
	return strconv.FormatFloat(float64(f), 'f', min(10, max(0, 5-before)), 64)
}

// Linef adds a line.
func (a *Answer) Linef(format string, args ...any) {
	a.parts = append(a.parts, fmt.Sprintf(format, args...))
}

// Table adds a table.
func (a *Answer) Table(columns ...string) *Table {
	t := &Table{columns: columns}
	a.parts = append(a.parts, t)
	return t
}

// Add adds a row.
func (t *Table) Add(values ...any) { t.rows = append(t.rows, values) }

// Write writes the answer as "csv", its first table, or as text.
func (a *Answer) Write(w io.Writer, form string) (err error) {
	for _, part := range a.parts {
		switch part := part.(type) {
		case string:
			if form != "csv" {
				_, err = io.WriteString(w, Clean(part)+"\n")
			}
		case *Table:
			if form == "csv" {
				return part.csv(w)
			}
			err = format.Align(w, part.columns, part.rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clean is format.Escape of each line of a text.
func Clean(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = format.Escape(line)
	}
	return strings.Join(lines, "\n")
}

func (t *Table) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(t.columns) // errors are kept for Error
	for _, row := range t.rows {
		record := make([]string, len(row))
		for i, v := range row {
			switch x := reflect.ValueOf(v); {
			case v == nil, x.CanFloat() && math.IsNaN(x.Float()): // of no flow
			case x.CanFloat():
				record[i] = strconv.FormatFloat(x.Float(), 'g', -1, 64)
			default:
				record[i] = fmt.Sprint(v)
			}
		}
		_ = out.Write(record)
	}
	out.Flush()
	return out.Error()
}
