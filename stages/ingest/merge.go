package ingest

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"parsimon/stages/rng"
	"parsimon/stages/workload"

	duckdb "github.com/marcboeker/go-duckdb/v2"

	"parsimon/schema"
)

// A MergeSource is a source file whose records are to become flows.
type MergeSource struct {
	N         int32  // as given to Ingester.File
	File      string // the source
	Records   string // its records, Parquet
	Rows      int64  // of the source
	AnyFlowID bool
}

// MergeStats says what became of the records of some sources: records = Flows + Merged + Rejects.
type MergeStats struct {
	FlowsFile, RejectsFile    string // Parquet of tables flows and rejects, in TmpDir; rejects only if there are any
	Flows, Merged, Rejects    int64
	SyntheticStarts           int64
	FirstStartNS, LastStartNS int64
	Reasons                   []RejectCount
}

// Merge makes flows of records, in order of start.
//
// Where each row of the sources is a flow, they keep their ids, or are numbered by source and row;
// repeated ids are rejected.
//
// Records of flow logs are merged: those of the same two hosts, protocol and ports are one flow
// until IdleNS pass without a packet. What several observers saw of it is taken once, from the one
// that counted most bytes. Where packets were sampled, an observer that happened to sample nothing
// must count too, so there one observer speaks for each pair of hosts: the one that counted most
// bytes of all they sent. A start that is known to a second, say, is drawn within it: the flows that
// a host starts in the same second come after log-normal gaps, scaled to fill it, and in random
// order. Flows are numbered in order of start.
func (in *Ingester) Merge(sources []MergeSource) (stats MergeStats, err error) {
	stats.FlowsFile = filepath.Join(in.o.TmpDir, "flows.parquet")
	stats.RejectsFile = filepath.Join(in.o.TmpDir, "merge-rejects.parquet")
	var files []string
	for _, s := range sources {
		files = append(files, QuoteSQL(EscapeGlob(s.Records)))
	}
	records := "read_parquet([" + strings.Join(files, ", ") + "], hive_partitioning=false)"
	var total int64
	if err := in.count("SELECT count(*) FROM "+records, &total); err != nil {
		return stats, err
	}
	if in.o.Mapping.Records {
		err = in.mergeRecords(records, stats.FlowsFile, total)
	} else {
		err = in.wholeFlows(records, sources, &stats)
	}
	if err != nil {
		return stats, err
	}
	var first, last sql.NullInt64
	err = in.query("SELECT count(*), count(*) FILTER (synthetic_start), min(start_ns), max(start_ns) FROM "+scanParquet(stats.FlowsFile)+"",
		&stats.Flows, &stats.SyntheticStarts, &first, &last)
	stats.FirstStartNS, stats.LastStartNS = first.Int64, last.Int64
	stats.Merged = total - stats.Flows - stats.Rejects
	return stats, err
}

// wholeFlows takes each record for a flow.
func (in *Ingester) wholeFlows(records string, sources []MergeSource, stats *MergeStats) error {
	id, offset, given := "CASE source", int64(0), false
	for _, s := range sources {
		id += fmt.Sprintf(" WHEN %d THEN %d", s.N, offset)
		offset += s.Rows
		given = given || s.AnyFlowID
	}
	id = "coalesce(flow_id, " + id + ` END + "row" - 1)`
	keep := "SELECT * REPLACE (" + id + " AS flow_id) FROM " + records
	if given {
		var repeated int64
		if err := in.count("SELECT count(*) - count(DISTINCT flow_id) FROM ("+keep+")", &repeated); err != nil {
			return err
		}
		if repeated > 0 {
			if err := in.exec(`CREATE OR REPLACE TEMP TABLE firsts AS SELECT flow_id, arg_min(source, (source, "row")) AS source, arg_min("row", (source, "row")) AS "row" FROM (` + keep + `) GROUP BY flow_id HAVING count(*) > 1`); err != nil {
				return err
			}
			file := "CASE k.source"
			for _, s := range sources {
				file += fmt.Sprintf(" WHEN %d THEN %s", s.N, QuoteSQL(s.File))
			}
			query := `SELECT ` + file + ` END AS file, k."row", 'flow_id stands in an earlier row' AS reason, concat_ws(',', k.flow_id, k.src, k.dst, k.size_bytes, k.start_ns, k.service, k.vnet) AS raw
FROM (` + keep + `) AS k JOIN firsts AS f ON k.flow_id = f.flow_id WHERE k.source <> f.source OR k."row" <> f."row" ORDER BY k.source, k."row"`
			if err := in.exec(copyTo(schema.Rejects, query, stats.RejectsFile)); err != nil {
				return err
			}
			from := scanParquet(stats.RejectsFile)
			if err := in.count("SELECT count(*) FROM "+from, &stats.Rejects); err != nil {
				return err
			}
			var err error
			if stats.Reasons, err = in.reasons(from); err != nil {
				return err
			}
			keep = `SELECT k.* FROM (` + keep + `) AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row"`
		}
	}
	return in.exec(copyTo(schema.Flows, "SELECT flow_id, src, dst, size_bytes, start_ns, service, vnet, resolution_ns > 0 OR sampled AS synthetic_start FROM ("+keep+") ORDER BY start_ns, flow_id", stats.FlowsFile))
}

