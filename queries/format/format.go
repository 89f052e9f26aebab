// Package format reads the answer of a DuckDB statement, or writes it as an aligned table, CSV, JSON or Parquet.
//
//	Read ─→ Answer             rows of Go values, in memory
//	Copy                       csv      RFC 4180 with a header line; null is an empty field; lists and structs as JSON
//	                           json     an array of objects, one per line; NaN and infinities are null
//	                           parquet  typed, zstd
//	Table                      table    rounded, control characters escaped, at most TableRows rows
//
// CSV, JSON and Parquet are written by DuckDB: memory does not grow with the number of rows.
package format

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parsimon/queries/duckdb"
)

// Names returns the names of the formats of answers: table, and those of Copy.
func Names() []string { return []string{"table", "csv", "json", "parquet"} }

// An Answer is the answer of a statement. Its values are those of the driver, integers of up to 64 bits as int64 or
// uint64.
type Answer struct {
	Columns []string
	Rows    [][]any
	Total   int64 // rows of the statement; Rows are the first of them

	types []string // of DuckDB, of the columns
}

// Read runs a statement on a connection and keeps at most so many rows.
func Read(ctx context.Context, conn *sql.Conn, text string, most int) (_ *Answer, err error) {
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	a := &Answer{}
	for _, k := range kinds {
		a.Columns, a.types = append(a.Columns, k.Name()), append(a.types, k.DatabaseTypeName())
	}
	for rows.Next() {
		if a.Total++; len(a.Rows) == most {
			continue
		}
		row, slots := make([]any, len(kinds)), make([]any, len(kinds))
		for i := range row {
			slots[i] = &row[i]
		}
		if err := rows.Scan(slots...); err != nil {
			return nil, fmt.Errorf("read a row: %w", err)
		}
		for i, value := range row {
			switch v := reflect.ValueOf(value); {
			case v.CanInt():
				row[i] = v.Int()
			case v.CanUint():
				row[i] = v.Uint()
			}
		}
		a.Rows = append(a.Rows, row)
	}
	return a, rows.Err()
}

// copyOptions are DuckDB's options for each format of Copy.
var copyOptions = map[string]string{
	"csv":     "FORMAT csv, HEADER true",
	"json":    "FORMAT json, ARRAY true",
	"parquet": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 65536",
}

// Copy writes the answer of a SELECT to a file or a pipe, as csv, json or parquet, and returns its number of rows.
func Copy(ctx context.Context, conn *sql.Conn, text, format, path string) (rows int64, err error) {
	text, err = project(ctx, conn, text, format)
	if err != nil {
		return 0, err
	}
	done, err := conn.ExecContext(ctx, fmt.Sprintf("COPY (%s) TO %s (%s, USE_TMP_FILE false)", text, duckdb.Quote(path),
		copyOptions[format]))
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// project returns a SELECT of the columns of another one, as a format has them. Names are keys in JSON and Parquet: of
// two columns of one name, the second gets the suffix _1.
func project(ctx context.Context, conn *sql.Conn, text, format string) (_ string, err error) {
	from := duckdb.Subquery(text)
	rows, err := conn.QueryContext(ctx, "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM "+from+")")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var columns []string
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			return "", fmt.Errorf("describe the answer: %w", err)
		}
		column := duckdb.Ident(name)
		columns = append(columns, expression(format, column, kind)+" AS "+column)
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + from, rows.Err()
}

// expression returns the SQL of a column of a DuckDB type in the form that a format needs.
func expression(format, column, kind string) string {
	base, _, _ := strings.Cut(kind, "(")
	nested := strings.HasSuffix(kind, "]") || base == "STRUCT" || base == "MAP" || base == "UNION"
	switch {
	case format == "parquet" || format == "table" && (kind == "BOOLEAN" || numeric(kind)):
		return column
	case format == "json":
		return finite(column, kind)
	case format == "csv" && nested:
		return "CAST(to_json(" + finite(column, kind) + ") AS VARCHAR)"
	case nested:
		return "CAST(to_json(" + column + ") AS VARCHAR)"
	}
	return "CAST(" + column + " AS VARCHAR)"
}

// TableRows is the number of rows that the table format shows.
const TableRows = 1000

// maxCellRunes is the width at which the table format cuts values, such as the lists of delay_buckets. A sentence in
// the last column, such as that of a warning, is whole.
const maxCellRunes = 60

