// Package ingest converts traces of production networks to flows. It reads files in several formats, whose
// rows are flows or records of flow logs, and which have addresses instead of hosts. Every row is accounted
// for.
//
//	source file ─ stage ─► rows with numbers, as text
//	                │ Mapping: one SELECT                     hosts, labels
//	                ▼                                             │
//	              typed columns ─ judge ◄────────────────────────┘
//	                │            │
//	                ▼            ▼
//	           table records   table rejects, with reasons     rows = records + rejects       (Ingester.File)
//	                │
//	                ▼ one per connection and burst, starts drawn within the resolution of the log
//	           table flows     table rejects     records = flows + merged + rejects (Ingester.Merge)
//
// Ingester.RegularFile reads the regular rows of common formats without SQL, and gives the same rows.
// Package connections has the merge. File does both for a single flow file. A mapping is one SQL file. The
// built-in ones are in folder mappings, and README.md documents their form. DuckDB does the work (steps),
// within a memory limit, and spills to Options.TmpDir, where the results are left as Parquet files.
package ingest

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/topology"
)

// Ingester reads source files of one mapping into table records (File) and merges records to flows (Merge).
// It is used by one goroutine at a time. The caller closes it.
type Ingester struct {
	duck
	o         Options
	net       *topology.Network
	book      *addressBook
	notes     []note
	collector *connections.Collector // of the records of RegularFile
}

// NewIngester reads the hosts and labels tables. The files that the Ingester writes remain in o.TmpDir after
// Close. Errors name the table and the row. DuckDB is opened for the first rows that need it.
func NewIngester(ctx context.Context, n *topology.Network, o Options) (_ *Ingester, err error) {
	in := &Ingester{o: o, net: n, book: newAddressBook(n, o.Domains)}
	in.o.IdleNS = cmp.Or(o.IdleNS, DefaultIdleNS)
	in.o.GapSigma = cmp.Or(o.GapSigma, DefaultGapSigma)
	in.collector = connections.NewCollector(connections.Settings{
		Network: n, Seed: o.Seed, GapSigma: in.o.GapSigma, IdleNS: in.o.IdleNS, TmpDir: o.TmpDir,
		MemoryBytes: o.MemoryBytes,
	})
	in.duck.options = in.limits("duckdb")
	if err = errors.Join(in.book.setOff(in.o.OffFabric), in.readBook(ctx)); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func (in *Ingester) limits(spill string) duckdb.Options {
	return duckdb.Options{
		MemoryBytes: max(128<<20, in.o.MemoryBytes), Threads: max(1, in.o.Threads),
		SpillDir: filepath.Join(in.o.TmpDir, spill),
	}
}

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
		{"cidr", "address", "ip", "prefix", "subnet", "name", "host"},
		{"port", "ports", "port_range", "dst_port", "dstport"},
		{"service", "app", "application"}, {"vnet", "network", "virtual_network", "vpc", "tenant"},
		{"traffic_model"},
	}
	return in.table(ctx, in.o.Labels, "labels table", names, 1, func(_ string, row []string) error {
		return errors.Join(in.book.addLabel(row[0], row[1], row[2], row[3]), in.book.addTraffic(row[2], row[4]))
	})
}

// Traffic returns the models that the labels table states for services, as texts that are not parsed.
func (in *Ingester) Traffic() map[string]string { return in.book.traffic }

//go:embed macros.sql
var macros string

// A note is a remark about a file or table.
type note struct{ Kind, File, Text string }

// note adds a remark of a kind about a file.
func (in *Ingester) note(kind, file, text string) {
	in.notes = append(in.notes, note{kind, file, text})
}

// notesOfKind is the maximum number of files that notes of one kind name separately.
const notesOfKind = 3

// Notes returns remarks about the tables and files, for the user. If many files have a note of one kind,
// there is one note about all of them.
func (in *Ingester) Notes() (notes []string) {
	count := map[string]int{}
	for _, n := range in.notes {
		count[n.Kind]++
	}
	said := map[string]bool{}
	for _, n := range in.notes {
		more := count[n.Kind] - 1
		if more >= notesOfKind {
			if said[n.Kind] {
				continue
			}
			said[n.Kind] = true
			n.File += fmt.Sprintf(" (and in %d more files)", more)
		}
		notes = append(notes, n.File+n.Text)
	}
	return notes
}

func openEnd(file string) string {
	return file + " does not end with a line end: its last row may have been cut"
}

// Close closes DuckDB. The files that were written are kept.
func (in *Ingester) Close() error { return errors.Join(in.collector.Close(), in.closeDuckDB()) }

