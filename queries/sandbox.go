package queries

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
)

// ErrRefused is wrapped by every error for a statement that may not run. Errors for a statement that is
// wrong or that fails do not wrap it.
var ErrRefused = errors.New("refused: only a single SELECT that reads the lake may run")

// Statement type SELECT and DuckDB's allowed_directories do not suffice. Two ways out were found by
// trying (DuckDB 1.4.1):
//
//   - Table functions with side effects are SELECTs: FROM enable_logging(storage = 'file', …)
//     writes files, at least inside the lake, in spite of lock_configuration.
//   - allowed_directories compares paths as strings, and LAKE/./x/../../secret passes.
//
// Therefore checkStatement also reads the parse tree of a statement, which DuckDB's own parser returns
// (json_serialize_sql), and accepts only what is listed below.

// plainFunctions are table functions that open no file.
var plainFunctions = set(
	"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
	"duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types",
	"duckdb_views", "pragma_table_info", "pragma_version",
)

// fileFunctions are table functions that only read, and whose first argument is a path or a list of paths.
var fileFunctions = set(
	"read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema", "parquet_file_metadata",
	"parquet_kv_metadata", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
	"read_json_objects", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text",
	"read_blob", "glob",
)

// relationMacros are the table macros of the catalog. Their first argument is the name of a relation.
var relationMacros = set("percentiles", "percentiles_and_whole")

// deniedScalars are scalar functions that do more than compute: json_serialize_plan binds the statement in its
// argument, and so opens files; write_log and nextval change state.
var deniedScalars = set("json_serialize_plan", "json_execute_serialized_sql", "write_log", "nextval")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// checkTree returns what the statement reads, or an error unless it is one statement that reads nothing but the
// lake. It parses the text and does not bind it: no file is opened.
func checkTree(ctx context.Context, conn *sql.Conn, lake, text string) (*statement, error) {
	if strings.ContainsRune(text, 0) {
		// DuckDB's C interface ends a text at a zero byte. The text that is checked must be the one that runs.
		return nil, fmt.Errorf("%w: the text has a zero byte", ErrRefused)
	}
	answer, err := duckdb.Parse(ctx, conn, text)
	if errors.Is(err, duckdb.ErrParseTree) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, err
	}
	if answer.Error {
		if answer.Type == "not implemented" {
			return nil, fmt.Errorf("%w (a PIVOT needs its values: PIVOT … ON column IN (…))", ErrRefused)
		}
		return nil, fmt.Errorf("%s error: %s", answer.Type, answer.Message)
	}
	if len(answer.Statements) != 1 {
		return nil, fmt.Errorf("%w; these are %d statements", ErrRefused, len(answer.Statements))
	}
	s := &statement{lake: lake, relations: map[string]bool{}, defined: map[string]bool{}}
	return s, s.walk(answer.Statements[0])
}

// checkType returns an error unless DuckDB's type of the statement is SELECT. It binds the statement, and
// so opens the files that it reads, but does not run it.
func checkType(conn *sql.Conn, text string) error {
	return conn.Raw(func(c any) error {
		preparer, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("unknown driver connection %T", c)
		}
		// Prepare without a context fails for several statements. PrepareContext would run all but the last.
		prepared, err := preparer.Prepare(text)
		if err != nil {
			return err
		}
		defer func() { _ = prepared.Close() }()
		stmt, ok := prepared.(*duckdriver.Stmt)
		if !ok {
			return fmt.Errorf("unknown driver statement %T", prepared)
		}
		kind, err := stmt.StatementType()
		if err != nil {
			return err
		}
		if kind != duckdriver.STATEMENT_TYPE_SELECT {
			return fmt.Errorf("%w; DuckDB's statement type of this is %d, not SELECT", ErrRefused, kind)
		}
		if stmt.NumInput() != 0 {
			return errors.New("the statement has parameters, which have no values here: write the values")
		}
		return nil
	})
}
