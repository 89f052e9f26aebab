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
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/ingest/connections"
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
	Corrections     []Correction  `json:"corrections,omitempty"`
	Sampling        string        `json:"sampling,omitempty"` // flows that sampling misses, for the user
	Gaps            []Gap         `json:"gaps,omitempty"`     // of flow logs
	Profile
	Labels []LabelCount `json:"-"` // most bytes first
	// RejectsFile is the Parquet file of the rejects, in TmpDir; empty if there are none.
	RejectsFile string `json:"-"`

	merged
}

// Profile describes table workload_intervals of flow logs.
type Profile struct {
	Intervals int64 `json:"intervals,omitempty"` // rows
	// LastEndNS is the end of the last interval of a flow; 0 if no flow has intervals.
	LastEndNS int64 `json:"last_end_ns,omitempty"`
	// IntervalNS is the time over which exporters are resolved: ten times the duration of records, but at least
	// 5 minutes.
	IntervalNS int64 `json:"interval_ns,omitempty"`
}

// merged is what a merge found, and what remains to be checked.
type merged struct {
	records, largest int64
	bytes            float64
	flowsFile        string // of whole flows
}

// fits reports whether the bytes of each flow, and of all of them, can be simulated.
func (m *merged) fits() bool { return m.bytes <= maxBytes && m.largest <= maxFlowBytes }

// Tables are where Merge writes tables flows and workload_intervals. Only flow logs have intervals. Nil: they
// are not wanted.
type Tables struct{ Flows, Intervals schema.Sink }

// A Correction is a source that gives rows of an earlier one again, with other content. Both count.
type Correction struct {
	File   string `json:"file"`
	Before string `json:"before"` // the earlier source
	Rows   int64  `json:"rows"`   // of Before within the time of File, which are not in File
}

