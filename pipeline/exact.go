package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
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
			Links: t.Sink(schema.LinkStats), Classes: t.Sink(schema.LinkClasses), Slots: t.Sink(schema.LinkSlots)}
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
			var rows []stages.SlowdownRow
			stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil, t.Range("start_ns")),
				stages.ExactOptions{Workers: 1, Counts: m.Spec.Windows.counts, AllowUnreachable: m.Spec.AllowUnreachable,
					Buffer: m.Spec.Switches, Classes: m.Spec.Classes, Moves: m.Spec.Moves, Seed: m.Spec.Seed},
				stages.ExactTables{Report: func(some []stages.SlowdownRow) error {
					rows = append(rows, some...)
					return nil
				}}, nil)
			t.SetStats(stats)
			if err != nil {
				return err
			}
			slices.SortFunc(rows, func(a, b stages.SlowdownRow) int { return cmp.Compare(a.FlowRow, b.FlowRow) })
			return stages.SlowdownTable.Write(t.Sink(schema.Slowdowns), rows)
		}),
	}
}

// counts reports whether flows that start at a time are in a span.
func (w *WindowsSpec) counts(ns int64) bool {
	i := sort.Search(len(w.Spans), func(i int) bool { return w.Spans[i][1] > ns })
	return i < len(w.Spans) && w.Spans[i][0] <= ns
}
