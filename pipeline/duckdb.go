package pipeline

import (
	"context"
	"database/sql"
	"runtime/debug"

	"parsimon/queries/duckdb"
)

// OpenDuckDB opens an empty DuckDB within the memory of the estimate, for SQL over the lake's files.
func (e *Estimation) OpenDuckDB(ctx context.Context) (*sql.DB, error) {
	debug.FreeOSMemory() // what the stages have left
	return duckdb.Open(ctx, e.duckOptions())
}

// duckOptions returns the limits of a DuckDB. The SQL of the stages needs at least 128 MiB.
func (e *Estimation) duckOptions() duckdb.Options {
	return duckdb.Options{MemoryBytes: max(128<<20, e.MemoryBytes), Threads: e.Workers, SpillDir: e.spillPath()}
}
