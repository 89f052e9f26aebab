package pipeline

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// feedbackStage turns the observations of stage first, pass 1, into the feedback that pass 2 is given at every hop
// whose case it does not omit.
func (m *method) feedbackStage(first *engine.Stage) *engine.Stage {
	observed := []engine.Output{first.Output(schema.HopObservations)}
	s := m.feedbackOf("feedback", m.variant.pass(1), observed, schema.Feedback, stages.PassScope, first)
	s.Pass = 1
	return s
}

// senderFeedbackStage turns the observations of the last pass into the feedback for each flow's host uplink.
func (m *method) senderFeedbackStage(observed []engine.Output) *engine.Stage {
	return m.feedbackOf("sender-feedback", m.variant, observed, schema.SenderFeedback, stages.SenderScope, nil)
}

// feedbackOf is the common part: a chunk of flows a task.
func (m *method) feedbackOf(name string, v Variant, observed []engine.Output, writes schema.Table,
	scope stages.FeedbackScope, first *engine.Stage) *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: name, Place: v.place(m.ID()), Unit: "flows", Command: m.command(name, v),
		Reads:       append([]engine.Output{flows}, observed...),
		Writes:      []schema.Table{writes},
		BytesPerRow: 1300,
		Cut:         m.byChunk,
	}
	if first != nil {
		s.Reads = append(s.Reads, first.Output(schema.LinkStats))
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		left, err := m.omitted(in, first)
		if err != nil {
			return nil, err
		}
		return func() (engine.Worker, error) {
			x := stages.NewFeedbackBuilder(m.Network, &m.Spec.Params, m.Spec.Seed, left)
			return func(ctx context.Context, t *engine.Attempt) error {
				defer t.Add(t.Cost)
				return x.Build(ctx, scope, t.Lo, t.Hi-t.Lo, readObserved(t, observed), t.Sink(writes))
			}, nil
		}, nil
	}
	return s
}

// readObserved streams the observations of the task's flows, those of the last pass first.
func readObserved(t *engine.Attempt, observed []engine.Output) schema.Batches {
	var all inTurn
	for _, o := range observed {
		all = append(all, t.Read(o, stages.ObservationColumns(), t.Range("flow_row")))
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

// replayStage runs the cases of the hosts' uplinks with complete feedback, which yields each flow's FCT.
func (m *method) replayStage(sender *engine.Stage) *engine.Stage {
	hops, feedback := m.route.Output(schema.Hops), sender.Output(schema.SenderFeedback)
	s := &engine.Stage{
		Name: "replay", Place: m.variant.place(m.ID()), Unit: "packet-hops", Command: m.command("replay", m.variant),
		Reads:       []engine.Output{m.route.Output(schema.LinkLoads), hops, feedback},
		Writes:      []schema.Table{schema.SenderFCTs},
		BytesPerRow: 250,
		Cut: func(in *engine.Inputs, prior []engine.Task) ([]engine.Task, error) {
			loads, err := m.readLoads(in)
			if err != nil {
				return nil, err
			}
			return m.linkTasks(loads, m.Network.FromHost, prior), nil
		},
	}
	s.Open = m.openCases(nil, func(ctx context.Context, sim *stages.Simulator, t *engine.Attempt) (stages.SimulateStats,
		error) {
		links := t.Range("link_id")
		return sim.Replay(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, stages.HopColumns(), links),
			t.Read(feedback, stages.FeedbackColumns(), links), t.Sink(schema.SenderFCTs), t.Add)
	})
	return s
}
