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

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/stages/topology"
)

// Ingester reads source files of one mapping into table records (File) and merges records to flows (Merge). It is used
// by one goroutine at a time. The caller closes it.
type Ingester struct {
	duck
	db   *sql.DB
	o    Options
	book *addressBook
	// Notes are what a user should know of the tables and files.
	Notes []string
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
	if in.db, in.duck, err = connect(ctx, in.limits("duckdb")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	if err = registerStartDraw(in.conn, in.o.Seed, in.o.GapSigma); err != nil {
		return nil, err
	}
	if err = in.readBook(ctx); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *Ingester) limits(spill string) duckdb.Options {
	return duckdb.Options{
		MemoryBytes: max(128<<20, in.o.MemoryBytes), Threads: max(1, in.o.Threads),
		SpillDir: filepath.Join(in.o.TmpDir, spill),
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
// A column has one of several names. Columns that the table does not have are empty; required is how many of the first
// ones it must have, and it must have one of the others. what names the table in errors.
func (in *Ingester) table(ctx context.Context, file, what string, want [][]string, required int,
	each func(at string, row []string) error) error {
	if _, err := Digest(ctx, what, file); err != nil {
		return err
	}
	m := &Mapping{reads: "csv", needs: want[:required:required]}
	if required < len(want) {
		m.needs = append(m.needs, slices.Concat(want[required:]...))
	}
	var list []string
	for _, names := range want {
		var quoted []string
		for _, name := range names {
			m.columns = append(m.columns, mappingColumn{name: name})
			quoted = append(quoted, duckdb.Ident(name))
		}
		list = append(list, "coalesce("+strings.Join(quoted, ", ")+", '')")
	}
	src, err := in.stage(ctx, m, file, in.o.TmpDir)
	if err == nil {
		err = in.each(ctx, `SELECT "row", broken, [`+strings.Join(list, ", ")+"] FROM ("+src.relation+`) ORDER BY "row"`,
			func(rows *sql.Rows) error {
				var n int64
				var broken string
				var row duckdriver.Composite[[]string]
				if err := rows.Scan(&n, &broken, &row); err != nil {
					return err
				}
				if broken != "" {
					return fmt.Errorf("row %d: %s", n, broken)
				}
				return each(fmt.Sprintf("row %d", n), row.Get())
			})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, file, err)
	}
	if src.openEnd {
		in.Notes = append(in.Notes, openEnd(what+" "+file))
	}
	return nil
}

// openEnd says that the last line of a file has no line end.
func openEnd(file string) string {
	return file + " does not end with a line end: its last row may have been cut"
}

// Close closes DuckDB. The files that were written remain.
func (in *Ingester) Close() error {
	var err error
	if in.conn != nil {
		err = in.conn.Close()
	}
	return errors.Join(err, in.db.Close())
}
