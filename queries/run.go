package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

// Text returns the SELECT of a question. params overrides the defaults of its parameters by name.
//
// Errors: a parameter that the question does not have, a value of the wrong type, or a scenario or variant that
// the lake does not have, with similar names.
func (db *DB) Text(query Query, params map[string]string) (string, error) {
	if params["variant"] != "" {
		query = query.ofAllVariants()
	}
	text, err := query.With(params)
	if err == nil {
		err = db.checkIDs(params)
	}
	if err != nil {
		return "", fmt.Errorf("query %s: %w", query.Name, err)
	}
	return text, nil
}

// Run answers a question. The caller closes the rows. Errors: those of Text and of SQL.
func (db *DB) Run(ctx context.Context, query Query, params map[string]string) (*format.Rows, error) {
	text, err := db.Text(query, params)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error {
		return fmt.Errorf("query %s: %w", query.Name, duckdb.FirstLine(duckdb.OrCause(ctx, err)))
	}
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, failed(err)
	}
	if err := db.require(ctx, conn, namesIn(text)); err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	return format.Query(ctx, conn, failed, text)
}

// With returns the SELECT of a question with values in place of its parameters: their defaults, but for params. Views
// cannot have parameters, nor can statements that write the answer.
func (q Query) With(params map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !q.hasParam(name) {
			var known []string
			for _, p := range q.Params {
				known = append(known, p.Name)
			}
			return "", fmt.Errorf("no parameter %q; the parameters are %s", name, strings.Join(known, ", "))
		}
	}
	literals := map[string]string{}
	for _, p := range q.Params {
		text, given := params[p.Name]
		if !given {
			text = p.Default
		}
		literal, err := p.literal(text)
		if err != nil {
			return "", err
		}
		literals["$"+p.Name] = literal
	}
	var err error
	text := paramUse.ReplaceAllStringFunc(q.SQL, func(use string) string {
		if _, declared := literals[use]; !declared {
			err = fmt.Errorf("%s is used but not declared", use)
		}
		return literals[use]
	})
	return text, err
}

// SQL runs the text if it is a single SELECT. Errors for any other text wrap ErrRefused. Tables and questions are
// views of their own names. DuckDB opens no file but the data files of the lake. The caller closes the rows.
func (db *DB) SQL(ctx context.Context, text string) (*format.Rows, error) {
	conn, err := db.admitted(ctx, text)
	if err != nil {
		return nil, err
	}
	return format.Query(ctx, conn, func(err error) error { return duckdb.OrCause(ctx, err) }, text)
}

// Write writes the answer of a text that SQL would run, in one of format.Names, to Options.Output. It returns the
// number of rows.
func (db *DB) Write(ctx context.Context, text, form string) (rows int64, err error) {
	conn, err := db.admitted(ctx, text)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // of the pool
	if form != "table" {
		rows, err = format.Copy(ctx, conn, text, form, db.output)
		return rows, duckdb.OrCause(ctx, err)
	}
	out, err := os.OpenFile(db.output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return 0, err
	}
	rows, err = format.Table(ctx, conn, text, out)
	return rows, errors.Join(duckdb.OrCause(ctx, err), out.Close())
}

// widest are the values of parameters that leave out no rows, but for those of type text: there it is the empty one.
var widest = map[string]string{"min_flows": "1", "from_ns": "0", "to_ns": strconv.Itoa(math.MaxInt64)}

// Emptied explains the empty answer of a question: it names a parameter without whose value there are rows, or all such
// parameters if it takes several. It is empty if the parameters are not the reason.
func (db *DB) Emptied(ctx context.Context, q Query, params map[string]string) (string, error) {
	type try struct {
		without string
		params  map[string]string
	}
	var tries []try
	all := try{"", map[string]string{}}
	maps.Copy(all.params, params)
	for _, p := range q.Params {
		wide, known := widest[p.Name]
		value, given := params[p.Name]
		if !given {
			value = p.Default
		}
		if value == wide || !known && p.Type != "text" || p.Name == "scenario" || p.Name == "variant" {
			continue
		}
		one := try{p.Name + "=" + value, map[string]string{}}
		maps.Copy(one.params, params)
		one.params[p.Name], all.params[p.Name] = wide, wide
		tries, all.without = append(tries, one), strings.TrimPrefix(all.without+", "+one.without, ", ")
	}
	for _, t := range append(tries, all) {
		rows, err := db.Run(ctx, q, t.params)
		if err != nil {
			return "", err
		}
		_, err = rows.Next()
		if none := errors.Is(err, io.EOF); !none && err != nil || rows.Close() != nil {
			return "", duckdb.OrCause(ctx, err)
		} else if !none {
			return t.without, nil
		}
	}
	return "", nil
}

// admitted returns a connection on which a text may run.
func (db *DB) admitted(ctx context.Context, text string) (*sql.Conn, error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.admit(ctx, conn, text); err != nil {
		return nil, errors.Join(duckdb.OrCause(ctx, err), conn.Close())
	}
	return conn, nil
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
