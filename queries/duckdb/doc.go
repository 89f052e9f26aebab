// Package duckdb opens in-memory DuckDB databases with limits on memory, threads and disk.
//
// Every DuckDB that this program uses comes from Open, so that the limits are set in one place:
//
//	Open(ctx, Options)            memory limit, threads, spill directory; no extension is ever loaded
//	  │
//	  ├─ SQL of the program       read_parquet, COPY … TO
//	  │
//	  └─ Lock(ctx, db, dirs…)     from here on: reads below dirs only, settings fixed
//	       └─ SQL of a user
//
// The memory limit bounds DuckDB's buffer manager. DuckDB does not count every allocation: values of
// type LIST and the state of some aggregates are outside the limit. Package queries/subprocess bounds those.
//
// The package also has the helpers that every writer of SQL needs: literals, identifiers, paths
// without wildcards, and errors without the text of the statement.
package duckdb
