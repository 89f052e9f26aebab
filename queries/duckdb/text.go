package duckdb

import "strings"

// Quote returns the text as an SQL string literal.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Ident returns the name as a quoted SQL identifier.
func Ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

var globEscapes = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

// EscapeGlob returns a path that DuckDB's file functions take for one file, not for a pattern.
func EscapeGlob(path string) string { return globEscapes.Replace(path) }

// ScanParquet returns the table function call that reads the files and adds no columns from their
// paths.
func ScanParquet(files ...string) string {
	escaped := make([]string, len(files))
	for i, f := range files {
		escaped[i] = EscapeGlob(f)
	}
	return "read_parquet([" + quoteList(escaped) + "], hive_partitioning = false)"
}
