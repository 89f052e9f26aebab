package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	duckdb "github.com/marcboeker/go-duckdb/v2"
)

// Options bound what queries may use. The zero value leaves the bounds to DuckDB.
type Options struct {
	MemoryLimit string // as DuckDB writes it, e.g. 1GB; empty for 80% of the machine's memory
	Threads     int    // 0 for all cores
	// TempDir is where a query that outgrows the memory limit spills. Empty means nowhere: such a
	// query fails with DuckDB's out-of-memory error, and nothing at all is ever written.
	TempDir string
}

// DB answers questions about one lake. It is safe for concurrent use.
type DB struct {
	lake string // absolute, links resolved
	sql  *sql.DB
	// addQuestions creates the views of the questions, once: they take DuckDB 0.02 s each to
	// understand, and only SQL of someone's own needs them.
	addQuestions func() error
}

// Open opens a lake for reading. The database is in memory and holds the views of the catalog (the
// file LAKE/parsimon.duckdb is not needed); then it is locked: nothing outside the lake can be
// read, no extension loaded, no setting changed. Scenarios committed later are seen, except in
// tables that had no file at all.
//
// Errors: the lake is missing, is not a directory, holds no table, has a symbolic link that leads
// outside, has a path that CheckLakePath refuses, or keeps to
// another version of the schema; an option DuckDB refuses.
func Open(lake string, opt Options) (_ *DB, err error) {
	root, err := lakeRoot(lake)
	if err != nil {
		return nil, err
	}
	if err := CheckLakePath(root); err != nil {
		return nil, err
	}
	if err := checkLinks(root); err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	all, err := views(root, root+string(filepath.Separator))
	if err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	if !anyTable(all) {
		return nil, fmt.Errorf("lake %s holds no tables yet: make some with `parsimon run … --lake %s`", lake, lake)
	}
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("open DuckDB: %w", err)
	}
	db := &DB{lake: root, sql: sql.OpenDB(connector)}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	ctx := context.Background()
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open DuckDB: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	settings := []string{
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET temp_directory = " + quote(opt.TempDir),
	}
	if opt.MemoryLimit != "" {
		settings = append(settings, "SET memory_limit = "+quote(opt.MemoryLimit))
	}
	if opt.Threads != 0 {
		settings = append(settings, fmt.Sprintf("SET threads = %d", opt.Threads))
	}
	for _, s := range settings {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("open lake %s: %s: %w", lake, s, err)
		}
	}
	if err := checkVersions(ctx, conn, root); err != nil {
		return nil, fmt.Errorf("open lake %s: %w", lake, err)
	}
	if err := createMacros(ctx, conn); err != nil {
		return nil, fmt.Errorf("open lake %s: %w", lake, err)
	}
	tables, questions := all[:len(all)-len(List())], all[len(all)-len(List()):]
	if err := createViews(ctx, conn, tables); err != nil {
		return nil, fmt.Errorf("open lake %s: %w", lake, err)
	}
	db.addQuestions = sync.OnceValue(func() error {
		conn, err := db.sql.Conn(ctx)
		if err == nil {
			err = errors.Join(createViews(ctx, conn, questions), conn.Close())
		}
		if err != nil {
			return fmt.Errorf("lake %s: %w", lake, err)
		}
		return nil
	})
	for _, s := range []string{
		"SET allowed_directories = [" + quote(root) + "]",
		"SET enable_external_access = false",
		"SET lock_configuration = true", // the last: nothing can be set after it
	} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("lock lake %s: %s: %w", lake, s, err)
		}
	}
	return db, nil
}

// Close frees the database. Rows still open become unusable.
func (db *DB) Close() error { return db.sql.Close() }

func anyTable(all []view) bool {
	for _, v := range all {
		if strings.Contains(v.sql, "read_parquet") {
			return true
		}
	}
	return false
}

// CheckLakePath refuses a lake, which need not exist yet, whose absolute path, links resolved, has
// characters that DuckDB does not take for themselves: * ? [ ] \ make a pattern, a comma a list of
// paths, % starts an escape, and control characters and broken UTF-8 spoil what SQL names files by.
func CheckLakePath(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("lake %s: %w", dir, err)
	}
	// What exists may be reached by a link; what does not is no link.
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return fmt.Errorf("lake %s: %w", dir, err)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
	if !utf8.ValidString(path) {
		return fmt.Errorf("lake %q: its path %q must be UTF-8, or DuckDB cannot read it", dir, path)
	}
	for _, c := range path {
		if strings.ContainsRune(`*?[]\,%`, c) || unicode.IsControl(c) {
			return fmt.Errorf(`lake %q: its path %q must not have the character %q: DuckDB takes * ? [ ] \ , %% for patterns, lists and escapes, and bears no control characters`, dir, path, c)
		}
	}
	return nil
}

// lakeRoot is the lake's absolute path with its links resolved.
func lakeRoot(lake string) (string, error) {
	root, err := filepath.Abs(lake)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no lake at %s: no such directory", lake)
	}
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("lake %s is not a directory", lake)
	}
	return root, nil
}

// checkLinks refuses symbolic links that lead outside: DuckDB compares paths as texts and would
// follow them. Links within the lake are fine. (A link made while a database is open is not seen:
// who can write into the lake can read what the lake's owner reads anyway.)
func checkLinks(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that was there a moment ago
		}
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // leads nowhere
		}
		if err != nil {
			return err
		}
		if target != root && !strings.HasPrefix(target, root+string(filepath.Separator)) {
			return fmt.Errorf("%s is a symbolic link that leads out of the lake, to %s; queries may read nothing there: move the files into the lake", path, target)
		}
		return nil
	})
}
