package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// A duck is a connection to DuckDB, with its temporary tables.
type duck struct{ conn *sql.Conn }

// connect opens a database with the macros of mappings.
func connect(ctx context.Context, o duckdb.Options) (_ *sql.DB, c duck, err error) {
	db, err := duckdb.Open(ctx, o)
	if err != nil {
		return nil, c, err
	}
	if c.conn, err = db.Conn(ctx); err == nil {
		err = c.exec(ctx, macros)
	}
	if err != nil {
		return nil, c, errors.Join(err, db.Close())
	}
	return db, c, nil
}

// exec runs a statement. It returns the first line of an error, or the error of the context.
func (in duck) exec(ctx context.Context, query string) error {
	_, err := in.conn.ExecContext(ctx, query)
	return duckdb.FirstLine(duckdb.OrCause(ctx, err))
}

// query scans the only row of a result.
func (in duck) query(ctx context.Context, query string, to ...any) error {
	err := in.conn.QueryRowContext(ctx, query).Scan(to...)
	return duckdb.FirstLine(duckdb.OrCause(ctx, err))
}

// each calls do for every row of a result.
func (in duck) each(ctx context.Context, query string, do func(rows *sql.Rows) error) error {
	rows, err := in.conn.QueryContext(ctx, query)
	if err != nil {
		return duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return duckdb.FirstLine(duckdb.OrCause(ctx, rows.Err()))
}

// copy writes the result of a query as Parquet. The order of rows is kept only if ordered.
func (in duck) copy(ctx context.Context, query, file string, ordered bool) error {
	if err := in.exec(ctx, fmt.Sprintf("SET preserve_insertion_order=%v", ordered)); err != nil {
		return err
	}
	err := in.exec(ctx, "COPY ("+query+") TO "+duckdb.Quote(file)+" (FORMAT parquet, COMPRESSION snappy)")
	return errors.Join(err, in.exec(ctx, "SET preserve_insertion_order=true"))
}

// flowColumn is a column of a flow file, with DuckDB's name of its type.
type flowColumn struct{ name, typ string }

// columns returns the columns of a query.
func (in duck) columns(ctx context.Context, query string) ([]flowColumn, error) {
	rows, err := in.conn.QueryContext(ctx, query+" LIMIT 0")
	if err != nil {
		return nil, duckdb.FirstLine(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err := errors.Join(err, rows.Err()); err != nil {
		return nil, duckdb.FirstLine(err)
	}
	columns := make([]flowColumn, len(types))
	for i, t := range types {
		columns[i] = flowColumn{t.Name(), t.DatabaseTypeName()}
	}
	return columns, nil
}

// asText returns the SQL of a column as text, whole numbers without a fraction; "" for types that have neither numbers
// nor text.
func (c flowColumn) asText() string {
	name := duckdb.Ident(c.name)
	base, _, _ := strings.Cut(c.typ, "(") // DECIMAL(18,3)
	switch base {
	case "VARCHAR":
		return name
	case "DOUBLE", "FLOAT", "DECIMAL":
		return "CASE WHEN " + name + " = floor(" + name + ") AND abs(" + name + ") < 9.2e18 " +
			"THEN CAST(CAST(" + name + " AS BIGINT) AS VARCHAR) ELSE CAST(" + name + " AS VARCHAR) END"
	case "INTEGER[]", "BIGINT[]", "UINTEGER[]", "UBIGINT[]", "VARCHAR[]",
		"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT":
		return "CAST(" + name + " AS VARCHAR)"
	}
	return ""
}

// flowColumns lists the columns of table flows, but one if it is named.
func flowColumns(without string) string {
	var names []string
	for _, c := range schema.Flows.Columns {
		if c.Name != without {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

// copyTo returns the SQL that writes the result of a query as a Parquet file of a table.
func copyTo(t schema.Table, query, file string) string {
	return fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880, "+
		"KV_METADATA {'%s': '%d', '%s': '%s'})",
		query, duckdb.Quote(file), schema.VersionKey, schema.Version, schema.TableKey, t.Name)
}
