package queries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Run answers a question. params overrides defaults by name; values are bound as parameters of a
// prepared statement, never spliced into it. Unknown names and bad values give errors that name
// the parameter. The caller closes the rows.
func (db *DB) Run(ctx context.Context, query Query, params map[string]string) (*Rows, error) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !query.hasParam(name) {
			var known []string
			for _, p := range query.Params {
				known = append(known, p.Name)
			}
			return nil, fmt.Errorf("query %s has no parameter %q; it has %s", query.Name, name, strings.Join(known, ", "))
		}
	}
	var args []any
	for _, p := range query.Params {
		text, given := params[p.Name]
		if !given {
			text = p.Default
		}
		value, err := p.value(text)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", query.Name, err)
		}
		args = append(args, sql.Named(p.Name, value))
	}
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query.Name, err)
	}
	rows, err := start(ctx, conn, query.SQL, args)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query.Name, err)
	}
	return rows, nil
}

// SQL runs the text if it is a single SELECT that reads nothing outside the lake; errors for
// anything else wrap ErrRefused. Tables and questions are views of their own names; files inside
// the lake can be read by absolute path. The caller closes the rows.
func (db *DB) SQL(ctx context.Context, text string) (*Rows, error) {
	if err := db.addQuestions(); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if err := db.judge(ctx, conn, text); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("query: %w", err)
	}
	rows, err := start(ctx, conn, text, nil)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	return rows, nil
}
