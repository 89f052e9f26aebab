package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// connection lists the columns that the records of one connection share.
const connection = "src, dst, protocol, src_port, dst_port"

// passBytes is an upper bound, measured, of DuckDB's memory per record or flow while it merges or draws starts.
const passBytes = 1024

// passes returns into how many parts the rows are divided, so that one part fits the memory: DuckDB's window
// functions do not spill to disk.
func (in *Ingester) passes(rows int64) int64 {
	return 1 + rows/max(10_000, in.o.MemoryBytes/passBytes)
}

// flowLogs makes flows of records of flow logs, numbered from number on.
func (m *merging) flowLogs(ctx context.Context, out string, severalSamplers bool, number int64) error {
	// Records that end earlier neither start nor continue a flow that is made.
	from, err := m.withoutRepeated(ctx, fmt.Sprintf("(SELECT * FROM %s WHERE end_ns >= %d)", m.all, m.first-m.o.IdleNS))
	if err == nil && severalSamplers {
		from, err = m.oneSampler(ctx, from)
	}
	var rows int64
	if err == nil {
		err = m.query(ctx, "SELECT count(*) FROM "+from, &rows)
	}
	if err != nil {
		return err
	}
	return m.mergeRecords(ctx, from, out, rows, m.first, number)
}

// maxDrawnAcross is how often firstChange goes back by a resolution before it gives up. Starts that are multiples of
// their resolution need one step; others may lead back to the first flow.
const maxDrawnAcross = 100

// firstChange returns the logged start before which no flow changes because of the new records, so that every flow
// that starts before it is in the held flows as it is, and drawn before it; 0 where all flows are to be made.
func (m *merging) firstChange(ctx context.Context) (first int64, err error) {
	held := m.records(func(s MergeSource) bool { return s.Held })
	var begin, resolution sql.NullInt64
	err = m.query(ctx, "SELECT min(start_ns) FILTER ("+m.fresh()+"), max(resolution_ns) FROM "+m.all, &begin, &resolution)
	if err != nil || !begin.Valid {
		return math.MaxInt64 / 2, err // there is no new record
	}
	if !m.o.Mapping.Records {
		return begin.Int64, nil
	}
	if first, err = m.continued(ctx, begin.Int64); err != nil {
		return 0, err
	}
	for range maxDrawnAcross { // until no held flow may have been drawn across it
		var across sql.NullInt64
		err := m.query(ctx, fmt.Sprintf("SELECT min(start_ns) FROM %[1]s WHERE start_ns < %[2]d AND start_ns > %[3]d "+
			"AND start_ns + resolution_ns > %[2]d", held, first, first-resolution.Int64), &across)
		if err != nil || !across.Valid {
			return first, err
		}
		first = across.Int64
	}
	return 0, nil
}

// continued returns the start of the first flow that has a new record: begin, the start of the first of these, or that
// of a held flow that they continue.
func (m *merging) continued(ctx context.Context, begin int64) (first int64, err error) {
	err = m.exec(ctx, fmt.Sprintf(`
CREATE OR REPLACE TEMP VIEW chains AS SELECT *, %[1]s AS fresh FROM %[2]s WHERE hash(%[3]s) IN (
  SELECT hash(%[3]s) FROM %[2]s WHERE end_ns >= %[4]d AND NOT %[1]s INTERSECT
  SELECT hash(%[3]s) FROM %[2]s WHERE %[1]s)`, m.fresh(), m.all, connection, begin-m.o.IdleNS))
	var rows int64
	if err == nil {
		err = m.query(ctx, "SELECT count(*) FROM chains", &rows)
	}
	first = begin
	for p, passes := int64(0), m.passes(rows); p < passes && err == nil; p++ {
		var start sql.NullInt64
		err = m.query(ctx, numberedRecords(m.o.IdleNS, "chains", fmt.Sprintf(partOfPairs, passes, p))+`
SELECT min(start_ns) FROM (
  SELECT min(start_ns) AS start_ns FROM numbered GROUP BY `+connection+`, flow HAVING bool_or(fresh))`, &start)
		if start.Valid {
			first = min(first, start.Int64)
		}
	}
	return first, err
}

// partOfPairs is the condition that a record is in one part of the pairs of hosts.
const partOfPairs = "(src * 7919 + dst) %% %d = %d"

// numberedRecords is the WITH clause that numbers the flows of each connection. A record begins another flow of its
// connection if it starts more than idleNS after the end of all records before it.
func numberedRecords(idleNS int64, records, where string) string {
	return fmt.Sprintf(`
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + %[3]d THEN 1 ELSE 0 END AS begins
  FROM %[2]s WHERE %[4]s
  WINDOW before AS (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS flow
  FROM marked
)`, connection, records, idleNS, where)
}

