// Package format reads the answer of a DuckDB statement, or writes it as an aligned table, CSV, JSON or Parquet.
//
//	Query ─→ Rows ─→ Next      one row, as Go values
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
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// Names returns the names of the formats of answers: table, and those of Copy.
func Names() []string { return []string{"table", "csv", "json", "parquet"} }

// Rows is the answer of a statement. It is read once, front to back, by one goroutine, and closed.
type Rows struct {
	conn    *sql.Conn
	rows    *sql.Rows
	failed  func(error) error
	columns []string
	types   []string
	slots   []any // arguments of Scan: pointers to the elements of values
	values  []any // the row that Next returns
}

// Query runs a statement on the connection, which belongs to the rows from then on and is closed with
// them, or before Query returns an error. Errors of the statement, also those that appear while rows
// are read, pass through failed, which may add to them.
func Query(ctx context.Context, conn *sql.Conn, failed func(error) error, text string) (*Rows, error) {
	rows, err := conn.QueryContext(ctx, text) //nolint:rowserrcheck // Next asks for it
	if err != nil {
		return nil, errors.Join(failed(err), conn.Close())
	}
	r := &Rows{conn: conn, rows: rows, failed: failed}
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, k := range kinds {
		r.columns = append(r.columns, k.Name())
		r.types = append(r.types, k.DatabaseTypeName())
	}
	r.values = make([]any, len(r.columns))
	for i := range r.values {
		r.slots = append(r.slots, &r.values[i])
	}
	return r, nil
}

// Columns returns the names of the columns.
func (r *Rows) Columns() []string { return slices.Clone(r.columns) }

// Next returns the next row, or io.EOF after the last one. The slice is valid until the next call. Its
// values are those of the driver, integers of up to 64 bits as int64 or uint64.
func (r *Rows) Next() ([]any, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, r.failed(err)
		}
		return nil, io.EOF
	}
	if err := r.rows.Scan(r.slots...); err != nil {
		return nil, fmt.Errorf("read a row: %w", err)
	}
	for i, value := range r.values {
		switch v := reflect.ValueOf(value); {
		case v.CanInt():
			r.values[i] = v.Int()
		case v.CanUint():
			r.values[i] = v.Uint()
		}
	}
	return r.values, nil
}

// Each calls do with each row that is left, as Next returns it, up to the first error. Then it closes the rows.
func (r *Rows) Each(do func(row []any) error) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(row)
		}
		if err != nil {
			return err
		}
	}
}

// Close frees the answer and its connection. It may be called more than once.
func (r *Rows) Close() error {
	err := r.rows.Close()
	if closed := r.conn.Close(); !errors.Is(closed, sql.ErrConnDone) {
		err = errors.Join(err, closed)
	}
	return err
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
