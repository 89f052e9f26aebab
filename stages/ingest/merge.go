package ingest

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// MergeSource is a source file whose records become flows.
type MergeSource struct {
	N         int32  // its number, as given to Ingester.File
	File      string // the source
	Records   string // Parquet file of its records
	Rows      int64  // of the source
	AnyFlowID bool   // as in FileStats
	Held      bool   // its records are in the flows that an earlier merge made
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
	// Kept is how many of the first held files stay as they are. FlowsFiles are Parquet files of the flows after
	// these, in order, and RejectsFile of the rejects beside the held ones, in TmpDir. RejectsFile is empty if there are
	// none.
	Kept                      int
	FlowsFiles                []string
	RejectsFile               string
	Flows, Merged, Rejects    int64
	Repeated                  int64 // of Merged: records that an earlier source has too, as far as this merge read them
	SyntheticStarts           int64 // of FlowsFiles
	FirstStartNS, LastStartNS int64 // of FlowsFiles
	Reasons                   []RejectCount
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
	m := &merging{Ingester: in, sources: sources, held: held, stats: &stats}
	var total int64
	if err := in.query(ctx, "SELECT count(*) FROM "+m.allRecords(), &total); err != nil {
		return stats, err
	}
	if in.o.Mapping.Records {
		err = m.flowLogs(ctx)
	} else {
		err = m.wholeFlows(ctx)
	}
	if err != nil {
		return stats, err
	}
	var first, last sql.NullInt64
	err = in.query(ctx, "SELECT count(*), count(*) FILTER (synthetic_start), min(start_ns), max(start_ns) FROM "+
		duckdb.ScanParquet(stats.FlowsFiles...), &stats.Flows, &stats.SyntheticStarts, &first, &last)
	stats.Flows += m.keptRows()
	stats.FirstStartNS, stats.LastStartNS = first.Int64, last.Int64
	stats.Merged = total - stats.Flows - stats.Rejects
	return stats, err
}

// A merging is one call of Merge at work.
type merging struct {
	*Ingester
	sources []MergeSource
	held    HeldFlows
	stats   *MergeStats
}

// records are the files of the records of some sources.
func (m *merging) records(of func(MergeSource) bool) (files []string) {
	for _, s := range m.sources {
		if of(s) {
			files = append(files, s.Records)
		}
	}
	return files
}

// allRecords is the table function of the records of all sources.
func (m *merging) allRecords() string {
	return duckdb.ScanParquet(m.records(func(MergeSource) bool { return true })...)
}

// wholeRecord lists all that a record says, its place apart.
const wholeRecord = connection + ", observer, size_bytes, start_ns, end_ns, resolution_ns, sampled, flow_id, service, vnet"

