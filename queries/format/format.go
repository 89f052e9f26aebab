// Package format reads the answer of a DuckDB statement, and writes it as an aligned table, CSV, JSON or
// Parquet.
//
//	Read ─→ Answer             rows of Go values, in memory
//	Copy                       csv      RFC 4180 with a header line; null is an empty field; lists and structs as JSON
//	                           json     an array of objects, one per line; NaN and infinities are null
//	                           parquet  typed, zstd
//	Table                      table    rounded, control characters escaped, at most TableRows rows
//
// DuckDB writes CSV, JSON and Parquet, with memory that does not grow with the number of rows.
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

// An Answer is the answer of a statement. Values have the types of the driver, but integers of up to 64 bits
// are int64 or uint64.
type Answer struct {
	Columns []string
	Rows    [][]any
	Total   int64 // number of rows of the answer, of which Rows are the first

	types []string // DuckDB's types of the columns
}

// Read runs a statement with the values of its parameters on a connection. It keeps at most a given number of
// rows.
func Read(ctx context.Context, conn *sql.Conn, text string, most int, values ...any) (_ *Answer, err error) {
	rows, err := conn.QueryContext(ctx, text, values...)
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
		a.Columns = append(a.Columns, k.Name())
		a.types = append(a.types, k.DatabaseTypeName())
	}
	for rows.Next() {
		a.Total++
		if len(a.Rows) == most {
			continue
		}
		row := make([]any, len(kinds))
		slots := make([]any, len(kinds))
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

// Copy writes the answer of a SELECT to a file or a pipe, as csv, json or parquet, and returns its number of
// rows.
func Copy(ctx context.Context, conn *sql.Conn, text, format, path string) (rows int64, err error) {
	text, err = project(ctx, conn, text, format)
	if err != nil {
		return 0, err
	}
	return CopySimple(ctx, conn, text, format, path)
}

// CopySimple is Copy for an answer whose columns have different names and simple types: text, Booleans,
// integers and, unless the format is json, floats and decimals. DuckDB need not find out the types first,
// which takes as long as planning the SELECT.
func CopySimple(ctx context.Context, conn *sql.Conn, text, format, path string) (rows int64, err error) {
	once, value := duckdb.PlanOnce(text)
	done, err := conn.ExecContext(ctx, fmt.Sprintf("COPY (%s) TO %s (%s, USE_TMP_FILE false)", once,
		duckdb.Quote(path), copyOptions[format]), value)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// project returns a SELECT of the columns of another one in the form that a format needs. Names of columns
// are unique, because they are keys in JSON and Parquet: the second column of a name gets the suffix _1.
func project(ctx context.Context, conn *sql.Conn, text, format string) (_ string, err error) {
	from := duckdb.Subquery(text)
	once, value := duckdb.PlanOnce("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM " + from + ")")
	rows, err := conn.QueryContext(ctx, once, value)
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

// maxCellRunes is the width at which the table format cuts values, such as the lists of delay_buckets. A
// sentence in the last column, such as a warning, is not cut.
const maxCellRunes = 60

// Table writes the answer of a SELECT: column names, a rule and the rows, in aligned columns, numbers to the
// right, all else to the left, null as "-". Floats are rounded. A time of a column in ns is written with its
// unit, and without the ending _ns of the column's name. If there are more than TableRows rows, it states
// their number.
func Table(ctx context.Context, conn *sql.Conn, text string, w io.Writer) (rows int64, err error) {
	if text, err = project(ctx, conn, text, "table"); err != nil {
		return 0, err
	}
	return TableSimple(ctx, conn, text, w)
}

// TableSimple is Table for an answer of simple types, as CopySimple is for Copy.
func TableSimple(ctx context.Context, conn *sql.Conn, text string, w io.Writer) (rows int64, err error) {
	once, value := duckdb.PlanOnce(text)
	a, err := Read(ctx, conn, once, TableRows, value)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w) // keeps its first error; Flush returns it
	align(out, a.Columns, a.types, a.Rows)
	switch {
	case a.Total == 0:
		_, _ = out.WriteString("(no rows)\n")
	case a.Total > TableRows:
		_, _ = fmt.Fprintf(out, "(the first %d of %d rows; the formats csv, json and parquet have them all)\n",
			TableRows, a.Total)
	}
	return a.Total, out.Flush()
}

// Align writes rows in the format table. Values are texts, nil, whole numbers, floats and Stringers, which
// are aligned to the right.
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
	lines := make([][]string, 2+len(rows)) // header, rule and rows
	for i := range lines {
		lines[i] = make([]string, len(columns))
	}
	widths := make([]int, len(columns))
	right := make([]bool, len(columns))
	for c, name := range columns {
		right[c] = numeric(types[c])
		write := floatFormat(rows, c)
		base, isNS := strings.CutSuffix(name, "_ns")
		if isNS && right[c] {
			name = base
			write = duration
		}
		lines[0][c] = Escape(name)
		widths[c] = utf8.RuneCountInString(lines[0][c])
		for i, row := range rows {
			most := maxCellRunes
			text, _ := row[c].(string)
			if c == len(columns)-1 && strings.Contains(text, " ") {
				most = math.MaxInt // a sentence
			}
			lines[2+i][c] = cell(row[c], write, most)
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

// A numberFormat returns the text of a number of a column. Whole numbers of 64 bits are exact.
type numberFormat func(v any, x float64) string

// cell returns one value of a table, on one line, without control characters and with at most a given number
// of runes.
func cell(v any, write numberFormat, most int) string {
	if v == nil {
		return "-"
	}
	if x, ok := number(v); ok {
		return write(v, x)
	}
	s := Escape(fmt.Sprint(v))
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}

// floatFormat returns the format of a column's numbers. All floats have the same number of decimals, so that
// the points are aligned: 4 if the largest value is at most 1, 3 below 10,000, 1 below a million, else 0.
// If all are below 0.001, each has four significant digits instead.
func floatFormat(rows [][]any, column int) numberFormat {
	verb, digits := decimals(largestOf(rows, column))
	return func(v any, x float64) string {
		switch v.(type) {
		case float32, float64:
			return strconv.FormatFloat(x, verb, digits, 64)
		}
		return fmt.Sprint(v)
	}
}

// decimals returns the format of floats up to the largest, as strconv.FormatFloat takes it.
func decimals(largest float64) (verb byte, digits int) {
	switch {
	case largest > 0 && largest < 0.001:
		return 'g', 4
	case largest <= 1:
		return 'f', 4
	case largest < 10_000:
		return 'f', 3
	case largest < 1_000_000:
		return 'f', 1
	}
	return 'f', 0
}

// numeric reports whether values of the type are numbers.
func numeric(kind string) bool {
	return slices.Contains([]string{"FLOAT", "DOUBLE"}, kind) || strings.HasSuffix(kind, "INT") ||
		strings.HasSuffix(kind, "INTEGER") || strings.HasPrefix(kind, "DECIMAL(") && !strings.HasSuffix(kind, "]")
}

// firstDateNS is the least number of ns since 1970 that is written as a date: 1973. Smaller ones are times
// since the start of a workload.
const firstDateNS = 1e17

// units are the units of durations, largest first. Each value has a separate unit, so that it does not depend
// on other rows.
var units = []struct {
	name string
	ns   float64
}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}}

// duration writes a number of ns as a date, or with the largest unit in which it is at least 1.
func duration(v any, ns float64) string {
	if ns >= firstDateNS {
		exact, ok := v.(int64)
		if !ok {
			exact = int64(min(ns, math.MaxInt64-1024)) // the largest float that an int64 holds
		}
		return time.Unix(0, exact).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	for _, unit := range units {
		if math.Abs(ns) >= unit.ns {
			return strconv.FormatFloat(ns/unit.ns, 'f', 3, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(ns, 'g', 4, 64) + " ns"
}

// largestOf returns the largest absolute value of the numbers of a column.
func largestOf(rows [][]any, column int) (largest float64) {
	for _, row := range rows {
		if x, ok := number(row[column]); ok {
			largest = max(largest, math.Abs(x))
		}
	}
	return largest
}

// number returns a value as a float. ok is false unless the value is a finite number.
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

// Escape makes every character visible that could change the display of a terminal. Control characters (C0,
// DEL and C1) become \n, \t, \r or \x1b. Invisible format characters, such as the marks that reverse the
// direction of writing, become \u202e. Bytes that are not UTF-8 become \xff. Values in the lake come from
// traces, which are not trusted.
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

// hidden reports whether a character has no glyph, or is RuneError, which represents bytes that are not
// UTF-8.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' ||
		r == utf8.RuneError
}
