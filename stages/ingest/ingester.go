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
	if in.db, err = duckdb.Open(ctx, in.limits()); err != nil {
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

func (in *Ingester) limits() duckdb.Options {
	return duckdb.Options{
		MemoryBytes: max(128<<20, in.o.MemoryBytes), Threads: max(1, in.o.Threads),
		SpillDir: filepath.Join(in.o.TmpDir, "duckdb"),
	}
}

// readBook reads the hosts and labels tables.
func (in *Ingester) readBook(ctx context.Context) error {
	if in.o.Hosts != "" {
		names := [][]string{
			{"address", "ip", "ip_address", "addr", "cidr", "prefix", "subnet"},
			{"node", "node_id", "host", "name", "hostname", "device", "id"},
		}
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
	names := [][]string{
		{"cidr", "address", "ip", "prefix", "subnet", "name", "host"}, {"port", "dst_port", "dstport"},
		{"service", "app", "application"}, {"vnet", "network", "virtual_network", "vpc", "tenant"},
	}
	return in.table(ctx, in.o.Labels, "labels table", names, 1, func(at string, row []string) error {
		return in.book.addLabel(at, row[0], row[1], row[2], row[3])
	})
}

//go:embed macros.sql
var macros string

// table reads the named columns of a small table, CSV with a header or Parquet, as text, and calls each for every row.
// A column has one of several names. Columns that the table does not have are empty; the first ones are required. what
// names the table in errors.
func (in *Ingester) table(ctx context.Context, file, what string, want [][]string, required int,
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
	used := map[string]bool{}
	for i, names := range want {
		list[i] = "''"
		if c := firstColumn(columns, names, used); c != "" {
			list[i] = "coalesce(CAST(" + duckdb.Ident(c) + " AS VARCHAR), '')"
		}
	}
	if slices.Contains(list[:required], "''") || len(used) < min(2, len(want)) {
		return wrong(columnsError(columns, want))
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

// firstColumn finds the column with the first of several names that the table has.
func firstColumn(columns []flowColumn, names []string, used map[string]bool) string {
	for _, name := range names {
		for _, c := range columns {
			if strings.ReplaceAll(columnName(c.name), " ", "_") == name && !used[c.name] {
				used[c.name] = true
				return c.name
			}
		}
	}
	return ""
}

// columnsError says which columns a table has and which it should have.
func columnsError(columns []flowColumn, want [][]string) error {
	var has, wanted []string
	for _, c := range columns {
		has = append(has, c.name)
	}
	for _, names := range want {
		wanted = append(wanted, names[0]+" (or "+strings.Join(names[1:], ", ")+")")
	}
	return fmt.Errorf("has the columns %s; want %s", strings.Join(has, ", "), strings.Join(wanted, "; "))
}

// Close closes DuckDB. The files that were written remain.
func (in *Ingester) Close() error {
	var err error
	if in.conn != nil {
		err = in.conn.Close()
	}
	return errors.Join(err, in.db.Close())
}
