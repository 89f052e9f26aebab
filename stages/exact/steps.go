package exact

import (
	"context"
	"slices"

	"parsimon/schema"
	"parsimon/stages/diagnose"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// Estimator returns the estimator that simulates every packet of every flow over all hops.
func Estimator() step.Estimator {
	return step.Estimator{
		Name:         "exact",
		Summary:      "every packet of the whole network",
		Steps:        steps,
		Cost:         cost,
		WholeNetwork: true,
	}
}

// steps returns the steps of a simulation of the whole network, without link cases.
func steps(m *step.Model, o step.Options, flows *step.Step) []*step.Step {
	routed := route.Step(m, flows)
	// barrier: the simulation reads the loads of all links.
	if o.Intervals == step.WithoutIntervals {
		return []*step.Step{routed, slowdownsStep(m, flows, routed)}
	}
	simulated := simulateStep(m, flows, routed)
	// barrier: a flow needs all of its hops.
	sampled := sampleStep(m, flows, simulated)
	return []*step.Step{routed, simulated, sampled, diagnose.Step(m, diagnose.Estimate{
		Flows: flows, Routed: routed, Slowdowns: sampled, Contributions: sampled, Warnings: warnings,
	})}
}

// slowdownsStep simulates the whole network like simulateStep, and writes only the slowdowns of flows, in the
// order in which they finish.
func slowdownsStep(m *step.Model, flows, routed *step.Step) *step.Step {
	s := &step.Step{Name: "exact-slowdowns", Writes: []schema.Table{schema.Slowdowns}}
	return networkStep(m, flows, routed, s, func(t step.Task) Tables {
		out := t.Sink(schema.Slowdowns)
		return Tables{Report: func(rows []tables.SlowdownRow) error {
			// A compute step has no slowdown.
			rows = slices.DeleteFunc(rows, func(r tables.SlowdownRow) bool { return r.Hops == 0 })
			return tables.Slowdowns.Write(out, rows)
		}}
	})
}

// simulateStep simulates the whole network packet by packet.
func simulateStep(m *step.Model, flows, routed *step.Step) *step.Step {
	s := &step.Step{Name: "exact", Writes: []schema.Table{schema.ExactFCTs, schema.ExactHops, schema.LinkStats}}
	if m.Classes != nil {
		s.Writes = append(s.Writes, schema.LinkClasses)
	}
	if m.Moves.Whole() {
		s.Writes = append(s.Writes, schema.LinkSlots)
	}
	return networkStep(m, flows, routed, s, func(t step.Task) Tables {
		return Tables{
			FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops), Links: t.Sink(schema.LinkStats),
			Classes: t.Sink(schema.LinkClasses), Slots: t.Sink(schema.LinkSlots),
		}
	})
}

// networkStep completes a step that simulates the whole network and writes to the given sinks of its task.
// The step reads the flows, and the loads of links from step route. It computes the path of each flow again
// with the router. It is a single task, because a network can only be divided in space. Its workers do that.
func networkStep(
	m *step.Model, flows, routed, s *step.Step, sinks func(t step.Task) Tables,
) *step.Step {
	rows := flows.Output(schema.Flows)
	waits := flows.Output(schema.Dependencies)
	s.Reads = []step.Output{routed.Output(schema.LinkLoads), rows, waits}
	s.Unit = "packet-hops"
	s.Cut = step.Cut{By: step.Whole, Size: func(in step.Inputs) (step.Range, int64, error) {
		loads, err := route.LoadsOf(m, in, routed)
		if err != nil {
			return step.Range{}, 0, err
		}
		_, packetHops := loads.Totals(m.Network)
		return step.Range{}, packetHops, nil
	}}
	s.Open = step.Always(func(ctx context.Context, t step.Task) error {
		loads, err := route.LoadsOf(m, t, routed)
		if err != nil {
			return err
		}
		known := BufferWarnings(m, loads)
		if len(known) > 0 {
			t.Warn(known[0].Text) // the others are in table warnings
		}
		w, err := t.Workload()
		if err != nil {
			return err
		}
		o := Options{Workers: t.Workers(), Loads: loads, Progress: t.Add}
		if w.Closed {
			o.Flows = w.Flows
			o.Dependencies = func() schema.Batches { return t.Read(step.All, waits) }
		}
		stats, err := Simulate(ctx, m, t.Read(step.All, rows), o, sinks(t))
		t.Note(stats, -1)
		return err
	})
	return s
}

// sampleStep reads each flow's FCT from the simulation of the whole network.
func sampleStep(m *step.Model, flows, simulated *step.Step) *step.Step {
	fcts := simulated.Output(schema.ExactFCTs)
	hops := simulated.Output(schema.ExactHops)
	newSampler := func() (*Sampler, error) { return NewSampler(m), nil }
	work := step.WithMemory(newSampler, func(ctx context.Context, s *Sampler, t step.Task) error {
		rows := step.Select(t, "flow_row")
		in := Simulated{FCTs: t.Read(rows, fcts), Hops: t.Read(rows, hops)}
		return s.Sample(ctx, slowdown.ChunkOf(t, flows), in, slowdown.SinkOf(t))
	})
	writes := []schema.Table{schema.Slowdowns, schema.HopContributions}
	return slowdown.Step(flows, []step.Output{fcts, hops}, writes, work)
}
