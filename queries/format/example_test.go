package format_test

import (
	"context"
	"log"
	"os"

	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// One answer, in the form that Write is asked for.
func Example() {
	ctx := context.Background()
	db, err := duckdb.Open(ctx, duckdb.Options{MemoryBytes: 256 << 20, Threads: 1})
	check(err)
	defer func() { check(db.Close()) }()
	for _, form := range []string{"table", "json"} {
		conn, err := db.Conn(ctx)
		check(err)
		rows, err := format.Query(ctx, conn, func(err error) error { return err },
			"SELECT service, p99 FROM (VALUES ('web', 1.25), ('db', NULL)) AS v(service, p99)")
		check(err)
		check(rows.Write(os.Stdout, form)) // closes the rows and the connection
	}
	// Output:
	// service   p99
	// -------  ----
	// web      1.25
	// db          -
	// [
	// {"service":"web","p99":1.25},
	// {"service":"db","p99":null}
	// ]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
