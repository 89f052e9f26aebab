package queries

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	duckdb "github.com/marcboeker/go-duckdb/v2"
)

// Formats lists the formats Rows can be written in.
func Formats() []string { return []string{"table", "csv", "json", "parquet"} }

// Rows is an answer, read once, front to back, by one goroutine.
type Rows struct {
	conn    *sql.Conn
	rows    *sql.Rows
	columns []string
	types   []string
	slots   []any // what Next scans into: pointers to the elements of scanned
	scanned []any // one row of all columns, hidden ones too
	shown   []int // the place in scanned of each of columns
	values  []any // what Next returns
}

// start runs a statement and takes over the connection.
func start(ctx context.Context, conn *sql.Conn, text string, args []any) (*Rows, error) {
	rows, err := conn.QueryContext(ctx, text, args...) //nolint:rowserrcheck // Next asks for it
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r := &Rows{conn: conn, rows: rows}
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	used := map[string]bool{}
	for _, k := range kinds {
		// No format but the table can tell two columns of one name apart.
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
		r.shown = append(r.shown, i)
	}
	return r, nil
}

// Hide leaves columns out of everything read or written from now on, and returns the same rows.
// Names that are not columns are ignored: what is not there is hidden already.
func (r *Rows) Hide(columns ...string) *Rows {
	for i := len(r.columns) - 1; i >= 0; i-- {
		if slices.Contains(columns, r.columns[i]) {
			r.columns = slices.Delete(r.columns, i, i+1)
			r.types = slices.Delete(r.types, i, i+1)
			r.shown = slices.Delete(r.shown, i, i+1)
		}
	}
	r.values = r.values[:len(r.columns)]
	return r
}

// Columns returns the names of the columns. The second of two of one name has _1 appended.
func (r *Rows) Columns() []string { return slices.Clone(r.columns) }

// Types returns DuckDB's names of the columns' types, e.g. BIGINT or DOUBLE[].
func (r *Rows) Types() []string { return slices.Clone(r.types) }

// Next returns the next row, or io.EOF after the last one. The slice is only valid until the next
// call. Its values are nil, bool, int64, uint64, *big.Int, float32, float64, string (which stands
// for all other types too, in DuckDB's notation or JSON), []byte, time.Time, duckdb.Decimal or
// []any of these.
func (r *Rows) Next() ([]any, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	if err := r.rows.Scan(r.slots...); err != nil {
		return nil, err
	}
	for i, place := range r.shown {
		r.values[i] = plain(r.scanned[place], r.types[i])
	}
	return r.values, nil
}

// Close frees the answer. It may be called more than once.
func (r *Rows) Close() error {
	err := r.rows.Close()
	if closed := r.conn.Close(); !errors.Is(closed, sql.ErrConnDone) {
		err = errors.Join(err, closed)
	}
	return err
}

// Write writes all rows and closes them. Format is one of Formats:
//
//   - table: aligned columns for people, floats rounded, at most TableRows rows and a note of how
//     many there are; the only format that holds its rows in memory
//   - csv: RFC 4180 with a header; null is an empty field, a list is JSON
//   - json: an array of objects, one a line; whole numbers with all their digits, NaN and
//     infinities as null
//   - parquet: zstd, typed, lists as lists; numbers that need more than 64 bits become DOUBLE, as
//     in DuckDB's own export, and structs and maps become JSON texts
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
	return fmt.Errorf("no format %q; there are %s", format, strings.Join(Formats(), ", "))
}

// plain turns what the driver returns for a value of a type into what Next promises.
func plain(v any, kind string) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case nil, bool, int64, uint64, *big.Int, float32, float64, string, duckdb.Decimal:
		return v
	case time.Time:
		if layout := timeLayout(kind); layout != "" {
			return v.Format(layout)
		}
		return v
	case []byte:
		if kind == "UUID" && len(v) == 16 {
			return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plain(e, elementType(kind))
		}
		return list
	default: // structs, maps, JSON, intervals
		return jsonText(v)
	}
}

// timeLayout is how times of day are written; they have no date, and only texts can say so.
func timeLayout(kind string) string {
	switch kind {
	case "TIME":
		return "15:04:05.999999"
	case "TIMETZ":
		return "15:04:05.999999Z07:00"
	}
	return ""
}

// elementType is the type of a list's or array's elements: DOUBLE of DOUBLE[] or DOUBLE[3].
func elementType(kind string) string {
	if i := strings.LastIndexByte(kind, '['); i >= 0 && strings.HasSuffix(kind, "]") {
		return kind[:i]
	}
	return kind
}

// jsonText writes a nested value as JSON. Keys of maps that are not texts are written as texts.
func jsonText(v any) string {
	data, err := json.Marshal(jsonable(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// jsonable makes a nested value of the driver acceptable to encoding/json, which also sorts keys.
func jsonable(v any) any {
	switch v := v.(type) {
	case duckdb.Map:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = jsonable(value)
		}
		return m
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = jsonable(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = jsonable(e)
		}
		return list
	case duckdb.Union:
		return jsonable(v.Value)
	case float32, float64, duckdb.Decimal, time.Time:
		return json.RawMessage(jsonValue(v))
	}
	return v
}
