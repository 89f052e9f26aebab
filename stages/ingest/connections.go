package ingest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// connection lists the columns that the records of one connection share.
const connection = "src, dst, protocol, src_port, dst_port"

// kept are the columns of a flow that do not depend on the order of its records, nor on who observed them.
const kept = "min(resolution_ns) AS resolution_ns, bool_or(sampled) AS sampled, max(service) AS service, " +
	"max(vnet) AS vnet, max(dscp) AS dscp"

// passBytes is an upper bound, measured, of DuckDB's memory per record or flow while it merges or draws starts.
const passBytes = 1024

// passes returns into how many parts the rows are divided, so that one part fits the memory: DuckDB's window
// functions do not spill to disk.
func (in *Ingester) passes(rows int64) int64 {
	return 1 + rows/max(10_000, in.o.MemoryBytes/passBytes)
}

// flowLogs makes flows of records of flow logs.
func (m *merging) flowLogs(ctx context.Context, records string) error {
	var samplers, rows int64
	err := m.query(ctx, "SELECT count(DISTINCT observer) FILTER (sampled), count(*) FROM "+records, &samplers, &rows)
	if err == nil && samplers > 1 {
		records, err = m.oneSampler(ctx, records)
	}
	if err != nil {
		return err
	}
	return m.mergeRecords(ctx, records, m.stats.FlowsFile, m.passes(rows))
}

// mergeRecords merges records to flows, one part of the pairs of hosts at a time, and then draws starts, one part of
// the seconds at a time. A record begins another flow of its connection if it starts more than IdleNS after the end of
// all records before it. A flow has the size that its best observer counted.
func (in *Ingester) mergeRecords(ctx context.Context, records, out string, passes int64) error {
	var merged []string
	for p := range passes {
		file := filepath.Join(in.o.TmpDir, fmt.Sprintf("merged-%d.parquet", p))
		query := fmt.Sprintf(`
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + %[3]d THEN 1 ELSE 0 END AS begins
  FROM %[2]s WHERE (src * 7919 + dst) %% %[4]d = %[5]d
  WINDOW before AS (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS flow
  FROM marked
), observed AS (
  SELECT
    %[1]s, flow, observer, CAST(sum(size_bytes) AS HUGEINT) AS size_bytes, min(start_ns) AS start_ns, %[7]s
  FROM numbered GROUP BY %[1]s, flow, observer
)
SELECT
  %[1]s, CAST(least(max(size_bytes), %[6]d) AS BIGINT) AS size_bytes, min(start_ns) AS start_ns, %[7]s
FROM observed GROUP BY %[1]s, flow`, connection, records, in.o.IdleNS, passes, p, maxFlowBytes, kept)
		if err := in.copy(ctx, query, file, false); err != nil {
			return err
		}
		merged = append(merged, file)
	}
	return in.drawStarts(ctx, duckdb.ScanParquet(merged...), passes, out)
}

// drawStarts draws the starts that are not known exactly, sorts the flows by start and numbers them. The flows that
// a host starts within one resolution are put in random order; their gaps, and one more at the end, are scaled to
// the resolution.
func (in *Ingester) drawStarts(ctx context.Context, merged string, passes int64, out string) error {
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
  * EXCLUDE (draw, reached, gaps) REPLACE (start_ns + CAST(floor(CAST(reached AS DOUBLE)
    / CAST(gaps + (start_draw(src, -1, -1, -1, -1, start_ns) & %[3]d) AS DOUBLE) * resolution_ns) AS BIGINT)
    AS start_ns), start_ns AS logged_ns, true AS synthetic_start
FROM sums
UNION ALL BY NAME
SELECT *, start_ns AS logged_ns, sampled AS synthetic_start
FROM part WHERE resolution_ns = 0`,
			connection, merged, drawGaps-1, drawGapBits, passes, p)
		if err := in.copy(ctx, query, file, false); err != nil {
			return err
		}
		drawn = append(drawn, file)
	}
	sorted := filepath.Join(in.o.TmpDir, "sorted.parquet")
	query := fmt.Sprintf("SELECT %s FROM %s ORDER BY start_ns, %s, logged_ns", flowColumns("flow_id"),
		duckdb.ScanParquet(drawn...), connection)
	if err := in.copy(ctx, query, sorted, true); err != nil {
		return err
	}
	flows := fmt.Sprintf("SELECT file_row_number AS flow_id, %s FROM read_parquet(%s, hive_partitioning=false, "+
		"file_row_number=true)", flowColumns("flow_id"), duckdb.Quote(duckdb.EscapeGlob(sorted)))
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
