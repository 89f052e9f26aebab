package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/topology"
)

// Limits of a flow that can be simulated.
const (
	maxFlowBytes = int64(1) << 50
	maxStartNS   = int64(1) << 62
	// maxSpanNS is what the kernel's picoseconds can hold, with room for the last flow to drain.
	maxSpanNS = int64(15 * 24 * 3600 * 1e9)
)

// IngestOptions say how source files are read and what that may cost.
type Options struct {
	Mapping *Mapping
	// Hosts and Labels are files, CSV or Parquet; empty for none. Hosts: address, node_id; addresses
	// may be CIDRs, of which the longest wins. Labels: cidr, port, service, vnet; an empty port is any.
	Hosts, Labels string
	TmpDir        string // for DuckDB's spills and for the files it leaves
	MemoryBytes   int64  // of DuckDB
	Threads       int
	MaxRejects    float64 // share of the rows that may be rejected, 0 to 1

	Seed uint64 // of drawn starts
	// GapSigma is the shape of the log-normal gaps between drawn starts.
	GapSigma float64
	// IdleNS ends a connection: records of the same addresses and ports that start later than this
	// after the last are another flow.
	IdleNS int64
}

// Defaults of merging. Flow logs cut connections into records of a minute or ten, each with the
// times of its own first and last packet, so that a minute between two of them is a minute without
// packets. The gaps' shape is the calmer of the paper's two (section 5.1).
const (
	DefaultIdleNS   = int64(60e9)
	DefaultGapSigma = 1.0
)

// RejectCount is how many rows were rejected for one reason.
type RejectCount struct {
	Reason  string
	Rows    int64
	Example string // first such row
}

// IngestStats says what source files held: Rows = Flows + Merged + Rejects, always.
type Stats struct {
	FlowsFile, RejectsFile string // Parquet of tables flows and rejects, in TmpDir; rejects only if there are any
	Rows, Flows, Merged    int64
	Rejects                int64
	// SetAside of the rejects say themselves that they are no flows: log lines without data, refused
	// connections. They do not count against MaxRejects.
	SetAside                  int64
	SyntheticStarts           int64 // flows whose start was not measured
	Reasons                   []RejectCount
	FirstStartNS, LastStartNS int64
}

// TooManyRejectsError says that more rows of a flow file cannot be simulated than the user accepts.
type TooManyRejectsError struct {
	File          string
	Rejects, Rows int64
	Limit         float64
	Reasons       []RejectCount
}

func (e *TooManyRejectsError) Error() string {
	var why []string
	for _, r := range e.Reasons {
		why = append(why, fmt.Sprintf("%d × %s (first: %s)", r.Rows, r.Reason, r.Example))
	}
	return fmt.Sprintf("%s: %d of %d rows cannot be simulated, more than the accepted %g%%: %s", e.File, e.Rejects, e.Rows, 100*e.Limit, strings.Join(why, "; "))
}

// CheckRejects is a *TooManyRejectsError where more rows than the share limit were rejected, those set
// aside apart.
func CheckRejects(file string, rows, rejects, setAside int64, limit float64, reasons []RejectCount) error {
	if float64(rejects-setAside) > limit*float64(rows) {
		return &TooManyRejectsError{File: file, Rejects: rejects - setAside, Rows: rows, Limit: limit, Reasons: reasons}
	}
	return nil
}

// Ingest brings one flow file, of whatever mapping, into table flows, sorted by start, and sets the
// rows aside that cannot be simulated. DuckDB does the work, out of core where it must.
func File(ctx context.Context, n *topology.Network, file string, o Options) (stats Stats, err error) {
	if o.Mapping == nil {
		if o.Mapping, err = DetectFormat(file); err != nil { // what run --flows always took it for
			if o.Mapping, err = FormatMapping("csv"); err != nil {
				return stats, err
			}
		}
	}
	in, err := NewIngester(ctx, n, o)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	f, err := in.File(file, 1)
	if err != nil {
		return stats, err
	}
	merged, err := in.Merge([]MergeSource{{N: 1, File: file, Records: f.RecordsFile, Rows: f.Rows, AnyFlowID: f.AnyFlowID}})
	if err != nil {
		return stats, inFile(file, err)
	}
	stats = Stats{
		FlowsFile: merged.FlowsFile, Rows: f.Rows, Flows: merged.Flows, Merged: merged.Merged, SetAside: f.SetAside,
		SyntheticStarts: merged.SyntheticStarts, FirstStartNS: merged.FirstStartNS, LastStartNS: merged.LastStartNS,
	}
	stats.Rejects = f.Rejects + merged.Rejects
	var lists []string
	for _, r := range []struct {
		file string
		rows int64
	}{{f.RejectsFile, f.Rejects}, {merged.RejectsFile, merged.Rejects}} {
		if r.rows > 0 {
			lists = append(lists, QuoteSQL(EscapeGlob(r.file)))
		}
	}
	if lists != nil {
		stats.RejectsFile = filepath.Join(o.TmpDir, "rejects.parquet")
		from := "read_parquet([" + strings.Join(lists, ", ") + "], hive_partitioning=false)"
		if err := in.exec(copyTo(schema.Rejects, "SELECT * FROM "+from+` ORDER BY "row"`, stats.RejectsFile)); err != nil {
			return stats, err
		}
		if stats.Reasons, err = in.reasons(from); err != nil {
			return stats, err
		}
	}
	if err := CheckRejects(file, stats.Rows, stats.Rejects, stats.SetAside, o.MaxRejects, stats.Reasons); err != nil {
		return stats, err
	}
	return stats, checkSpan(file, stats.FirstStartNS, stats.LastStartNS)
}

