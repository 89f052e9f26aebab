package pipeline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
	"parsimon/stages/workload"
)

// exactName is the name of the stage that simulates a whole network packet by packet, and of the variant of its tables.
// It is also the estimator's name (stages.WholeNetwork): its estimates have these tables beside their own.
const exactName = "exact"

// exactStage simulates the whole network packet by packet, every flow over every hop of the path that stage route gave
// it. It is one task: a network can be divided in space only, which is what its workers do.
func (m *method) exactStage() *engine.Stage {
	flows, waits := m.generate.Output(schema.Flows), m.generate.Output(schema.Dependencies)
	s := &engine.Stage{
		Name: exactName, Place: lake.Place{Scenario: m.ID(), Variant: exactName}, Unit: "packet-hops",
		Command: fmt.Sprintf("parsimon validate --lake %s --scenario %s --truth exact", m.Lake.Path(), m.ID()),
		Reads:   []engine.Output{m.route.Output(schema.LinkLoads), flows, waits},
		Writes:  []schema.Table{schema.ExactFCTs, schema.ExactHops, schema.LinkStats},
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			loads, err := m.readLoads(in)
			if err != nil {
				return nil, err
			}
			_, packetHops := loads.Totals(m.Network)
			return []engine.Task{{Cost: packetHops}}, nil
		},
	}
	if m.Spec.Classes != nil {
		s.Writes = append(s.Writes, schema.LinkClasses)
	}
	if m.Spec.Moves.Whole() {
		s.Writes = append(s.Writes, schema.LinkSlots)
	}
	s.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		loads, err := m.readLoads(t.Inputs())
		if err != nil {
			return err
		}
		for _, w := range m.bufferWarnings(loads) {
			m.Log.Warn().Msg(w.Text)
			break // the others are in table warnings
		}
		out := stages.ExactTables{FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops),
			Links: t.Sink(schema.LinkStats)}
		if m.Spec.Classes != nil {
			out.Classes = t.Sink(schema.LinkClasses)
		}
		if m.Spec.Moves.Whole() {
			out.Slots = t.Sink(schema.LinkSlots)
		}
		o := stages.ExactOptions{
			Workers: m.Workers, AllowUnreachable: m.Spec.AllowUnreachable, Buffer: m.Spec.Switches, Classes: m.Spec.Classes,
			Loads: loads, Moves: m.Spec.Moves, Seed: m.Spec.Seed,
		}
		if err := m.dependencies(t, &o); err != nil {
			return err
		}
		stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil, nil), o, out, t.Add)
		t.SetStats(stats)
		return err
	})
	return s
}

// Exact simulates the whole network packet by packet, or finds that it was. The estimate need not exist, but stage
// route must be complete. The results are tables exact_fcts and exact_hops of variant exact.
func (e *Estimation) Exact(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.method(e.variant).exactStage()); err != nil {
		return err
	}
	return e.Publish()
}

// ExactRecords are the records of a complete whole-network simulation.
func (e *Estimation) ExactRecords() (engine.Records, error) {
	return e.exec.Records(e.method(e.variant).exactStage())
}

// exactWindowsStage simulates the whole network packet by packet in windows of time. Windows are independent: each part
// is a task, which one worker does. Table slowdowns has the flows that start in spans; its flow_row counts within the
// part.
func (m *method) exactWindowsStage() *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	return &engine.Stage{
		Name: exactName, Place: m.variant.place(m.ID()), Unit: "simulated ns", Command: m.command(exactName, m.variant),
		Reads: []engine.Output{flows}, Writes: []schema.Table{schema.Slowdowns},
		Cut: func(*engine.Inputs, []engine.Task) (tasks []engine.Task, err error) {
			for _, p := range m.Spec.Windows.Parts {
				tasks = append(tasks, engine.Task{Lo: p[0], Hi: p[1], Cost: p[1] - p[0]})
			}
			return tasks, nil
		},
		Open: engine.Always(func(ctx context.Context, t *engine.Attempt) error {
			part, err := readPart(t.Read(flows, nil, &lake.Range{Column: "start_ns", Lo: t.Lo, Hi: t.Hi}), t.Lo, t.Hi)
			if err != nil {
				return err
			}
			stats, err := m.simulatePart(ctx, part, t.Sink(schema.Slowdowns))
			t.SetStats(stats)
			t.Add(t.Cost)
			return err
		}),
	}
}

// readPart reads the flows that start in a part, and closes the stream.
func readPart(in schema.Batches, fromNS, toNS int64) (part []workload.Row, err error) {
	err = columns.Each(in, func(r *workload.Row) error {
		if fromNS <= r.StartNS && r.StartNS < toNS {
			part = append(part, carriedOf(*r).Row)
		}
		return nil
	})
	return part, err
}

// simulatePart simulates the flows of a part until those of the spans have finished, and writes the rows of these.
func (m *method) simulatePart(ctx context.Context, part []workload.Row, out schema.Sink) (stages.ExactStats, error) {
	if len(part) == 0 {
		return stages.ExactStats{}, nil
	}
	found := make([]stages.SlowdownRow, len(part)) // by row; without hops: it does not count or has no path
	stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, &rowStream{rows: part}, stages.ExactOptions{
		Workers: 1, Counts: m.Spec.Windows.counts, AllowUnreachable: m.Spec.AllowUnreachable, Buffer: m.Spec.Switches,
		Classes: m.Spec.Classes, Moves: m.Spec.Moves, Seed: m.Spec.Seed,
	}, stages.ExactTables{Report: func(rows []stages.SlowdownRow) error {
		for _, r := range rows {
			x := &part[r.FlowRow]
			r.Src, r.Dst, r.Service, r.VNet = x.Src, x.Dst, x.Service, x.VNet
			found[r.FlowRow] = r
		}
		return nil
	}}, nil)
	if err != nil {
		return stats, err
	}
	rows := slices.DeleteFunc(found, func(r stages.SlowdownRow) bool { return r.Hops == 0 })
	return stats, stages.SlowdownTable.Write(out, rows)
}

// counts reports whether flows that start at a time are in a span.
func (w *WindowsSpec) counts(ns int64) bool {
	i := sort.Search(len(w.Spans), func(i int) bool { return w.Spans[i][1] > ns })
	return i < len(w.Spans) && w.Spans[i][0] <= ns
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
