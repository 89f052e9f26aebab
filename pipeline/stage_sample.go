package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// sampleStage adds up the contributions of each flow's hops to its FCT and slowdown, for estimator independent.
func (m *method) sampleStage(contributions *engine.Stage) *engine.Stage {
	flows, hops := m.generate.Output(schema.Flows), contributions.Output(schema.HopContributions)
	s := m.sampleOf(flows)
	s.Reads, s.Writes = append(s.Reads, hops), []schema.Table{schema.Slowdowns}
	s.Open = m.samplers(func(ctx context.Context, sampler *stages.Sampler, t *engine.Attempt) error {
		return sampler.Sample(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(flows),
			t.Read(hops, nil, t.Range("flow_row")), t.Sink(schema.Slowdowns))
	})
	return s
}

// sampleReplaysStage takes each flow's FCT from the replay of its host's uplink, and divides the delay among its hops
// by their observations, for estimator flow.
func (m *method) sampleReplaysStage(observed []engine.Output, replay *engine.Stage) *engine.Stage {
	flows, fcts := m.generate.Output(schema.Flows), replay.Output(schema.SenderFCTs)
	s := m.sampleOf(flows)
	s.Reads = append(append(s.Reads, observed...), fcts)
	s.Writes = []schema.Table{schema.Slowdowns, schema.HopContributions, schema.CaseSlowdowns}
	s.Open = m.samplers(func(ctx context.Context, sampler *stages.Sampler, t *engine.Attempt) error {
		return sampler.SampleReplays(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(flows),
			readObserved(t, observed), t.Read(fcts, nil, t.Range("flow_row")),
			t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions), t.Sink(schema.CaseSlowdowns))
	})
	return s
}

// sampleExactStage takes each flow's FCT from the simulation of the whole network, for estimator exact.
func (m *method) sampleExactStage(exact *engine.Stage) *engine.Stage {
	flows, fcts, hops := m.generate.Output(schema.Flows), exact.Output(schema.ExactFCTs), exact.Output(schema.ExactHops)
	s := m.sampleOf(flows)
	s.Reads, s.Writes = append(s.Reads, fcts, hops), []schema.Table{schema.Slowdowns, schema.HopContributions}
	s.Open = m.samplers(func(ctx context.Context, sampler *stages.Sampler, t *engine.Attempt) error {
		return sampler.SampleExact(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(flows),
			t.Read(fcts, nil, t.Range("flow_row")),
			t.Read(hops, nil, t.Range("flow_row")),
			t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions))
	})
	return s
}

// sampleOf is the common part of all: a chunk of flows a task.
func (m *method) sampleOf(flows engine.Output) *engine.Stage {
	return &engine.Stage{
		Name: "sample", Place: m.variant.place(m.ID()), Unit: "flows", Command: m.command("sample", m.variant),
		Reads:       []engine.Output{flows},
		BytesPerRow: 900,
		Cut:         m.byChunk,
	}
}

// samplers gives each worker a sampler.
func (m *method) samplers(
	sample func(context.Context, *stages.Sampler, *engine.Attempt) error) engine.Opener {
	return func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		return func() (engine.Worker, error) {
			sampler := stages.NewSampler(m.Network, m.Spec.Params)
			return func(ctx context.Context, t *engine.Attempt) error {
				defer t.Add(t.Cost)
				return sample(ctx, sampler, t)
			}, nil
		}, nil
	}
}
