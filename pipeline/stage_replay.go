package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

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
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		return func() (engine.Worker, error) {
			sim, err := stages.NewSimulator(m.simulatorOptions(loads, ""))
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, t *engine.Attempt) error {
				links := t.Range("link_id")
				stats, err := sim.Replay(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, stages.HopColumns(), links),
					t.Read(feedback, stages.FeedbackColumns(), links), t.Sink(schema.SenderFCTs), t.Add)
				t.SetStats(stats)
				t.SetCritical(stats.LongestCaseNS)
				return err
			}, nil
		}, nil
	}
	return s
}
