package ingest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
)

// A canonicalColumn is a column that a mapping may yield, with its SQL type. Type "protocol" means a number
// or a name of an IP protocol, such as tcp, and becomes a SMALLINT.
type canonicalColumn struct{ name, typ string }

var canonical = []canonicalColumn{
	{"row", "BIGINT"}, {"flow_id", "BIGINT"}, {"src", "VARCHAR"}, {"dst", "VARCHAR"}, {"protocol", "protocol"},
	{"src_port", "INTEGER"}, {"dst_port", "INTEGER"}, {"observer", "VARCHAR"}, {"interface", "VARCHAR"},
	{"size_bytes", "BIGINT"}, {"sampling_rate", "BIGINT"}, {"start_ns", "BIGINT"}, {"end_ns", "BIGINT"},
	{"start_resolution_ns", "BIGINT"}, {"packets", "BIGINT"}, {"sampled", "BOOLEAN"}, {"service", "VARCHAR"},
	{"vnet", "VARCHAR"}, {"set_aside", "VARCHAR"}, {"fault", "VARCHAR"}, {"after", "VARCHAR"},
	{"delay_ns", "VARCHAR"},
	{"dscp", "VARCHAR"}, {"received_ns", "BIGINT"}, {reverseBytes, "BIGINT"}, {"reverse_packets", "BIGINT"},
	{"reverse_start_ns", "BIGINT"},
}

// reverseBytes is the column of the bytes from dst to src, if records have both directions.
const reverseBytes = "reverse_bytes"

// protocols has the names of IP protocols that programs write, with their IANA numbers.
var protocols = []struct {
	name   string
	number int
}{
	{"TCP", 6}, {"UDP", 17}, {"ICMP", 1}, {"IPV6-ICMP", 58}, {"ICMPV6", 58}, {"ICMP6", 58}, {"SCTP", 132},
	{"IGMP", 2},
	{"GRE", 47}, {"ESP", 50}, {"AH", 51}, {"IPV6", 41}, {"IPIP", 4}, {"OSPF", 89}, {"OSPFIGP", 89},
	{"EIGRP", 88},
	{"PIM", 103}, {"VRRP", 112}, {"L2TP", 115}, {"UDPLITE", 136}, {"UDP-LITE", 136}, {"RSVP", 46}, {"DCCP", 33},
}

// typed runs the mapping and creates view typed, which has the canonical columns with their types. A value
// that is not of the type is NULL. Another column, has_id, tells whether flow_id has a value.
func (in *Ingester) typed(ctx context.Context, m *Mapping, src rowSource, out string) (anyFlowID bool,
	err error) {
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
	mapped := duckdb.ScanParquet(out)
	var both bool
	err = in.query(ctx, "SELECT coalesce(bool_or(has_id), false), "+
		"coalesce(bool_or(reverse_given AND reverse_bytes IS DISTINCT FROM 0), false) FROM "+mapped,
		&anyFlowID, &both)
	if err != nil {
		return false, err
	}
	of := values{"mapped": mapped, "reversed": ""}
	if both {
		of["reversed"] = step("reversed", of)
	}
	const view = ";\nCREATE OR REPLACE TEMP VIEW typed AS FROM directions"
	return anyFlowID, in.exec(ctx, step("directions", of)+view)
}

// runMapping runs the mapping over the staged rows, and writes the canonical columns to the file out. The SQL
// of a mapping of the user runs in a separate database, which opens only these two files.
func (in *Ingester) runMapping(ctx context.Context, m *Mapping, src rowSource, out string) (err error) {
	if !m.foreign {
		err = in.readSource(ctx, src)
		if err == nil {
			err = in.writeMapped(ctx, m, out)
		}
		return errors.Join(err, in.exec(context.WithoutCancel(ctx), "RESET preserve_insertion_order"))
	}
	c := duck{options: in.limits("mapping")}
	defer func() { err = errors.Join(err, c.closeDuckDB()) }()
	if err := c.readSource(ctx, src); err != nil {
		return err
	}
	staged, err := filepath.Abs(src.file)
	if err != nil {
		return err
	}
	err = duckdb.Lock(ctx, c.db, src.file, duckdb.EscapeGlob(src.file), staged, duckdb.EscapeGlob(staged), out)
	if err != nil {
		return err
	}
	return c.writeMapped(ctx, m, out)
}

// readSource creates view source, which mappings read: the staged rows that are not broken.
func (in *duck) readSource(ctx context.Context, src rowSource) error {
	return in.exec(ctx, "CREATE OR REPLACE TEMP VIEW source AS SELECT * EXCLUDE (raw, broken) FROM ("+
		src.relation+") WHERE broken = ''; SET preserve_insertion_order=false")
}

