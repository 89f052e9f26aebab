package faults

import (
	"context"
	"errors"
	"fmt"
	"os"

	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// viewsWork reports a catalog of views that a user of DuckDB cannot read.
func (w world) viewsWork() (err error) {
	ctx := context.Background()
	db, err := duckdb.Open(ctx, duckdb.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx) // file_search_path belongs to one connection
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	catalog := w.path("lake/" + queries.CatalogFile)
	if _, err := os.Stat(catalog); err != nil {
		return err
	}
	for _, text := range []string{
		"SET file_search_path = " + duckdb.Quote(w.path("lake")),
		"ATTACH " + duckdb.Quote(catalog) + " AS views (READ_ONLY)", "USE views",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	for _, view := range []string{"slowdowns", "hops", "link_stats", "workload_flows"} {
		var n int64
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM "+view).Scan(&n); err != nil {
			return fmt.Errorf("view %s: %w", view, err)
		}
		if n == 0 {
			return fmt.Errorf("view %s has no rows", view)
		}
	}
	return nil
}
