package ingest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// MergeSource is a source file whose records become flows.
type MergeSource struct {
	N    int32  // its number, as given to Ingester.File
	File string // the source
	FileStats
}

// MergeStats counts what became of the records of some sources: records = Flows + Merged + Rejects.
type MergeStats struct {
	Flows           int64 `json:"flows"`
	Merged          int64 `json:"merged"`
	Rejects         int64 `json:"rejects"`
	SyntheticStarts int64 `json:"synthetic_starts"`
	FirstStartNS    int64 `json:"first_start_ns"`
	LastStartNS     int64 `json:"last_start_ns"`
	// LastEndNS is the end of the last interval of a flow; 0 if no flow has intervals.
	LastEndNS   int64         `json:"last_end_ns,omitempty"`
	Reasons     []RejectCount `json:"reasons"`
	Repeated    int64         `json:"-"` // of Merged: an earlier source has them
	Corrections []Correction  `json:"corrections,omitempty"`
	Sampling    string        `json:"sampling,omitempty"` // what sampling leaves out, for the user
	Gaps        []Gap         `json:"gaps,omitempty"`     // of flow logs
	// FlowsFile is the Parquet file of the flows, and RejectsFile of the rejects, in TmpDir. RejectsFile is
	// empty if there are none.
	FlowsFile   string `json:"-"`
	RejectsFile string `json:"-"`
}

// A Correction is a source that gives rows of an earlier one again, with other content. Both count.
type Correction struct {
	File   string `json:"file"`
	Before string `json:"before"` // the earlier source
	Rows   int64  `json:"rows"`   // of Before within the time of File, which are not in File
}

// Merge makes flows from records, in start order.
//
// If each row of the sources is a flow, flows keep their ids, or are numbered by source and row. Rows with
// repeated ids are rejected.
//
// Records of flow logs are merged: records of the same two hosts, protocol and ports are one flow until
// IdleNS pass without a packet. If several observers saw the flow, the one that counted the most bytes of it
// applies; if all of them sampled it, their mean (exporters) or, at an unknown rate, that of one of them
// (samplers). A start is known to a second, say, or, where several observers saw the flow, within what they
// agree on. There it is drawn: the flows that a host starts in one second follow each other after log-normal
// gaps, scaled to fill it, in random order. Flows are numbered in start order.
func (in *Ingester) Merge(ctx context.Context, sources []MergeSource) (stats MergeStats, err error) {
	m := &merging{Ingester: in, sources: sources, stats: &stats}
	m.all = duckdb.ScanParquet(names.Of(sources, func(s MergeSource) string { return s.RecordsFile })...)
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
	var total, most int64
	var bytes float64
	err = in.query(ctx, step("totals", values{"records": m.all, "flows": duckdb.ScanParquet(stats.FlowsFile)}), &total,
		&stats.Flows, &stats.SyntheticStarts, &stats.FirstStartNS, &stats.LastStartNS, &bytes, &most)
	stats.Merged = total - stats.Flows - stats.Rejects
	if err == nil && (bytes > maxBytes || most > maxFlowBytes) {
		var largest string
		if err = m.query(ctx, step("largest", values{"records": m.all, "file": m.file()}), &largest); err == nil {
			err = fmt.Errorf("%s, and all flows %s: a flow can have 2^50, and all 2^62", largest, units.Human(bytes))
		}
	}
	return stats, err
}

// ofSource returns the SQL of a value of a record's source.
func (m *merging) ofSource(value func(s MergeSource) string) string {
	return "CASE source " + strings.Join(names.Of(m.sources, func(s MergeSource) string {
		return fmt.Sprintf("WHEN %d THEN %s", s.N, value(s))
	}), " ") + " END"
}

// file is the SQL of the source file of a record.
func (m *merging) file() string {
	return m.ofSource(func(s MergeSource) string { return duckdb.Quote(s.File) })
}

// LabelCount counts the flows of one service and virtual network.
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
	query := step("labels", values{"flows": duckdb.ScanParquet(files...)})
	err = in.each(ctx, query, func(rows *sql.Rows) error {
		var l LabelCount
		err := rows.Scan(&l.Service, &l.VNet, &l.Flows, &l.Bytes)
		all = append(all, l)
		return err
	})
	return all, err
}

type merging struct {
	*Ingester
	sources []MergeSource
	stats   *MergeStats
	all     string // table function of the records of all sources
}