// writeMapped writes what the mapping yields of view source to a Parquet file.
func (in *duck) writeMapped(ctx context.Context, m *Mapping, out string) error {
	have, err := in.mappingColumns(ctx, m)
	if err != nil {
		return err
	}
	list, err := m.canonicalSQL(have)
	if err != nil {
		return err
	}
	return in.exec(ctx, keep("SELECT "+list+" FROM ("+m.query+")", out))
}

// canonicalSQL returns the SQL of the canonical columns, and of columns that tell which values are given:
// has_id, reverse_given, and the names of integer columns whose value cannot be read (unreadable,
// unreadable_port).
func (m *Mapping) canonicalSQL(have map[string]flowColumn) (string, error) {
	var list []string
	var unreadable, unreadablePort strings.Builder
	for _, k := range canonical {
		column, ok := have[k.name]
		text, err := k.cast(column, ok)
		if err != nil {
			return "", err
		}
		if ok && k.name == "end_ns" {
			text = "or_beyond(" + text + ", CAST(" + duckdb.Ident(column.name) + " AS VARCHAR))"
		}
		list = append(list, text+" AS "+duckdb.Ident(k.name))
		if !ok {
			continue
		}
		given := "nullif(trim(CAST(" + duckdb.Ident(column.name) + " AS VARCHAR)), '') IS NOT NULL"
		when := "WHEN " + given + " AND (" + text + ") IS NULL THEN " + duckdb.Quote(k.name) + " "
		switch k.name {
		case "src_port", "dst_port":
			unreadablePort.WriteString(when)
		case "protocol":
			unreadable.WriteString(strings.Replace(when, given, given+" AND regexp_matches(trim(CAST("+
				duckdb.Ident(column.name)+" AS VARCHAR)), '^[+-]?[0-9]')", 1))
		case "packets", "reverse_packets", "sampling_rate", "start_resolution_ns":
			unreadable.WriteString(when)
		}
	}
	caseOf := func(whens string) string {
		if whens == "" {
			return "CAST(NULL AS VARCHAR)"
		}
		return "CASE " + whens + "END"
	}
	list = append(list, m.given(have["flow_id"])+" AS has_id", m.given(have[reverseBytes])+" AS reverse_given",
		caseOf(unreadable.String())+" AS unreadable", caseOf(unreadablePort.String())+" AS unreadable_port")
	return strings.Join(list, ", "), nil
}

// given returns the SQL of whether a column of the mapping has a value, of its type or not.
func (m *Mapping) given(column flowColumn) string {
	id := duckdb.Ident(column.name)
	switch {
	case column.name == "":
		return "false"
	case column.typ == "VARCHAR": // NULL and text that is not a number are different
		return "nullif(trim(" + id + "), '') IS NOT NULL"
	case m.numbers || strings.EqualFold(column.name, reverseBytes):
		return id + " IS NOT NULL"
	}
	return "true"
}

// mappingColumns returns the columns that the mapping yields, by name in lower case.
func (in *duck) mappingColumns(ctx context.Context, m *Mapping) (map[string]flowColumn, error) {
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
	if have[reverseBytes].name != "" && !m.Records {
		return nil, errors.New("yields column " + reverseBytes + ", which needs header line \"-- rows: records\"")
	}
	for _, required := range []string{"row", "src", "dst", "size_bytes", "start_ns"} {
		if have[required].name == "" {
			return nil, fmt.Errorf("yields no column %s", required)
		}
	}
	return have, nil
}

// cast returns the SQL that casts a column of the mapping, if it exists, to the canonical type.
func (k canonicalColumn) cast(c flowColumn, ok bool) (string, error) {
	name := duckdb.Ident(c.name)
	switch {
	case !ok && k.typ == "protocol":
		return "CAST(NULL AS SMALLINT)", nil
	case !ok:
		return fmt.Sprintf("CAST(NULL AS %s)", k.typ), nil
	case k.typ == "protocol":
		text := "CAST(" + name + " AS VARCHAR)"
		number := "TRY_CAST(whole(" + text + ") AS UTINYINT)" // first: DuckDB evaluates text for each name
		named := "CASE upper(trim(" + text + "))"
		for _, p := range protocols {
			named += fmt.Sprintf(" WHEN '%s' THEN %d", p.name, p.number)
		}
		return "coalesce(CAST(" + number + " AS SMALLINT), CAST(" + named + " END AS SMALLINT))", nil
	case k.typ == "VARCHAR":
		return "CAST(" + name + " AS VARCHAR)", nil
	case k.typ == "BOOLEAN":
		return "TRY_CAST(" + name + " AS BOOLEAN)", nil
	case c.whole():
		return "TRY_CAST(" + name + " AS " + k.typ + ")", nil
	case c.epochNS() != "" && strings.HasSuffix(c.name, "_ns"):
		return c.epochNS(), nil
	}
	text := c.asText()
	if text == "" {
		return "", fmt.Errorf("column %s is of type %s, want integers", c.name, c.typ)
	}
	return "TRY_CAST(whole(" + text + ") AS " + k.typ + ")", nil
}

