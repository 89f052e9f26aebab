package duckdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrRefused is wrapped by the error for a statement that may not run. Errors for a statement that is wrong or that
// fails do not wrap it.
var ErrRefused = errors.New("refused: only a single SELECT from views may run")

// Lock keeps a statement from all files but those that it lists. What else a SELECT can do is a matter of the functions
// that it calls (DuckDB 1.4.1: FROM enable_logging(storage = 'file', …) makes directories, arrow_scan reads any
// memory), so those that InspectSelect accepts are listed here.
var tableFunctions = []string{
	"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
	"duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types",
	"duckdb_views", "pragma_table_info", "pragma_version",
}

// acting are the scalar functions that do more than compute: the first two bind the statement in their argument, the
// others change state.
var acting = []string{"json_serialize_plan", "json_execute_serialized_sql", "write_log", "nextval", "setval"}

// A Select is what a SELECT reads, in lower case.
type Select struct {
	Relations map[string]bool // names of tables, views and table macros, without catalog and schema
	Defined   map[string]bool // names of its common table expressions
	Metadata  bool            // it lists or describes views (SHOW, DESCRIBE, duckdb_views(), …)
}

// InspectSelect returns what a text reads. It returns an error unless the text is one SELECT that calls no function
// with side effects. macros are table macros that it may call, whose first argument is the name of a relation. The
// text is parsed and not bound: no file is opened.
func InspectSelect(ctx context.Context, conn *sql.Conn, text string, macros ...string) (*Select, error) {
	if strings.ContainsRune(text, 0) {
		// DuckDB's C interface ends a text at a zero byte. The text that is checked must be the one that runs.
		return nil, fmt.Errorf("%w: the text has a zero byte", ErrRefused)
	}
	var data string
	err := conn.QueryRowContext(ctx, "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR)) AS VARCHAR)", text).Scan(&data)
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

// walk visits every object of a parse tree, whatever it is part of, in a fixed order. A kind of node that a later
// version of DuckDB adds is walked too.
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
			s.Relations[name], s.Relations[relationOf(arguments[0])] = true, true
		case !slices.Contains(tableFunctions, name):
			return fmt.Errorf("%w; table function %q is not allowed", ErrRefused, name)
		}
		s.Metadata = s.Metadata || strings.HasPrefix(name, "duckdb_") || strings.HasPrefix(name, "pragma_")
	case "BASE_TABLE": // FROM 'file' is a table name to the parser
		s.Relations[lower(n, "table_name")] = true
	case "SHOW_REF":
		s.Metadata = true
	case "FUNCTION":
		if name := lower(n, "function_name"); slices.Contains(acting, name) {
			return fmt.Errorf("%w; function %s is not allowed", ErrRefused, name)
		}
	}
	ctes, _ := n["cte_map"].(map[string]any)
	entries, _ := ctes["map"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		s.Defined[lower(entry, "key")] = true
	}
	return nil
}

// relationOf is the name in the argument of a table macro, a plain name or a string literal.
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
