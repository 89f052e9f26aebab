package stages

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	_ "github.com/marcboeker/go-duckdb/v2" // the engine behind database/sql

	"parsimon/schema"
)

// Limits of a flow that can be simulated.
const (
	maxFlowBytes = int64(1) << 50
	maxStartNS   = int64(1) << 62
	// maxSpanNS is what the kernel's picoseconds can hold, with room for the last flow to drain.
	maxSpanNS = int64(15 * 24 * 3600 * 1e9)
)

// IngestOptions say what to read and what it may cost.
type IngestOptions struct {
	File        string
	TmpDir      string // for DuckDB's spills and for the two files it leaves
	MemoryBytes int64
	Threads     int
	MaxRejects  float64 // share of the rows that may be rejected, 0 to 1
}

// RejectCount is how many rows were rejected for one reason.
type RejectCount struct {
	Reason  string
	Rows    int64
	Example string // first such row
}

// IngestStats says what a flow file held.
type IngestStats struct {
	FlowsFile, RejectsFile    string // Parquet of tables flows and rejects, in TmpDir
	Rows, Flows, Rejects      int64
	Reasons                   []RejectCount // most frequent first
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

// Ingest reads a flow file, Parquet (.parquet) or CSV with a header (anything else, compressed or
// not), with the columns src, dst, size_bytes, start_ns and, optionally, flow_id, service, vnet; big
// and small letters are the same in all these names. Numbers must be whole; nothing is rounded.
// It sorts the flows by start and sets the rows aside that cannot be simulated: broken ones,
// unknown hosts, source = destination, sizes that are not positive, starts out of range, repeated
// ids. DuckDB does the work, out of core where it must.
func Ingest(ctx context.Context, n *Network, o IngestOptions) (stats IngestStats, err error) {
	if err := checkFlowFile(ctx, o.File); err != nil {
		return stats, err
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1) // temporary tables belong to a connection
	in := ingest{ctx: ctx, db: db, o: o, net: n}
	if err := in.read(); err != nil {
		return stats, err
	}
	return in.write()
}

type ingest struct {
	ctx context.Context
	db  *sql.DB
	o   IngestOptions
	net *Network
}

func (in *ingest) exec(query string) error {
	_, err := in.db.ExecContext(in.ctx, query)
	if err != nil && in.ctx.Err() != nil {
		return in.ctx.Err()
	}
	return FirstLine(err)
}

// checkFlowFile finds what DuckDB would not, or would say badly: no file, an empty one, and
// compressed data that is cut short or does not match its checksum.
func checkFlowFile(ctx context.Context, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("flow file: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("flow file %s: is a directory, want a file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("flow file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var content io.Reader = f
	if isGzip(file) && info.Size() > 0 {
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
		if err != nil {
			return fmt.Errorf("flow file %s: damaged: %w", file, err)
		}
		content = z
	}
	if isZstd(file) && info.Size() > 0 {
		z, err := zstd.NewReader(f)
		if err != nil {
			return fmt.Errorf("flow file %s: damaged: %w", file, err)
		}
		defer z.Close()
		content = z
	}
	buf, blank := make([]byte, 1<<20), true
	for ctx.Err() == nil {
		n, err := content.Read(buf)
		blank = blank && len(bytes.TrimSpace(buf[:n])) == 0
		switch {
		case errors.Is(err, io.EOF) && blank:
			return fmt.Errorf("flow file %s: is empty", file)
		case errors.Is(err, io.EOF), err == nil && !blank && !isGzip(file) && !isZstd(file):
			return nil
		case err != nil:
			return fmt.Errorf("flow file %s: damaged: %w", file, err)
		}
	}
	return ctx.Err()
}

func isGzip(file string) bool    { return strings.EqualFold(filepath.Ext(file), ".gz") }
func isZstd(file string) bool    { return strings.EqualFold(filepath.Ext(file), ".zst") }
func isParquet(file string) bool { return strings.EqualFold(filepath.Ext(file), ".parquet") }

// read brings the file into a temporary table with a reason for every row that cannot be used.
func (in *ingest) read() error {
	settings := fmt.Sprintf("SET memory_limit='%d MiB'; SET threads=%d; SET temp_directory=%s; SET preserve_insertion_order=true; SET autoinstall_known_extensions=false; SET autoload_known_extensions=false",
		max(128, in.o.MemoryBytes>>20), max(1, in.o.Threads), QuoteSQL(filepath.Join(in.o.TmpDir, "duckdb")))
	if err := in.exec(settings); err != nil {
		return err
	}
	if err := in.hosts(); err != nil {
		return err
	}
	source, columns, err := in.source()
	if err != nil {
		return fmt.Errorf("flow file %s: %w", in.o.File, err)
	}
	have := map[string]bool{}
	names := make([]string, len(columns))
	types := map[string]string{}
	for i, c := range columns {
		names[i] = c.name
		have[strings.ToLower(c.name)] = true
		types[strings.ToLower(c.name)] = c.typ
	}
	var missing []string
	for _, c := range []string{"src", "dst", "size_bytes", "start_ns"} {
		if !have[c] {
			missing = append(missing, c)
		}
	}
	if missing != nil {
		return fmt.Errorf("flow file %s: no column %s (it has %s)", in.o.File, strings.Join(missing, ", "), strings.Join(names, ", "))
	}
	whole := map[string]string{"flow_id": `"row" - 1`} // the SQL of the columns that hold whole numbers
	for _, c := range []struct{ name, typ string }{{"flow_id", "BIGINT"}, {"src", "INTEGER"}, {"dst", "INTEGER"}, {"size_bytes", "BIGINT"}, {"start_ns", "BIGINT"}} {
		if !have[c.name] {
			continue
		}
		if whole[c.name] = wholeNumber(c.name, types[c.name], c.typ); whole[c.name] == "" {
			return fmt.Errorf("flow file %s: column %s is of type %s, want integers", in.o.File, c.name, types[c.name])
		}
	}
	label := func(c string) string {
		if have[c] {
			return "coalesce(CAST(" + c + " AS VARCHAR), '')"
		}
		return "''"
	}
	raw := make([]string, len(names))
	for i, c := range names {
		raw[i] = fmt.Sprintf(`coalesce(CAST(%s AS VARCHAR), '')`, identifier(c))
	}
	query := fmt.Sprintf(`
CREATE TEMP TABLE judged AS
WITH typed AS (
  SELECT "row", %s AS flow_id, %s AS src, %s AS dst, %s AS size_bytes, %s AS start_ns,
         %s AS service, %s AS vnet, concat_ws(',', %s) AS raw
  FROM (%s)),
judged AS (SELECT t.*, CASE
    WHEN flow_id IS NULL THEN 'flow_id is not an integer'
    WHEN t.src IS NULL THEN 'src is not a node id'
    WHEN t.dst IS NULL THEN 'dst is not a node id'
    WHEN size_bytes IS NULL THEN 'size_bytes is not an integer'
    WHEN start_ns IS NULL THEN 'start_ns is not an integer'
    WHEN s.id IS NULL THEN 'src is not a host of the topology'
    WHEN d.id IS NULL THEN 'dst is not a host of the topology'
    WHEN t.src = t.dst THEN 'src and dst are the same host'
    WHEN size_bytes <= 0 THEN 'size_bytes is not positive'
    WHEN size_bytes > %d THEN 'size_bytes is beyond 2^50'
    WHEN start_ns < 0 OR start_ns > %d THEN 'start_ns is negative or beyond 2^62'
  END AS reason
FROM typed t LEFT JOIN hosts s ON t.src = s.id LEFT JOIN hosts d ON t.dst = d.id)
SELECT * REPLACE (CASE WHEN reason IS NOT NULL THEN raw END AS raw) FROM judged`,
		whole["flow_id"], whole["src"], whole["dst"], whole["size_bytes"], whole["start_ns"], label("service"), label("vnet"), strings.Join(raw, ", "), source, maxFlowBytes, maxStartNS)
	if err := in.exec(query); err != nil {
		return fmt.Errorf("flow file %s: %w", in.o.File, err)
	}
	if err := in.rejectRepeated(); err != nil {
		return err
	}
	return in.addBrokenLines()
}

// hosts makes a table of the hosts' ids.
func (in *ingest) hosts() error {
	var b strings.Builder
	b.WriteString("CREATE TEMP TABLE hosts AS SELECT unnest([")
	for i, h := range in.net.Hosts() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(h)))
	}
	b.WriteString("]::INTEGER[]) AS id")
	return in.exec(b.String())
}