// connection is what records of one connection have in common.
const connection = "src, dst, protocol, src_port, dst_port"

// passBytes is what a record or flow takes at most while DuckDB merges or places it, measured with room
// to spare: sorted by connection and grouped, both at once, on every thread.
const passBytes = 1024

// passes is how often the rows are gone through, so that what is held of them at a time fits the
// memory: DuckDB's window functions do not spill.
func (in *Ingester) passes(rows int64) int64 {
	return 1 + rows/max(10_000, in.o.MemoryBytes/passBytes)
}

// mergeRecords merges records to flows, a part of the connections at a time, and then draws starts, a
// part of the seconds at a time.
func (in *Ingester) mergeRecords(records, out string, rows int64) error {
	records, err := in.oneSampler(records)
	if err != nil {
		return err
	}
	passes := in.passes(rows)
	var merged []string
	for p := range passes {
		file := filepath.Join(in.o.TmpDir, fmt.Sprintf("merged-%d.parquet", p))
		query := fmt.Sprintf(`
WITH marked AS (
  SELECT *, CASE WHEN start_ns > max(end_ns) OVER before + %[3]d THEN 1 ELSE 0 END AS fresh
  FROM %[2]s WHERE (src * 7919 + dst) %% %[5]d = %[6]d
  WINDOW before AS (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), numbered AS (
  SELECT *, sum(fresh) OVER (PARTITION BY %[1]s ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS turn FROM marked
), sights AS (
  SELECT %[1]s, turn, observer, CAST(sum(size_bytes) AS HUGEINT) AS size_bytes, min(start_ns) AS start_ns, min(resolution_ns) AS resolution_ns,
    bool_or(sampled) AS sampled, max(service) AS service, max(vnet) AS vnet
  FROM numbered GROUP BY %[1]s, turn, observer
)
SELECT %[1]s, CAST(least(max(size_bytes), %[4]d) AS BIGINT) AS size_bytes, min(start_ns) AS start_ns, min(resolution_ns) AS resolution_ns,
  bool_or(sampled) AS sampled, max(service) AS service, max(vnet) AS vnet
FROM sights GROUP BY %[1]s, turn`, connection, records, in.o.IdleNS, maxFlowBytes, passes, p)
		if err := in.copy(query, file, false); err != nil {
			return err
		}
		merged = append(merged, QuoteSQL(EscapeGlob(file)))
	}
	return in.placeFlows("read_parquet(["+strings.Join(merged, ", ")+"], hive_partitioning=false)", passes, out)
}

