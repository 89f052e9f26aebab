package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// drawStage draws what each hop contributes to each flow from the buckets of the link that stands for the hop's link.
func (m *method) drawStage(bucket *engine.Stage) *engine.Stage {
	hops, buckets := m.route.Output(schema.Hops), bucket.Output(schema.DelayBuckets)
	s := &engine.Stage{
		Name: "draw", Place: m.variant.place(m.ID()), Unit: "hops", Command: m.command("draw", m.variant),
		Reads:       m.withCluster(m.route.Output(schema.LinkLoads), hops, buckets),
		Writes:      []schema.Table{schema.HopContributions},
		BytesPerRow: 150,
		Program:     func(in *engine.Inputs) (string, error) { return in.Records(bucket).Program, nil },
		Cut: func(in *engine.Inputs, prior []engine.Task) ([]engine.Task, error) {
			loads, err := m.readLoads(in)
			if err != nil {
				return nil, err
			}
			tasks := m.linkTasks(loads, everyLink, prior)
			for i := range tasks {
				tasks[i].Cost = tasks[i].Rows
			}
			return tasks, nil
		},
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		of, err := m.representatives(in)
		return func() (engine.Worker, error) {
			d := stages.NewDrawer(m.Spec.Params, m.Spec.Seed, of)
			return func(ctx context.Context, t *engine.Attempt) error {
				defer t.Add(t.Cost)
				return d.Draw(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, stages.DrawColumns(), t.Range("link_id")),
					t.Read(buckets, stages.DrawBucketColumns(), nil), t.Sink(schema.HopContributions))
			}, nil
		}, err
	}
	return s
}