// source is the SELECT that reads the file with its row numbers, and the names of its columns.
func (in *ingest) source() (query string, columns []flowColumn, err error) {
	file := QuoteSQL(EscapeGlob(in.o.File)) + ", hive_partitioning=false"
	if isParquet(in.o.File) {
		columns, err = in.columns("SELECT * FROM read_parquet(" + file + ")")
		return `SELECT file_row_number + 1 AS "row", * FROM read_parquet(` + file + `, file_row_number=true)`, columns, err
	}
	file += ", header=true, all_varchar=true"
	if isGzip(in.o.File) {
		file += ", compression='gzip'" // DuckDB knows .gz in small letters only
	}
	if isZstd(in.o.File) {
		file += ", compression='zstd'"
	}
	read := "read_csv(" + file + ", store_rejects=true, strict_mode=true, sample_size=20480)"
	columns, err = in.columns("SELECT * FROM read_csv(" + file + ", ignore_errors=true)")
	return `SELECT row_number() OVER () AS "row", * FROM ` + read, columns, err
}

// A flowColumn is a column of a flow file, with DuckDB's name of its type.
type flowColumn struct{ name, typ string }

func (in *ingest) columns(query string) ([]flowColumn, error) {
	rows, err := in.db.QueryContext(in.ctx, query+" LIMIT 0")
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
		return "CASE WHEN regexp_full_match(trim(" + name + "), '[+-]?[0-9]+') THEN " + cast + " END"
	case "DOUBLE", "FLOAT", "DECIMAL":
		return "CASE WHEN " + name + " = floor(" + name + ") THEN " + cast + " END"
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT":
		return cast
	}
	return ""
}

