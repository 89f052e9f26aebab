package format_test

import (
	"context"
	"log"
	"os"

	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// An answer as a table.
func Example() {
	ctx := context.Background()
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: 256 << 20, Threads: 1})
	check(err)
	defer func() { check(db.Close()) }()
	const text = "SELECT service, p99 FROM (VALUES ('web', 1.25), ('db', NULL)) AS v(service, p99)"
	conn, err := db.Conn(ctx)
	check(err)
	_, err = format.Table(ctx, conn, text, os.Stdout) // closes the connection
	check(err)
	// Output:
	// service   p99
	// -------  ----
	// web      1.25
	// db          -
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
