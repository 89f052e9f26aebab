package ingest

import (
	"errors"
	"strings"
)

// QuoteSQL is a text as an SQL literal.
func QuoteSQL(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// EscapeGlob makes DuckDB take a path for one file and not for a pattern of many.
func EscapeGlob(path string) string { return globEscape.Replace(path) }

var globEscape = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

// scanParquet is the SQL that reads one Parquet file, and no columns out of its path.
func scanParquet(file string, options ...string) string {
	return "read_parquet(" + strings.Join(append([]string{QuoteSQL(EscapeGlob(file)), "hive_partitioning=false"}, options...), ", ") + ")"
}

// FirstLine cuts DuckDB's errors short: our SQL stands in the other lines.
func FirstLine(err error) error {
	if err == nil {
		return nil
	}
	if line, _, more := strings.Cut(err.Error(), "\n"); more {
		return errors.New(line)
	}
	return err
}
