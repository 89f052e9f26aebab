package pipeline

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// uplinkFeedbackStage turns the NIC waits of the uplinks on their own into the feedback that pass 1 is given.
func (m *method) uplinkFeedbackStage(generate, uplinks *engine.Stage) *engine.Stage {
	observed := []engine.Output{uplinks.Output(schema.UplinkObservations)}
	s := m.feedbackOf("uplink-feedback", m.variant.pass(1), 0, generate, observed)
	s.Writes, s.Reads = []schema.Table{schema.UplinkFeedback}, m.withCluster(s.Reads...)
	s.Open = m.feedbackWork(0, nil, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			defer t.Add(t.Cost)
			return builder.Build(ctx, stages.UplinkScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), nil,
				t.Sink(schema.UplinkFeedback), nil)
		}
	})
	return s
}

// feedbackStage turns the observations of pass n into the feedback that pass n + 1 is given at every hop, a chunk of
// flows a task. previous is the stage that did so after the pass before; nil for the first. settling is the stage of
// pass n, which tells the links that pass n + 1 omits; nil if it omits none.
func (m *method) feedbackStage(n int, generate *engine.Stage, observed []engine.Output,
	previous, settling *engine.Stage) *engine.Stage {
	v := m.variant.pass(n)
	s := m.feedbackOf("feedback", v, n, generate, observed)
	s.Pass, s.Writes = n, []schema.Table{schema.Feedback, schema.SentObservations}
	if previous != nil {
		s.Reads = append(s.Reads, previous.Output(schema.SentObservations))
	}
	if settling != nil {
		s.Reads = append(s.Reads, settling.Output(schema.LinkStats))
	}
	s.Reads = m.withCluster(s.Reads...)
	s.Open = m.feedbackWork(n, settling, func(builder *stages.FeedbackBuilder) engine.Worker {
		return func(ctx context.Context, t *engine.Attempt) error {
			var before schema.Batches
			if previous != nil {
				before = t.ReadChunk(previous.Output(schema.SentObservations), stages.ObservationColumns())
			}
			defer t.Add(t.Cost)
			return builder.Build(ctx, stages.PassScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), before,
				t.Sink(schema.Feedback), t.Sink(schema.SentObservations))
		}
	})
	return s
}

// feedbackWork opens the builders of a stage that gives feedback to all links whose cases the next pass simulates.
func (m *method) feedbackWork(pass int, settling *engine.Stage,
	work func(*stages.FeedbackBuilder) engine.Worker) engine.Opener {
	return func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		of, err := m.representatives(in)
		if err != nil {
			return nil, err
		}
		settled, err := m.settled(in, pass+1, settling)
		return func() (engine.Worker, error) {
			builder := stages.NewFeedbackBuilder(m.Network, &m.Spec.Params, m.Spec.Seed, pass, m.variant.Ablation)
			builder.Represent(of)
			builder.Settle(settled)
			return work(builder), nil
		}, err
	}
}

// senderFeedbackStage turns the observations of the last pass into the feedback for each flow's host uplink.
func (m *method) senderFeedbackStage(generate *engine.Stage, observed []engine.Output) *engine.Stage {
	s := m.feedbackOf("sender-feedback", m.variant, 0, generate, observed)
	s.Writes = []schema.Table{schema.SenderFeedback}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		return func() (engine.Worker, error) {
			builder := stages.NewFeedbackBuilder(m.Network, &m.Spec.Params, m.Spec.Seed, m.variant.Passes, m.variant.Ablation)
			return func(ctx context.Context, t *engine.Attempt) error {
				defer t.Add(t.Cost)
				return builder.Build(ctx, stages.SenderScope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), nil,
					t.Sink(schema.SenderFeedback), nil)
			}, nil
		}, nil
	}
	return s
}

// feedbackOf is the common part of both.
func (m *method) feedbackOf(name string, v Variant, pass int, generate *engine.Stage,
	observed []engine.Output) *engine.Stage {
	flows := generate.Output(schema.Flows)
	return &engine.Stage{
		Name: name, Pass: pass, Place: v.place(m.ID()), Unit: "flows", Command: m.command(name, v),
		Reads:       append([]engine.Output{flows}, observed...),
		BytesPerRow: 1300,
		Cut:         byChunk(flows),
	}
}

// readObserved streams the observations of the task's flows: those of links with cases of their own, then imputed ones.
func readObserved(t *engine.Attempt, observed []engine.Output) schema.Batches {
	return readObservations(t, observed, stages.ObservationColumns())
}

// readObservedDelays is readObserved with the delays by link cases; imputed observations have none.
func readObservedDelays(t *engine.Attempt, observed []engine.Output) schema.Batches {
	return readObservations(t, observed, stages.ObservedDelayColumns())
}

func readObservations(t *engine.Attempt, observed []engine.Output, simulated []string) schema.Batches {
	rows := &lake.Range{Column: "flow_row", Lo: t.Lo, Hi: t.Hi}
	var all inTurn
	for _, o := range observed {
		columns := simulated
		if o.Table.Name == schema.ImputedObservations.Name {
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
