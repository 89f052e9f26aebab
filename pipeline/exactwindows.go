package pipeline

import (
	"context"
	"io"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
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
		stats, err := m.simulatePart(ctx, part, t.Hi, t.Sink(schema.Slowdowns))
		t.SetStats(stats)
		t.Add(t.Cost)
		return err
	})
	return s
}

// readPart reads the flows that start in a part, and closes the stream.
func readPart(in schema.Batches, fromNS, toNS int64) (part []heldFlow, err error) {
	err = columns.Consume(in, func(rec arrow.Record) error {
		of := flowsOf(rec)
		for i, ns := range columns.Int64s(rec, "start_ns") {
			if fromNS <= ns && ns < toNS {
				part = append(part, heldFlow{ns, of(i)})
			}
		}
		return nil
	})
	return part, err
}

// simulatePart simulates the flows of a part until those of the spans have finished, and writes the rows of these.
func (m *method) simulatePart(ctx context.Context, part []heldFlow, toNS int64,
	out schema.Sink) (stages.ExactStats, error) {
	if len(part) == 0 {
		return stages.ExactStats{}, nil
	}
	n := len(part)
	found := partFCTs{make([]int64, n), make([]int64, n), make([]int64, n), make([]int16, n)}
	stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, &oneBatch{heldRecord(part)}, stages.ExactOptions{
		Workers: 1, ToNS: toNS, Counts: m.Spec.Windows.counts, AllowUnreachable: m.Spec.AllowUnreachable,
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
func (f *partFCTs) write(part []heldFlow, out schema.Sink) error {
	var rows []stages.SlowdownRow
	for i, x := range part {
		if f.hops[i] > 0 {
			rows = append(rows, stages.SlowdownRow{FlowID: x.id, FlowRow: int64(i), Src: x.src, Dst: x.dst, Service: x.service,
				VNet: x.vnet, SizeBytes: int64(x.remaining), StartNS: x.ns, Hops: f.hops[i], IdealNS: f.ideal[i], FCTNS: f.fct[i],
				WindowNS: f.window[i], Slowdown: float64(f.fct[i]) / float64(f.ideal[i])})
		}
	}
	return stages.SlowdownTable.Write(out, rows)
}

// oneBatch is a stream of one batch.
type oneBatch struct{ rec arrow.Record }

func (b *oneBatch) Next() (rec arrow.Record, err error) {
	if b.rec == nil {
		return nil, io.EOF
	}
	rec, b.rec = b.rec, nil
	return rec, nil
}

func (b *oneBatch) Close() error { return nil }

// ChooseForWindows settles a variant that leaves the choice to the estimate (Variant.Auto): windows are simulated as
// whole networks, which costs no more than link cases and has no error of the method, unless the network cannot be.
func (e *Estimation) ChooseForWindows() {
	if !e.variant.Auto {
		return
	}
	e.variant.Auto = false
	err := stages.CheckWholeNetwork(e.Network, e.Spec.Params, e.Spec.Switches, stages.RouteStats{}, &stages.Loads{})
	if err != nil {
		e.Log.Info().Err(err).Msg("windows by link cases: the whole network cannot be simulated")
		e.variant = Variant{Estimator: stages.Flow, Passes: MaxPasses}
		return
	}
	e.variant = Variant{Estimator: stages.WholeNetwork}
}
