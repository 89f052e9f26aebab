package ingest

import (
	"context"
	"database/sql"
	"errors"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
)

// A duck is a connection to DuckDB, with its temporary tables and the macros of mappings. It is opened for
// the first statement: files whose rows are all regular do not need it.
type duck struct {
	options duckdb.Options
	db      *sql.DB   // nil: not open
	conn    *sql.Conn // nil: not open
}

// open opens DuckDB if it is not open.
func (in *duck) open(ctx context.Context) (err error) {
	if in.conn != nil {
		return nil
	}
	if in.db, err = duckdb.Open(ctx, in.options); err != nil {
		return err
	}
	if in.conn, err = in.db.Conn(ctx); err == nil {
		_, err = in.conn.ExecContext(ctx, macros+scansRead)
	}
	if err != nil {
		return errors.Join(duckdb.FirstLine(duckdb.OrCause(ctx, err)), in.closeDuckDB())
	}
	return nil
}

// closeDuckDB closes DuckDB if it is open.
func (in *duck) closeDuckDB() (err error) {
	if in.conn != nil {
		err = in.conn.Close()
	}
	if in.db != nil {
		err = errors.Join(err, in.db.Close())
	}
	in.conn = nil
	in.db = nil
	return err
}

// scansRead makes scans of Parquet files read all rows before they are filtered. If a filter in a scan omits
// rows, DuckDB 1.4 skips values of a column. It ends with an internal error ("dereference unique_ptr that is
// NULL") if it has not decoded a page of the column's dictionary yet (github.com/duckdb/duckdb/issues/17928).
// Without filter_pushdown, an inner join compares each row of one side with each row of the other, so steps
// join with LEFT, SEMI or ANTI.
const scansRead = "\nSET disabled_optimizers = 'filter_pushdown,join_filter_pushdown';"

// exec runs a statement. It returns the first line of an error, or the error of the context.
func (in *duck) exec(ctx context.Context, query string) error {
	err := in.open(ctx)
	if err == nil {
		_, err = in.conn.ExecContext(ctx, query)
	}
	return duckdb.FirstLine(duckdb.OrCause(ctx, err))
}

func (in *duck) query(ctx context.Context, query string, to ...any) error {
	err := in.open(ctx)
	if err == nil {
		err = in.conn.QueryRowContext(ctx, query).Scan(to...)
	}
	return duckdb.FirstLine(duckdb.OrCause(ctx, err))
}

func (in *duck) each(ctx context.Context, query string, do func(rows *sql.Rows) error) error {
	if err := in.open(ctx); err != nil {
		return err
	}
	return duckdb.Each(ctx, in.conn, query, do)
}

// keep returns the SQL that writes the result of a query as a Parquet file, for another query.
func keep(query, file string) string {
	return "COPY (" + query + ") TO " + duckdb.Quote(file) + " (FORMAT parquet, COMPRESSION snappy)"
}

func (in *duck) columns(ctx context.Context, query string) ([]flowColumn, error) {
	if err := in.open(ctx); err != nil {
		return nil, err
	}
	rows, err := in.conn.QueryContext(ctx, query+" LIMIT 0")
	if err != nil {
		return nil, duckdb.FirstLine(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err := errors.Join(err, rows.Err()); err != nil {
		return nil, duckdb.FirstLine(err)
	}
	return names.Of(types, func(t *sql.ColumnType) flowColumn {
		return flowColumn{t.Name(), t.DatabaseTypeName()}
	}), nil
}
