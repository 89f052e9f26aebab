package pipeline

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// uplinkFeedbackStage turns the NIC waits of the uplinks on their own into the feedback that pass 1 is given.
func (m *method) uplinkFeedbackStage(generate, uplinks *engine.Stage, needed *relevance) *engine.Stage {
	observed := []engine.Output{uplinks.Output(schema.UplinkObservations)}
	flows := generate.Output(schema.Flows)
	s := m.feedbackOf("uplink-feedback", m.variant.pass(1), 0, generate, observed)
	s.Writes, s.Reads = []schema.Table{schema.UplinkFeedback}, m.withCluster(s.Reads...)
	omitted := needed.leftOut(omission{})
	s.Reads = append(s.Reads, omitted.reads...)
	s.Open = m.feedbackWork(0, omitted, nil, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			defer t.Add(t.Cost)
			return builder.BuildUplink(ctx, m.Router, t.Lo, t.Hi-t.Lo, t.ReadChunk(flows, stages.UplinkFlowColumns()),
				readObserved(t, observed), t.Sink(schema.UplinkFeedback))
		}
	})
	return s
}

// feedbackStage turns the observations of pass n into the feedback that pass n + 1 is given at every hop, a chunk of
// flows a task. previous is what was observed in the first pass, where n is 2, and what the hops sent after the pass
// before, where it is more. simulate is the stage of pass n, which tells the links that pass n + 1 omits. What hops
// send after the first pass is not written: most estimates make two passes, and do not read it.
func (m *method) feedbackStage(n int, generate *engine.Stage, observed, previous []engine.Output,
	simulate *engine.Stage, needed *relevance) *engine.Stage {
	v := m.variant.pass(n)
	s := m.feedbackOf("feedback", v, n, generate, observed)
	s.Pass, s.Writes, s.Reads = n, []schema.Table{schema.Feedback}, append(s.Reads, previous...)
	if n > 1 {
		s.Writes = append(s.Writes, schema.SentObservations)
	}
	omitted := needed.leftOut(m.unfed(n+1, simulate))
	s.Reads = m.withCluster(append(append(s.Reads, m.routedPaths()...), omitted.reads...)...)
	s.Open = m.feedbackWork(n, omitted, needed, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			if err := m.prepare(builder, t, generate); err != nil {
				return err
			}
			var before schema.Batches
			var sent schema.Sink
			if n > 1 {
				before, sent = readObserved(t, previous), t.Sink(schema.SentObservations)
			}
			defer t.Add(t.Cost)
			return builder.Build(ctx, stages.PassScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), before,
				t.Sink(schema.Feedback), sent)
		}
	})
	return s
}

// feedbackWork opens the builders of a stage that gives feedback to all links whose cases the next pass simulates.
func (m *method) feedbackWork(pass int, omitted omission, needed *relevance,
	work func(*stages.FeedbackBuilder) engine.Worker) engine.Opener {
	passes := m.queues // so far
	return func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		of, err := m.representatives(in)
		if err != nil {
			return nil, err
		}
		settled, err := omitted.links(in)
		if err != nil {
			return nil, err
		}
		leftOut, err := needed.leftOut(omission{}).links(in)
		if err != nil {
			return nil, err
		}
		queues, err := m.readQueues(in, passes)
		if err != nil {
			return nil, err
		}
		loads, err := m.readLoads(in)
		return func() (engine.Worker, error) {
			ablation := m.variant.Ablation
			if m.variant.Warm != nil {
				ablation |= stages.AblateDamping // see warmPlan
			}
			builder := stages.NewFeedbackBuilder(m.Network, &m.Spec.Params, loads, m.Spec.Seed, pass, ablation)
			builder.Represent(of)
			builder.Settle(settled)
			builder.UseQueues(queues)
			if needed != nil {
				builder.LeaveOut(leftOut)
			}
			return work(builder), nil
		}, err
	}
}

// senderFeedbackStage turns the observations of the last pass into the feedback for each flow's host uplink, but those
// that the replay omits.
func (m *method) senderFeedbackStage(generate *engine.Stage, observed []engine.Output, omitted omission) *engine.Stage {
	s := m.feedbackOf("sender-feedback", m.variant, 0, generate, observed)
	s.Writes = []schema.Table{schema.SenderFeedback}
	s.Reads = m.withCluster(append(append(s.Reads, m.routedPaths()...), omitted.reads...)...)
	s.Open = m.feedbackWork(m.variant.Passes, omitted, nil, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			if err := m.prepare(builder, t, generate); err != nil {
				return err
			}
			defer t.Add(t.Cost)
			return builder.Build(ctx, stages.SenderScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), nil,
				t.Sink(schema.SenderFeedback), nil)
		}
	})
	return s
}

// feedbackOf is the common part of both.
func (m *method) feedbackOf(name string, v Variant, pass int, generate *engine.Stage,
	observed []engine.Output) *engine.Stage {
	flows := generate.Output(schema.Flows)
	return &engine.Stage{
		Name: name, Pass: pass, Place: v.place(m.ID()), Unit: "flows", Command: m.command(name, v),
		Reads:       slices.Concat(m.loadTables(), []engine.Output{flows}, observed, m.queues),
		BytesPerRow: 1300,
		Cut:         byChunk(flows),
	}
}

// readQueues reads the queues that ACKs wait in; nil if there are none.
func (m *method) readQueues(in *engine.Inputs, passes []engine.Output) (*stages.LinkQueues, error) {
	if len(passes) == 0 {
		return nil, nil
	}
	var rows []schema.Batches
	for _, o := range passes {
		of := in.Read(o, nil, nil)
		defer func() { _ = of.Close() }() // read to its end, or an error is reported
		rows = append(rows, of)
	}
	return stages.ReadLinkQueues(m.Network, rows...)
}

// prepare makes a builder ready for a task.
func (m *method) prepare(builder *stages.FeedbackBuilder, t *engine.Attempt, generate *engine.Stage) error {
	if m.Spec.Params.Transport.AcksQueue() {
		if err := builder.ReadStarts(t.ReadChunk(generate.Output(schema.Flows), stages.FlowStartColumns())); err != nil {
			return err
		}
	}
	return m.follow(builder, t)
}

// readObserved streams the observations of the task's flows: those of links with cases of their own, then imputed ones.
func readObserved(t *engine.Attempt, observed []engine.Output) schema.Batches {
	return readObservations(t, observed, stages.ObservationColumns())
}

// readObservedDelays is readObserved with the delays by link cases; imputed observations, and those of uplinks on their
// own, have none.
func readObservedDelays(t *engine.Attempt, observed []engine.Output) schema.Batches {
	return readObservations(t, observed, stages.ObservedDelayColumns())
}

func readObservations(t *engine.Attempt, observed []engine.Output, simulated []string) schema.Batches {
	rows := &lake.Range{Column: "flow_row", Lo: t.Lo, Hi: t.Hi}
	var all inTurn
	for _, o := range observed {
		columns := simulated
		if o.Table.Name != schema.HopObservations.Name {
			columns = stages.ObservationColumns()
		}
		all = append(all, t.Read(o, columns, rows))
	}
	return &all
}

// inTurn is one stream after the other. Its owner closes the streams.
type inTurn []schema.Batches

// Next returns the next batch.
func (s *inTurn) Next() (arrow.Record, error) {
	for {
		rec, err := (*s)[0].Next()
		if len(*s) == 1 || !errors.Is(err, io.EOF) {
			return rec, err
		}
		*s = (*s)[1:]
	}
}

// Close does nothing: the engine closes what a task reads.
func (s *inTurn) Close() error { return nil }
