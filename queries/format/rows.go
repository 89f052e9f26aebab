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
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

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

// end is the semicolon of a statement with the comments behind it.
var end = regexp.MustCompile(`;(\s|--[^\n]*|(?s:/\*.*?\*/))*$`)

// project returns a SELECT of the columns of another one, as a format has them. Names are keys in JSON and Parquet: of
// two columns of one name, the second gets the suffix _1.
func project(ctx context.Context, conn *sql.Conn, text, format string) (_ string, err error) {
	from := "(\n" + end.ReplaceAllString(text, "") + "\n)"
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

// expression is a column of a DuckDB type as a format has it.
func expression(format, column, kind string) string {
	base, _, _ := strings.Cut(kind, "(")
	nested := strings.HasSuffix(kind, "]") || base == "STRUCT" || base == "MAP" || base == "UNION"
	switch {
	case format == "parquet" || format == "table" && (kind == "BOOLEAN" || numeric(kind)):
		return column
	case format == "json" && (kind == "FLOAT" || kind == "DOUBLE"):
		return "CASE WHEN isfinite(" + column + ") THEN " + column + " END"
	case format == "json" && (kind == "FLOAT[]" || kind == "DOUBLE[]"):
		return "[CASE WHEN isfinite(x) THEN x END FOR x IN " + column + "]"
	case format == "json":
		return column
	case nested:
		return "CAST(to_json(" + column + ") AS VARCHAR)"
	}
	return "CAST(" + column + " AS VARCHAR)"
}
