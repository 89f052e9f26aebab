package flow

import (
	"context"

	"parsimon/schema"
	"parsimon/stages/diagnose"
	"parsimon/stages/exact"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
)

// passes is the number of passes that the estimator makes. A user can request one pass to see the effect of
// feedback.
const passes = 2

// Estimator returns the estimator that follows the packets of each flow.
func Estimator() step.Estimator {
	return step.Estimator{
		Name:    "flow",
		Summary: "link cases that exchange feedback, in two passes",
		Steps:   steps,
		Cost:    cost,
		Passes:  passes,
	}
}

// steps returns the steps of waveform relaxation over the link cases. Two passes exchange observations, then
// the hosts' uplinks are replayed with complete feedback.
func steps(m *step.Model, o step.Options, flows *step.Step) []*step.Step {
	routed := route.Step(m, flows)
	// barrier: a link case needs all of its flows.
	cases := linksim.Cases{Routed: routed, Cache: o.Cache, Pass: 1}
	first := linksim.Step(m, cases)
	last := first
	observed := []step.Output{first.Output(schema.HopObservations)}
	all := []*step.Step{routed, first}
	if o.Passes != 1 {
		// barrier: a flow needs all of its hops.
		fed := passFeedbackStep(m, flows, first)
		second := cases
		second.Pass, second.First, second.Feedback = 2, first, fed.Output(schema.Feedback)
		last = linksim.Step(m, second)
		observed = append([]step.Output{last.Output(schema.HopObservations)}, observed...) // the newest first
		all = append(all, fed, last)
	}
	// barrier: a flow needs all of its hops.
	senders := senderFeedbackStep(m, flows, routed, observed)
	replayed := linksim.ReplayStep(m, linksim.Cases{
		Routed: routed, Cache: o.Cache,
		Feedback: senders.Output(schema.SenderFeedback),
	})
	sampled := sampleStep(m, flows, routed, replayed, observed)
	all = append(all, senders, replayed, sampled)
	if o.Intervals == step.WithIntervals {
		all = append(all, diagnose.Step(m, diagnose.Estimate{
			Flows: flows, Routed: routed, Slowdowns: sampled, Contributions: sampled, Cases: last, Rooms: exact.Rooms,
			Warnings: func(m *step.Model, f *diagnose.Findings) []diagnose.Warning { return warnings(m, o, f) },
		}))
	}
	return all
}

// warnings returns the warnings of the estimator.
func warnings(m *step.Model, o step.Options, f *diagnose.Findings) []diagnose.Warning {
	var all []diagnose.Warning
	if o.Passes == 1 {
		all = append(all, diagnose.Unsettled())
	}
	all = append(all, diagnose.Disagreements(f.Intervals)...)
	all = append(all, f.Watch.SpreadOut()...)
	return append(all, diagnose.ReasonsForWholeNetwork(m, f.Loads)...)
}

// passFeedbackStep computes, from the observations of pass 1, the feedback of every hop whose case pass 2
// runs.
func passFeedbackStep(m *step.Model, flows, first *step.Step) *step.Step {
	observed := []step.Output{first.Output(schema.HopObservations)}
	s := feedbackStep("feedback", flows, observed, schema.Feedback)
	s.Pass = 1
	s.Reads = append(s.Reads, first.Output(schema.LinkStats))
	s.Open = func(in step.Inputs) (step.Work, error) {
		omitted, err := linksim.ReadOmitted(m.Network, in.Read(step.All, first.Output(schema.LinkStats)))
		newBuilder := func() (*FeedbackBuilder, error) { return NewFeedbackBuilder(m, omitted), nil }
		return step.WithMemory(newBuilder, func(ctx context.Context, x *FeedbackBuilder, t step.Task) error {
			in := t.Read(step.Select(t, "flow_row"), observed...)
			return x.ForPass(ctx, slowdown.ChunkOf(t, flows), in, t.Sink(schema.Feedback))
		}), err
	}
	return s
}

// senderFeedbackStep computes the feedback of hosts' uplinks from the observations of the last pass.
func senderFeedbackStep(m *step.Model, flows, routed *step.Step, observed []step.Output) *step.Step {
	s := feedbackStep("sender-feedback", flows, observed, schema.SenderFeedback)
	s.Reads = append(s.Reads, routed.Output(schema.FlowPaths), routed.Output(schema.LinkLoads))
	newBuilder := func() (*FeedbackBuilder, error) { return NewFeedbackBuilder(m, nil), nil }
	s.Open = step.Always(step.WithMemory(newBuilder,
		func(ctx context.Context, x *FeedbackBuilder, t step.Task) error {
			in := t.Read(step.Select(t, "flow_row"), observed...)
			rows := t.Range()
			c := slowdown.Chunk{FirstRow: rows.Lo, Rows: rows.Hi - rows.Lo}
			return x.ForSenders(ctx, c, slowdown.RoutedOf(t, routed), in, t.Sink(schema.SenderFeedback))
		}))
	return s
}

func feedbackStep(name string, flows *step.Step, observed []step.Output, writes schema.Table) *step.Step {
	return &step.Step{
		Name:        name,
		Reads:       append([]step.Output{flows.Output(schema.Flows)}, observed...),
		Writes:      []schema.Table{writes},
		Cut:         step.Cut{By: step.ByFlows},
		Unit:        "flows",
		BytesPerRow: 1300,
	}
}

// sampleStep computes each flow's FCT as a mean of the replay of its host's uplink and its link cases. It
// divides the delay among the hops by their observations.
func sampleStep(m *step.Model, flows, routed, replayed *step.Step, observed []step.Output) *step.Step {
	fcts := replayed.Output(schema.SenderFCTs)
	newSampler := func() (*Sampler, error) { return NewSampler(m), nil }
	work := step.WithMemory(newSampler, func(ctx context.Context, s *Sampler, t step.Task) error {
		rows := step.Select(t, "flow_row")
		chunk := slowdown.ChunkOf(t, flows)
		in := Observed{
			Routed:       slowdown.RoutedOf(t, routed),
			Hops:         t.Part(routed.Output(schema.Hops), t.Number()),
			Observations: t.Read(rows, observed...),
			Senders:      t.Read(rows, fcts),
		}
		return s.Sample(ctx, chunk, in,
			Output{slowdown.SinkOf(t), t.Sink(schema.CaseSlowdowns)})
	})
	reads := append(
		[]step.Output{routed.Output(schema.FlowPaths), routed.Output(schema.LinkLoads),
			routed.Output(schema.Hops), fcts}, observed...)
	writes := []schema.Table{schema.Slowdowns, schema.HopContributions, schema.CaseSlowdowns}
	return slowdown.Step(flows, reads, writes, work)
}
