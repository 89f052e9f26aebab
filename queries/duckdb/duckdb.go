// Package duckdb opens in-memory DuckDB databases with limits on memory, threads and disk.
//
// Every DuckDB of this program comes from Open, or from Build if it is a file to write, so that limits and
// settings are in one place:
//
//	Open(ctx, Options)            memory limit, threads, spill directory, UTC; no extension is ever loaded
//	  │
//	  ├─ SQL of the program       read_parquet, COPY … TO
//	  │
//	  └─ Lock(ctx, db, paths…)    from here on, statements reach these files only, and settings are fixed
//	       └─ SQL of a user
//
// The memory limit bounds DuckDB's buffer manager. DuckDB does not count every allocation: values of type
// LIST and the state of some aggregates are outside the limit. Package queries/subprocess bounds those.
//
// The package also has helpers for code that writes SQL: literals, identifiers, paths without wildcards, and
// errors without the text of the statement.
package duckdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/marcboeker/go-duckdb/mapping"
	driver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/schema/names"
)

// MinMemoryBytes is the smallest memory limit that Open accepts. DuckDB pins several 256 KiB blocks
// for each thread and column; with less memory, simple questions fail.
const MinMemoryBytes = 64 << 20

// Options are the limits of a database.
type Options struct {
	// MemoryBytes limits DuckDB's buffer manager. 0 is DuckDB's default, 80% of the memory of the machine.
	MemoryBytes int64
	// Threads is the number of worker threads. 0 is DuckDB's default, one for each core.
	Threads int
	// SpillDir is where operators that exceed the memory limit write temporary files. If it is empty,
	// nothing is ever written, and such a statement fails with an error that IsOutOfMemory reports.
	SpillDir string
}

// check returns an error for limits that DuckDB cannot keep.
func (o Options) check() error {
	if o.MemoryBytes != 0 && o.MemoryBytes < MinMemoryBytes {
		return fmt.Errorf("memory limit of %d bytes: must be at least %d MiB", o.MemoryBytes, MinMemoryBytes>>20)
	}
	if o.Threads < 0 {
		return fmt.Errorf("%d threads: must be at least 1, or 0 for one per core", o.Threads)
	}
	return nil
}

// settings returns the statements that apply the limits.
func (o Options) settings() []string {
	settings := []string{
		"SET GLOBAL autoinstall_known_extensions = false",
		"SET GLOBAL autoload_known_extensions = false",
		"SET GLOBAL allow_community_extensions = false",
		"SET GLOBAL temp_directory = " + Quote(o.SpillDir),
		// Casts between times with and without a zone use these. By default they depend on TZ and on the locale.
		"SET GLOBAL TimeZone = 'UTC'",
		"SET GLOBAL Calendar = 'gregorian'",
	}
	if o.MemoryBytes != 0 {
		settings = append(settings, fmt.Sprintf("SET GLOBAL memory_limit = '%d KiB'", o.MemoryBytes>>10))
	}
	if o.Threads != 0 {
		settings = append(settings, fmt.Sprintf("SET GLOBAL threads = %d", o.Threads))
	}
	return settings
}

// Open opens an empty in-memory database with the limits set. It installs and loads no extension.
// The caller closes the database.
func Open(ctx context.Context, o Options) (_ *sql.DB, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector("", nil)
	if err != nil {
		return nil, fmt.Errorf("open DuckDB: %w", err)
	}
	db := sql.OpenDB(connector)
	if _, err := db.ExecContext(ctx, strings.Join(o.settings(), "; ")); err != nil {
		return nil, errors.Join(fmt.Errorf("open DuckDB: %w", FirstLine(err)), db.Close())
	}
	return db, nil
}

// A Runner runs statements that have no answer, separated by semicolons.
type Runner func(statements string) error

// RunnerOf returns a Runner that runs statements on a connection.
func RunnerOf(ctx context.Context, conn *sql.Conn) Runner {
	return func(statements string) error {
		_, err := conn.ExecContext(ctx, statements)
		return err
	}
}

