package queries

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	duckdb "github.com/marcboeker/go-duckdb/v2"
)

// ErrRefused is wrapped by every error for a statement that may not run, as opposed to one that is
// wrong or fails.
var ErrRefused = errors.New("refused: only a single SELECT that reads the lake may run")

// Statement type SELECT and allowed_directories are not enough; both holes were found by trying
// (DuckDB 1.4.1):
//
//   - Table functions with side effects are SELECTs: FROM enable_logging(storage = 'file', …)
//     writes files, inside the lake at least, in spite of lock_configuration.
//   - allowed_directories compares paths as texts, and LAKE/./x/../../secret gets past it.
//
// So a statement's parse tree is read too, as DuckDB's own parser gives it (json_serialize_sql).

// plainFunctions are the table functions that touch no file.
var plainFunctions = set(
	"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
	"duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types",
	"duckdb_views", "pragma_table_info", "pragma_version",
)

// fileFunctions are the table functions whose first argument is a path or a list of paths, and
// that only read.
var fileFunctions = set(
	"read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema", "parquet_file_metadata",
	"parquet_kv_metadata", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
	"read_json_objects", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_text",
	"read_blob", "glob",
)

// relationMacros are the catalog's table macros, whose first argument is the name of a relation.
var relationMacros = set("percentiles", "percentiles_and_whole")

// deniedScalars are the scalar functions that reach beyond their arguments: json_serialize_plan
// binds (and so opens files of) a statement it gets as text, write_log and nextval change state.
var deniedScalars = set("json_serialize_plan", "json_execute_serialized_sql", "write_log", "nextval")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// judge returns an error unless the text is one statement, of type SELECT, that reads nothing but
// the lake. It runs nothing of it.
func (db *DB) judge(ctx context.Context, conn *sql.Conn, text string) error {
	if strings.ContainsRune(text, 0) {
		// DuckDB's interface ends a text at a zero byte; what is judged must be what runs.
		return fmt.Errorf("%w: the text has a zero byte", ErrRefused)
	}
	// The tree comes first, because preparing a statement opens the files it reads.
	var tree string
	err := conn.QueryRowContext(ctx, "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR)) AS VARCHAR)", text).Scan(&tree)
	if err != nil {
		return fmt.Errorf("read the statement: %w", err)
	}
	if err := db.judgeTree(tree); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		preparer, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("unknown driver connection %T", c)
		}
		// Prepare without a context fails for several statements; PrepareContext would run all
		// but the last of them.
		prepared, err := preparer.Prepare(text)
		if err != nil {
			return err
		}
		defer func() { _ = prepared.Close() }()
		stmt, ok := prepared.(*duckdb.Stmt)
		if !ok {
			return fmt.Errorf("unknown driver statement %T", prepared)
		}
		kind, err := stmt.StatementType()
		if err != nil {
			return err
		}
		if kind != duckdb.STATEMENT_TYPE_SELECT {
			return fmt.Errorf("%w; DuckDB's statement type of this is %d, not SELECT", ErrRefused, kind)
		}
		if stmt.NumInput() != 0 {
			return errors.New("the statement has parameters, and there is nothing to fill them with: write the values")
		}
		return nil
	})
}

// judgeTree judges a statement by the answer of json_serialize_sql.
func (db *DB) judgeTree(tree string) error {
	var answer struct {
		Error      bool   `json:"error"`
		Type       string `json:"error_type"`
		Message    string `json:"error_message"`
		Statements []any  `json:"statements"`
	}
	decoder := json.NewDecoder(strings.NewReader(tree))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		return fmt.Errorf("%w: its parse tree cannot be read: %w", ErrRefused, err)
	}
	if answer.Error {
		if answer.Type == "not implemented" {
			return fmt.Errorf("%w (a PIVOT needs its values: PIVOT … ON column IN (…))", ErrRefused)
		}
		return fmt.Errorf("%s error: %s", answer.Type, answer.Message)
	}
	if len(answer.Statements) != 1 {
		return fmt.Errorf("%w; these are %d statements", ErrRefused, len(answer.Statements))
	}
	return db.judgeNode(answer.Statements[0])
}

