package pipeline

import (
	"context"
	"fmt"

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
			_, _, packetHops := loads.Totals(m.Network)
			return []engine.Task{{Cost: packetHops}}, nil
		},
	}
	if m.Spec.Classes != nil {
		s.Writes = append(s.Writes, schema.LinkClasses)
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		work := func(ctx context.Context, t *engine.Attempt) error {
			out := stages.ExactTables{FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops),
				Links: t.Sink(schema.LinkStats)}
			if m.Spec.Classes != nil {
				out.Classes = t.Sink(schema.LinkClasses)
			}
			o := stages.ExactOptions{
				Workers: m.Workers, AllowUnreachable: m.Spec.AllowUnreachable, Buffer: m.Spec.Switches,
				Classes: m.Spec.Classes,
				Loads:   loads, Moves: m.Spec.Moves, Seed: m.Spec.Seed,
			}
			if err := m.dependencies(t, &o); err != nil {
				return err
			}
			stats, err := stages.Exact(ctx, m.Network, m.Router, m.Spec.Params, t.Read(flows, nil, nil), o, out, t.Add)
			t.SetStats(stats)
			return err
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
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
