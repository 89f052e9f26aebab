package ingest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/workload"
)

// isFew reports whether fewFlows can merge the sources: one source with few records, none of which waits for
// others.
func (m *merging) isFew() bool {
	return len(m.sources) == 1 && m.sources[0].Records <= columns.BatchRows && m.sources[0].Waits == 0
}

// fewFlows writes flows as wholeFlows does. It sorts them in memory, which takes less time than opening
// DuckDB. If several rows have the same id, it reports false and writes nothing.
func (m *merging) fewFlows(out Tables) (done bool, err error) {
	var rows []workload.Row
	err = columns.ForEach(m.o.Open(schema.Records, m.sources[0].RecordsFile), func(rec arrow.Record) error {
		rows = appendWhole(rows, rec)
		return nil
	})
	if err != nil {
		return false, err
	}
	ids := map[int64]bool{}
	for _, row := range rows {
		ids[row.ID] = true
	}
	if len(ids) < len(rows) {
		return false, nil
	}
	slices.SortFunc(rows, func(a, b workload.Row) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.ID, b.ID))
	})
	m.stats.count(rows)
	if len(rows) == 0 {
		return true, nil
	}
	return true, workload.RowTable.Write(out.Flows, rows)
}

// A wholeRow has the columns of a record that is a flow, except for those that can be null.
type wholeRow struct {
	Row          int64 `col:"row"`
	Src          int32 `col:"src"`
	Dst          int32 `col:"dst"`
	SizeBytes    int64 `col:"size_bytes"`
	StartNS      int64 `col:"start_ns"`
	ResolutionNS int64 `col:"resolution_ns"`
	workload.Labels
	DSCP int16 `col:"dscp"` // below 0: null
}

// appendWhole appends the flows of a batch of records. A flow without an id has the number of its row, from
// 0.
func appendWhole(rows []workload.Row, rec arrow.Record) []workload.Row {
	ids := columns.Named(rec, "flow_id").(*array.Int64)
	samples := columns.Named(rec, "samples").(*array.Int64)
	for i, r := range columns.Append([]wholeRow(nil), rec) {
		row := workload.Row{ID: r.Row - 1, Src: r.Src, Dst: r.Dst, SizeBytes: r.SizeBytes, StartNS: r.StartNS,
			Labels: r.Clone(), DSCP: r.DSCP,
			Synthetic: r.ResolutionNS > 0 || samples.IsNull(i) || samples.Value(i) != 0}
		if !ids.IsNull(i) {
			row.ID = ids.Value(i)
		}
		row.Connection = row.ID
		rows = append(rows, row)
	}
	return rows
}

// count counts flows in the order of their starts.
func (s *MergeStats) count(rows []workload.Row) {
	labels := map[workload.Labels]*LabelCount{}
	for _, row := range rows {
		s.records++
		s.Flows++
		if row.Synthetic {
			s.SyntheticStarts++
		}
		s.bytes += float64(row.SizeBytes)
		s.largest = max(s.largest, row.SizeBytes)
		of := labels[row.Labels]
		if of == nil {
			of = &LabelCount{Service: row.Service, VNet: row.VNet}
			labels[row.Labels] = of
		}
		of.Flows++
		of.Bytes += row.SizeBytes
	}
	if len(rows) > 0 {
		s.FirstStartNS = rows[0].StartNS
		s.LastStartNS = rows[len(rows)-1].StartNS
	}
	for _, of := range labels {
		s.Labels = append(s.Labels, *of)
	}
	slices.SortFunc(s.Labels, func(a, b LabelCount) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Service, b.Service),
			strings.Compare(a.VNet, b.VNet))
	})
}
