package ingest

import (
	"strings"

	"parsimon/queries/duckdb"
)

// QuoteSQL returns the text as an SQL string literal.
func QuoteSQL(s string) string { return duckdb.Quote(s) }

// EscapeGlob returns a path that DuckDB takes for one file, not for a pattern.
func EscapeGlob(path string) string { return duckdb.EscapeGlob(path) }

// scanParquet is the SQL that reads one Parquet file, and no columns out of its path.
func scanParquet(file string, options ...string) string {
	return "read_parquet(" + strings.Join(append([]string{QuoteSQL(EscapeGlob(file)), "hive_partitioning=false"}, options...), ", ") + ")"
}

// FirstLine returns an error with the first line of err's message. The other lines quote the statement.
func FirstLine(err error) error { return duckdb.FirstLine(err) }