type flowColumn struct{ name, typ string }

// asText returns the SQL of a column as text, with whole numbers without a fraction and timestamps in the
// form of RFC 3339, in UTC. It returns "" for other types. Bytes are text if they are UTF-8, because writers
// without string types store text as bytes; other bytes have escapes such as \x00, which no address or number
// has.
func (c flowColumn) asText() string {
	name := duckdb.Ident(c.name)
	base, _, _ := strings.Cut(c.typ, "(") // DECIMAL(18,3)
	switch base {
	case "VARCHAR":
		return name
	case "DOUBLE", "FLOAT", "DECIMAL":
		// floats do not have all whole numbers beyond
		exact := map[string]string{"DOUBLE": "2^53", "FLOAT": "2^24"}[base]
		return "CASE WHEN " + name + " = floor(" + name + ") AND abs(" + name + ") < " + cmp.Or(exact, "9.2e18") +
			" " +
			"THEN CAST(CAST(" + name + " AS BIGINT) AS VARCHAR) ELSE CAST(" + name + " AS VARCHAR) || " +
			"CASE WHEN " + name + " = floor(" + name + ") THEN ' (not exact)' ELSE '' END END"
	case "BLOB": // in TRY, a CASE or a coalesce would not be safe (macros.sql)
		return "coalesce(TRY(decode(" + name + ")), CAST(" + name + " AS VARCHAR))"
	}
	ns := c.epochNS()
	if ns != "" {
		// Conversion %n of DuckDB's strftime writes bytes that it has not set.
		return "strftime(make_timestamp_ns(" + ns + "), '%Y-%m-%dT%H:%M:%S.') || " +
			"lpad(CAST((" + ns + " % 1000000000 + 1000000000) % 1000000000 AS VARCHAR), 9, '0') || 'Z'"
	}
	if c.whole() || slices.Contains([]string{"INTEGER[]", "BIGINT[]", "UINTEGER[]", "UBIGINT[]", "VARCHAR[]"},
		c.typ) {
		return "CAST(" + name + " AS VARCHAR)"
	}
	return ""
}

// epochNS returns the SQL of a timestamp as ns since 1970, and "" for other types. A timestamp without a zone
// is in UTC, as in Parquet's specification of isAdjustedToUTC and for INT96, which has no zone at all. DuckDB
// reads INT96 and timestamps with a zone with a resolution of 1 µs.
func (c flowColumn) epochNS() string {
	name := duckdb.Ident(c.name)
	switch c.typ {
	case "TIMESTAMP_NS":
		return "epoch_ns(" + name + ")"
	case "TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S", "TIMESTAMPTZ":
		return "TRY_CAST(CAST(epoch_us(" + name + ") AS HUGEINT) * 1000 AS BIGINT)"
	}
	return ""
}

