package queries

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TableRows is how many rows the table format shows.
const TableRows = 1000

// maxCellRunes is where the table format cuts long texts, such as the lists of delay_buckets.
const maxCellRunes = 60

// writeTable writes aligned columns: names, a rule, the rows; numbers to the right, texts to the
// left, null as "-".
func (r *Rows) writeTable(w io.Writer) error {
	var rows [][]any
	total := 0
	for ; ; total++ {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if total < TableRows {
			rows = append(rows, append([]any(nil), row...))
		}
	}
	cells := make([][]string, len(rows)) // [row][column]
	for i := range cells {
		cells[i] = make([]string, len(r.columns))
	}
	widths := make([]int, len(r.columns))
	right := make([]bool, len(r.columns))
	for c, name := range r.columns {
		right[c] = numeric(r.types[c])
		format := floatFormat(rows, c)
		widths[c] = utf8.RuneCountInString(name)
		for i, row := range rows {
			cells[i][c] = cell(row[c], r.types[c], format)
			widths[c] = max(widths[c], utf8.RuneCountInString(cells[i][c]))
		}
	}
	out := bufio.NewWriter(w) // keeps its first error, Flush returns it
	rule := make([]string, len(widths))
	for c, width := range widths {
		rule[c] = strings.Repeat("-", width)
	}
	writeLine(out, r.columns, widths, right)
	writeLine(out, rule, widths, right)
	for _, line := range cells {
		writeLine(out, line, widths, right)
	}
	switch {
	case total == 0:
		_, _ = out.WriteString("(no rows)\n")
	case total > len(rows):
		_, _ = fmt.Fprintf(out, "(the first %d of %d rows; the formats csv, json and parquet have them all)\n", len(rows), total)
	}
	return out.Flush()
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

// cell writes one value of a table on one line.
func cell(v any, kind string, format func(float64) string) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float32:
		return format(float64(v))
	case float64:
		return format(v)
	}
	s := text(v, kind)
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		s = strconv.Quote(s)
	}
	if utf8.RuneCountInString(s) > maxCellRunes {
		s = string([]rune(s)[:maxCellRunes-1]) + "…"
	}
	return s
}

// floatFormat rounds the floats of a column to as many decimals as its largest value leaves sense
// for, so that their points are aligned: 4 below 1, 3 below 10,000, 1 below a million, else 0.
// Columns of very small values keep four digits each instead.
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

// numeric says whether a type's values are numbers.
func numeric(kind string) bool {
	switch kind {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
		"UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE":
		return true
	}
	return strings.HasPrefix(kind, "DECIMAL(") && strings.HasSuffix(kind, ")")
}
