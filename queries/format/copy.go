package format

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"parsimon/queries/duckdb"
)

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