// checkSpan refuses workloads that last longer than the simulator's clock.
func checkSpan(file string, firstNS, lastNS int64) error {
	if span := lastNS - firstNS; span > maxSpanNS {
		return fmt.Errorf("flow file %s: starts span %.1f days, the simulator can hold %d: are the times in ns?", file, float64(span)/86400e9, maxSpanNS/86400e9)
	}
	return nil
}

// An Ingester reads source files of one mapping into table records, and merges records to flows. It
// is used by one goroutine.
type Ingester struct {
	ctx  context.Context
	db   *sql.DB
	conn *sql.Conn
	o    Options
	book *addressBook
}

// NewIngester opens DuckDB and reads the hosts and labels tables. What it leaves stands in
// o.TmpDir; the caller closes it.
func NewIngester(ctx context.Context, n *topology.Network, o Options) (_ *Ingester, err error) {
	in := &Ingester{ctx: ctx, o: o, book: newAddressBook(n)}
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
	for _, s := range ingestMacros {
		if err := in.exec(s); err != nil {
			return nil, err
		}
	}
	if err := registerStartDraw(in.conn, in.o.Seed, in.o.GapSigma); err != nil {
		return nil, err
	}
	if o.Hosts != "" {
		err = in.table(o.Hosts, "hosts table", []string{"address", "node_id"}, func(at string, row []string) error {
			return in.book.addHost(at, row[0], row[1])
		})
	}
	if err == nil && o.Labels != "" {
		err = in.table(o.Labels, "labels table", []string{"cidr", "port", "service", "vnet"}, func(at string, row []string) error {
			return in.book.addLabel(at, row[0], row[1], row[2], row[3])
		})
	}
	return in, err
}

// ingestMacros are what mappings may call beside DuckDB's own functions.
var ingestMacros = []string{
	`CREATE TEMP MACRO whole(t) AS CASE WHEN regexp_full_match(trim(t), '[+-]?[0-9]+') THEN TRY_CAST(trim(t) AS BIGINT) END`,
	`CREATE TEMP MACRO seconds_ns(t) AS CASE
  WHEN regexp_full_match(trim(t), '[0-9]{1,18}(\.[0-9]*)?') THEN TRY_CAST(TRY_CAST(trim(t) AS DECIMAL(38,9)) * CAST(1000000000 AS BIGINT) AS BIGINT)
  WHEN regexp_full_match(trim(t), '[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]{1,2}') THEN TRY_CAST(round(TRY_CAST(trim(t) AS DOUBLE) * 1e9) AS BIGINT) END`,
	`CREATE TEMP MACRO rfc3339_ns(t) AS CASE WHEN regexp_full_match(trim(t), '[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})') THEN
  epoch_us(TRY_CAST(regexp_replace(upper(trim(t)), '(\.[0-9]{6})[0-9]+', '\1') AS TIMESTAMPTZ)) * 1000
  + coalesce(TRY_CAST(rpad(regexp_extract(t, '\.[0-9]{6}([0-9]{1,3})', 1), 3, '0') AS BIGINT), 0) END`,
	`CREATE TEMP MACRO rfc3339_resolution_ns(t) AS CAST(CASE length(regexp_extract(t, '\.([0-9]+)', 1))
  WHEN 0 THEN 1000000000 WHEN 1 THEN 100000000 WHEN 2 THEN 10000000 WHEN 3 THEN 1000000 WHEN 4 THEN 100000 WHEN 5 THEN 10000 WHEN 6 THEN 1000 ELSE 0 END AS BIGINT)`,
}

