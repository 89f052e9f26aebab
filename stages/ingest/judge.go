package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// canonicalColumn is a column that a mapping may yield, and its SQL type. Type "protocol" stands for a number, or a
// name such as tcp, of an IP protocol, and becomes a SMALLINT.
type canonicalColumn struct{ name, typ string }

var canonical = []canonicalColumn{
	{"row", "BIGINT"}, {"flow_id", "BIGINT"}, {"src", "VARCHAR"}, {"dst", "VARCHAR"}, {"protocol", "protocol"},
	{"src_port", "INTEGER"}, {"dst_port", "INTEGER"}, {"observer", "VARCHAR"}, {"interface", "VARCHAR"},
	{"size_bytes", "BIGINT"}, {"sampling_rate", "BIGINT"}, {"start_ns", "BIGINT"}, {"end_ns", "BIGINT"},
	{"start_resolution_ns", "BIGINT"}, {"packets", "BIGINT"}, {"sampled", "BOOLEAN"}, {"service", "VARCHAR"},
	{"vnet", "VARCHAR"}, {"set_aside", "VARCHAR"}, {"after", "VARCHAR"}, {"delay_ns", "VARCHAR"}, {"dscp", "VARCHAR"},
}

// typed runs the mapping and makes view typed: the canonical columns with their types, NULL where a value is not of the
// type. Another column, has_id, says whether there is a value for flow_id. The mapping runs in a database of its own,
// which opens no file but the staged rows and the result: its SQL may be a user's.
func (in *Ingester) typed(ctx context.Context, m *Mapping, src rowSource, out string) (anyFlowID bool, err error) {
	undo := func() error { return nil }
	if m.foreign { // DuckDB does not count all of its memory
		if undo, err = in.limits("mapping").LimitProcess(); err != nil {
			return false, err
		}
	}
	err = in.runMapping(ctx, m, src, out)
	if duckdb.IsOutOfMemory(err) {
		err = fmt.Errorf("it needs more memory than its limit: %w", err)
	}
	if err = errors.Join(err, undo()); err != nil {
		return false, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	err = in.query(ctx, "CREATE OR REPLACE TEMP VIEW typed AS FROM "+duckdb.ScanParquet(out)+
		"; SELECT coalesce(bool_or(has_id), false) FROM typed", &anyFlowID)
	return anyFlowID, err
}

func (in *Ingester) runMapping(ctx context.Context, m *Mapping, src rowSource, out string) (err error) {
	db, c, err := connect(ctx, in.limits("mapping"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.conn.Close(), db.Close()) }()
	err = c.exec(ctx, "CREATE TEMP VIEW source AS SELECT * EXCLUDE (raw, broken) FROM ("+src.relation+
		") WHERE broken = ''; SET preserve_insertion_order=false")
	if err != nil {
		return err
	}
	staged, err := filepath.Abs(src.file)
	if err != nil {
		return err
	}
	err = duckdb.Lock(ctx, db, src.file, duckdb.EscapeGlob(src.file), staged, duckdb.EscapeGlob(staged), out)
	if err != nil {
		return err
	}
	have, err := c.mappingColumns(ctx, m)
	if err != nil {
		return err
	}
	var list []string
	for _, k := range canonical {
		column, ok := have[k.name]
		text, err := k.cast(column, ok)
		if err != nil {
			return err
		}
		if ok && k.name == "end_ns" {
			text = "or_beyond(" + text + ", CAST(" + duckdb.Ident(column.name) + " AS VARCHAR))"
		}
		list = append(list, text+" AS "+duckdb.Ident(k.name))
		switch id := duckdb.Ident(column.name); {
		case k.name != "flow_id":
		case ok && column.typ == "VARCHAR": // NULL and text that is not an id are different
			list = append(list, "nullif(trim("+id+"), '') IS NOT NULL AS has_id")
		case ok && m.numbers:
			list = append(list, id+" IS NOT NULL AS has_id")
		default:
			list = append(list, fmt.Sprintf("%v AS has_id", ok))
		}
	}
	return c.exec(ctx, keep("SELECT "+strings.Join(list, ", ")+" FROM ("+m.query+")", out))
}

// mappingColumns returns the columns that the mapping yields, by name in lower case.
func (in duck) mappingColumns(ctx context.Context, m *Mapping) (map[string]flowColumn, error) {
	if _, err := duckdb.InspectSelect(ctx, in.conn, m.query); err != nil {
		return nil, err
	}
	columns, err := in.columns(ctx, "SELECT * FROM ("+m.query+")")
	if err != nil {
		return nil, err
	}
	have := map[string]flowColumn{}
	for _, c := range columns {
		name := strings.ToLower(c.name)
		if _, twice := have[name]; twice {
			return nil, fmt.Errorf("yields column %s twice", c.name)
		}
		have[name] = c
		if !slices.ContainsFunc(canonical, func(k canonicalColumn) bool { return k.name == name }) {
			return nil, fmt.Errorf("yields column %s, which is not a canonical column", c.name)
		}
	}
	for _, required := range []string{"row", "src", "dst", "size_bytes", "start_ns"} {
		if have[required].name == "" {
			return nil, fmt.Errorf("yields no column %s", required)
		}
	}
	return have, nil
}

// cast returns the SQL that casts a column of the mapping, if there is one, to the canonical type.
func (k canonicalColumn) cast(c flowColumn, ok bool) (string, error) {
	name := duckdb.Ident(c.name)
	switch {
	case !ok && k.typ == "protocol":
		return "CAST(NULL AS SMALLINT)", nil
	case !ok:
		return fmt.Sprintf("CAST(NULL AS %s)", k.typ), nil
	case k.typ == "protocol":
		t := "upper(trim(CAST(" + name + " AS VARCHAR)))"
		return "CASE " + t + " WHEN 'TCP' THEN 6 WHEN 'UDP' THEN 17 WHEN 'ICMP' THEN 1 WHEN 'IPV6-ICMP' THEN 58 " +
			"WHEN 'ICMPV6' THEN 58 WHEN 'SCTP' THEN 132 ELSE TRY_CAST(" + t + " AS UTINYINT) END::SMALLINT", nil
	case k.typ == "VARCHAR":
		return "CAST(" + name + " AS VARCHAR)", nil
	case k.typ == "BOOLEAN":
		return "TRY_CAST(" + name + " AS BOOLEAN)", nil
	case c.whole():
		return "TRY_CAST(" + name + " AS " + k.typ + ")", nil
	}
	text := c.asText()
	if text == "" {
		return "", fmt.Errorf("column %s is of type %s, want integers", c.name, c.typ)
	}
	return "TRY_CAST(whole(" + text + ") AS " + k.typ + ")", nil
}

// addresses looks up every address of view typed once, and creates tables addresses, of those that are hosts, and
// class_labels, of the labels of all address classes so far.
func (in *Ingester) addresses(ctx context.Context) error {
	var hosts, labels []string
	err := in.each(ctx,
		"SELECT src FROM typed WHERE src IS NOT NULL UNION SELECT dst FROM typed WHERE dst IS NOT NULL",
		func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			if node := in.book.host(text); node >= 0 && in.book.isHosts[node] {
				hosts = append(hosts, fmt.Sprintf("(%s, %d, %d)", duckdb.Quote(text), node, in.book.class(text)))
			}
			return nil
		})
	if err == nil {
		err = in.create(ctx, "addresses (address VARCHAR, node INTEGER, class INTEGER)", hosts)
	}
	for class, ranges := range in.book.classOf {
		for port, l := range ranges.byPort() {
			labels = append(labels, fmt.Sprintf("(%d, %d, %s, %s)", class, port, duckdb.Quote(l.service), duckdb.Quote(l.vnet)))
		}
	}
	if err == nil {
		err = in.create(ctx, "class_labels (class INTEGER, port INTEGER, service VARCHAR, vnet VARCHAR)", labels)
	}
	return err
}

