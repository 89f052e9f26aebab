package pipeline

import (
	"database/sql"
	"fmt"
	"runtime/debug"

	_ "github.com/marcboeker/go-duckdb/v2" // the engine behind database/sql

	"parsimon/stages/ingest"
)

// OpenDuckDB opens an empty DuckDB within the memory of the estimate, for SQL over the lake's files.
func (e *Estimation) OpenDuckDB() (*sql.DB, error) {
	debug.FreeOSMemory() // what the stages have left
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("SET GLOBAL memory_limit = %s; SET GLOBAL threads = %d; SET GLOBAL temp_directory = %s",
		ingest.QuoteSQL(duckMemory(e.MemoryBytes)), e.Workers, ingest.QuoteSQL(e.spillPath()))
	if _, err := db.Exec(settings); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}
