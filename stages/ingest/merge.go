package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// MergeSource is a source file whose records become flows.
type MergeSource struct {
	N    int32  // its number, as given to Ingester.File
	File string // the source
	FileStats
	Held bool // its records are in the flows that an earlier merge made
}

// HeldFlows are the results of an earlier merge, of the sources that are Held. Their numbers are below those of the
// others.
type HeldFlows struct {
	Files   []HeldFile // in start order
	Rejects []string   // Parquet files of table rejects
}

// A HeldFile is a Parquet file of table flows.
type HeldFile struct {
	Path        string
	Rows        int64
	LastStartNS int64
	Fixed       bool // it may stay as it is if none of its flows changes
}

// MergeStats counts what became of the records of some sources: records = Flows + Merged + Rejects.
type MergeStats struct {
	Flows           int64         `json:"flows"`
	Merged          int64         `json:"merged"`
	Rejects         int64         `json:"rejects"`
	SyntheticStarts int64         `json:"synthetic_starts"` // of FlowsFiles, as are the first and the last start
	FirstStartNS    int64         `json:"first_start_ns"`
	LastStartNS     int64         `json:"last_start_ns"`
	Reasons         []RejectCount `json:"reasons"`
	Repeated        int64         `json:"-"` // of Merged: an earlier source has them, as far as this merge read it
	// Kept is how many of the first held files stay as they are. FlowsFiles are Parquet files of the flows after
	// these, in order, and RejectsFile of the rejects beside the held ones, in TmpDir. RejectsFile is empty if there are
	// none.
	Kept        int      `json:"-"`
	FlowsFiles  []string `json:"-"`
	RejectsFile string   `json:"-"`
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
//
// With the flows of an earlier merge the result is the same, and only the flows that start at or after the first that
// the other sources add or change are made.
func (in *Ingester) Merge(ctx context.Context, sources []MergeSource, held HeldFlows) (stats MergeStats, err error) {
	m := &merging{Ingester: in, sources: sources, stats: &stats}
	m.all = m.records(func(MergeSource) bool { return true })
	logs := in.o.Mapping.Records
	var total int64
	var several bool // samplers: another one may change any flow
	err = in.query(ctx, "SELECT count(*), count(DISTINCT observer) FILTER (sampled) > 1 FROM "+m.all, &total, &several)
	if err == nil && len(held.Files) > 0 && !(logs && several) {
		m.first, err = m.firstChange(ctx)
	}
	var kept int64
	if err == nil {
		kept, err = m.keep(ctx, held.Files)
	}
	if err != nil {
		return stats, err
	}
	out := m.tmp("flows.parquet")
	stats.FlowsFiles = append(stats.FlowsFiles, out)
	if logs {
		err = m.flowLogs(ctx, out, several, kept)
	} else {
		err = m.wholeFlows(ctx, out, held.Rejects)
	}
	if err != nil {
		return stats, err
	}
	var first, last sql.NullInt64
	err = in.query(ctx, "SELECT count(*), count(*) FILTER (synthetic_start), min(start_ns), max(start_ns) FROM "+
		duckdb.ScanParquet(stats.FlowsFiles...), &stats.Flows, &stats.SyntheticStarts, &first, &last)
	for _, f := range held.Files[:stats.Kept] {
		stats.Flows += f.Rows
	}
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
	first   int64  // flows that start earlier are held, and stay
}

// records is the table function of the records of some sources.
func (m *merging) records(of func(MergeSource) bool) string {
	var files []string
	for _, s := range m.sources {
		if of(s) {
			files = append(files, s.RecordsFile)
		}
	}
	return duckdb.ScanParquet(files...)
}

// fresh is the condition that a record is of a source that is not held.
func (m *merging) fresh() string {
	numbers := []string{"0"} // none
	for _, s := range m.sources {
		if !s.Held {
			numbers = append(numbers, fmt.Sprint(s.N))
		}
	}
	return "source IN (" + strings.Join(numbers, ", ") + ")"
}

// keep keeps the held files whose flows all start before the first one to make, and copies such flows of the others. It
// returns the number of all these flows.
func (m *merging) keep(ctx context.Context, files []HeldFile) (rows int64, err error) {
	for len(files) > 0 && files[0].Fixed && files[0].LastStartNS < m.first {
		rows += files[0].Rows
		files = files[1:]
		m.stats.Kept++
	}
	if m.first == 0 || len(files) == 0 {
		return rows, nil
	}
	var rest []string
	for _, f := range files {
		rest = append(rest, f.Path)
	}
	staying := m.tmp("staying.parquet")
	m.stats.FlowsFiles = append(m.stats.FlowsFiles, staying)
	query := fmt.Sprintf("SELECT * FROM %s WHERE start_ns < %d", duckdb.ScanParquet(rest...), m.first)
	var copied int64
	if err = m.exec(ctx, copyTo(schema.Flows, query, staying)); err == nil {
		err = m.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(staying), &copied)
	}
	return rows + copied, err
}