// withoutRepeated returns records without those that a source with a lower number among others has, too: a log that is
// ingested while it grows, and again when it is complete, counts once. Equal records of one source stay: of each record
// the result has as many as the source that has the most.
func (m *merging) withoutRepeated(ctx context.Context, records, among string) (string, error) {
	if len(m.sources) < 2 {
		return records, nil
	}
	err := m.exec(ctx, fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE twice AS
SELECT hash(%s) AS h, count(*) AS n FROM %s GROUP BY h HAVING min(source) < max(source)`, wholeRecord, among))
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
			wholeRecord, among, passes, p))
	}
	if err != nil {
		return "", err
	}
	return `(SELECT r.* FROM ` + records + ` AS r ANTI JOIN repeated AS d ON r.source = d.source AND r."row" = d."row")`,
		m.query(ctx, "SELECT count(*) FROM repeated", &m.stats.Repeated)
}

func isHeld(s MergeSource) bool  { return s.Held }
func isFresh(s MergeSource) bool { return !s.Held }

// keepBefore keeps the held files whose flows all start before a time, and returns the others.
func (m *merging) keepBefore(ns int64) (rest []string) {
	files := m.held.Files
	for m.stats.Kept < len(files) && files[m.stats.Kept].Fixed && files[m.stats.Kept].LastStartNS < ns {
		m.stats.Kept++
	}
	for _, f := range files[m.stats.Kept:] {
		rest = append(rest, f.Path)
	}
	return rest
}

func (m *merging) keptRows() (n int64) {
	for _, f := range m.held.Files[:m.stats.Kept] {
		n += f.Rows
	}
	return n
}

// tmp is the path of a result file.
func (m *merging) tmp(name string) string { return filepath.Join(m.o.TmpDir, name) }

// wholeFlows makes each record a flow. Held flows do not change; those from the first new one on are written again
// with the new ones among them.
func (m *merging) wholeFlows(ctx context.Context) error {
	id, offset, anyID := "CASE source", int64(0), false
	for _, s := range m.sources {
		id += fmt.Sprintf(" WHEN %d THEN %d", s.N, offset)
		offset += s.Rows
		anyID = anyID || s.AnyFlowID
	}
	id = "coalesce(flow_id, " + id + ` END + "row" - 1)`
	fresh := duckdb.ScanParquet(m.records(isFresh)...)
	fresh, err := m.withoutRepeated(ctx, fresh, fmt.Sprintf("(SELECT * FROM %s WHERE start_ns BETWEEN "+
		"(SELECT min(start_ns) FROM %[2]s) AND (SELECT max(start_ns) FROM %[2]s))", m.allRecords(), fresh))
	if err != nil {
		return err
	}
	flows := "SELECT * REPLACE (" + id + " AS flow_id) FROM " + fresh
	if anyID {
		if flows, err = m.rejectRepeatedIDs(ctx, flows); err != nil {
			return err
		}
	}
	query := `
SELECT flow_id, src, dst, size_bytes, start_ns, service, vnet, resolution_ns > 0 OR sampled AS synthetic_start
FROM (` + flows + ")"
	if len(m.held.Files) > 0 {
		var first sql.NullInt64
		if err := m.query(ctx, "SELECT min(start_ns) FROM "+fresh, &first); err != nil {
			return err
		}
		from := int64(math.MaxInt64) // all of the new rows may be rejected
		if first.Valid {
			from = first.Int64
		}
		if rest := m.keepBefore(from); len(rest) > 0 {
			query += " UNION ALL BY NAME SELECT * FROM " + duckdb.ScanParquet(rest...)
		}
	}
	m.stats.FlowsFiles = []string{m.tmp("flows.parquet")}
	return m.exec(ctx, copyTo(schema.Flows, query+" ORDER BY start_ns, flow_id", m.stats.FlowsFiles[0]))
}

// rejectRepeatedIDs rejects flows whose id an earlier row has, and returns the query of the others.
func (m *merging) rejectRepeatedIDs(ctx context.Context, flows string) (string, error) {
	ids := `SELECT flow_id, source, "row" FROM (` + flows + ")"
	if len(m.held.Files) > 0 {
		var paths []string
		for _, f := range m.held.Files {
			paths = append(paths, f.Path)
		}
		var lo, hi sql.NullInt64
		if err := m.query(ctx, "SELECT min(flow_id), max(flow_id) FROM ("+flows+")", &lo, &hi); err != nil {
			return "", err
		}
		// Row groups with other ids are not read. Sources are numbered from 1: held flows are earlier.
		ids += fmt.Sprintf(` UNION ALL SELECT flow_id, 0 AS source, 0 AS "row" FROM %s
WHERE flow_id BETWEEN %d AND %d AND flow_id IN (SELECT flow_id FROM (%s))`,
			duckdb.ScanParquet(paths...), lo.Int64, hi.Int64, flows)
	}
	var repeated int64
	if err := m.query(ctx, "SELECT count(*) - count(DISTINCT flow_id) FROM ("+ids+")", &repeated); err != nil {
		return "", err
	}
	rejects := slices.Clone(m.held.Rejects)
	if repeated > 0 {
		if err := m.rejectRepeated(ctx, flows, ids); err != nil {
			return "", err
		}
		rejects = append(rejects, m.stats.RejectsFile)
		flows = `SELECT k.* FROM (` + flows + `) AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row"`
	}
	if len(rejects) == 0 {
		return flows, nil
	}
	from := duckdb.ScanParquet(rejects...)
	if err := m.query(ctx, "SELECT count(*) FROM "+from, &m.stats.Rejects); err != nil {
		return "", err
	}
	var err error
	m.stats.Reasons, err = m.reasons(ctx, from)
	return flows, err
}

// rejectRepeated creates table firsts, of the rows that keep an id that several have, and writes table rejects of the
// others.
func (m *merging) rejectRepeated(ctx context.Context, flows, ids string) error {
	err := m.exec(ctx, `
CREATE OR REPLACE TEMP TABLE firsts AS
SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row"
FROM (`+ids+`) GROUP BY flow_id HAVING count(*) > 1`)
	if err != nil {
		return err
	}
	file := "CASE k.source"
	for _, s := range m.sources {
		file += fmt.Sprintf(" WHEN %d THEN %s", s.N, duckdb.Quote(s.File))
	}
	query := `
SELECT ` + file + ` END AS file, k."row", 'flow_id stands in an earlier row' AS reason,
  concat_ws(',', k.flow_id, k.src, k.dst, k.size_bytes, k.start_ns, k.service, k.vnet) AS raw
FROM (` + flows + `) AS k JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE k.source <> f.source OR k."row" <> f."row"
ORDER BY k.source, k."row"`
	m.stats.RejectsFile = m.tmp("merge-rejects.parquet")
	return m.exec(ctx, copyTo(schema.Rejects, query, m.stats.RejectsFile))
}
