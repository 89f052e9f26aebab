package ingest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/schema"
)

// FileStats says what a source file held. Its rows are records and rejects: none is lost.
type FileStats struct {
	RecordsFile, RejectsFile string // Parquet of tables records and rejects, in TmpDir; rejects only if there are any
	Rows, Records, Rejects   int64
	// SetAside of the rejects say themselves that they are no flows (SetAside of a mapping).
	SetAside int64
	Reasons  []RejectCount // most frequent first
	// AnyFlowID: the rows have ids of their own.
	AnyFlowID bool
}

// A rowSource is a staged file: a relation with columns "row" and raw, the mapping's columns as
// text, and broken, which says why a row cannot be read.
type rowSource struct {
	relation string // SELECT
	rows     int64  // broken ones included
	broken   int64
}

// File reads one source file, the n-th from 1, through the mapping and leaves its rows as table
// records and table rejects. Errors name the file.
func (in *Ingester) File(file string, n int32) (FileStats, error) {
	stats, err := in.file(file, n)
	if err != nil && in.ctx.Err() != nil {
		return stats, in.ctx.Err()
	}
	if err != nil {
		return stats, inFile(file, err)
	}
	return stats, nil
}

// inFile names the file in an error that does not yet.
func inFile(file string, err error) error {
	if strings.HasPrefix(err.Error(), "flow file ") {
		return err
	}
	return fmt.Errorf("flow file %s: %w", file, err)
}