func (in *Ingester) create(ctx context.Context, table string, rows []string) error {
	err := in.exec(ctx, "CREATE OR REPLACE TEMP TABLE "+table)
	name, _, _ := strings.Cut(table, " ")
	for part := range slices.Chunk(rows, 512) {
		if err == nil {
			err = in.exec(ctx, "INSERT INTO "+name+" VALUES "+strings.Join(part, ", "))
		}
	}
	return err
}

// judge creates the view judged: the typed rows with their hosts, labels and, for rows that cannot be used, the
// reason. The labels of a row are its own (with Options.LabelsFirst the last choice), else those of its destination,
// else those of its source.
func (in *Ingester) judge(ctx context.Context, n int32, stats *FileStats) error {
	lo, hi, err := in.plausible(ctx)
	if err != nil {
		return err
	}
	return in.exec(ctx, step("judge", values{"service": in.labelOrder("service"), "vnet": in.labelOrder("vnet"),
		"source": n, "any_id": stats.AnyFlowID, "lo": lo, "hi": hi, "rate": max(1, in.o.SamplingRate)}))
}

// headerBytes is the most that a packet of TCP without data has: 20 bytes of IPv4 (IPv6: 40), 20 of TCP, and 20 of
// options in the first packet of a connection (RFC 9293; timestamps, which all may have, are 12).
const headerBytes = 60

// acksAlone is why a record is no flow although it has bytes: the way back of a flow, which a simulation makes itself.
const acksAlone = "TCP without data, such as ACKs alone"

// labelOrder lists where the label of a row may come from, the first choice first.
func (in *Ingester) labelOrder(name string) string {
	order := []string{"nullif(trim(j." + name + "), '')"}
	for _, of := range []string{"dp", "da", "sp", "sa"} {
		order = append(order, "nullif("+of+"."+name+", '')")
	}
	if in.o.LabelsFirst {
		order = append(order[1:], order[0])
	}
	return strings.Join(order, ", ")
}

// plausible returns the first and the last start that are accepted: what the simulator can represent before and
// after the day in which the median row starts.
func (in *Ingester) plausible(ctx context.Context) (lo, hi int64, err error) {
	var day sql.NullInt64
	err = in.query(ctx, step("median_day", nil), &day)
	if err != nil || !day.Valid {
		return 0, maxStartNS, err
	}
	const dayNS = 86400e9
	return max(0, day.Int64*dayNS-maxSpanNS), min(maxStartNS, (day.Int64+1)*dayNS+maxSpanNS), nil
}
