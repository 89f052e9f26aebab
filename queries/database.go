package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"parsimon/queries/duckdb"
)

// Options say what a database reads and what it may use.
type Options struct {
	duckdb.Options
	// Files are the data files to read.
	Files []File
	// Verify returns an error if the bytes of a data file, given by its path relative to the lake, are not those
	// that were committed. It is called once for each file before a statement first reads it. nil verifies nothing.
	Verify func(path string) error
	// Output is the absolute path of what Write writes to: a file, or a pipe such as /dev/stdout.
	Output string
}

// DB answers questions about the data files of one lake. It is safe for concurrent use.
type DB struct {
	root   string // of the lake: absolute, symbolic links resolved
	sql    *sql.DB
	files  []File
	verify func(path string) error
	output string
	views  []view // of the catalog, in an order in which they can be created

	mu      sync.Mutex
	created map[string]bool // views that exist in DuckDB
}

// Open opens a lake for reading. The database is in memory, has the views of the catalog (the file
// LAKE/parsimon.duckdb is not needed) and is locked: it reads no file but the data files, writes none, loads no
// extensions and changes no settings.
//
// A view is created when a statement first reads it, because DuckDB then opens a file of every scenario.
//
// Errors: the lake is missing, is not a directory, or has a path that CheckLakePath refuses; no data file; limits that
// duckdb.Open refuses.
func Open(ctx context.Context, lake string, o Options) (_ *DB, err error) {
	root, err := lakeRoot(lake)
	if err != nil {
		return nil, err
	}
	if err := CheckLakePath(root); err != nil {
		return nil, err
	}
	if len(o.Files) == 0 {
		return nil, fmt.Errorf("lake %s holds no tables yet: make some with `parsimon run … --lake %s`", lake, lake)
	}
	all, err := views(o.Files, root+string(filepath.Separator))
	if err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	if o.Verify == nil {
		o.Verify = func(string) error { return nil }
	}
	engine, err := duckdb.Open(ctx, o.Options)
	if err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	db := &DB{root: root, sql: engine, files: o.Files, verify: o.Verify, output: o.Output, views: all,
		created: map[string]bool{}}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("lake %s: %w", lake, err), db.Close())
	}
	return db, nil
}

// prepare creates the macros and locks the database.
func (db *DB) prepare(ctx context.Context) (err error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := createMacros(ctx, conn); err != nil {
		return err
	}
	var paths []string
	if db.output != "" {
		paths = append(paths, db.output)
	}
	for _, f := range db.files {
		paths = append(paths, filepath.Join(db.root, filepath.FromSlash(f.Path)))
	}
	return duckdb.Lock(ctx, db.sql, paths...)
}

// Close frees the database. Rows that are still open become unusable.
func (db *DB) Close() error { return db.sql.Close() }

// require creates the views of the given names that do not exist yet, and those that they read. Names of
// other relations are ignored.
func (db *DB) require(ctx context.Context, conn *sql.Conn, names []string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var missing []view
	for _, v := range db.closure(names) {
		if !db.created[v.name] {
			missing = append(missing, v)
		}
	}
	for _, v := range missing {
		if err := checkInside(db.root, v.files); err != nil {
			return err
		}
		for _, f := range v.files {
			if err := db.verify(strings.TrimPrefix(f, db.root+string(filepath.Separator))); err != nil {
				return err
			}
		}
	}
	return db.create(ctx, conn, missing)
}

// create creates views, all or none.
func (db *DB) create(ctx context.Context, conn *sql.Conn, missing []view) error {
	if len(missing) == 0 {
		return nil
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := createViews(ctx, conn, missing); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, v := range missing {
		db.created[v.name] = true
	}
	return nil
}

// closure returns the views of the given names and those that they read, directly or not, in an order in
// which they can be created.
func (db *DB) closure(names []string) []view {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var found []view
	for _, v := range slices.Backward(db.views) { // a view reads only views before it
		if wanted[v.name] {
			found = append(found, v)
			for _, name := range v.needs {
				wanted[name] = true
			}
		}
	}
	slices.Reverse(found)
	return found
}

// viewNames returns the names of all views.
func (db *DB) viewNames() []string {
	names := make([]string, len(db.views))
	for i, v := range db.views {
		names[i] = v.name
	}
	return names
}