func (in *Ingester) file(file string, n int32) (stats FileStats, err error) {
	if err := checkFlowFile(in.ctx, file); err != nil {
		return stats, err
	}
	dir := filepath.Join(in.o.TmpDir, fmt.Sprintf("source-%d", n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	src, err := in.stage(file, dir)
	if err != nil {
		return stats, err
	}
	stats.Rows = src.rows
	if stats.Rows == 0 {
		return stats, errors.New("holds no flow")
	}
	if err := in.exec("CREATE OR REPLACE TEMP VIEW staged AS " + src.relation); err != nil {
		return stats, err
	}
	if err := in.exec(`CREATE OR REPLACE TEMP VIEW source AS SELECT * EXCLUDE (raw, broken) FROM staged WHERE broken = ''`); err != nil {
		return stats, err
	}
	typed := filepath.Join(dir, "typed.parquet")
	if stats.AnyFlowID, err = in.typed(typed); err != nil {
		return stats, err
	}
	if err := in.addresses(typed); err != nil {
		return stats, err
	}
	if err := in.judge(typed, n, &stats); err != nil {
		return stats, err
	}
	return stats, in.writeRecords(file, n, src, &stats)
}

// canonical are the columns a mapping may yield, with the types they become.
var canonical = []struct{ name, typ string }{
	{"row", "BIGINT"}, {"flow_id", "BIGINT"}, {"src", "VARCHAR"}, {"dst", "VARCHAR"}, {"protocol", "protocol"}, {"src_port", "INTEGER"}, {"dst_port", "INTEGER"},
	{"observer", "VARCHAR"}, {"size_bytes", "BIGINT"}, {"sampling_rate", "BIGINT"}, {"start_ns", "BIGINT"}, {"end_ns", "BIGINT"}, {"start_resolution_ns", "BIGINT"},
	{"sampled", "BOOLEAN"}, {"service", "VARCHAR"}, {"vnet", "VARCHAR"}, {"set_aside", "VARCHAR"},
}

// typed runs the mapping and leaves the canonical columns, typed, NULL where a value is none.
func (in *Ingester) typed(out string) (anyFlowID bool, err error) {
	m := in.o.Mapping
	columns, err := in.columns("SELECT * FROM (" + m.query + ")")
	if err != nil {
		return false, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	have := map[string]flowColumn{}
	for _, c := range columns {
		have[strings.ToLower(c.name)] = c
		if !slices.ContainsFunc(canonical, func(k struct{ name, typ string }) bool { return strings.EqualFold(k.name, c.name) }) {
			return false, fmt.Errorf("mapping %s: yields column %s, which means nothing here", m.Name, c.name)
		}
	}
	for _, must := range []string{"row", "src", "dst", "size_bytes", "start_ns"} {
		if have[must].name == "" {
			return false, fmt.Errorf("mapping %s: yields no column %s", m.Name, must)
		}
	}
	var list []string
	for _, k := range canonical {
		c, ok := have[k.name]
		text := fmt.Sprintf("CAST(NULL AS %s)", k.typ)
		switch {
		case !ok && k.typ == "protocol":
			text = "CAST(NULL AS SMALLINT)"
		case !ok:
		case k.typ == "protocol":
			t := "upper(trim(CAST(" + identifier(c.name) + " AS VARCHAR)))"
			text = "CASE " + t + " WHEN 'TCP' THEN 6 WHEN 'UDP' THEN 17 WHEN 'ICMP' THEN 1 WHEN 'IPV6-ICMP' THEN 58 WHEN 'ICMPV6' THEN 58 WHEN 'SCTP' THEN 132 ELSE TRY_CAST(" + t + " AS UTINYINT) END::SMALLINT"
		case k.typ == "VARCHAR":
			text = "CAST(" + identifier(c.name) + " AS VARCHAR)"
		case k.typ == "BOOLEAN":
			text = "TRY_CAST(" + identifier(c.name) + " AS BOOLEAN)"
		default:
			if text = wholeNumber(identifier(c.name), c.typ, k.typ); text == "" {
				return false, fmt.Errorf("mapping %s: column %s is of type %s, want integers", m.Name, c.name, c.typ)
			}
		}
		list = append(list, text+" AS "+identifier(k.name))
		if k.name == "flow_id" && ok && c.typ == "VARCHAR" { // told apart: no id, and one that is none
			list = append(list, "nullif(trim("+identifier(c.name)+"), '') IS NOT NULL AS has_id")
		} else if k.name == "flow_id" {
			list = append(list, fmt.Sprintf("%v AS has_id", ok))
		}
	}
	if err := in.copy("SELECT "+strings.Join(list, ", ")+" FROM ("+m.query+")", out, false); err != nil {
		return false, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	err = in.query("SELECT coalesce(bool_or(has_id), false) FROM "+scanParquet(out)+"", &anyFlowID)
	return anyFlowID, err
}

// addresses looks up every address of a file once.
func (in *Ingester) addresses(typed string) error {
	if err := in.exec("CREATE OR REPLACE TEMP TABLE addresses (address VARCHAR, node INTEGER, class INTEGER)"); err != nil {
		return err
	}
	from := scanParquet(typed)
	rows, err := in.conn.QueryContext(in.ctx, "SELECT src FROM "+from+" WHERE src IS NOT NULL UNION SELECT dst FROM "+from+" WHERE dst IS NOT NULL")
	if err != nil {
		return FirstLine(err)
	}
	var unknown []string
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		unknown = append(unknown, text)
	}
	if err := rows.Err(); err != nil {
		return FirstLine(err)
	}
	for len(unknown) > 0 {
		take := min(len(unknown), 512)
		var b strings.Builder
		b.WriteString("INSERT INTO addresses VALUES ")
		known := 0
		for _, text := range unknown[:take] {
			node, class := in.book.host(text), in.book.class(text)
			if node < 0 || !in.book.isHost(node) {
				continue // the join finds nothing, which says so
			}
			if known > 0 {
				b.WriteByte(',')
			}
			known++
			fmt.Fprintf(&b, "(%s,%d,%d)", QuoteSQL(text), node, class)
		}
		unknown = unknown[take:]
		if known == 0 {
			continue
		}
		if err := in.exec(b.String()); err != nil {
			return err
		}
	}
	return in.classTable()
}

// classTable spells out the labels of the classes there are so far.
func (in *Ingester) classTable() error {
	if err := in.exec("CREATE OR REPLACE TEMP TABLE class_labels (class INTEGER, port INTEGER, service VARCHAR, vnet VARCHAR)"); err != nil {
		return err
	}
	for _, l := range in.book.classLabels() {
		if err := in.exec(fmt.Sprintf("INSERT INTO class_labels VALUES (%d, %d, %s, %s)", l.class, l.port, QuoteSQL(l.service), QuoteSQL(l.vnet))); err != nil {
			return err
		}
	}
	return nil
}

// judge makes the view judged: the typed rows with their hosts, labels and, for those that cannot be
// used, the reason.
func (in *Ingester) judge(typed string, n int32, stats *FileStats) error {
	from := scanParquet(typed)
	lo, hi, err := in.plausible(from)
	if err != nil {
		return err
	}
	return in.exec(fmt.Sprintf(`
CREATE OR REPLACE TEMP VIEW judged AS
WITH joined AS (
  SELECT t.*, s.node AS src_node, d.node AS dst_node, s.class AS src_class, d.class AS dst_class,
    CAST(t.size_bytes AS HUGEINT) * coalesce(t.sampling_rate, 1) AS whole_bytes,
    coalesce(t.end_ns, t.start_ns) AS last_ns
  FROM %s AS t LEFT JOIN addresses AS s ON t.src = s.address LEFT JOIN addresses AS d ON t.dst = d.address
), labelled AS (
  SELECT j.*,
    coalesce(nullif(trim(j.service), ''), nullif(dp.service, ''), nullif(da.service, ''), nullif(sp.service, ''), nullif(sa.service, ''), '') AS service_name,
    coalesce(nullif(trim(j.vnet), ''), nullif(dp.vnet, ''), nullif(da.vnet, ''), nullif(sp.vnet, ''), nullif(sa.vnet, ''), '') AS vnet_name
  FROM joined AS j
  LEFT JOIN class_labels AS dp ON dp.class = j.dst_class AND dp.port = j.dst_port
  LEFT JOIN class_labels AS da ON da.class = j.dst_class AND da.port = -1
  LEFT JOIN class_labels AS sp ON sp.class = j.src_class AND sp.port = j.src_port
  LEFT JOIN class_labels AS sa ON sa.class = j.src_class AND sa.port = -1
)
SELECT l.*, %d AS source,
  CASE
    WHEN set_aside IS NOT NULL THEN set_aside
    WHEN has_id AND flow_id IS NULL THEN 'flow_id is not an integer'
    WHEN %v AND NOT has_id THEN 'flow_id is missing'
    WHEN src IS NULL THEN 'src is missing'
    WHEN dst IS NULL THEN 'dst is missing'
    WHEN size_bytes IS NULL THEN 'size_bytes is not an integer'
    WHEN start_ns IS NULL THEN 'start_ns is not an integer'
    WHEN src_node IS NULL THEN 'src is not a host of the topology'
    WHEN dst_node IS NULL THEN 'dst is not a host of the topology'
    WHEN src_node = dst_node THEN 'src and dst are the same host'
    WHEN whole_bytes <= 0 THEN 'size_bytes is not positive'
    WHEN whole_bytes > %d THEN 'size_bytes is beyond 2^50'
    WHEN sampling_rate < 1 THEN 'sampling_rate is not positive'
    WHEN start_ns < 0 OR start_ns > %d THEN 'start_ns is negative or beyond 2^62'
    WHEN last_ns < start_ns THEN 'end_ns is before start_ns'
    WHEN start_ns < %d OR start_ns > %d OR last_ns > %d THEN 'start_ns is out of time: over 15 days from the middle of the file (is it in ns?)'
    WHEN start_resolution_ns < 0 OR start_resolution_ns > 86400000000000 THEN 'start_resolution_ns is negative or over a day'
  END AS reason
FROM labelled AS l`, from, n, stats.AnyFlowID, maxFlowBytes, maxStartNS, lo, hi, hi))
}

// plausible are the first and the last start that belong to a file: what the simulator can hold to
// both sides of the day in which the middle row starts.
func (in *Ingester) plausible(from string) (lo, hi int64, err error) {
	var day sql.NullInt64
	err = in.query(fmt.Sprintf(`
WITH days AS (SELECT start_ns // 86400000000000 AS day, count(*) AS n FROM %s WHERE start_ns BETWEEN 0 AND %d AND set_aside IS NULL GROUP BY day),
sums AS (SELECT day, sum(n) OVER (ORDER BY day) AS upto, sum(n) OVER () AS n FROM days)
SELECT min(day) FROM sums WHERE 2 * upto >= n`, from, maxStartNS), &day)
	if err != nil || !day.Valid {
		return 0, maxStartNS, err
	}
	const dayNS = 86400e9
	return max(0, day.Int64*dayNS-maxSpanNS), min(maxStartNS, (day.Int64+1)*dayNS+maxSpanNS), nil
}

// writeRecords leaves what is judged as Parquet, and counts it.
func (in *Ingester) writeRecords(file string, n int32, src rowSource, stats *FileStats) error {
	stats.RecordsFile = filepath.Join(in.o.TmpDir, fmt.Sprintf("records-%d.parquet", n))
	stats.RejectsFile = filepath.Join(in.o.TmpDir, fmt.Sprintf("rejects-%d.parquet", n))
	var typed int64
	if err := in.exec("CREATE OR REPLACE TEMP TABLE refused AS SELECT \"row\", reason, set_aside IS NOT NULL AS aside FROM judged WHERE reason IS NOT NULL"); err != nil {
		return err
	}
	records := `SELECT CAST(source AS INTEGER) AS source, "row", flow_id, src_node AS src, dst_node AS dst, protocol, src_port, dst_port, coalesce(observer, '') AS observer,
  CAST(whole_bytes AS BIGINT) AS size_bytes, start_ns, last_ns AS end_ns, coalesce(start_resolution_ns, 0) AS resolution_ns,
  coalesce(sampled, false) OR coalesce(sampling_rate, 1) > 1 AS sampled, service_name AS service, vnet_name AS vnet
FROM judged WHERE reason IS NULL`
	if err := in.exec(copyTo(schema.Records, records, stats.RecordsFile)); err != nil {
		return err
	}
	if err := in.count("SELECT (SELECT count(*) FROM refused) + (SELECT count(*) FROM "+scanParquet(stats.RecordsFile)+")", &typed); err != nil {
		return err
	}
	if err := in.count("SELECT count(*) FROM refused WHERE aside", &stats.SetAside); err != nil {
		return err
	}
	if err := in.checkRows(src, typed, stats.RecordsFile); err != nil {
		return err
	}
	rejects := `SELECT r."row", r.reason, left(s.raw, 4096) AS raw FROM refused AS r JOIN staged AS s ON r."row" = s."row"
UNION ALL SELECT "row", broken AS reason, left(raw, 4096) FROM staged WHERE broken <> ''`
	if typed+src.broken < src.rows { // a WHERE in the mapping
		rejects += fmt.Sprintf(`
UNION ALL SELECT "row", 'left out by the mapping' AS reason, left(raw, 4096) FROM staged
  WHERE broken = '' AND "row" NOT IN (SELECT "row" FROM refused) AND "row" NOT IN (SELECT "row" FROM %s)`, scanParquet(stats.RecordsFile))
	}
	var refused int64
	if err := in.count("SELECT count(*) FROM refused", &refused); err != nil {
		return err
	}
	stats.Records = typed - refused
	stats.Rejects = src.rows - stats.Records
	if stats.Rejects == 0 {
		return nil
	}
	query := `SELECT CAST(` + QuoteSQL(file) + ` AS VARCHAR) AS file, "row", reason, raw FROM (` + rejects + `) ORDER BY "row"`
	if err := in.exec(copyTo(schema.Rejects, query, stats.RejectsFile)); err != nil {
		return err
	}
	var aside int64
	from := scanParquet(stats.RejectsFile)
	if err := in.count(fmt.Sprintf("SELECT count(*) FROM %s WHERE reason = %s", from, QuoteSQL(afterCount)), &aside); err != nil {
		return err
	}
	stats.SetAside += aside
	var err error
	stats.Reasons, err = in.reasons(from)
	return err
}

// checkRows makes sure that the mapping yields every row once at most.
func (in *Ingester) checkRows(src rowSource, typed int64, records string) error {
	twice := typed+src.broken > src.rows
	if !twice && !slices.Contains(Formats(), in.o.Mapping.Name) {
		var distinct int64
		err := in.count(`SELECT count(DISTINCT "row") FROM (SELECT "row" FROM refused UNION ALL SELECT "row" FROM `+scanParquet(records)+`)`, &distinct)
		if err != nil {
			return err
		}
		twice = distinct != typed
	}
	if twice {
		return fmt.Errorf("mapping %s: yields a row of its source more than once, or one that is not in it", in.o.Mapping.Name)
	}
	return nil
}

// reasons counts rejects by reason.
func (in *Ingester) reasons(from string) (list []RejectCount, err error) {
	rows, err := in.conn.QueryContext(in.ctx, `SELECT reason, count(*), 'row ' || min("row") || ': ' || arg_min(raw, "row") FROM `+from+` GROUP BY reason ORDER BY 2 DESC, 1`)
	if err != nil {
		return nil, FirstLine(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r RejectCount
		if err := rows.Scan(&r.Reason, &r.Rows, &r.Example); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, FirstLine(rows.Err())
}