// placeFlows draws the starts that are not known, sorts and numbers the flows.
func (in *Ingester) placeFlows(merged string, passes int64, out string) error {
	var placed []string
	for p := range passes {
		file := filepath.Join(in.o.TmpDir, fmt.Sprintf("placed-%d.parquet", p))
		query := fmt.Sprintf(`
WITH part AS (SELECT * FROM %[2]s WHERE (start_ns // 1000000000) %% %[5]d = %[6]d
), drawn AS (
  SELECT *, start_draw(src, dst, coalesce(protocol, -1), coalesce(src_port, -1), coalesce(dst_port, -1), start_ns) AS draw FROM part WHERE resolution_ns > 0
), sums AS (
  SELECT *,
    sum(draw & %[3]d) OVER (PARTITION BY src, start_ns, resolution_ns ORDER BY draw >> %[4]d, %[1]s) AS reached,
    sum(draw & %[3]d) OVER (PARTITION BY src, start_ns, resolution_ns) AS gaps
  FROM drawn
)
SELECT %[1]s, size_bytes, start_ns AS logged_ns, service, vnet, true AS synthetic_start,
  start_ns + CAST(floor(CAST(reached AS DOUBLE) / CAST(gaps + (start_draw(src, -1, -1, -1, -1, start_ns) & %[3]d) AS DOUBLE) * resolution_ns) AS BIGINT) AS start_ns
FROM sums
UNION ALL BY NAME SELECT %[1]s, size_bytes, start_ns AS logged_ns, service, vnet, sampled AS synthetic_start, start_ns FROM part WHERE resolution_ns = 0`,
			connection, merged, drawGaps-1, drawGapBits, passes, p)
		if err := in.copy(query, file, false); err != nil {
			return err
		}
		placed = append(placed, QuoteSQL(EscapeGlob(file)))
	}
	sorted := filepath.Join(in.o.TmpDir, "sorted.parquet")
	query := fmt.Sprintf("SELECT src, dst, size_bytes, start_ns, service, vnet, synthetic_start FROM read_parquet([%s], hive_partitioning=false) ORDER BY start_ns, %s, logged_ns",
		strings.Join(placed, ", "), connection)
	if err := in.copy(query, sorted, true); err != nil {
		return err
	}
	return in.exec(copyTo(schema.Flows, "SELECT file_row_number AS flow_id, src, dst, size_bytes, start_ns, service, vnet, synthetic_start FROM "+scanParquet(sorted, "file_row_number=true"), out))
}

// oneSampler leaves, of sampled records, those of one observer for each pair of hosts.
func (in *Ingester) oneSampler(records string) (string, error) {
	var several bool
	err := in.query("SELECT count(DISTINCT observer) > 1 FROM (SELECT DISTINCT observer FROM "+records+" WHERE sampled LIMIT 2)", &several)
	if err != nil || !several {
		return records, err
	}
	err = in.exec(`CREATE OR REPLACE TEMP TABLE speakers AS
SELECT src, dst, arg_max(observer, (size_bytes, observer)) AS speaker FROM
  (SELECT src, dst, observer, sum(size_bytes) AS size_bytes FROM ` + records + ` WHERE sampled GROUP BY ALL) GROUP BY ALL`)
	return "(SELECT r.* FROM " + records + " AS r LEFT JOIN speakers AS s ON r.src = s.src AND r.dst = s.dst WHERE NOT r.sampled OR r.observer = s.speaker)", err
}

// A draw of a start packs a random order above a log-normal gap in fixed point, so that sums of gaps
// are exact in any order.
const (
	drawGapBits  = 43
	drawGaps     = int64(1) << drawGapBits
	drawGapScale = 1 << 24
)

// startDraw is the DuckDB function start_draw(src, dst, protocol, src_port, dst_port, second): the
// draw of one flow, from the stream keyed by all of it.
type startDraw struct {
	config duckdb.ScalarFuncConfig
	seed   uint64
	gap    workload.LogNormal
}

func registerStartDraw(conn *sql.Conn, seed uint64, sigma float64) error {
	number, err := duckdb.NewTypeInfo(duckdb.TYPE_BIGINT)
	if err != nil {
		return err
	}
	f := &startDraw{seed: seed, gap: workload.NewLogNormal(1, sigma)}
	for range 6 {
		f.config.InputTypeInfos = append(f.config.InputTypeInfos, number)
	}
	f.config.ResultTypeInfo = number
	return duckdb.RegisterScalarUDF(conn, "start_draw", f)
}

// Config says what the function takes and answers.
func (f *startDraw) Config() duckdb.ScalarFuncConfig { return f.config }

// Executor is the function.
func (f *startDraw) Executor() duckdb.ScalarFuncExecutor {
	return duckdb.ScalarFuncExecutor{RowExecutor: func(values []driver.Value) (any, error) {
		ids := make([]uint64, len(values))
		for i, v := range values {
			n, ok := v.(int64)
			if !ok {
				return nil, fmt.Errorf("start_draw of %T", v)
			}
			ids[i] = uint64(n)
		}
		s := rng.New(f.seed, rng.Start, ids...)
		order := int64(s.Uint64() >> (64 - 20))
		gap := int64(math.Min(f.gap.Draw(&s)*drawGapScale, float64(drawGaps-2))) + 1
		return order<<drawGapBits | gap, nil
	}}
}
