package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// MergeSource is a source file whose records become flows.
type MergeSource struct {
	N    int32  // its number, as given to Ingester.File
	File string // the source
	FileStats
}

// MergeStats counts what became of the records of some sources: records = Flows + Merged + Rejects.
type MergeStats struct {
	Flows           int64         `json:"flows"`
	Merged          int64         `json:"merged"`
	Rejects         int64         `json:"rejects"`
	SyntheticStarts int64         `json:"synthetic_starts"`
	FirstStartNS    int64         `json:"first_start_ns"`
	LastStartNS     int64         `json:"last_start_ns"`
	Reasons         []RejectCount `json:"reasons"`
	Repeated        int64         `json:"-"` // of Merged: an earlier source has them
	// FlowsFile is the Parquet file of the flows, and RejectsFile of the rejects, in TmpDir. RejectsFile is empty if there
	// are none.
	FlowsFile   string `json:"-"`
	RejectsFile string `json:"-"`
}

// Merge makes flows from records, in start order.
//
// If each row of the sources is a flow, flows keep their ids, or are numbered by source and row. Rows with repeated
// ids are rejected.
//
// Records of flow logs are merged: records of the same two hosts, protocol and ports are one flow until IdleNS pass
// without a packet. If several observers saw the flow, the one that counted the most bytes of it applies. With
// sampled packets an observer may by chance have sampled none of a flow, so there one observer applies for each pair
// of hosts: the one that counted the most bytes between them. A start that is known to a second, say, is drawn within
// that second: the flows that a host starts in it follow each other after log-normal gaps, scaled to fill it, in
// random order. Flows are numbered in start order.
func (in *Ingester) Merge(ctx context.Context, sources []MergeSource) (stats MergeStats, err error) {
	m := &merging{Ingester: in, sources: sources, stats: &stats}
	var files []string
	for _, s := range sources {
		files = append(files, s.RecordsFile)
	}
	m.all = duckdb.ScanParquet(files...)
	stats.FlowsFile = m.tmp("flows.parquet")
	records, err := m.withoutRepeated(ctx)
	if err == nil && in.o.Mapping.Records {
		err = m.flowLogs(ctx, records)
	} else if err == nil {
		err = m.wholeFlows(ctx, records)
	}
	if err != nil {
		return stats, err
	}
	var total int64
	var first, last sql.NullInt64
	err = in.query(ctx, "SELECT (SELECT count(*) FROM "+m.all+"), count(*), count(*) FILTER (synthetic_start), "+
		"min(start_ns), max(start_ns) FROM "+duckdb.ScanParquet(stats.FlowsFile), &total, &stats.Flows,
		&stats.SyntheticStarts, &first, &last)
	stats.FirstStartNS, stats.LastStartNS = first.Int64, last.Int64
	stats.Merged = total - stats.Flows - stats.Rejects
	return stats, err
}

// LabelCount is what flows of one service and virtual network come to.
type LabelCount struct {
	Service string `json:"service"`
	VNet    string `json:"vnet"`
	Flows   int64  `json:"flows"`
	Bytes   int64  `json:"bytes"`
}

// Labels counts the flows of some Parquet files by service and virtual network, most bytes first.
func (in *Ingester) Labels(ctx context.Context, files []string) (all []LabelCount, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	err = in.each(ctx, `
SELECT service, vnet, count(*), CAST(sum(size_bytes) AS BIGINT) AS bytes
FROM `+duckdb.ScanParquet(files...)+" GROUP BY ALL ORDER BY bytes DESC, service, vnet", func(rows *sql.Rows) error {
		var l LabelCount
		err := rows.Scan(&l.Service, &l.VNet, &l.Flows, &l.Bytes)
		all = append(all, l)
		return err
	})
	return all, err
}

// A merging is one call of Merge at work.
type merging struct {
	*Ingester
	sources []MergeSource
	stats   *MergeStats
	all     string // table function of the records of all sources
}

// wholeRecord lists all that a record says, its place apart.
const wholeRecord = connection + ", observer, size_bytes, start_ns, end_ns, resolution_ns, sampled, flow_id, " +
	"service, vnet, dscp"

