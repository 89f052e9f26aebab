package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// readerOfViews returns the DuckDB database with which tests read views like a user. All tests share it,
// because opening one takes longer than reading the views.
var readerOfViews = sync.OnceValues(func() (*sql.DB, error) {
	db, err := duckdb.Open(context.Background(), duckdb.Options{Threads: 1})
	if err == nil {
		// Do not cache: each lake is read from its own files.
		_, err = db.Exec("SET GLOBAL enable_external_file_cache = false")
	}
	return db, err
})

var catalogs atomic.Int64 // number of catalogs that were attached, because database names are global

// viewsWork returns an error if a user of DuckDB cannot read the catalog of views.
func (w world) viewsWork() (err error) {
	ctx := context.Background()
	db, err := readerOfViews()
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx) // file_search_path belongs to one connection
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	catalog := w.path("lake/" + queries.CatalogFile)
	if _, err := os.Stat(catalog); err != nil {
		return err
	}
	name := fmt.Sprintf("views_%d", catalogs.Add(1))
	for _, text := range []string{
		"SET file_search_path = " + duckdb.Quote(w.path("lake")),
		"ATTACH " + duckdb.Quote(catalog) + " AS " + name + " (READ_ONLY)",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	defer func() {
		for _, text := range []string{"USE memory", "DETACH " + name} {
			_, detached := conn.ExecContext(ctx, text)
			err = errors.Join(err, detached)
		}
	}()
	if _, err := conn.ExecContext(ctx, "USE "+name); err != nil {
		return err
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