// Merge makes flows from records, in start order.
//
// If each row of the sources is a flow, flows keep their ids, or are numbered by source and row. Rows with
// repeated ids are rejected. Records of flow logs are merged (connections.Collector). Merge is called once.
func (in *Ingester) Merge(ctx context.Context, sources []MergeSource, out Tables) (stats MergeStats,
	err error) {
	m := &merging{Ingester: in, sources: sources, stats: &stats}
	m.all = duckdb.ScanParquet(names.Of(sources, func(s MergeSource) string { return s.RecordsFile })...)
	if in.o.Mapping.Records {
		err = m.flowLogs(ctx, out)
	} else {
		err = m.wholeFlows(ctx, out)
	}
	if err != nil {
		return stats, err
	}
	stats.Merged = stats.records - stats.Flows - stats.Rejects
	if !stats.fits() {
		var largest string
		if err = m.query(ctx, step("largest", values{"records": m.all, "file": m.file()}), &largest); err == nil {
			err = fmt.Errorf("%s, and all flows %s: a flow can have 2^50, and all 2^62", largest,
				units.Human(stats.bytes))
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
type LabelCount = connections.Label

// labels counts the flows of a Parquet file by service and virtual network.
func (in *Ingester) labels(ctx context.Context, file string) (all []LabelCount, err error) {
	query := step("labels", values{"flows": duckdb.ScanParquet(file)})
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

// withoutRepeated returns the records without those that a source with a lower number also has. A log that is
// ingested while it grows, and again when it is complete, thus counts once. Equal records of one source stay:
// the result has each record as often as the source that has it most often.
func (m *merging) withoutRepeated(ctx context.Context) (string, error) {
	if len(m.sources) < 2 {
		return m.all, nil
	}
	err := m.exec(ctx, step("twice", values{"records": m.all}))
	if err == nil {
		var shared map[[2]int32]int64
		if shared, err = m.shared(ctx); err == nil {
			err = m.corrections(ctx, shared)
		}
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

// shared returns the number of records, by connection and time, that a source has in common with the next
// source that has them.
func (m *merging) shared(ctx context.Context) (map[[2]int32]int64, error) {
	shared := map[[2]int32]int64{}
	err := m.each(ctx, step("shared", values{"records": m.all}), func(rows *sql.Rows) error {
		var at [2]int32
		var n int64
		err := rows.Scan(&at[0], &at[1], &n)
		shared[at] = n
		return err
	})
	return shared, err
}

// corrections finds the sources that lack records which an earlier source has within their time. Such a
// source is a correction if it has the same name, or if the two share half of the connections and times of
// either.
func (m *merging) corrections(ctx context.Context, shared map[[2]int32]int64) error {
	last := map[string]int32{} // number of the last source of a name
	for j, later := range m.sources {
		for _, earlier := range m.sources[:j] {
			n := shared[[2]int32{earlier.N, later.N}]
			if last[later.File] != earlier.N && (n == 0 || 2*n < min(earlier.Records, later.Records)) {
				continue
			}
			c := Correction{File: later.File, Before: earlier.File}
			err := m.query(ctx, step("corrected", values{"earlier": duckdb.ScanParquet(earlier.RecordsFile),
				"later": duckdb.ScanParquet(later.RecordsFile)}), &c.Rows)
			if err != nil {
				return err
			}
			if c.Rows > 0 {
				m.stats.Corrections = append(m.stats.Corrections, c)
			}
		}
		last[later.File] = later.N
	}
	return nil
}

func (m *merging) tmp(name string) string { return filepath.Join(m.o.TmpDir, name) }

// wholeFlows writes flows whose rows are flows.
func (m *merging) wholeFlows(ctx context.Context, out Tables) error {
	if m.isOneSource() {
		done, err := m.flowsOfSource(ctx, out)
		if done || err != nil {
			return err
		}
	}
	return m.sortedFlows(ctx, out)
}

// sortedFlows writes any number of flows.
func (m *merging) sortedFlows(ctx context.Context, out Tables) error {
	records, err := m.withoutRepeated(ctx)
	if err != nil {
		return err
	}
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
	query := fmt.Sprintf("SELECT %s, flow_id AS connection_id, false AS background FROM (SELECT *, %s FROM %s) "+
		"ORDER BY start_ns, flow_id", flowColumns(), synthetic, flows)
	s := m.stats
	s.flowsFile = m.tmp("flows.parquet")
	if err = m.exec(ctx, copyTo(schema.Flows, query, s.flowsFile)); err != nil {
		return err
	}
	totals := step("totals", values{"records": m.all, "flows": duckdb.ScanParquet(s.flowsFile)})
	err = m.query(ctx, totals, &s.records, &s.Flows, &s.SyntheticStarts, &s.FirstStartNS, &s.LastStartNS,
		&s.bytes, &s.largest)
	if err == nil {
		s.Labels, err = m.labels(ctx, s.flowsFile)
	}
	if err != nil {
		return err
	}
	return columns.ForEach(m.o.Open(schema.Flows, s.flowsFile), out.Flows.Write)
}

// rejectRepeatedIDs writes flows whose id an earlier row has to table rejects, and returns the other flows.
func (m *merging) rejectRepeatedIDs(ctx context.Context, flows string) (string, error) {
	var repeated int64
	several := "SELECT flow_id FROM " + flows + " GROUP BY flow_id HAVING count(*) > 1"
	err := m.query(ctx, "SELECT count(*) FROM ("+several+")", &repeated)
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

// passBytes is an upper bound, measured, of DuckDB's memory per record while it finds repeated ones.
const passBytes = 1024

// passes returns the number of parts into which the rows are divided so that one part fits into memory,
// because DuckDB's window functions do not spill to disk.
func (in *Ingester) passes(rows int64) int64 {
	return 1 + rows/max(10_000, in.o.MemoryBytes/passBytes)
}

// flowLogs merges the records of flow logs to flows (package connections).
func (m *merging) flowLogs(ctx context.Context, out Tables) error {
	sources := names.Of(m.sources, func(s MergeSource) connections.Source {
		open := func() schema.Batches { return m.o.Open(schema.Records, s.RecordsFile) }
		return connections.Source{N: s.N, Open: open}
	})
	r, err := m.collector.Merge(ctx, sources, out.Flows, out.Intervals)
	if err != nil {
		return err
	}
	s := m.stats
	s.merged = merged{records: r.Records, bytes: r.Bytes, largest: r.LargestBytes}
	s.Flows = r.Flows
	s.SyntheticStarts = r.Synthetic
	s.Repeated = r.Repeated
	s.FirstStartNS = r.FirstStartNS
	s.LastStartNS = r.LastStartNS
	s.Profile = Profile{Intervals: r.Intervals, LastEndNS: r.LastEndNS, IntervalNS: r.IntervalNS}
	s.Gaps = names.Of(r.Gaps, func(g connections.Gap) Gap { return Gap(g) })
	s.Labels = r.Labels
	s.Sampling = describeSampling(r.Sampled)
	if len(m.sources) < 2 {
		return nil
	}
	return m.corrections(ctx, r.Shared)
}
