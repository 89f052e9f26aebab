package ingest

import (
	"context"
	"database/sql"
	_ "embed" // for macros.sql
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/stages/topology"
)

// Ingester reads source files of one mapping into table records (File) and merges records to flows (Merge). It is used
// by one goroutine at a time. The caller closes it.
type Ingester struct {
	db   *sql.DB
	conn *sql.Conn
	o    Options
	book *addressBook
}

// NewIngester opens DuckDB and reads the hosts and labels tables. The files that it writes remain in o.TmpDir after
// Close. Errors name the table and the row.
func NewIngester(ctx context.Context, n *topology.Network, o Options) (_ *Ingester, err error) {
	in := &Ingester{o: o, book: newAddressBook(n)}
	if in.o.IdleNS <= 0 {
		in.o.IdleNS = DefaultIdleNS
	}
	if in.o.GapSigma <= 0 {
		in.o.GapSigma = DefaultGapSigma
	}
	in.db, err = duckdb.Open(ctx, duckdb.Options{
		MemoryBytes: max(128<<20, in.o.MemoryBytes), Threads: max(1, in.o.Threads),
		SpillDir: filepath.Join(in.o.TmpDir, "duckdb"),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	if in.conn, err = in.db.Conn(ctx); err != nil { // temporary tables belong to a connection
		return nil, err
	}
	if err = in.exec(ctx, macros); err != nil {
		return nil, err
	}
	if err = registerStartDraw(in.conn, in.o.Seed, in.o.GapSigma); err != nil {
		return nil, err
	}
	if err = in.readBook(ctx); err != nil {
		return nil, err
	}
	return in, nil
}

// readBook reads the hosts and labels tables.
func (in *Ingester) readBook(ctx context.Context) error {
	if in.o.Hosts != "" {
		names := []string{"address", "node_id"}
		err := in.table(ctx, in.o.Hosts, "hosts table", names, 2, func(at string, row []string) error {
			return in.book.addHost(at, row[0], row[1])
		})
		if err != nil {
			return err
		}
	}
	if in.o.Labels == "" {
		return nil
	}
	names := []string{"cidr", "port", "service", "vnet"}
	return in.table(ctx, in.o.Labels, "labels table", names, 1, func(at string, row []string) error {
		return in.book.addLabel(at, row[0], row[1], row[2], row[3])
	})
}

//go:embed macros.sql
var macros string

// table reads the named columns of a small table, CSV with a header or Parquet, as text, and calls each for every row.
// Columns that the table does not have are empty; the first ones are required. what names the table in errors.
func (in *Ingester) table(ctx context.Context, file, what string, want []string, required int,
	each func(at string, row []string) error) error {
	wrong := func(err error) error { return fmt.Errorf("%s %s: %w", what, file, err) }
	if err := checkFile(ctx, what, file); err != nil {
		return err
	}
	path := duckdb.Quote(duckdb.EscapeGlob(file))
	from := "read_csv(" + path + ", header=true, all_varchar=true, hive_partitioning=false)"
	if isParquet(file) {
		from = duckdb.ScanParquet(file)
	}
	columns, err := in.columns(ctx, "SELECT * FROM "+from)
	if err != nil {
		return wrong(err)
	}
	list := make([]string, len(want))
	for i, name := range want {
		list[i] = "''"
		for _, c := range columns {
			if columnName(c.name) == name {
				list[i] = "coalesce(CAST(" + duckdb.Ident(c.name) + " AS VARCHAR), '')"
			}
		}
	}
	if slices.Contains(list[:required], "''") {
		return wrong(fmt.Errorf("want the columns %s", strings.Join(want, ", ")))
	}
	rows, err := in.conn.QueryContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+from)
	if err != nil {
		return wrong(duckdb.FirstLine(err))
	}
	defer rows.Close()
	row, at := make([]string, len(want)), 0
	ptrs := make([]any, len(want))
	for i := range row {
		ptrs[i] = &row[i]
	}
	for rows.Next() {
		at++
		if err := rows.Scan(ptrs...); err != nil {
			return wrong(duckdb.FirstLine(err))
		}
		if err := each(fmt.Sprintf("row %d", at), row); err != nil {
			return wrong(err)
		}
	}
	if err := rows.Err(); err != nil {
		return wrong(duckdb.FirstLine(err))
	}
	return nil
}

// Close closes DuckDB. The files that were written remain.
func (in *Ingester) Close() error {
	var err error
	if in.conn != nil {
		err = in.conn.Close()
	}
	return errors.Join(err, in.db.Close())
}
