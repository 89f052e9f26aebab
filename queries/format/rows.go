// Package format reads the answer of a DuckDB statement and writes it as an aligned table, CSV, JSON or Parquet.
//
//	Query ─→ Rows ─→ Next          one row, as Go values
//	              └→ Write         table    rounded, control characters escaped, at most TableRows rows
//	                               csv      RFC 4180; lists and structs as JSON
//	                               json     one object per row
//	                               parquet  typed, zstd
//
// CSV, JSON and Parquet answers are streamed: memory does not grow with the number of rows.
package format

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Names returns the names of the formats that Write accepts.
func Names() []string { return []string{"table", "csv", "json", "parquet"} }

// Rows is the answer of a statement. It is read once, front to back, by one goroutine, and closed.
type Rows struct {
	conn    *sql.Conn
	rows    *sql.Rows
	failed  func(error) error
	columns []string
	types   []string
	slots   []any // arguments of Scan: pointers to the elements of scanned
	scanned []any // the current row, as the driver has it
	values  []any // the row that Next returns
}

// Query runs a statement on the connection, which belongs to the rows from then on and is closed with
// them, or before Query returns an error. Errors of the statement, also those that appear while rows
// are read, pass through failed, which may add to them.
func Query(ctx context.Context, conn *sql.Conn, failed func(error) error, text string, args ...any) (*Rows, error) {
	rows, err := conn.QueryContext(ctx, text, args...) //nolint:rowserrcheck // Next asks for it
	if err != nil {
		return nil, errors.Join(failed(err), conn.Close())
	}
	r := &Rows{conn: conn, rows: rows, failed: failed}
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	used := map[string]bool{}
	for _, k := range kinds {
		// Names are keys in JSON and Parquet, so two columns of one name need different ones.
		name := k.Name()
		for i := 1; used[name]; i++ {
			name = fmt.Sprintf("%s_%d", k.Name(), i)
		}
		used[name] = true
		r.columns = append(r.columns, name)
		r.types = append(r.types, k.DatabaseTypeName())
	}
	r.scanned = make([]any, len(r.columns))
	r.values = make([]any, len(r.columns))
	for i := range r.scanned {
		r.slots = append(r.slots, &r.scanned[i])
	}
	return r, nil
}

// Columns returns the names of the columns. If two have the same name, the second gets the suffix _1.
func (r *Rows) Columns() []string { return slices.Clone(r.columns) }

// Next returns the next row, or io.EOF after the last one. The slice is valid until the next call. Its
// values are nil, bool, int64, uint64, *big.Int, float32, float64, string, []byte, time.Time, Decimal of
// the driver, or []any of these. Values of all other types are strings, in DuckDB's notation or JSON.
func (r *Rows) Next() ([]any, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, r.failed(err)
		}
		return nil, io.EOF
	}
	if err := r.rows.Scan(r.slots...); err != nil {
		return nil, err
	}
	for i, v := range r.scanned {
		r.values[i] = plain(v, r.types[i])
	}
	return r.values, nil
}

// Each calls do with each row that is left, as Next returns it. It stops at the first error.
func (r *Rows) Each(do func(row []any) error) error {
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

// Write writes all remaining rows and closes them. The format is one of Names:
//
//   - table: aligned columns to read on a terminal; floats are rounded, control characters escaped,
//     and at most TableRows rows shown, with a note of how many there are. It is the only format that
//     holds its rows in memory
//   - csv: RFC 4180 with a header line; null is an empty field, a list is JSON
//   - json: an array of objects, one per line; integers with all their digits; NaN and infinities are null
//   - parquet: zstd, typed, lists as lists; integers of more than 64 bits become DOUBLE, as in DuckDB's
//     own export, and structs and maps become JSON strings
func (r *Rows) Write(w io.Writer, format string) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	switch format {
	case "table":
		return r.writeTable(w)
	case "csv":
		return r.writeCSV(w)
	case "json":
		return r.writeJSON(w)
	case "parquet":
		return r.writeParquet(w)
	}
	return fmt.Errorf("no format %q; the formats are %s", format, strings.Join(Names(), ", "))
}
