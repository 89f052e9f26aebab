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
	// Notes are what a user should know of the tables.
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
// A column has one of several names. Columns that the table does not have are empty; the first ones are required. what
// names the table in errors.
func (in *Ingester) table(ctx context.Context, file, what string, want [][]string, required int,
	each func(at string, row []string) error) error {
	wrong := func(err error) error { return fmt.Errorf("%s %s: %w", what, file, err) }
	if err := checkFile(ctx, what, file); err != nil {
		return err
	}
	m := &Mapping{reads: "csv"}
	for _, names := range want {
		for _, name := range names {
			m.columns = append(m.columns, mappingColumn{name: name})
		}
	}
	rows, header, err := in.tableRows(ctx, m, file, what)
	if err != nil {
		return wrong(err)
	}
	spaced := make([]string, len(header))
	for i, name := range header {
		spaced[i] = strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	}
	places, err := m.places(spaced)
	if err != nil {
		return wrong(err)
	}
	at, used, found := make([]int, len(want)), map[int]bool{}, 0
	for i, names := range want {
		at[i] = -1
		for range names {
			if place := places[0]; place >= 0 && at[i] < 0 && !used[place] {
				at[i], used[place] = place, true
				found++
			}
			places = places[1:]
		}
	}
	if slices.Contains(at[:required], -1) || found < min(2, len(want)) {
		return wrong(columnsError(header, want))
	}
	row := make([]string, len(want))
	for n, values := range rows {
		if len(values) != len(header) {
			return wrong(fmt.Errorf("row %d: %d fields, the header has %d", n+1, len(values), len(header)))
		}
		for i, place := range at {
			if row[i] = ""; place >= 0 {
				row[i] = values[place]
			}
		}
		if err := each(fmt.Sprintf("row %d", n+1), row); err != nil {
			return wrong(err)
		}
	}
	return nil
}

// tableRows reads all columns of a table, staged where it is CSV.
func (in *Ingester) tableRows(ctx context.Context, m *Mapping, file, what string) (rows [][]string, header []string,
	err error) {
	query := "SELECT string_split(line, chr(31)), broken FROM "
	if isParquet(file) {
		columns, err := in.columns(ctx, "SELECT * FROM "+duckdb.ScanParquet(file))
		if err != nil {
			return nil, nil, err
		}
		var list []string
		for _, c := range columns {
			header = append(header, c.name)
			list = append(list, "coalesce(CAST("+duckdb.Ident(c.name)+" AS VARCHAR), '')")
		}
		query = "SELECT [" + strings.Join(list, ", ") + "], '' FROM " + duckdb.ScanParquet(file)
	} else {
		staged := filepath.Join(in.o.TmpDir, "table.parquet")
		text, err := readLines(ctx, m, file, staged)
		if err != nil {
			return nil, nil, err
		}
		if text.openEnd {
			in.Notes = append(in.Notes, OpenEnd(what+" "+file))
		}
		header, query = text.header, query+duckdb.ScanParquet(staged)+` ORDER BY "row"`
	}
	result, err := in.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, nil, duckdb.FirstLine(err)
	}
	defer result.Close()
	for result.Next() {
		var values duckdriver.Composite[[]string]
		var broken string
		if err := result.Scan(&values, &broken); err != nil {
			return nil, nil, duckdb.FirstLine(err)
		}
		if broken != "" {
			return nil, nil, fmt.Errorf("row %d: %s", len(rows)+1, broken)
		}
		rows = append(rows, values.Get())
	}
	return rows, header, duckdb.FirstLine(result.Err())
}

// OpenEnd says that the last line of a file has no line end.
func OpenEnd(file string) string {
	return file + " does not end with a line end: its last row may have been cut"
}

// columnsError says which columns a table has and which it should have.
func columnsError(has []string, want [][]string) error {
	var wanted []string
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