// withoutRepeated returns the records without those that a source with a lower number has, too: a log that is
// ingested while it grows, and again when it is complete, counts once. Equal records of one source stay: of
// each record the result has as many as the source that has the most.
func (m *merging) withoutRepeated(ctx context.Context) (string, error) {
	if len(m.sources) < 2 {
		return m.all, nil
	}
	err := m.exec(ctx, step("twice", values{"records": m.all}))
	if err == nil {
		err = m.corrections(ctx)
	}
	var rows int64
	if err == nil {
		err = m.query(ctx, "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM twice", &rows)
	}
	if rows == 0 {
		return m.all, err
	}
	for p, passes := int64(0), m.passes(rows); p < passes && err == nil; p++ {
		err = m.exec(ctx, step("repeated", values{"records": m.all, "parts": passes, "part": p}))
	}
	if err != nil {
		return "", err
	}
	return `(SELECT r.* FROM ` + m.all + ` AS r ANTI JOIN repeated AS d 
  ON r.source = d.source AND r."row" = d."row" AND r.reverse = d.reverse)`,
		m.query(ctx, "SELECT count(*) FROM repeated", &m.stats.Repeated)
}

// corrections finds the sources that lack records which an earlier one has within their time, and either have
// its name or have, of one of the two, half of the records' connections and times.
func (m *merging) corrections(ctx context.Context) error {
	shared := map[[2]int32]int64{} // records, by an earlier source and the next one that has them
	err := m.each(ctx, step("shared", values{"records": m.all}), func(rows *sql.Rows) error {
		var at [2]int32
		var n int64
		err := rows.Scan(&at[0], &at[1], &n)
		shared[at] = n
		return err
	})
	last := map[string]int32{} // number of the last source of a name
	for j, later := range m.sources {
		for _, earlier := range m.sources[:j] {
			n := shared[[2]int32{earlier.N, later.N}]
			if err != nil || last[later.File] != earlier.N && (n == 0 || 2*n < min(earlier.Records, later.Records)) {
				continue
			}
			c := Correction{File: later.File, Before: earlier.File}
			err = m.query(ctx, step("corrected", values{"earlier": duckdb.ScanParquet(earlier.RecordsFile),
				"later": duckdb.ScanParquet(later.RecordsFile)}), &c.Rows)
			if c.Rows > 0 {
				m.stats.Corrections = append(m.stats.Corrections, c)
			}
		}
		last[later.File] = later.N
	}
	return err
}

func (m *merging) tmp(name string) string { return filepath.Join(m.o.TmpDir, name) }

func (m *merging) wholeFlows(ctx context.Context, records string) (err error) {
	offset := int64(0)
	first := m.ofSource(func(s MergeSource) string {
		offset += s.Rows
		return fmt.Sprint(offset - s.Rows)
	})
	flows := "(SELECT * REPLACE (coalesce(flow_id, " + first + ` + "row" - 1) AS flow_id) FROM ` + records + ")"
	if slices.ContainsFunc(m.sources, func(s MergeSource) bool { return s.AnyFlowID }) {
		if flows, err = m.rejectRepeatedIDs(ctx, flows); err != nil {
			return err
		}
	}
	synthetic := "resolution_ns > 0 OR samples IS DISTINCT FROM 0 AS synthetic_start"
	query := fmt.Sprintf("SELECT %s, %s FROM (SELECT *, %s FROM %s) ORDER BY start_ns, flow_id",
		flowColumns(""), wholeFlow, synthetic, flows)
	return m.exec(ctx, copyTo(schema.Flows, query, m.stats.FlowsFile))
}

// rejectRepeatedIDs writes flows whose id an earlier row has to table rejects, and returns the other flows.
func (m *merging) rejectRepeatedIDs(ctx context.Context, flows string) (string, error) {
	var repeated int64
	err := m.query(ctx, "SELECT count(*) FROM (SELECT flow_id FROM "+flows+" GROUP BY flow_id HAVING count(*) > 1)",
		&repeated)
	if err != nil || repeated == 0 {
		return flows, err
	}
	if err = m.exec(ctx, step("firsts", values{"flows": flows})); err != nil {
		return "", err
	}
	query := step("repeated_ids", values{"file": m.file(), "flows": flows})
	m.stats.RejectsFile = m.tmp("merge-rejects.parquet")
	if err := m.exec(ctx, copyTo(schema.Rejects, query, m.stats.RejectsFile)); err != nil {
		return "", err
	}
	m.stats.Reasons, err = m.reasons(ctx, duckdb.ScanParquet(m.stats.RejectsFile))
	for _, r := range m.stats.Reasons {
		m.stats.Rejects += r.Rows
	}
	return "(SELECT k.* FROM " + flows + ` AS k LEFT JOIN firsts AS f ON k.flow_id = f.flow_id
WHERE f.flow_id IS NULL OR k.source = f.source AND k."row" = f."row")`, err
}

// passBytes is an upper bound, measured, of DuckDB's memory per record or flow while it merges or draws
// starts.
const passBytes = 1024