// Build creates a database file with statements. They run on one thread and are not prepared. Package
// database/sql wakes a thread for each statement, with which hundreds of small statements take 1.5 times as
// long.
func Build(path string, statements func(run Runner) error) error {
	var db mapping.Database
	var conn mapping.Connection
	if mapping.Open(path, &db) == mapping.StateError || mapping.Connect(db, &conn) == mapping.StateError {
		mapping.Close(&db)
		return fmt.Errorf("DuckDB cannot make %s", path)
	}
	defer mapping.Close(&db)
	defer mapping.Disconnect(&conn)
	run := func(statements string) error {
		var result mapping.Result
		defer mapping.DestroyResult(&result)
		if mapping.Query(conn, statements, &result) == mapping.StateError {
			return errors.New(mapping.ResultError(&result))
		}
		return nil
	}
	if err := run(strings.Join(Options{Threads: 1}.settings(), "; ")); err != nil {
		return err
	}
	return statements(run)
}

// Lock restricts the database permanently and for all connections. Statements reach the files of the given
// absolute paths and the spill directory only. They install and load nothing, and change no setting. DuckDB
// compares whole paths with allowed_paths, so that they cannot be bypassed; the path DIR/./x/../../secret
// passes allowed_directories (DuckDB 1.4.1).
func Lock(ctx context.Context, db *sql.DB, paths ...string) error {
	_, err := db.ExecContext(ctx, "SET GLOBAL allowed_paths = ["+quoteList(paths)+"]; "+
		"SET GLOBAL enable_external_access = false; "+
		"SET GLOBAL lock_configuration = true") // last: nothing can be set after it
	if err != nil {
		return fmt.Errorf("lock DuckDB: %w", FirstLine(err))
	}
	return nil
}

func quoteList(texts []string) string { return strings.Join(names.Of(texts, Quote), ", ") }

// shortError is an error of DuckDB without the statement's text. It unwraps to the full error.
type shortError struct {
	line string
	err  error
}

func (e *shortError) Error() string { return e.line }
func (e *shortError) Unwrap() error { return e.err }

// FirstLine returns an error with the first line of the message of err, or nil if err is nil. The other lines
// of DuckDB's messages quote the statement, which means nothing to a user who did not write it.
func FirstLine(err error) error {
	if err == nil {
		return nil
	}
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return &shortError{line, err}
}

// IsOutOfMemory reports whether a statement failed because it needs more than the memory limit.
func IsOutOfMemory(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Type == driver.ErrorTypeOutOfMemory || strings.Contains(e.Msg, "bad_alloc"))
}

