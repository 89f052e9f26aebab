package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/diagnose"
	"parsimon/stages/exact"
	"parsimon/stages/tables"
)

// exactName is the name of the stage that simulates a whole network packet by packet, and of the variant of its tables.
// It is also the estimator's name (estimators.Exact): its estimates have these tables beside their own.
const exactName = "exact"

// exactStage simulates the whole network packet by packet. It reads the flows, and of stage route only the loads of
// links: it asks the router again for the path of each flow. It is one task: a network can be divided in space only,
// which is what its workers do.
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
		for _, w := range diagnose.BufferWarnings(m.Network, &m.Spec.Params, m.Spec.Switches, m.Spec.Classes, loads) {
			m.Log.Warn().Msg(w.Text)
			break // the others are in table warnings
		}
		out := exact.Tables{FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops),
			Links: t.Sink(schema.LinkStats), Classes: t.Sink(schema.LinkClasses), Slots: t.Sink(schema.LinkSlots)}
		o := exact.Options{
			Workers: m.Workers, AllowUnreachable: m.Spec.AllowUnreachable, Buffer: m.Spec.Switches, Classes: m.Spec.Classes,
			Loads: loads, Moves: m.Spec.Moves, Seed: m.Spec.Seed,
		}
		if err := m.dependencies(t, &o); err != nil {
			return err
		}
		stats, err := exact.Simulate(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil), o, out, t.Add)
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
	flows, all := m.generate.Output(schema.Flows), generated(m.Lake, m.Spec.Windows.Of).Output(schema.Flows)
	return &engine.Stage{
		Name: exactName, Place: m.variant.place(m.ID()), Unit: "simulated ns", Command: m.command(exactName, m.variant),
		Reads: []engine.Output{flows, all}, Writes: []schema.Table{schema.Slowdowns},
		Cut: func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
			return names.Of(m.Spec.Windows.Parts, func(p [2]int64) engine.Task {
				return engine.Task{Lo: p[0], Hi: p[1], Cost: p[1] - p[0]}
			}), nil
		},
		Open: engine.Always(func(ctx context.Context, t *engine.Attempt) error {
			o := outlasting{fromNS: t.Lo, endNS: t.Hi, counts: m.Spec.Windows.counts}
			if o.endNS > m.Spec.Windows.LastStartNS { // no flow starts later: packets go on until the last
				o.endNS = 0
			}
			stats, err := exact.Simulate(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, t.Range("start_ns")),
				exact.Options{Workers: 1, Counts: m.Spec.Windows.counts, EndNS: o.endNS,
					AllowUnreachable: m.Spec.AllowUnreachable, Buffer: m.Spec.Switches, Classes: m.Spec.Classes,
					Moves: m.Spec.Moves, Seed: m.Spec.Seed},
				exact.Tables{
					Report: func(rows []tables.SlowdownRow) error {
						o.ended = append(o.ended, rows...)
						return nil
					},
					Left: func(row tables.SlowdownRow, bytes int64) { o.left = append(o.left, leftFlow{row, bytes}) },
				}, nil)
			var fluid FluidError
			if err == nil {
				later := &lake.Range{Column: "start_ns", Lo: t.Hi, Hi: math.MaxInt64}
				fluid, err = o.finish(ctx, m.newFluid(), t.Read(flows, t.Range("start_ns")), t.Read(all, later))
			}
			t.SetStats(struct {
				exact.Stats
				FluidError
			}{stats, fluid})
			if err != nil {
				return err
			}
			slices.SortFunc(o.ended, func(a, b tables.SlowdownRow) int { return cmp.Compare(a.FlowRow, b.FlowRow) })
			return tables.Slowdowns.Write(t.Sink(schema.Slowdowns), o.ended)
		}),
	}
}

// FluidError is how far the fluid that follows windows is from the packets in them: the mean relative error of a byte.
func (e *Estimation) FluidError() (float64, error) {
	r, err := e.exec.Records(e.method(e.variant).exactWindowsStage())
	if err != nil {
		return 0, err
	}
	var sum FluidError
	for _, rec := range r.Done {
		var x FluidError
		if err := json.Unmarshal(rec.Stats, &x); err != nil {
			return 0, err
		}
		sum.SentBytes, sum.ErrorBytes = sum.SentBytes+x.SentBytes, sum.ErrorBytes+x.ErrorBytes
	}
	return sum.ErrorBytes / max(1, sum.SentBytes), nil
}

// counts reports whether flows that start at a time are in a span.
func (w *WindowsSpec) counts(ns int64) bool {
	i := sort.Search(len(w.Spans), func(i int) bool { return w.Spans[i][1] > ns })
	return i < len(w.Spans) && w.Spans[i][0] <= ns
}