// wholeRecord lists all that a record says, its place apart.
const wholeRecord = connection + ", observer, size_bytes, start_ns, end_ns, resolution_ns, sampled, flow_id, service, vnet"

// withoutRepeated returns records without those that a source with a lower number has, too: a log that is ingested
// while it grows, and again when it is complete, counts once. Equal records of one source stay: of each record the
// result has as many as the source that has the most.
func (m *merging) withoutRepeated(ctx context.Context, records string) (string, error) {
	if len(m.sources) < 2 {
		return records, nil
	}
	err := m.exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE twice AS
SELECT hash(%s) AS h, count(*) AS n FROM %s GROUP BY h HAVING min(source) < max(source)`, wholeRecord, records))
	if err != nil {
		return "", err
	}
	var rows int64
	if err := m.query(ctx, "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM twice", &rows); err != nil || rows == 0 {
		return records, err
	}
	err = m.exec(ctx, `CREATE OR REPLACE TEMP TABLE repeated (source INTEGER, "row" BIGINT)`)
	for p, passes := int64(0), m.passes(rows); p < passes && err == nil; p++ {
		err = m.exec(ctx, fmt.Sprintf(`INSERT INTO repeated
WITH numbered AS (
  SELECT *, row_number() OVER (PARTITION BY %[1]s, source ORDER BY "row") AS nth
  FROM %[2]s WHERE hash(%[1]s) IN (SELECT h FROM twice WHERE h %% %[3]d = %[4]d)
)
SELECT source, "row" FROM numbered QUALIFY row_number() OVER (PARTITION BY %[1]s, nth ORDER BY source) > 1`,
			wholeRecord, records, passes, p))
	}
	if err != nil {
		return "", err
	}
	return `(SELECT r.* FROM ` + records + ` AS r ANTI JOIN repeated AS d ON r.source = d.source AND r."row" = d."row")`,
		m.query(ctx, "SELECT count(*) FROM repeated", &m.stats.Repeated)
}

// tmp is the path of a result file.
func (m *merging) tmp(name string) string { return filepath.Join(m.o.TmpDir, name) }

// wholeFlows makes each record a flow. rejects are the files of what was rejected before.
func (m *merging) wholeFlows(ctx context.Context, out string, rejects []string) error {
	id, offset, anyID := "CASE source", int64(0), false
	for _, s := range m.sources {
		id += fmt.Sprintf(" WHEN %d THEN %d", s.N, offset)
		offset += s.Rows
		anyID = anyID || s.AnyFlowID
	}
	id = "coalesce(flow_id, " + id + ` END + "row" - 1) AS flow_id`
	records, err := m.withoutRepeated(ctx, fmt.Sprintf("(SELECT * FROM %s WHERE start_ns >= %d)", m.all, m.first))
	if err != nil {
		return err
	}
	flows := "(SELECT * REPLACE (" + id + ") FROM " + records + ")"
	if anyID {
		before := fmt.Sprintf("SELECT %s, source, \"row\" FROM %s WHERE start_ns < %d", id, m.all, m.first)
		if flows, err = m.rejectRepeatedIDs(ctx, flows, before, rejects); err != nil {
			return err
		}
	}
	query := `
SELECT flow_id, src, dst, size_bytes, start_ns, service, vnet, resolution_ns > 0 OR sampled AS synthetic_start
FROM ` + flows + " ORDER BY start_ns, flow_id"
	return m.exec(ctx, copyTo(schema.Flows, query, out))
}

// rejectRepeatedIDs writes flows whose id an earlier row has to table rejects, those of sources that are not held, and
// returns the other flows. before are the ids of flows that are not made again.
func (m *merging) rejectRepeatedIDs(ctx context.Context, flows, before string, rejects []string) (string, error) {
	err := m.exec(ctx, `
CREATE OR REPLACE TEMP TABLE firsts AS
SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row"
FROM (SELECT flow_id, source, "row" FROM `+flows+" UNION ALL "+before+`) GROUP BY flow_id HAVING count(*) > 1`)
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
WHERE ` + m.fresh() + ` ORDER BY source, "row"`
	rejected := m.tmp("merge-rejects.parquet")
	var rows int64
	if err := m.exec(ctx, copyTo(schema.Rejects, query, rejected)); err != nil {
		return "", err
	}
	if err := m.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(rejected), &rows); err != nil {
		return "", err
	}
	if rows > 0 {
		m.stats.RejectsFile, rejects = rejected, append(slices.Clip(rejects), rejected)
	}
	if len(rejects) > 0 {
		from := duckdb.ScanParquet(rejects...)
		if err := m.query(ctx, "SELECT count(*) FROM "+from, &m.stats.Rejects); err != nil {
			return "", err
		}
		if m.stats.Reasons, err = m.reasons(ctx, from); err != nil {
			return "", err
		}
	}
	return "(SELECT k.* FROM " + flows + ` AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row")`, nil
}