// OrCause returns the cause of the context's end if err is not nil and the context has ended, and err
// otherwise. DuckDB reports an interrupted statement in several ways.
func OrCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Each calls do for every row of an answer. It returns an error of DuckDB as FirstLine does, or the cause of
// the context's end.
func Each(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, do func(rows *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return FirstLine(OrCause(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return FirstLine(OrCause(ctx, rows.Err()))
}

// WithExpressions returns a SELECT with more common table expressions, before its own ones.
func WithExpressions(text string, expressions ...string) string {
	if expressions == nil {
		return text
	}
	text = strings.TrimSpace(text)
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
		text = strings.TrimSpace(text)
	}
	own, found := strings.CutPrefix(text, "WITH ")
	if !found {
		return "WITH " + strings.Join(expressions, ", ") + "\n" + text
	}
	recursive, found := strings.CutPrefix(own, "RECURSIVE ")
	if found {
		return "WITH RECURSIVE " + strings.Join(expressions, ", ") + ", " + recursive
	}
	return "WITH " + strings.Join(expressions, ", ") + ", " + own
}

// PlanOnce returns a SELECT with a parameter, and the value of the parameter. DuckDB plans it once. It plans
// one without parameters twice if it reads files: when the driver prepares it, and when it runs. A table
// function cannot be planned before its parameter has a value, so the preparation ends at once.
func PlanOnce(text string) (once string, value any) {
	return WithExpressions(text, "planned_once AS NOT MATERIALIZED (FROM range(?))"), 0
}

// Quote returns the text as an SQL string literal.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Ident returns the name as a quoted SQL identifier.
func Ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

var globEscapes = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

// EscapeGlob returns a path that DuckDB's file functions read literally, not as a pattern.
func EscapeGlob(path string) string { return globEscapes.Replace(path) }

// Subquery returns a table function call that yields the answer of one SELECT. The text may end with
// semicolons and comments: DuckDB's parser finds the end of the statement.
func Subquery(text string) string { return "query(" + Quote(text) + ")" }

// ScanParquet returns a table function call that reads the files and adds no columns from their paths.
func ScanParquet(files ...string) string {
	return "read_parquet([" + quoteList(names.Of(files, EscapeGlob)) + "], hive_partitioning = false)"
}

// ScanParquetIn is ScanParquet for paths that a macro with a list as its parameter completes.
func ScanParquetIn(macro string, files ...string) string {
	list := quoteList(names.Of(files, EscapeGlob))
	return "read_parquet(" + macro + "([" + list + "]), hive_partitioning = false)"
}

// LimitProcess bounds, on Linux, how much memory this process may allocate beyond what it has now: the memory
// limit plus Allowance. undo restores the former limit; there can be one limit at a time. Without a memory
// limit, LimitProcess does nothing.
//
// DuckDB does not count all of its allocations: SELECT len(range(2000000000)) passes any limit of the buffer
// manager. With this limit, such a statement fails with an error that IsOutOfMemory reports. A failed
// allocation outside of DuckDB ends the process.
func (o Options) LimitProcess() (undo func() error, err error) {
	if o.MemoryBytes == 0 {
		return func() error { return nil }, nil
	}
	undo, err = limitData(o.MemoryBytes + o.Allowance())
	if err != nil {
		return nil, fmt.Errorf("limit the memory of the process: %w", err)
	}
	return undo, nil
}

// limitData limits the memory of the process to more bytes beyond what it has now, until undo. It sets
// RLIMIT_DATA, which counts private writable memory. RLIMIT_AS would also count address space that Go's
// runtime and malloc reserve and never use. A lower limit stays. Without /proc, DuckDB's own limit is the
// only one.
func limitData(more int64) (undo func() error, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	_, text, _ := strings.Cut(string(status), "\nVmData:")
	var now int64 // KiB
	if _, scanErr := fmt.Sscan(text, &now); err == nil && scanErr != nil {
		err = fmt.Errorf("/proc/self/status, VmData: %w", scanErr)
	}
	if err != nil {
		return nil, err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &was); err != nil {
		return nil, err
	}
	limit := was
	limit.Cur = min(limit.Cur, limit.Max, uint64(now<<10+more))
	undo = func() error { return syscall.Setrlimit(syscall.RLIMIT_DATA, &was) }
	return undo, syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

// Allowance returns how much memory the process may have beyond DuckDB's limit. It is for Go's heap, the code
// and data of the program, the allocations that DuckDB does not count in an ordinary query, and the stacks
// and malloc arenas of the threads.
func (o Options) Allowance() int64 {
	threads := o.Threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	return 192<<20 + int64(threads)*(16<<20)
}

// ErrRefused is wrapped by errors for statements that may not run. Errors for malformed or failed statements
// do not wrap it.
var ErrRefused = errors.New("refused: only a single SELECT from views may run")

// tableFunctions are the table functions that InspectSelect accepts. Lock protects files only. In DuckDB
// 1.4.1, FROM enable_logging(storage = 'file', …) creates directories, and arrow_scan reads any memory.
var tableFunctions = []string{
	"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
	"duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types",
	"duckdb_views", "pragma_table_info", "pragma_version",
}

// acting are the scalar functions with side effects. The first two bind the statement in their argument, the
// others change state.
var acting = []string{"json_serialize_plan", "json_execute_serialized_sql", "write_log", "nextval", "setval"}

// A Select lists what a SELECT reads. Names are in lower case.
type Select struct {
	Relations map[string]bool // names of tables, views and table macros, without catalog and schema
	Defined   map[string]bool // names of its common table expressions
	Metadata  bool            // set if it lists or describes views (SHOW, DESCRIBE, duckdb_views(), …)
}

// InspectSelect returns what a statement reads. It returns an error unless the text is one SELECT that calls
// no function with side effects. macros are the table macros that it may call; their first argument is the
// name of a relation. The text is parsed but not bound, so that no file is opened.
func InspectSelect(ctx context.Context, conn *sql.Conn, text string, macros ...string) (*Select, error) {
	if strings.ContainsRune(text, 0) {
		// DuckDB's C interface ends a text at a zero byte. It would run another text than the one that is checked.
		return nil, fmt.Errorf("%w: the text has a zero byte", ErrRefused)
	}
	var data string
	err := conn.QueryRowContext(ctx, "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR)) AS VARCHAR)",
		text).Scan(&data)
	if err != nil {
		return nil, fmt.Errorf("parse the statement: %w", FirstLine(err))
	}
	var tree struct {
		Error      bool   `json:"error"`
		Type       string `json:"error_type"`
		Message    string `json:"error_message"`
		Statements []any  `json:"statements"`
	}
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.UseNumber()
	switch err := decoder.Decode(&tree); {
	case err != nil:
		return nil, fmt.Errorf("%w: its parse tree cannot be read: %w", ErrRefused, err)
	case tree.Error && tree.Type == "not implemented":
		return nil, fmt.Errorf("%w (a PIVOT needs its values: PIVOT … ON column IN (…))", ErrRefused)
	case tree.Error:
		return nil, fmt.Errorf("%s error: %s", tree.Type, tree.Message)
	case len(tree.Statements) != 1:
		return nil, fmt.Errorf("%w; these are %d statements", ErrRefused, len(tree.Statements))
	}
	s := &Select{Relations: map[string]bool{}, Defined: map[string]bool{}}
	return s, s.walk(tree.Statements[0], macros)
}

// walk visits every object of a parse tree in a fixed order, including nodes of unknown kinds, which a later
// version of DuckDB may add.
func (s *Select) walk(node any, macros []string) error {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			if err := s.walk(child, macros); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := s.visit(n, macros); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(n)) {
			if err := s.walk(n[key], macros); err != nil {
				return err
			}
		}
	}
	return nil
}

// visit checks one object of the parse tree.
func (s *Select) visit(n map[string]any, macros []string) error {
	switch n["type"] {
	case "TABLE_FUNCTION":
		f, _ := n["function"].(map[string]any)
		name := lower(f, "function_name")
		arguments, _ := f["children"].([]any)
		switch {
		case slices.Contains(macros, name) && len(arguments) > 0:
			s.Relations[name] = true
			s.Relations[relationOf(arguments[0])] = true
		case !slices.Contains(tableFunctions, name):
			return fmt.Errorf("%w; table function %q is not allowed", ErrRefused, name)
		}
		s.Metadata = s.Metadata || strings.HasPrefix(name, "duckdb_") || strings.HasPrefix(name, "pragma_")
	case "BASE_TABLE": // FROM 'file' is a table name to the parser
		s.Relations[lower(n, "table_name")] = true
	case "SHOW_REF":
		s.Metadata = true
	case "FUNCTION":
		name := lower(n, "function_name")
		if slices.Contains(acting, name) {
			return fmt.Errorf("%w; function %s is not allowed", ErrRefused, name)
		}
	case "OPERATOR_TRY":
		return fmt.Errorf("%w; TRY is not allowed, because DuckDB 1.4 writes outside its memory if a row "+
			"fails in it (duckdb/duckdb#25280): TRY_CAST is safe, and CAST(x AS HUGEINT) avoids an overflow",
			ErrRefused)
	}
	ctes, _ := n["cte_map"].(map[string]any)
	entries, _ := ctes["map"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		s.Defined[lower(entry, "key")] = true
	}
	return nil
}

// relationOf returns the name in the argument of a table macro, which is a plain name or a string literal.
func relationOf(argument any) string {
	a, _ := argument.(map[string]any)
	if names, _ := a["column_names"].([]any); len(names) == 1 {
		name, _ := names[0].(string)
		return strings.ToLower(name)
	}
	value, _ := a["value"].(map[string]any)
	return lower(value, "value")
}

func lower(n map[string]any, key string) string {
	text, _ := n[key].(string)
	return strings.ToLower(text)
}