// withoutRepeated returns the records without those that a source with a lower number has, too: a log that is ingested
// while it grows, and again when it is complete, counts once. Equal records of one source stay: of each record the
// result has as many as the source that has the most.
func (m *merging) withoutRepeated(ctx context.Context) (string, error) {
	if len(m.sources) < 2 {
		return m.all, nil
	}
	err := m.exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE twice AS
SELECT hash(%s) AS h, count(*) AS n FROM %s GROUP BY h HAVING min(source) < max(source)`, wholeRecord, m.all))
	if err != nil {
		return "", err
	}
	var rows int64
	if err := m.query(ctx, "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM twice", &rows); err != nil || rows == 0 {
		return m.all, err
	}
	err = m.exec(ctx, `CREATE OR REPLACE TEMP TABLE repeated (source INTEGER, "row" BIGINT)`)
	for p, passes := int64(0), m.passes(rows); p < passes && err == nil; p++ {
		err = m.exec(ctx, fmt.Sprintf(`INSERT INTO repeated
WITH numbered AS (
  SELECT *, row_number() OVER (PARTITION BY %[1]s, source ORDER BY "row") AS nth
  FROM %[2]s WHERE hash(%[1]s) IN (SELECT h FROM twice WHERE h %% %[3]d = %[4]d)
)
SELECT source, "row" FROM numbered QUALIFY row_number() OVER (PARTITION BY %[1]s, nth ORDER BY source) > 1`,
			wholeRecord, m.all, passes, p))
	}
	if err != nil {
		return "", err
	}
	return `(SELECT r.* FROM ` + m.all + ` AS r ANTI JOIN repeated AS d ON r.source = d.source AND r."row" = d."row")`,
		m.query(ctx, "SELECT count(*) FROM repeated", &m.stats.Repeated)
}

// tmp is the path of a result file.
func (m *merging) tmp(name string) string { return filepath.Join(m.o.TmpDir, name) }

// wholeFlows makes each record a flow.
func (m *merging) wholeFlows(ctx context.Context, records string) (err error) {
	id, offset, anyID := "CASE source", int64(0), false
	for _, s := range m.sources {
		id += fmt.Sprintf(" WHEN %d THEN %d", s.N, offset)
		offset += s.Rows
		anyID = anyID || s.AnyFlowID
	}
	flows := "(SELECT * REPLACE (coalesce(flow_id, " + id + ` END + "row" - 1) AS flow_id) FROM ` + records + ")"
	if anyID {
		if flows, err = m.rejectRepeatedIDs(ctx, flows); err != nil {
			return err
		}
	}
	query := "SELECT " + flowColumns("") + " FROM (SELECT *, resolution_ns > 0 OR sampled AS synthetic_start FROM " +
		flows + ") ORDER BY start_ns, flow_id"
	return m.exec(ctx, copyTo(schema.Flows, query, m.stats.FlowsFile))
}

// rejectRepeatedIDs writes flows whose id an earlier row has to table rejects, and returns the other flows.
func (m *merging) rejectRepeatedIDs(ctx context.Context, flows string) (string, error) {
	err := m.exec(ctx, `
CREATE OR REPLACE TEMP TABLE firsts AS
SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row"
FROM `+flows+` GROUP BY flow_id HAVING count(*) > 1`)
	if err != nil {
		return "", err
	}
	file := "CASE source"
	for _, s := range m.sources {
		file += fmt.Sprintf(" WHEN %d THEN %s", s.N, duckdb.Quote(s.File))
	}
	query := "SELECT " + file + ` END AS file, "row", 'flow_id stands in an earlier row' AS reason,
  concat_ws(',', flow_id, src, dst, size_bytes, start_ns, service, vnet) AS raw
FROM ` + flows + ` AS k SEMI JOIN firsts USING (flow_id) ANTI JOIN firsts USING (flow_id, source, "row")
ORDER BY source, "row"`
	rejected := m.tmp("merge-rejects.parquet")
	from := duckdb.ScanParquet(rejected)
	if err := m.exec(ctx, copyTo(schema.Rejects, query, rejected)); err != nil {
		return "", err
	}
	if err := m.query(ctx, "SELECT count(*) FROM "+from, &m.stats.Rejects); err != nil || m.stats.Rejects == 0 {
		return flows, err
	}
	m.stats.RejectsFile = rejected
	m.stats.Reasons, err = m.reasons(ctx, from)
	return "(SELECT k.* FROM " + flows + ` AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row")`, err
}
