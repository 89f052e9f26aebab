package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sort"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages/exact"
	"parsimon/stages/tables"
)

// exactName is the name of the stage that simulates a whole network packet by packet, and of the variant of its tables.
// It is also the estimator's name (estimators.Exact): its estimates have these tables beside their own.
const exactName = "exact"

// Exact simulates the whole network packet by packet, or finds that it was. The estimate need not exist, but stage
// route must be complete. The results are tables exact_fcts and exact_hops of variant exact.
func (e *Estimation) Exact(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.planner(e.variant).exactStage()); err != nil {
		return err
	}
	return e.Publish()
}

// ExactRecords are the records of a complete whole-network simulation.
func (e *Estimation) ExactRecords() (engine.Records, error) {
	return e.exec.Records(e.planner(e.variant).exactStage())
}

// exactWindowsStage simulates the whole network packet by packet in windows of time. Windows are independent: each part
// is a task, which one worker does. Table slowdowns has the flows that start in spans; its flow_row counts within the
// part.
func (m *planner) exactWindowsStage() *engine.Stage {
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
			stats, err := exact.Simulate(ctx, m.method(), t.Read(flows, t.Range("start_ns")),
				exact.Options{Workers: 1, Counts: m.Spec.Windows.counts, EndNS: o.endNS},
				exact.Tables{
					Report: func(rows []tables.SlowdownRow) error {
						o.ended = append(o.ended, rows...)
						return nil
					},
					Left: func(row tables.SlowdownRow, bytes int64) { o.left = append(o.left, leftFlow{row, bytes}) },
				})
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
	r, err := e.exec.Records(e.planner(e.variant).exactWindowsStage())
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