// judgeNode walks every object of a parse tree, whatever it is part of: a kind of node that a
// later DuckDB adds is walked too.
func (db *DB) judgeNode(node any) error {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			if err := db.judgeNode(child); err != nil {
				return err
			}
		}
	case map[string]any:
		switch n["type"] {
		case "TABLE_FUNCTION":
			if err := db.judgeTableFunction(n); err != nil {
				return err
			}
		case "BASE_TABLE":
			// FROM 'file' is a table name to the parser; DuckDB joins a qualified one with dots
			// before it looks for a file.
			var parts []string
			for _, key := range []string{"catalog_name", "schema_name", "table_name"} {
				if part, _ := n[key].(string); part != "" {
					parts = append(parts, part)
				}
			}
			if name := strings.Join(parts, "."); strings.ContainsAny(name, `/\:`) {
				if err := db.judgePath(name); err != nil {
					return err
				}
			}
		case "FUNCTION":
			if name := functionName(n); deniedScalars[name] {
				return fmt.Errorf("%w; function %s is not allowed", ErrRefused, name)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(n)) { // sorted: always the same error first
			if err := db.judgeNode(n[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func functionName(function map[string]any) string {
	name, _ := function["function_name"].(string)
	return strings.ToLower(name)
}

func (db *DB) judgeTableFunction(n map[string]any) error {
	function, _ := n["function"].(map[string]any)
	name := functionName(function)
	if plainFunctions[name] {
		return nil
	}
	arguments, _ := function["children"].([]any)
	if relationMacros[name] {
		return judgeRelation(name, arguments)
	}
	if !fileFunctions[name] {
		return fmt.Errorf("%w; table function %q is not allowed", ErrRefused, name)
	}
	if len(arguments) == 0 {
		return fmt.Errorf("%w; %s needs a path", ErrRefused, name)
	}
	return db.judgePathArgument(name, arguments[0])
}

// judgeRelation accepts a macro's relation if it is a plain name: any other could be a file's.
func judgeRelation(macro string, arguments []any) error {
	if len(arguments) > 0 {
		a, _ := arguments[0].(map[string]any)
		switch a["type"] {
		case "COLUMN_REF":
			names, _ := a["column_names"].([]any)
			if len(names) == 1 && plainRelation(names[0]) {
				return nil
			}
		case "VALUE_CONSTANT":
			if value, _ := a["value"].(map[string]any); plainRelation(value["value"]) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w; the relation of %s must be the name of a view, or of one in WITH, of letters, digits and _", ErrRefused, macro)
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func plainRelation(name any) bool {
	text, _ := name.(string)
	return plainName.MatchString(text)
}

// judgePathArgument accepts a text literal or a list of them: a path that is computed cannot be
// judged before it is too late.
func (db *DB) judgePathArgument(function string, argument any) error {
	a, _ := argument.(map[string]any)
	switch a["type"] {
	case "VALUE_CONSTANT":
		value, _ := a["value"].(map[string]any)
		if path, ok := value["value"].(string); ok {
			return db.judgePath(path)
		}
	case "FUNCTION":
		if functionName(a) == "list_value" {
			paths, _ := a["children"].([]any)
			for _, path := range paths {
				if p, _ := path.(map[string]any); p["type"] != "VALUE_CONSTANT" {
					return fmt.Errorf("%w; the paths of %s must be written out", ErrRefused, function)
				}
				if err := db.judgePathArgument(function, path); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fmt.Errorf("%w; the path of %s must be written out as a text or a list of texts", ErrRefused, function)
}

// judgePath accepts clean absolute paths below the lake; they may have the wildcards * and ?.
func (db *DB) judgePath(path string) error {
	inside := strings.HasPrefix(path, db.lake+string(filepath.Separator))
	if !inside || filepath.Clean(path) != path || strings.ContainsAny(path, `[]\`) {
		return fmt.Errorf("%w; path %q is not a plain absolute path below %s", ErrRefused, path, db.lake)
	}
	return nil
}
