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
