package pipeline

import (
	"context"
	"errors"
	"io"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/workload"
)

// exactWindowsStage simulates the whole network packet by packet in windows of time. Windows are independent: each part
// is a task, which one worker does. Table slowdowns has the flows that start in spans; its flow_row counts within the
// part.
func (m *method) exactWindowsStage() *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: exactName, Place: m.variant.place(m.ID()), Unit: "simulated ns", Command: m.command(exactName, m.variant),
		Reads: []engine.Output{flows}, Writes: []schema.Table{schema.Slowdowns},
		Cut: func(*engine.Inputs, []engine.Task) (tasks []engine.Task, err error) {
			for _, p := range m.Spec.Windows.Parts {
				tasks = append(tasks, engine.Task{Lo: p[0], Hi: p[1], Cost: p[1] - p[0]})
			}
			return tasks, nil
		},
	}
	s.Open = always(func(ctx context.Context, t *engine.Attempt) error {
		part, err := readPart(t.Read(flows, nil, &lake.Range{Column: "start_ns", Lo: t.Lo, Hi: t.Hi}), t.Lo, t.Hi)
		if err != nil {
			return err
		}
		stats, err := m.simulatePart(ctx, part, t.Sink(schema.Slowdowns))
		t.SetStats(stats)
		t.Add(t.Cost)
		return err
	})
	return s
}

// readPart reads the flows that start in a part, and closes the stream.
func readPart(in schema.Batches, fromNS, toNS int64) (part []workload.Row, err error) {
	err = columns.Each(in, func(v *workload.RowView) error {
		for i, ns := range v.StartNS {
			if fromNS <= ns && ns < toNS {
				part = append(part, carriedOf(v, i).Row)
			}
		}
		return nil
	})
	return part, errors.Join(err, in.Close())
}

// simulatePart simulates the flows of a part until those of the spans have finished, and writes the rows of these.
func (m *method) simulatePart(ctx context.Context, part []workload.Row, out schema.Sink) (stages.ExactStats, error) {
	if len(part) == 0 {
		return stages.ExactStats{}, nil
	}
	n := len(part)
	found := partFCTs{make([]int64, n), make([]int64, n), make([]int64, n), make([]int16, n)}
	stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, &rowStream{rows: part}, stages.ExactOptions{
		Workers: 1, Counts: m.Spec.Windows.counts, AllowUnreachable: m.Spec.AllowUnreachable,
		Buffer: m.Spec.Switches,
	}, stages.ExactTables{FCTs: &found}, nil)
	if err != nil {
		return stats, err
	}
	return stats, found.write(part, out)
}

// counts reports whether flows that start at a time are in a span.
func (w *WindowsSpec) counts(ns int64) bool {
	i := sort.Search(len(w.Spans), func(i int) bool { return w.Spans[i][1] > ns })
	return i < len(w.Spans) && w.Spans[i][0] <= ns
}

// partFCTs are the results of the flows of a part, by row: hops is 0 for a flow that does not count or has no path.
type partFCTs struct {
	fct, ideal, window []int64
	hops               []int16
}

// Write takes a batch of table exact_fcts.
func (f *partFCTs) Write(rec arrow.Record) error {
	fct, ideal, hops := columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns"), columns.Int16s(rec, "hops")
	window := columns.Int64s(rec, "window_ns")
	for i, row := range columns.Int64s(rec, "flow_row") {
		f.fct[row], f.ideal[row], f.window[row], f.hops[row] = fct[i], ideal[i], window[i], hops[i]
	}
	return nil
}

// write writes table slowdowns.
func (f *partFCTs) write(part []workload.Row, out schema.Sink) error {
	var rows []stages.SlowdownRow
	for i, x := range part {
		if f.hops[i] > 0 {
			rows = append(rows, stages.SlowdownRow{FlowID: x.ID, FlowRow: int64(i), Src: x.Src, Dst: x.Dst, Service: x.Service,
				VNet: x.VNet, SizeBytes: x.SizeBytes, StartNS: x.StartNS, Hops: f.hops[i], IdealNS: f.ideal[i], FCTNS: f.fct[i],
				WindowNS: f.window[i], Slowdown: float64(f.fct[i]) / float64(f.ideal[i])})
		}
	}
	return stages.SlowdownTable.Write(out, rows)
}

// A rowStream is a stream of rows of table flows.
type rowStream struct {
	rows []workload.Row
	next arrow.Record
}

// Write takes the next batch.
func (s *rowStream) Write(rec arrow.Record) error {
	rec.Retain()
	s.next = rec
	return nil
}

// Next returns the next batch.
func (s *rowStream) Next() (arrow.Record, error) {
	if len(s.rows) == 0 {
		return nil, io.EOF
	}
	n := min(len(s.rows), 4096)
	err := columns.TableOf[workload.Row](schema.Flows).Write(s, s.rows[:n]) // in memory of its own
	s.rows = s.rows[n:]
	return s.next, err
}

func (s *rowStream) Close() error { return nil }
