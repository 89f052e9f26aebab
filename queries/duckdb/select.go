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

// computing are the table functions that open no file and have no side effect.
var computing = []string{"unnest", "range", "generate_series"}

// acting are the scalar functions that do more than compute: the first two bind the statement in their argument, and so
// open files; the others change state.
var acting = []string{"json_serialize_plan", "json_execute_serialized_sql", "write_log", "nextval", "setval"}

// CheckSelect returns an error unless text is one SELECT that reads nothing but the given relations and its own common
// table expressions, and calls no function that opens a file or has a side effect. It parses the text and does not bind
// it. The statement type SELECT alone does not suffice: FROM read_text('…') and FROM enable_logging(…) are SELECTs.
func CheckSelect(ctx context.Context, conn *sql.Conn, text string, relations ...string) error {
	if strings.ContainsRune(text, 0) { // DuckDB's C interface ends a text there
		return errors.New("the statement has a zero byte")
	}
	tree, err := Parse(ctx, conn, text)
	switch {
	case err != nil:
		return FirstLine(err)
	case tree.Error:
		return errors.New(tree.Message)
	case len(tree.Statements) != 1:
		return fmt.Errorf("want one SELECT, got %d statements", len(tree.Statements))
	}
	check := selectCheck{relations: slices.Clone(relations)}
	check.defineAll(tree.Statements[0])
	return check.all(tree.Statements[0])
}

// A ParseTree is what DuckDB's own parser makes of a text. If Error is set, Type and Message say why it makes nothing.
type ParseTree struct {
	Error      bool   `json:"error"`
	Type       string `json:"error_type"`
	Message    string `json:"error_message"`
	Statements []any  `json:"statements"`
}

// ErrParseTree is wrapped by the error for a parse tree that cannot be read.
var ErrParseTree = errors.New("its parse tree cannot be read")

// Parse returns the parse tree of a text. It does not bind it: no file is opened.
func Parse(ctx context.Context, conn *sql.Conn, text string) (*ParseTree, error) {
	var data string
	err := conn.QueryRowContext(ctx, "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR)) AS VARCHAR)", text).Scan(&data)
	if err != nil {
		return nil, fmt.Errorf("parse the statement: %w", err)
	}
	var tree ParseTree
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParseTree, err)
	}
	return &tree, nil
}

// A selectCheck walks a parse tree, every object of it whatever it is part of.
type selectCheck struct{ relations []string }

// defineAll adds the common table expressions to the relations.
func (c *selectCheck) defineAll(node any) {
	each(node, func(child any) { c.defineAll(child) })
	n, _ := node.(map[string]any)
	ctes, _ := n["cte_map"].(map[string]any)
	entries, _ := ctes["map"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if name, ok := entry["key"].(string); ok {
			c.relations = append(c.relations, name)
		}
	}
}

func (c *selectCheck) all(node any) (err error) {
	if n, ok := node.(map[string]any); ok {
		err = c.one(n)
	}
	each(node, func(child any) {
		if err == nil {
			err = c.all(child)
		}
	})
	return err
}

func (c *selectCheck) one(n map[string]any) error {
	text := func(key string) string { s, _ := n[key].(string); return strings.ToLower(s) }
	switch n["type"] {
	case "TABLE_FUNCTION":
		f, _ := n["function"].(map[string]any)
		name, _ := f["function_name"].(string)
		if !slices.Contains(computing, strings.ToLower(name)) {
			return fmt.Errorf("table function %q is not allowed", name)
		}
	case "BASE_TABLE": // FROM 'file' is a table name to the parser
		known := slices.ContainsFunc(c.relations, func(r string) bool { return strings.EqualFold(r, text("table_name")) })
		if !known || text("schema_name") != "" || text("catalog_name") != "" {
			return fmt.Errorf("table %q is not allowed", n["table_name"])
		}
	case "SHOW_REF":
		return errors.New("SHOW and DESCRIBE are not allowed")
	case "FUNCTION":
		if slices.Contains(acting, text("function_name")) {
			return fmt.Errorf("function %s is not allowed", text("function_name"))
		}
	}
	return nil
}

// each calls do for the children of a node of a parse tree, in a fixed order.
func each(node any, do func(child any)) {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			do(child)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			do(n[key])
		}
	}
}