// addBrokenLines adds the lines of a CSV file that have no proper columns, and moves the row
// numbers of the others, which DuckDB counts without them.
func (in *ingest) addBrokenLines() error {
	if isParquet(in.o.File) {
		return nil
	}
	// A line can have several errors; the header is line 1, so line n is row n - 1.
	err := in.exec(`CREATE TEMP TABLE broken AS SELECT line - 1 AS "row", min(csv_line) AS raw, min(error_type) AS error FROM reject_errors GROUP BY line`)
	if err != nil {
		return err
	}
	// Broken row b stands behind b - (number of broken rows up to b) sound ones.
	return in.exec(`
CREATE TEMP TABLE shifts AS SELECT "row" - row_number() OVER (ORDER BY "row") + 1 AS first_sound, row_number() OVER (ORDER BY "row") AS shift FROM broken;
UPDATE judged SET "row" = "row" + (SELECT coalesce(max(shift), 0) FROM shifts WHERE first_sound <= judged."row") WHERE reason IS NOT NULL;
INSERT INTO judged SELECT "row", NULL, NULL, NULL, NULL, NULL, '', '', coalesce(raw, ''), 'broken line: ' || lower(CAST(error AS VARCHAR)) FROM broken`)
}

// rejectRepeated rejects all but the first row of every flow id.
func (in *ingest) rejectRepeated() error {
	var repeated int64
	err := in.db.QueryRowContext(in.ctx, "SELECT count(*) - count(DISTINCT flow_id) FROM judged WHERE reason IS NULL").Scan(&repeated)
	if err != nil || repeated == 0 {
		return FirstLine(err)
	}
	return in.exec(`
UPDATE judged SET reason = 'flow_id stands in an earlier row', raw = concat_ws(',', judged.flow_id, src, dst, size_bytes, start_ns, service, vnet) FROM
  (SELECT flow_id, min("row") AS first FROM judged WHERE reason IS NULL GROUP BY flow_id HAVING count(*) > 1) r
WHERE judged.flow_id = r.flow_id AND judged."row" > r.first AND judged.reason IS NULL`)
}

