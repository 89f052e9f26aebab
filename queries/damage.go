package queries

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
)

// explain returns the error of a statement that reads the given relations with its reason: the cause of the
// context's end, or the data file that is damaged. Other errors are returned as they are.
func (db *DB) explain(ctx context.Context, names []string, err error) error {
	if err == nil || ctx.Err() != nil {
		return duckdb.OrCause(ctx, err)
	}
	if !maybeDamage(err) {
		return err
	}
	var files []string
	for _, v := range db.closure(names) {
		files = append(files, v.files...)
	}
	if file := firstDamaged(ctx, files); file != "" {
		return fmt.Errorf("file %s is damaged: %w", file, duckdb.FirstLine(err))
	}
	return err
}

// maybeDamage reports whether a damaged data file may be the reason of an error that names no file.
func maybeDamage(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) || strings.Contains(err.Error(), ".parquet") {
		return false
	}
	switch e.Type {
	case driver.ErrorTypeParser, driver.ErrorTypeSyntax, driver.ErrorTypeBinder, driver.ErrorTypeCatalog,
		driver.ErrorTypePermission, driver.ErrorTypeInterrupt, driver.ErrorTypeConversion, driver.ErrorTypeOutOfMemory:
		return false
	}
	return true
}

// firstDamaged reads the files, in another database, and returns the first that DuckDB cannot read completely.
// It returns "" if there is none or if the context ends.
func firstDamaged(ctx context.Context, files []string) string {
	for _, file := range files {
		if ctx.Err() != nil {
			return ""
		}
		if err := readAll(ctx, file); err != nil && ctx.Err() == nil {
			return file
		}
	}
	return ""
}

// readAll decodes all columns of a Parquet file. Each file gets its own database: an internal error makes DuckDB
// refuse all later statements.
func readAll(ctx context.Context, file string) (err error) {
	db, err := duckdb.Open(ctx, duckdb.Options{Threads: 1})
	if err != nil {
		return nil // nothing is known about the file
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, "SELECT max(hash(COLUMNS(*))) FROM "+duckdb.ScanParquet(file))
	return err
}