// Table writes the answer of a SELECT: column names, a rule and the rows, in aligned columns, numbers to the right, all
// else to the left, null as "-". Floats are rounded, times in ns are in the unit that suits them (forPeople). Of more
// than TableRows rows it says how many there are.
func Table(ctx context.Context, conn *sql.Conn, text string, w io.Writer) (rows int64, err error) {
	if text, err = project(ctx, conn, text, "table"); err != nil {
		return 0, err
	}
	a, err := Read(ctx, conn, text, TableRows)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w) // keeps its first error; Flush returns it
	align(out, a.Columns, a.types, a.Rows)
	switch {
	case a.Total == 0:
		_, _ = out.WriteString("(no rows)\n")
	case a.Total > TableRows:
		_, _ = fmt.Fprintf(out, "(the first %d of %d rows; the formats csv, json and parquet have them all)\n", TableRows,
			a.Total)
	}
	return a.Total, out.Flush()
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
	largest := make([]float64, len(columns))
	for c, name := range columns {
		for k, other := range columns {
			if k == c || quantity(name) == quantity(other) {
				largest[c] = max(largest[c], largestOf(rows, k))
			}
		}
	}
	for c, name := range columns {
		right[c] = numeric(types[c])
		if right[c] {
			name = forPeople(name, rows, c, largest[c])
		}
		lines[0][c] = Escape(name)
		widths[c] = utf8.RuneCountInString(lines[0][c])
		format := floatFormat(rows, c)
		for i, row := range rows {
			text, _ := row[c].(string)
			lines[2+i][c] = cell(row[c], format, c == len(columns)-1 && strings.Contains(text, " "))
			widths[c] = max(widths[c], utf8.RuneCountInString(lines[2+i][c]))
		}
		lines[1][c] = strings.Repeat("-", widths[c])
	}
	for _, line := range lines {
		writeLine(out, line, widths, right)
	}
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
func cell(v any, format func(float64) string, whole bool) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float32:
		return format(float64(v))
	case float64:
		return format(v)
	}
	s := Escape(fmt.Sprint(v))
	if !whole && utf8.RuneCountInString(s) > maxCellRunes {
		s = string([]rune(s)[:maxCellRunes-1]) + "…"
	}
	return s
}

// floatFormat returns the format of a column's floats. All have the same number of decimals, so that
// the points are aligned: 4 if the largest value is at most 1, 3 below 10,000, 1 below a million, else 0.
// If all are below 0.001, each has four significant digits instead.
func floatFormat(rows [][]any, column int) func(float64) string {
	largest, verb, digits := largestOf(rows, column), byte('f'), 0
	switch {
	case largest > 0 && largest < 0.001:
		verb, digits = 'g', 4
	case largest <= 1:
		digits = 4
	case largest < 10_000:
		digits = 3
	case largest < 1_000_000:
		digits = 1
	}
	return func(f float64) string { return strconv.FormatFloat(f, verb, digits, 64) }
}

// numeric reports whether values of the type are numbers.
func numeric(kind string) bool {
	return slices.Contains([]string{"FLOAT", "DOUBLE"}, kind) || strings.HasSuffix(kind, "INT") ||
		strings.HasSuffix(kind, "INTEGER") || strings.HasPrefix(kind, "DECIMAL(") && !strings.HasSuffix(kind, "]")
}

// firstDateNS is the least number of ns since 1970 that is written as a date: 1973. Smaller ones are times since the
// beginning of a workload.
const firstDateNS = 1e17

// quantity is what columns in ns that have one unit in a table are of, by the name of one: base_delay_ns and delay_ns
// are delays, from_ns and end_ns points in time.
func quantity(name string) string {
	base, isNS := strings.CutSuffix(name, "_ns")
	word := base[strings.LastIndexByte(base, '_')+1:]
	switch {
	case !isNS:
		return name
	case slices.Contains([]string{"from", "to", "start", "event", "end"}, word):
		return "time"
	case word == "difference":
		return "delay"
	}
	return word
}

// forPeople writes the values of a column in ns, by its name, in the unit of the largest one of its quantity: us, ms or
// s; or, where they are points in time, as dates. It returns the name of the column with that unit. Other columns stay
// as they are.
func forPeople(name string, rows [][]any, column int, largest float64) string {
	base, isNS := strings.CutSuffix(name, "_ns")
	switch {
	case !isNS || largest < 1e3:
		return name
	case largest >= firstDateNS:
		if quantity(name) != "time" {
			return name
		}
		for _, row := range rows {
			if x, ok := number(row[column]); ok {
				ns, exact := row[column].(int64)
				if !exact {
					ns = int64(x)
				}
				row[column] = time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000Z")
			}
		}
		return base
	}
	unit, ns := "_us", 1e3
	if largest >= 1e9 {
		unit, ns = "_s", 1e9
	} else if largest >= 1e6 {
		unit, ns = "_ms", 1e6
	}
	for _, row := range rows {
		if x, ok := number(row[column]); ok {
			row[column] = x / ns
		}
	}
	return base + unit
}

// largestOf is the largest number of a column without its sign.
func largestOf(rows [][]any, column int) (largest float64) {
	for _, row := range rows {
		if x, ok := number(row[column]); ok {
			largest = max(largest, math.Abs(x))
		}
	}
	return largest
}

// number is a value as a finite float; ok is false for anything but whole numbers and floats.
func number(v any) (x float64, ok bool) {
	switch v := v.(type) {
	case int32:
		x = float64(v)
	case int64:
		x = float64(v)
	case uint64:
		x = float64(v)
	case *big.Int:
		x, _ = v.Float64()
	case interface{ Float64() float64 }: // DuckDB's decimal
		x = v.Float64()
	case float32:
		x = float64(v)
	case float64:
		x = v
	default:
		return 0, false
	}
	return x, !math.IsNaN(x) && !math.IsInf(x, 0)
}

// Escape returns the text with every character that could change the display of a terminal made visible:
// control characters (C0, DEL and C1) as \n, \t, \r or \x1b, invisible format characters such as
// the marks that reverse the direction of writing as \u202e, bytes that are not UTF-8 as \xff.
// Values in the lake come from traces, which anybody may have written.
func Escape(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !hidden(r), r == utf8.RuneError && strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden reports whether a character has no glyph of its own, or is RuneError, which stands for bytes that
// are not UTF-8.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}
