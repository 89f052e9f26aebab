package exact

import (
	"context"

	"parsimon/schema"
	"parsimon/stages/diagnose"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
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
	simulated := simulateStep(m, flows, routed)
	// barrier: a flow needs all of its hops.
	sampled := sampleStep(m, flows, simulated)
	all := []*step.Step{routed, simulated, sampled}
	if o.Intervals == step.WithIntervals {
		all = append(all, diagnose.Step(m, diagnose.Estimate{
			Flows: flows, Routed: routed, Slowdowns: sampled, Contributions: sampled, Warnings: warnings,
		}))
	}
	return all
}

// simulateStep simulates the whole network packet by packet. It reads the flows, and the loads of links from
// step route. It computes the path of each flow again with the router. The step is a single task, because a
// network can only be divided in space. Its workers do that.
func simulateStep(m *step.Model, flows, routed *step.Step) *step.Step {
	rows := flows.Output(schema.Flows)
	waits := flows.Output(schema.Dependencies)
	loads := routed.Output(schema.LinkLoads)
	s := &step.Step{
		Name:   "exact",
		Reads:  []step.Output{loads, rows, waits},
		Writes: []schema.Table{schema.ExactFCTs, schema.ExactHops, schema.LinkStats},
		Unit:   "packet-hops",
		Cut: step.Cut{By: step.Whole, Size: func(in step.Inputs) (step.Range, int64, error) {
			loads, err := route.LoadsOf(m, in, routed)
			if err != nil {
				return step.Range{}, 0, err
			}
			_, packetHops := loads.Totals(m.Network)
			return step.Range{}, packetHops, nil
		}},
	}
	if m.Classes != nil {
		s.Writes = append(s.Writes, schema.LinkClasses)
	}
	if m.Moves.Whole() {
		s.Writes = append(s.Writes, schema.LinkSlots)
	}
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
		stats, err := Simulate(ctx, m, t.Read(step.All, rows), o, Tables{
			FCTs: t.Sink(schema.ExactFCTs), Hops: t.Sink(schema.ExactHops), Links: t.Sink(schema.LinkStats),
			Classes: t.Sink(schema.LinkClasses), Slots: t.Sink(schema.LinkSlots),
		})
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
