package format

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TableRows is the number of rows that the table format shows.
const TableRows = 1000

// maxCellRunes is the width at which the table format cuts values, such as the lists of delay_buckets.
const maxCellRunes = 60

// writeTable writes column names, a rule and the rows, in aligned columns: numbers to the right, all
// else to the left, null as "-". Times in ns are written in the unit that suits them (forPeople).
func (r *Rows) writeTable(w io.Writer) error {
	rows, total, err := r.first(TableRows)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w) // keeps its first error; Flush returns it
	align(out, r.columns, r.types, rows)
	switch {
	case total == 0:
		_, _ = out.WriteString("(no rows)\n")
	case total > len(rows):
		_, _ = fmt.Fprintf(out, "(the first %d of %d rows; the formats csv, json and parquet have them all)\n",
			len(rows), total)
	}
	return out.Flush()
}

// Align writes rows like the format table. Values are texts, whole numbers, floats, Stringers, aligned to the right,
// and nil.
func Align(w io.Writer, columns []string, rows [][]any) error {
	types := make([]string, len(columns))
	for c := range columns {
		for _, row := range rows {
			if _, isText := row[c].(string); row[c] != nil && !isText {
				types[c] = "DOUBLE"
			}
		}
	}
	out := bufio.NewWriter(w)
	align(out, columns, types, rows)
	return out.Flush()
}

// align writes the names of columns of DuckDB's types, a rule and the rows.
func align(out *bufio.Writer, columns, types []string, rows [][]any) {
	lines := [][]string{make([]string, len(columns)), make([]string, len(columns))} // header and rule
	for range rows {
		lines = append(lines, make([]string, len(columns)))
	}
	widths := make([]int, len(columns))
	right := make([]bool, len(columns))
	for c, name := range columns {
		right[c] = numeric(types[c])
		name = forPeople(name, rows, c)
		lines[0][c] = Escape(name)
		widths[c] = utf8.RuneCountInString(lines[0][c])
		format := floatFormat(rows, c)
		for i, row := range rows {
			lines[2+i][c] = cell(row[c], types[c], format)
			widths[c] = max(widths[c], utf8.RuneCountInString(lines[2+i][c]))
		}
		lines[1][c] = strings.Repeat("-", widths[c])
	}
	for _, line := range lines {
		writeLine(out, line, widths, right)
	}
}

// first reads all rows and returns the first n of them, and how many there are.
func (r *Rows) first(n int) (rows [][]any, total int, err error) {
	err = r.Each(func(row []any) error {
		if total++; total <= n {
			rows = append(rows, slices.Clone(row))
		}
		return nil
	})
	return rows, total, err
}

func writeLine(out *bufio.Writer, line []string, widths []int, right []bool) {
	var b strings.Builder
	for c, s := range line {
		if c > 0 {
			b.WriteString("  ")
		}
		pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(s))
		if right[c] {
			b.WriteString(pad + s)
		} else {
			b.WriteString(s + pad)
		}
	}
	_, _ = out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// cell returns one value of a table, on one line and without control characters.
func cell(v any, kind string, format func(float64) string) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float32:
		return format(float64(v))
	case float64:
		return format(v)
	}
	s := Escape(text(v, kind))
	if utf8.RuneCountInString(s) > maxCellRunes {
		s = string([]rune(s)[:maxCellRunes-1]) + "…"
	}
	return s
}

// floatFormat returns the format of a column's floats. All have the same number of decimals, so that
// the points are aligned: 4 if the largest value is at most 1, 3 below 10,000, 1 below a million, else 0.
// If all are below 0.001, each has four significant digits instead.
func floatFormat(rows [][]any, column int) func(float64) string {
	largest := 0.0
	for _, row := range rows {
		var f float64
		switch v := row[column].(type) {
		case float32:
			f = float64(v)
		case float64:
			f = v
		}
		if f = math.Abs(f); !math.IsInf(f, 0) && f > largest { // false for NaN
			largest = f
		}
	}
	decimals := 0
	switch {
	case largest > 0 && largest < 0.001:
		return func(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }
	case largest <= 1:
		decimals = 4
	case largest < 10_000:
		decimals = 3
	case largest < 1_000_000:
		decimals = 1
	}
	return func(f float64) string { return strconv.FormatFloat(f, 'f', decimals, 64) }
}

// numeric reports whether values of the type are numbers.
func numeric(kind string) bool {
	switch kind {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
		"UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE":
		return true
	}
	return strings.HasPrefix(kind, "DECIMAL(") && strings.HasSuffix(kind, ")")
}
