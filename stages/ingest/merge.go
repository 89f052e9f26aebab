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
	N         int32  // its number, as given to Ingester.File
	File      string // the source
	Records   string // Parquet file of its records
	Rows      int64  // of the source
	AnyFlowID bool   // as in FileStats
}

// MergeStats counts what became of the records of some sources: records = Flows + Merged + Rejects.
type MergeStats struct {
	// FlowsFile and RejectsFile are Parquet files of tables flows and rejects, in TmpDir. RejectsFile exists only if
	// there are rejects.
	FlowsFile, RejectsFile    string
	Flows, Merged, Rejects    int64
	SyntheticStarts           int64
	FirstStartNS, LastStartNS int64
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
func (in *Ingester) Merge(ctx context.Context, sources []MergeSource) (stats MergeStats, err error) {
	stats.FlowsFile = filepath.Join(in.o.TmpDir, "flows.parquet")
	stats.RejectsFile = filepath.Join(in.o.TmpDir, "merge-rejects.parquet")
	var files []string
	for _, s := range sources {
		files = append(files, s.Records)
	}
	records := duckdb.ScanParquet(files...)
	var total int64
	if err := in.count(ctx, "SELECT count(*) FROM "+records, &total); err != nil {
		return stats, err
	}
	if in.o.Mapping.Records {
		err = in.mergeRecords(ctx, records, stats.FlowsFile, total)
	} else {
		err = in.wholeFlows(ctx, records, sources, &stats)
	}
	if err != nil {
		return stats, err
	}
	var first, last sql.NullInt64
	err = in.query(ctx, "SELECT count(*), count(*) FILTER (synthetic_start), min(start_ns), max(start_ns) FROM "+
		duckdb.ScanParquet(stats.FlowsFile), &stats.Flows, &stats.SyntheticStarts, &first, &last)
	stats.FirstStartNS, stats.LastStartNS = first.Int64, last.Int64
	stats.Merged = total - stats.Flows - stats.Rejects
	return stats, err
}

// wholeFlows makes each record a flow.
func (in *Ingester) wholeFlows(ctx context.Context, records string, sources []MergeSource, stats *MergeStats) error {
	id, offset, anyID := "CASE source", int64(0), false
	for _, s := range sources {
		id += fmt.Sprintf(" WHEN %d THEN %d", s.N, offset)
		offset += s.Rows
		anyID = anyID || s.AnyFlowID
	}
	id = "coalesce(flow_id, " + id + ` END + "row" - 1)`
	flows := "SELECT * REPLACE (" + id + " AS flow_id) FROM " + records
	if anyID {
		var err error
		if flows, err = in.rejectRepeatedIDs(ctx, flows, sources, stats); err != nil {
			return err
		}
	}
	query := `
SELECT flow_id, src, dst, size_bytes, start_ns, service, vnet, resolution_ns > 0 OR sampled AS synthetic_start
FROM (` + flows + ") ORDER BY start_ns, flow_id"
	return in.exec(ctx, copyTo(schema.Flows, query, stats.FlowsFile))
}

// rejectRepeatedIDs rejects flows whose id an earlier row has, and returns the query of the others.
func (in *Ingester) rejectRepeatedIDs(ctx context.Context, flows string, sources []MergeSource,
	stats *MergeStats) (string, error) {
	var repeated int64
	err := in.count(ctx, "SELECT count(*) - count(DISTINCT flow_id) FROM ("+flows+")", &repeated)
	if err != nil || repeated == 0 {
		return flows, err
	}
	err = in.exec(ctx, `
CREATE OR REPLACE TEMP TABLE firsts AS
SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row"
FROM (`+flows+`) GROUP BY flow_id HAVING count(*) > 1`)
	if err != nil {
		return "", err
	}
	file := "CASE k.source"
	for _, s := range sources {
		file += fmt.Sprintf(" WHEN %d THEN %s", s.N, duckdb.Quote(s.File))
	}
	query := `
SELECT ` + file + ` END AS file, k."row", 'flow_id stands in an earlier row' AS reason,
  concat_ws(',', k.flow_id, k.src, k.dst, k.size_bytes, k.start_ns, k.service, k.vnet) AS raw
FROM (` + flows + `) AS k JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE k.source <> f.source OR k."row" <> f."row"
ORDER BY k.source, k."row"`
	if err := in.exec(ctx, copyTo(schema.Rejects, query, stats.RejectsFile)); err != nil {
		return "", err
	}
	rejects := duckdb.ScanParquet(stats.RejectsFile)
	if err := in.count(ctx, "SELECT count(*) FROM "+rejects, &stats.Rejects); err != nil {
		return "", err
	}
	stats.Reasons, err = in.reasons(ctx, rejects)
	return `SELECT k.* FROM (` + flows + `) AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row"`, err
}