func (c flowColumn) whole() bool {
	return slices.Contains([]string{"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT",
		"USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}, c.typ)
}

// flowColumns lists the columns of table flows that come from a trace.
func flowColumns() string {
	var names []string
	for _, c := range schema.Flows.Columns {
		if c.Name != "connection_id" && c.Name != "background" {
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

// writeWaits writes the dependencies of the flows in view judged, if there are any. typed is the file that
// has the rows that the mapping yields.
func (in *Ingester) writeWaits(ctx context.Context, w fileWork, typed string, stats *FileStats) error {
	var waiting int64
	err := in.query(ctx, "SELECT (SELECT count(after) FROM "+duckdb.ScanParquet(typed)+"), "+
		"(SELECT count(*) FROM "+duckdb.ScanParquet(stats.RecordsFile)+" WHERE size_bytes = 0)",
		&waiting, &stats.ComputeSteps)
	if err != nil || waiting == 0 {
		return err
	}
	file := filepath.Join(in.o.TmpDir, fmt.Sprintf("waits-%d.parquet", w.n))
	err = in.exec(ctx, keep(`SELECT coalesce(flow_id, "row" - 1) AS flow_id, unnest(waits_for) AS after_flow_id,
coalesce(whole(delay_ns), 0) AS delay_ns FROM judged WHERE reason IS NULL AND after IS NOT NULL`, file))
	if err != nil {
		return err
	}
	stats.WaitsFile = file
	return in.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(file), &stats.Waits)
}

// dependencies writes table dependencies for the flows of a file. A flow may depend only on flows of the
// file, and not on itself, directly or indirectly.
func (in *Ingester) dependencies(ctx context.Context, f *FileStats, flowsFile, out string) error {
	err := in.exec(ctx, step("waits", values{"flows": duckdb.Quote(duckdb.EscapeGlob(flowsFile)),
		"waits": duckdb.ScanParquet(f.WaitsFile)}))
	if err != nil {
		return err
	}
	var wrong, backwards int64
	var example string
	err = in.query(ctx, step("wrong_waits", nil), &wrong, &example)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("column after: %s (the first of %d)%s", example, wrong, rowIDs(f))
	}
	if err == nil {
		err = in.exec(ctx, copyTo(schema.Dependencies, "SELECT * FROM waits ORDER BY flow_row, after_row", out))
	}
	if err == nil {
		err = in.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(out)+" WHERE after_row > flow_row",
			&backwards)
	}
	if err != nil || backwards == 0 { // in the order of the rows there is no cycle
		return err
	}
	if err = in.checkCycles(ctx, out); err != nil {
		err = fmt.Errorf("%w%s", err, rowIDs(f))
	}
	return err
}

// rowIDs returns the flow ids of rows that have none.
func rowIDs(f *FileStats) string {
	if f.AnyFlowID {
		return ""
	}
	return "; without column flow_id, ids are the numbers of the rows, from 0"
}

// checkCycles returns an error that names the flows of a cycle, if there is one. It holds the dependencies in
// memory.
func (in *Ingester) checkCycles(ctx context.Context, file string) error {
	waits := map[int64][]int64{} // by flow: the flows that it waits for and that were not followed yet
	var flows []int64
	err := in.each(ctx, "SELECT flow_id, after_flow_id FROM "+duckdb.ScanParquet(file)+
		" ORDER BY flow_row, after_row", func(rows *sql.Rows) error {
		var flow, of int64
		err := rows.Scan(&flow, &of)
		if waits[flow] == nil {
			flows = append(flows, flow)
		}
		waits[flow] = append(waits[flow], of)
		return err
	})
	if err != nil {
		return err
	}
	const onPath, done = 1, 2
	state := map[int64]int{}
	for _, flow := range flows { // depth first
		for path := []int64{flow}; len(path) > 0; {
			last := path[len(path)-1]
			if len(waits[last]) == 0 {
				state[last] = done
				path = path[:len(path)-1]
				continue
			}
			next := waits[last][0]
			state[last] = onPath
			waits[last] = waits[last][1:]
			if state[next] == onPath {
				cycle := path[slices.Index(path, next):]
				flows := names.Of(append(slices.Clone(cycle[:min(len(cycle), 20)]), next),
					func(flow int64) string { return fmt.Sprint(flow) })
				return fmt.Errorf("column after: %d flows wait for each other: %s", len(cycle),
					strings.Join(flows, " after "))
			}
			if state[next] != done {
				path = append(path, next)
			}
		}
	}
	return nil
}

// steps are the SQL of ingest. A statement contains $NAME for values.
//
//go:embed steps/*.sql
var steps embed.FS

type values map[string]any

// connection lists the columns that the records of one connection share.
const connection = "src, dst, protocol, src_port, dst_port"

// sameInAll are the values that do not depend on what is ingested.
var sameInAll = values{
	"connection": connection,
	// These are all columns of a record except its position, and those that a correction of a record does not
	// change.
	"whole_record": connection + ", observer, size_bytes, start_ns, end_ns, resolution_ns, samples, flow_id, " +
		"service, vnet, dscp",
	"record_time":  connection + ", observer, start_ns, end_ns",
	"header_bytes": headerBytes,
	"max_bytes":    maxFlowBytes, "max_start_ns": maxStartNS,
	"first_ns": firstNS, "skew_ns": skewNS, "longest_ns": longestNS, "spread_ns": stuckNS,
	"least_rows": stuckRows,
	"no_bytes":   noBytes, "off_fabric": offFabric, "same_host": sameHost,
	"no_start": noStart, "stuck_start": stuckStart,
	"out_of_time": outOfTime, "end_out_of_time": endOutOfTime,
	"unknown_src": unknownSrc, "unknown_dst": unknownDst, "acks_alone": acksAlone,
}

// step returns the SQL of steps/NAME.sql with its values.
func step(name string, of values) string {
	text, err := steps.ReadFile("steps/" + name + ".sql")
	if err != nil {
		panic("ingest: " + err.Error()) // embedded in the program
	}
	return os.Expand(string(text), func(key string) string {
		v, known := of[key]
		if !known {
			v, known = sameInAll[key]
		}
		if !known {
			panic("ingest: " + name + ".sql has no value of " + key)
		}
		return fmt.Sprint(v)
	})
}