// table reads the columns of a small table, CSV with a header or Parquet, as text; those it lacks,
// but for the first, are empty.
func (in *Ingester) table(file, what string, want []string, each func(at string, row []string) error) error {
	wrong := func(err error) error { return fmt.Errorf("%s %s: %w", what, file, err) }
	if err := checkFlowFile(in.ctx, file); err != nil {
		return errors.New(strings.Replace(err.Error(), "flow file", what, 1))
	}
	from := "read_csv(" + QuoteSQL(EscapeGlob(file)) + ", header=true, all_varchar=true, hive_partitioning=false)"
	if isParquet(file) {
		from = "read_parquet(" + QuoteSQL(EscapeGlob(file)) + ", hive_partitioning=false)"
	}
	columns, err := in.columns("SELECT * FROM " + from)
	if err != nil {
		return wrong(err)
	}
	list := make([]string, len(want))
	for i, name := range want {
		list[i] = "''"
		for _, c := range columns {
			if columnName(c.name) == name {
				list[i] = "coalesce(CAST(" + identifier(c.name) + " AS VARCHAR), '')"
			}
		}
	}
	if list[0] == "''" || what == "hosts table" && list[1] == "''" {
		return wrong(fmt.Errorf("want the columns %s", strings.Join(want, ", ")))
	}
	rows, err := in.conn.QueryContext(in.ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+from)
	if err != nil {
		return wrong(FirstLine(err))
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
			return wrong(FirstLine(err))
		}
		if err := each(fmt.Sprintf("row %d", at), row); err != nil {
			return wrong(err)
		}
	}
	if err := rows.Err(); err != nil {
		return wrong(FirstLine(err))
	}
	return nil
}

// Close lets go of DuckDB; files it left stay.
func (in *Ingester) Close() error {
	var err error
	if in.conn != nil {
		err = in.conn.Close()
	}
	return errors.Join(err, in.db.Close())
}

func (in *Ingester) exec(query string) error {
	_, err := in.conn.ExecContext(in.ctx, query)
	if err != nil && in.ctx.Err() != nil {
		return in.ctx.Err()
	}
	return FirstLine(err)
}

// query scans the one row of an answer.
func (in *Ingester) query(query string, to ...any) error {
	err := in.conn.QueryRowContext(in.ctx, query).Scan(to...)
	if err != nil && in.ctx.Err() != nil {
		return in.ctx.Err()
	}
	return FirstLine(err)
}

func (in *Ingester) count(query string, n *int64) error { return in.query(query, n) }

// copy writes a query's answer as Parquet; in the order of its rows only where asked.
func (in *Ingester) copy(query, file string, ordered bool) error {
	if err := in.exec(fmt.Sprintf("SET preserve_insertion_order=%v", ordered)); err != nil {
		return err
	}
	err := in.exec("COPY (" + query + ") TO " + QuoteSQL(file) + " (FORMAT parquet, COMPRESSION snappy)")
	return errors.Join(err, in.exec("SET preserve_insertion_order=true"))
}

// A flowColumn is a column of a flow file, with DuckDB's name of its type.
type flowColumn struct{ name, typ string }

func (in *Ingester) columns(query string) ([]flowColumn, error) {
	rows, err := in.conn.QueryContext(in.ctx, query+" LIMIT 0")
	if err != nil {
		return nil, FirstLine(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, FirstLine(err)
	}
	var columns []flowColumn
	for _, t := range types {
		columns = append(columns, flowColumn{t.Name(), t.DatabaseTypeName()})
	}
	return columns, FirstLine(rows.Err())
}

// wholeNumber is the SQL that reads a column of a type as integers, NULL for all that is not a whole
// number or out of range, where a plain cast would round and take 0x10 or 1_000. It is empty for
// types that hold no numbers.
func wholeNumber(name, typ, as string) string {
	base, _, _ := strings.Cut(typ, "(") // DECIMAL(18,3)
	cast := "TRY_CAST(" + name + " AS " + as + ")"
	switch base {
	case "VARCHAR":
		return "CASE WHEN regexp_full_match(trim(" + name + "), '[+-]?[0-9]+') THEN TRY_CAST(trim(" + name + ") AS " + as + ") END"
	case "DOUBLE", "FLOAT", "DECIMAL":
		return "CASE WHEN " + name + " = floor(" + name + ") THEN " + cast + " END"
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT":
		return cast
	}
	return ""
}

// copyTo writes a query's answer as a Parquet file of the table.
func copyTo(t schema.Table, query, file string) string {
	return fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880, KV_METADATA {'%s': '%d', '%s': '%s'})",
		query, QuoteSQL(file), schema.VersionKey, schema.Version, schema.TableKey, t.Name)
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