// mergeRecords merges records to flows, one part of the pairs of hosts at a time, and then draws starts, one part of
// the seconds at a time. Flows that start before first are left out; the others are numbered from number on. A flow has
// the size that its best observer counted.
func (in *Ingester) mergeRecords(ctx context.Context, records, out string, rows, first, number int64) error {
	passes := in.passes(rows)
	var merged []string
	for p := range passes {
		file := filepath.Join(in.o.TmpDir, fmt.Sprintf("merged-%d.parquet", p))
		query := numberedRecords(in.o.IdleNS, records, fmt.Sprintf(partOfPairs, passes, p)) +
			fmt.Sprintf(`, observed AS (
  SELECT
    %[1]s, flow, observer, CAST(sum(size_bytes) AS HUGEINT) AS size_bytes, min(start_ns) AS start_ns,
    min(resolution_ns) AS resolution_ns, bool_or(sampled) AS sampled, max(service) AS service, max(vnet) AS vnet
  FROM numbered GROUP BY %[1]s, flow, observer
)
SELECT
  %[1]s, CAST(least(max(size_bytes), %[2]d) AS BIGINT) AS size_bytes, min(start_ns) AS start_ns,
  min(resolution_ns) AS resolution_ns, bool_or(sampled) AS sampled, max(service) AS service, max(vnet) AS vnet
FROM observed GROUP BY %[1]s, flow HAVING min(start_ns) >= %[3]d`, connection, maxFlowBytes, first)
		if err := in.copy(ctx, query, file, false); err != nil {
			return err
		}
		merged = append(merged, file)
	}
	return in.drawStarts(ctx, duckdb.ScanParquet(merged...), passes, number, out)
}

// drawStarts draws the starts that are not known exactly, sorts the flows by start and numbers them. The flows that
// a host starts within one resolution are put in random order; their gaps, and one more at the end, are scaled to
// the resolution.
func (in *Ingester) drawStarts(ctx context.Context, merged string, passes, number int64, out string) error {
	var drawn []string
	for p := range passes {
		file := filepath.Join(in.o.TmpDir, fmt.Sprintf("placed-%d.parquet", p))
		query := fmt.Sprintf(`
WITH part AS (
  SELECT * FROM %[2]s WHERE (start_ns // 1000000000) %% %[5]d = %[6]d
), drawn AS (
  SELECT
    *, start_draw(src, dst, coalesce(protocol, -1), coalesce(src_port, -1), coalesce(dst_port, -1), start_ns) AS draw
  FROM part WHERE resolution_ns > 0
), sums AS (
  SELECT *,
    sum(draw & %[3]d) OVER (PARTITION BY src, start_ns, resolution_ns ORDER BY draw >> %[4]d, %[1]s) AS reached,
    sum(draw & %[3]d) OVER (PARTITION BY src, start_ns, resolution_ns) AS gaps
  FROM drawn
)
SELECT
  %[1]s, size_bytes, start_ns AS logged_ns, service, vnet, true AS synthetic_start,
  start_ns + CAST(floor(CAST(reached AS DOUBLE)
    / CAST(gaps + (start_draw(src, -1, -1, -1, -1, start_ns) & %[3]d) AS DOUBLE) * resolution_ns) AS BIGINT) AS start_ns
FROM sums
UNION ALL BY NAME
SELECT %[1]s, size_bytes, start_ns AS logged_ns, service, vnet, sampled AS synthetic_start, start_ns
FROM part WHERE resolution_ns = 0`,
			connection, merged, drawGaps-1, drawGapBits, passes, p)
		if err := in.copy(ctx, query, file, false); err != nil {
			return err
		}
		drawn = append(drawn, file)
	}
	sorted := filepath.Join(in.o.TmpDir, "sorted.parquet")
	query := fmt.Sprintf(`
SELECT src, dst, size_bytes, start_ns, service, vnet, synthetic_start
FROM %s ORDER BY start_ns, %s, logged_ns`, duckdb.ScanParquet(drawn...), connection)
	if err := in.copy(ctx, query, sorted, true); err != nil {
		return err
	}
	flows := "SELECT file_row_number + " + strconv.FormatInt(number, 10) + ` AS flow_id, src, dst, size_bytes, start_ns,
  service, vnet, synthetic_start
FROM read_parquet(` + duckdb.Quote(duckdb.EscapeGlob(sorted)) + ", hive_partitioning=false, file_row_number=true)"
	return in.exec(ctx, copyTo(schema.Flows, flows, out))
}

// oneSampler restricts sampled records to those of one observer for each pair of hosts.
func (in *Ingester) oneSampler(ctx context.Context, records string) (string, error) {
	err := in.exec(ctx, `
CREATE OR REPLACE TEMP TABLE samplers AS
SELECT src, dst, arg_max(observer, (size_bytes, observer)) AS sampler
FROM (SELECT src, dst, observer, sum(size_bytes) AS size_bytes FROM `+records+` WHERE sampled GROUP BY ALL)
GROUP BY ALL`)
	return strings.Join([]string{"(SELECT r.* FROM", records,
		"AS r LEFT JOIN samplers AS s ON r.src = s.src AND r.dst = s.dst",
		"WHERE NOT r.sampled OR r.observer = s.sampler)"}, " "), err
}
