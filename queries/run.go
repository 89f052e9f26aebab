package queries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// Run answers a question. params overrides the defaults of its parameters by name. Values are bound as
// parameters of a prepared statement. The caller closes the rows.
//
// Errors: a parameter that the question does not have, a value of the wrong type, or a scenario or variant that
// the lake does not have, with similar names; those of SQL.
func (db *DB) Run(ctx context.Context, query Query, params map[string]string) (*format.Rows, error) {
	args, err := query.bind(params)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query.Name, err)
	}
	if params["variant"] != "" {
		query = query.ofAllVariants()
	}
	if err := db.checkIDs(params); err != nil {
		return nil, fmt.Errorf("query %s: %w", query.Name, err)
	}
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query.Name, err)
	}
	failed := func(err error) error {
		return fmt.Errorf("query %s: %w", query.Name, duckdb.FirstLine(duckdb.OrCause(ctx, err)))
	}
	if err := db.require(ctx, conn, query.reads()); err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	return format.Query(ctx, conn, failed, query.SQL, args...)
}

// bind returns the values of all parameters of the question.
func (q Query) bind(params map[string]string) ([]any, error) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !q.hasParam(name) {
			var known []string
			for _, p := range q.Params {
				known = append(known, p.Name)
			}
			return nil, fmt.Errorf("no parameter %q; the parameters are %s", name, strings.Join(known, ", "))
		}
	}
	var args []any
	for _, p := range q.Params {
		text, given := params[p.Name]
		if !given {
			text = p.Default
		}
		value, err := p.value(text)
		if err != nil {
			return nil, err
		}
		args = append(args, sql.Named(p.Name, value))
	}
	return args, nil
}

// SQL runs the text if it is a single SELECT. Errors for any other text wrap ErrRefused. Tables and questions are
// views of their own names. DuckDB opens no file but the data files of the lake. The caller closes the rows.
func (db *DB) SQL(ctx context.Context, text string) (*format.Rows, error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error { return duckdb.OrCause(ctx, err) }
	if err := db.admit(ctx, conn, text); err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	return format.Query(ctx, conn, failed, text)
}

// admit checks a statement and creates the views that it reads.
func (db *DB) admit(ctx context.Context, conn *sql.Conn, text string) error {
	s, err := duckdb.InspectSelect(ctx, conn, text, relationMacros...)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(s.Relations))
	all := db.viewNames()
	unknown := func(name string) bool { return !s.Defined[name] && !slices.Contains(all, name) }
	create := names
	if s.Metadata || slices.ContainsFunc(names, unknown) { // the latter for DuckDB's "Did you mean"
		create = all
	}
	if err := db.require(ctx, conn, create); err != nil {
		return err
	}
	return checkType(conn, text)
}