// addresses looks up each address of view typed once. It creates table addresses, with those that are hosts
// or off the fabric, and table class_labels, with the labels of all address classes so far.
func (in *Ingester) addresses(ctx context.Context) error {
	var hosts []string
	err := in.each(ctx,
		"SELECT src FROM typed WHERE src IS NOT NULL UNION SELECT dst FROM typed WHERE dst IS NOT NULL",
		func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			node, err := in.book.host(text)
			switch {
			case err != nil:
			case node >= 0 && in.book.isHosts[node]:
				hosts = append(hosts, fmt.Sprintf("(%s, %d, %d, false)", duckdb.Quote(text), node, in.book.class(text)))
			case node < 0 && in.book.isOff(text):
				hosts = append(hosts, fmt.Sprintf("(%s, NULL, NULL, true)", duckdb.Quote(text)))
			}
			return err
		})
	if err == nil {
		err = in.create(ctx, "addresses (address VARCHAR, node INTEGER, class INTEGER, off_fabric BOOLEAN)", hosts)
	}
	if err == nil {
		err = in.create(ctx, "class_ranges (class INTEGER, lo INTEGER, hi INTEGER, rank BIGINT, service VARCHAR, "+
			"vnet VARCHAR)", in.book.classRows())
	}
	if err == nil {
		err = in.exec(ctx, "CREATE OR REPLACE TEMP TABLE class_labels AS "+
			"SELECT class, unnest(range(lo, hi + 1)) AS port, rank, service, vnet FROM class_ranges")
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

// classRows returns the rows of table class_ranges.
func (b *addressBook) classRows() (rows []string) {
	for number, c := range b.classOf {
		labels := c.byPort()
		others, found := c.others()
		if found {
			labels = append(labels, others)
		}
		for _, l := range labels {
			rows = append(rows, fmt.Sprintf("(%d, %d, %d, %d, %s, %s)", number, l.lo, l.hi, l.rank,
				duckdb.Quote(l.service), duckdb.Quote(l.vnet)))
		}
	}
	return rows
}

// judge creates view judged: the typed rows with their effective times, their hosts, their labels and, for
// rows that cannot be used, the reason.
func (in *Ingester) judge(ctx context.Context, w fileWork, stats *FileStats) error {
	stuck := int64(-1)
	if w.m.Records {
		var found sql.NullInt64
		var rows, alike, firstSeenNS, lastSeenNS int64
		err := in.query(ctx, step("stuck", nil), &found, &rows, &alike, &firstSeenNS, &lastSeenNS)
		if err != nil {
			return err
		}
		if w.regular != nil && w.regular.mayBeStuck(rows, alike, firstSeenNS, lastSeenNS) {
			return errIrregular
		}
		if w.regular == nil && found.Valid {
			stuck = found.Int64
		}
	}
	of := values{"is_log": w.m.Records, "stuck": stuck, "source": w.n, "any_id": stats.AnyFlowID,
		"service": in.labelSQL("service"), "vnet": in.labelSQL("vnet"), "rate": max(1, in.o.SamplingRate)}
	if err := in.exec(ctx, step("timed", of)); err != nil {
		return err
	}
	var err error
	if of["lo"], of["hi"], err = in.plausible(ctx, w, stats); err != nil {
		return err
	}
	return in.exec(ctx, step("judge", of))
}

// These are limits for start times of flow logs. Clocks of exporters and collectors differ by at most skewNS.
// If more than half of the rows, and at least stuckRows, have the same start although they were received over
// more than stuckNS, this start is not a time.
const (
	firstNS   = int64(946684800e9) // the year 2000
	skewNS    = int64(60e9)
	longestNS = int64(86400e9)
	stuckNS   = int64(3600e9)
	stuckRows = 20
)

// These are reasons for which rows are not flows, although they are not faults.
const (
	noBytes   = "no bytes"
	offFabric = "an end is off the fabric (--off-fabric)"
	sameHost  = "src and dst are the same host"
)

// Reasons of times.
const (
	noStart = "start_ns is before the year 2000, as if the exporter gave no time, and the format has no " +
		"time of reception"
	stuckStart = "start_ns is the same in most rows, which came over more than an hour: it is no time"
	outOfTime  = "start_ns is out of time: over 15 days from the middle of the file (is it in ns?)"
	// endOutOfTime is the reason for rows whose start is in time.
	endOutOfTime = "end_ns is out of time: over 15 days from the middle of the file (is it in ns?)"
)

// headerBytes is the maximum size of a TCP packet without data: 20 bytes of IPv4 (IPv6: 40), 20 of TCP, and
// 20 of options in the first packet of a connection (RFC 9293). Timestamps, which all packets may have, take
// 12 bytes.
const headerBytes = 60

// acksAlone is the reason for which a record with bytes is not a flow: it is the reverse direction of a flow,
// which the simulation produces itself.
const acksAlone = "TCP without data, such as ACKs alone"

// labelSQL returns the SQL of a label of a row. It is the label of the row itself (with Options.LabelsFirst,
// only if the table has none), otherwise that of the end whose row of the labels table is more specific,
// otherwise that of the other end.
func (in *Ingester) labelSQL(name string) string {
	choices := func(of ...string) string {
		return strings.Join(names.Of(of, func(of string) string { return "nullif(" + of + "." + name + ", '')" }),
			", ")
	}
	table := "CASE WHEN coalesce(sp.rank, sa.rank, -1) > coalesce(dp.rank, da.rank, -1) THEN coalesce(" +
		choices("sp", "sa", "dp", "da") + ") ELSE coalesce(" + choices("dp", "da", "sp", "sa") + ") END"
	own := "nullif(trim(j." + name + "), '')"
	if in.o.LabelsFirst {
		return table + ", " + own
	}
	return own + ", " + table
}

// plausible returns the first and the last start that are accepted: the range around the day of the median
// start that the simulator can represent.
func (in *Ingester) plausible(ctx context.Context, w fileWork, stats *FileStats) (lo, hi int64, err error) {
	from := int64(0)
	if w.m.Records {
		from = firstNS
	}
	days := map[int64]int64{}
	if w.regular != nil {
		maps.Copy(days, w.regular.days)
	}
	err = in.each(ctx, step("days", values{"from_ns": from}), func(rows *sql.Rows) error {
		var day, n int64
		err := rows.Scan(&day, &n)
		days[day] += n
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return boundsOfDay(days, w.regular, stats)
}

// dayNS is a day.
const dayNS = int64(86400e9)

// boundsOfDay returns the range around the median of days, which have numbers of rows. The error is
// errIrregular if a regular row is out of it.
func boundsOfDay(days map[int64]int64, regular *regularRows, stats *FileStats) (lo, hi int64, err error) {
	var all, upto int64
	for _, n := range days {
		all += n
	}
	if all == 0 {
		return 0, maxStartNS, nil
	}
	for _, day := range slices.Sorted(maps.Keys(days)) {
		upto += days[day]
		if 2*upto >= all {
			stats.medianDayNS = day * dayNS
			break
		}
	}
	lo = max(0, stats.medianDayNS-maxSpanNS)
	hi = min(maxStartNS, stats.medianDayNS+dayNS+maxSpanNS)
	if regular != nil && regular.n > 0 && (regular.firstNS < lo || regular.lastNS > hi) {
		err = errIrregular
	}
	return lo, hi, err
}

// noteClock adds notes about the times of a flow log: rows with the time of their reception as start, and a
// clock that differs from that of the receiver by hours, as in another time zone.
func (in *Ingester) noteClock(ctx context.Context, w fileWork) error {
	var received, rows, quarters, alike, timed int64
	var shifts []string
	if w.regular != nil {
		for quarters, n := range w.regular.quarters {
			shifts = append(shifts, fmt.Sprintf("(%d, %d)", quarters, n))
		}
	}
	err := in.create(ctx, "regular_shifts (quarters BIGINT, n BIGINT)", shifts)
	if err == nil {
		err = in.query(ctx, step("clock", nil), &received, &rows, &quarters, &alike, &timed)
	}
	if err != nil {
		return err
	}
	if w.regular != nil {
		rows += w.regular.timed
	}
	if received > 0 {
		in.note("reception", w.file,
			fmt.Sprintf(": %d of %d records have no start that means a time (0, before the year 2000, after their "+
				"reception, or the same in most rows): the time of their reception counts", received,
				rows))
	}
	in.noteShift(w.file, quarters, alike, timed)
	return nil
}

// noteShift adds a note if most of the records with a time of reception end hours before or after it.
// quarters is by how many quarters of an hour alike of timed records do.
func (in *Ingester) noteShift(file string, quarters, alike, timed int64) {
	if quarters*quarters < 4 || 2*alike <= timed {
		return
	}
	which := "after"
	if quarters < 0 {
		which = "before"
	}
	in.note("clock", file, fmt.Sprintf(
		": %d of %d records end %g hours %s their reception: is the clock of the exporter, or the text of its "+
			"times, of another time zone?", alike, timed, math.Abs(float64(quarters))/4,
		which))
}