// write leaves the flows and the rejects as Parquet, and counts them.
func (in *ingest) write() (IngestStats, error) {
	stats := IngestStats{FlowsFile: filepath.Join(in.o.TmpDir, "ingested-flows.parquet"), RejectsFile: filepath.Join(in.o.TmpDir, "ingested-rejects.parquet")}
	var first, last sql.NullInt64
	err := in.db.QueryRowContext(in.ctx, `SELECT count(*), count(*) FILTER (reason IS NULL), min(start_ns) FILTER (reason IS NULL), max(start_ns) FILTER (reason IS NULL) FROM judged`).
		Scan(&stats.Rows, &stats.Flows, &first, &last)
	if err != nil {
		return stats, FirstLine(err)
	}
	stats.Rejects, stats.FirstStartNS, stats.LastStartNS = stats.Rows-stats.Flows, first.Int64, last.Int64
	if err := in.reasons(&stats); err != nil {
		return stats, err
	}
	if stats.Rows == 0 {
		return stats, fmt.Errorf("flow file %s: holds no flow", in.o.File)
	}
	if float64(stats.Rejects) > in.o.MaxRejects*float64(stats.Rows) {
		return stats, &TooManyRejectsError{File: in.o.File, Rejects: stats.Rejects, Rows: stats.Rows, Limit: in.o.MaxRejects, Reasons: stats.Reasons}
	}
	if span := stats.LastStartNS - stats.FirstStartNS; span > maxSpanNS {
		return stats, fmt.Errorf("flow file %s: starts span %.1f days, the simulator can hold %d: are the times in ns?", in.o.File, float64(span)/86400e9, maxSpanNS/86400e9)
	}
	flows := `SELECT flow_id, src, dst, size_bytes, start_ns, service, vnet FROM judged WHERE reason IS NULL ORDER BY start_ns, flow_id`
	if err := in.exec(copyTo(schema.Flows, flows, stats.FlowsFile)); err != nil {
		return stats, err
	}
	if stats.Rejects == 0 {
		return stats, nil
	}
	rejects := `SELECT ` + QuoteSQL(in.o.File) + ` AS file, "row", reason, raw FROM judged WHERE reason IS NOT NULL ORDER BY "row"`
	return stats, in.exec(copyTo(schema.Rejects, rejects, stats.RejectsFile))
}

func (in *ingest) reasons(stats *IngestStats) error {
	if stats.Rejects == 0 {
		return nil
	}
	rows, err := in.db.QueryContext(in.ctx, `SELECT reason, count(*), 'row ' || min("row") || ': ' || arg_min(raw, "row") FROM judged WHERE reason IS NOT NULL GROUP BY reason ORDER BY 2 DESC, 1`)
	if err != nil {
		return FirstLine(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r RejectCount
		if err := rows.Scan(&r.Reason, &r.Rows, &r.Example); err != nil {
			return err
		}
		stats.Reasons = append(stats.Reasons, r)
	}
	return FirstLine(rows.Err())
}

// copyTo writes a query's answer as a Parquet file of the table.
func copyTo(t schema.Table, query, file string) string {
	return fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880, KV_METADATA {'%s': '%d', '%s': '%s'})",
		query, QuoteSQL(file), schema.VersionKey, schema.Version, schema.TableKey, t.Name)
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