// passes returns into how many parts the rows are divided, so that one part fits the memory: DuckDB's window
// functions do not spill to disk.
func (in *Ingester) passes(rows int64) int64 {
	return 1 + rows/max(10_000, in.o.MemoryBytes/passBytes)
}

// flowLogs merges records to flows, one part of the pairs of hosts at a time, draws starts, one part of the
// seconds at a time, sorts the flows by start and numbers them.
func (m *merging) flowLogs(ctx context.Context, records string) error {
	var exporters, unknown, rows int64
	err := m.query(ctx, "SELECT count(DISTINCT observer) FILTER (samples > 0), "+
		"count(DISTINCT observer) FILTER (samples IS NULL), count(*) FROM "+records, &exporters, &unknown, &rows)
	if err == nil && unknown > 1 {
		err = m.exec(ctx, step("samplers", values{"records": records}))
		records = "(SELECT r.* FROM " + records + ` AS r LEFT JOIN samplers AS s ON r.src = s.src AND r.dst = s.dst
			WHERE r.samples IS NOT NULL OR r.observer = s.sampler)`
	}
	intervalNS := int64(0)
	if err == nil {
		err = m.query(ctx, step("interval", values{"records": m.all}), &intervalNS)
	}
	if err == nil && exporters > 1 {
		records, err = m.exporters(ctx, records, intervalNS)
	} else {
		records = "(SELECT *, 1 AS k, 1 AS prior FROM " + records + ")"
	}
	if err != nil {
		return err
	}
	flows, err := m.inParts(ctx, rows, "merge", values{"records": records, "idle_ns": m.o.IdleNS,
		"interval_ns": intervalNS})
	if err == nil {
		err = m.describeSampling(ctx, flows)
	}
	if err == nil {
		flows, err = m.inParts(ctx, rows, "starts", values{"flows": flows})
	}
	if err != nil {
		return err
	}
	sorted, columns := m.tmp("sorted.parquet"), flowColumns("flow_id")
	err = m.exec(ctx, keep("SELECT "+columns+" FROM "+flows+" ORDER BY start_ns, "+connection+", logged_ns", sorted))
	if err == nil {
		numbered := fmt.Sprintf("SELECT file_row_number AS flow_id, %s, %s FROM read_parquet(%s, "+
			"hive_partitioning=false, file_row_number=true)",
			columns, wholeFlow, duckdb.Quote(duckdb.EscapeGlob(sorted)))
		err = m.exec(ctx, copyTo(schema.Flows, numbered, m.stats.FlowsFile))
	}
	if err == nil {
		err = m.findGaps(ctx)
	}
	return err
}

// inParts writes the results of a step for all parts of some rows, in any order, and returns the SQL that
// reads them.
func (m *merging) inParts(ctx context.Context, rows int64, name string, of values) (string, error) {
	files := make([]string, m.passes(rows))
	of["parts"] = len(files)
	for p := range files {
		files[p], of["part"] = m.tmp(fmt.Sprintf("%s-%d.parquet", name, p)), p
		write := keep(step(name, of), files[p])
		err := m.exec(ctx, "SET preserve_insertion_order=false; "+write+"; SET preserve_insertion_order=true")
		if err != nil {
			return "", err
		}
	}
	return duckdb.ScanParquet(files...), nil
}

// The value of start_draw has a random order in its high bits and a log-normal gap in fixed point in its low
// bits, so that sums of gaps are exact in any order.
const (
	drawGapBits  = 43
	drawGaps     = int64(1) << drawGapBits
	drawGapScale = 1 << 24
)

// startDraw is the DuckDB function start_draw(src, dst, protocol, src_port, dst_port, second): the draw of
// one flow, from a random stream keyed by all arguments.
type startDraw struct {
	config duckdriver.ScalarFuncConfig
	seed   uint64
	gap    workload.LogNormal
}

func registerStartDraw(conn *sql.Conn, seed uint64, sigma float64) error {
	number, err := duckdriver.NewTypeInfo(duckdriver.TYPE_BIGINT)
	if err != nil {
		return err
	}
	f := &startDraw{seed: seed, gap: workload.NewLogNormal(1, sigma)}
	f.config.InputTypeInfos, f.config.ResultTypeInfo = slices.Repeat([]duckdriver.TypeInfo{number}, 6), number
	return duckdriver.RegisterScalarUDF(conn, "start_draw", f)
}

// Config returns the types of the arguments and of the result.
func (f *startDraw) Config() duckdriver.ScalarFuncConfig { return f.config }

// Executor returns the function.
func (f *startDraw) Executor() duckdriver.ScalarFuncExecutor {
	return duckdriver.ScalarFuncExecutor{RowExecutor: func(values []driver.Value) (any, error) {
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
