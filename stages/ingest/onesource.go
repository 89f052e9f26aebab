package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/ingest/extsort"
	"parsimon/stages/workload"
)

// isOneSource reports whether flowsOfSource can merge the sources: there is one, none of whose rows waits for
// others.
func (m *merging) isOneSource() bool { return len(m.sources) == 1 && m.sources[0].Waits == 0 }

// flowsOfSource writes the flows of one source as sortedFlows does. It takes less time than SQL. If several
// rows have the same id, it reports false and writes nothing.
func (m *merging) flowsOfSource(ctx context.Context, out Tables) (done bool, err error) {
	w := &sourceFlows{merging: m, numbers: map[workload.Labels]int32{}}
	isUnique, err := w.readKeys(ctx)
	if err != nil || !isUnique {
		return false, err
	}
	s := m.stats
	byStart := wholeByStart.Within(uint64(s.FirstStartNS), uint64(s.LastStartNS))
	w.flows = extsort.New(&m.collector.Memory, m.o.TmpDir, m.o.MemoryBytes/4, byStart)
	defer func() { err = errors.Join(err, w.flows.Close()) }()
	if err := m.eachRecords(ctx, w.add); err != nil {
		return false, err
	}
	s.records = w.flows.Len()
	s.Flows = s.records
	if err := w.write(ctx, out); err != nil {
		return false, err
	}
	s.Labels = w.labels
	slices.SortFunc(s.Labels, LabelCount.Compare)
	return true, nil
}

// eachRecords calls do with batches of the records of the only source. names are the columns that do needs;
// empty: all of them.
func (m *merging) eachRecords(ctx context.Context, do func(arrow.Record) error, names ...string) error {
	return columns.ForEach(m.o.Open(schema.Records, m.sources[0].RecordsFile), func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do(rec)
	}, names...)
}

// A wholeFlow is a row that is a flow, while it is sorted.
type wholeFlow struct {
	startNS, id, bytes int64
	src, dst           int32
	label              int32 // number of its labels
	dscp               int16
	synthetic          bool
}

// wholeByStart orders flows as table flows has them. No two flows have the same id.
var wholeByStart = extsort.Order[wholeFlow]{
	Key:     func(f *wholeFlow) uint64 { return uint64(f.startNS) },
	Second:  func(f *wholeFlow) uint64 { return keyOf(f.id) },
	Compare: func(a, b *wholeFlow) int { return cmp.Compare(a.id, b.id) },
}

// keyOf returns a key in the order of ids.
func keyOf(id int64) uint64 { return uint64(id) ^ 1<<63 }

// A rowID is the id of a row.
type rowID struct{ id int64 }

var byID = extsort.Order[rowID]{
	Key:     func(r *rowID) uint64 { return keyOf(r.id) },
	Compare: func(*rowID, *rowID) int { return 0 },
}

// sourceFlows are the flows of a source.
type sourceFlows struct {
	*merging
	flows   *extsort.Sorter[wholeFlow]
	rows    []wholeRow                // of a batch
	numbers map[workload.Labels]int32 // of labels
	labels  []LabelCount              // by number
	last    int32                     // number of the labels of the row before
}

// readKeys reads the range of the starts, and reports whether no two rows have the same id.
func (w *sourceFlows) readKeys(ctx context.Context) (isUnique bool, err error) {
	ids := extsort.New(&w.collector.Memory, w.o.TmpDir, w.o.MemoryBytes/4, byID)
	defer func() { err = errors.Join(err, ids.Close()) }()
	names := []string{"start_ns"}
	if w.sources[0].AnyFlowID {
		names = append(names, "flow_id", "row")
	}
	first := int64(math.MaxInt64)
	last := int64(0)
	err = w.eachRecords(ctx, func(rec arrow.Record) error {
		for _, start := range columns.Int64s(rec, "start_ns") {
			if start < 0 {
				return fmt.Errorf("%s: a flow starts at %d ns, before 1970", w.sources[0].File, start)
			}
			first = min(first, start)
			last = max(last, start)
		}
		if !w.sources[0].AnyFlowID {
			return nil
		}
		own := columns.Named(rec, "flow_id").(*array.Int64)
		for i, row := range columns.Int64s(rec, "row") {
			if err := ids.Add(rowID{idOf(own, i, row)}); err != nil {
				return err
			}
		}
		return nil
	}, names...)
	w.stats.FirstStartNS = min(first, last)
	w.stats.LastStartNS = last
	isUnique = true
	var before rowID
	n := 0
	if err == nil {
		err = ids.Drain(ctx, func(r *rowID) error {
			isUnique = isUnique && (n == 0 || *r != before)
			before = *r
			n++
			return nil
		})
	}
	return isUnique, err
}

// idOf returns the id of a flow: its own or, if it has none, the number of its row, from 0.
func idOf(own *array.Int64, i int, row int64) int64 {
	if own.IsNull(i) {
		return row - 1
	}
	return own.Value(i)
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

// add adds the flows of a batch of records, and counts them.
func (w *sourceFlows) add(rec arrow.Record) error {
	ids := columns.Named(rec, "flow_id").(*array.Int64)
	samples := columns.Named(rec, "samples").(*array.Int64)
	w.rows = columns.Append(w.rows[:0], rec)
	for i := range w.rows {
		r := &w.rows[i]
		f := wholeFlow{
			startNS: r.StartNS, id: idOf(ids, i, r.Row), bytes: r.SizeBytes, src: r.Src, dst: r.Dst,
			label: w.label(r.Labels), dscp: r.DSCP,
			synthetic: r.ResolutionNS > 0 || samples.IsNull(i) || samples.Value(i) != 0,
		}
		if err := w.flows.Add(f); err != nil {
			return err
		}
		if f.synthetic {
			w.stats.SyntheticStarts++
		}
		w.stats.bytes += float64(f.bytes)
		w.stats.largest = max(w.stats.largest, f.bytes)
		w.labels[f.label].Flows++
		w.labels[f.label].Bytes += f.bytes
	}
	return nil
}

// label returns the number of the labels of a row.
func (w *sourceFlows) label(l workload.Labels) int32 {
	if len(w.labels) > 0 && w.labels[w.last].Service == l.Service && w.labels[w.last].VNet == l.VNet {
		return w.last
	}
	n, isKnown := w.numbers[l]
	if !isKnown {
		n = int32(len(w.labels))
		l = l.Clone()
		w.numbers[l] = n
		w.labels = append(w.labels, LabelCount{Service: l.Service, VNet: l.VNet})
	}
	w.last = n
	return n
}

// wholeRows is the number of flows that are written at a time. They fit in the second-level cache.
const wholeRows = 4096

// write writes the flows.
func (w *sourceFlows) write(ctx context.Context, out Tables) error {
	rows := connections.NewRowWriter(wholeRows, func(rows []workload.Row) error {
		return workload.RowTable.Write(out.Flows, rows)
	})
	err := w.flows.Drain(ctx, func(f *wholeFlow) error {
		of := &w.labels[f.label]
		return rows.Add(workload.Row{
			ID: f.id, Src: f.src, Dst: f.dst, SizeBytes: f.bytes, StartNS: f.startNS,
			Labels: workload.Labels{Service: of.Service, VNet: of.VNet}, Synthetic: f.synthetic, DSCP: f.dscp,
			Connection: f.id,
		})
	})
	return cmp.Or(err, rows.Finish())
}
