package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// bucketStage groups each partition's hop delays into distributions by flow size and, without clustering, draws what
// each hop contributes to each flow.
func (m *method) bucketStage(simulate *engine.Stage) *engine.Stage {
	delays := simulate.Output(schema.HopDelays)
	s := &engine.Stage{
		Name: "bucket", Place: m.variant.place(m.ID()), Unit: "hops", Command: m.command("bucket", m.variant),
		Reads:       []engine.Output{delays},
		Writes:      []schema.Table{schema.DelayBuckets},
		BytesPerRow: 150,
		Program:     programOf(simulate),
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			tasks, files := in.Records(simulate).Tasks, in.Files(delays)
			out := make([]engine.Task, len(tasks))
			for n, t := range tasks {
				out[n] = engine.Task{Lo: t.Lo, Hi: t.Hi, Cost: files[n].Rows, Rows: t.Rows}
			}
			return out, nil
		},
	}
	if m.cluster == nil {
		s.Writes = append(s.Writes, schema.HopContributions)
	}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		return func() (engine.Worker, error) {
			b := stages.NewBucketer(m.Spec.Params, m.Spec.Seed)
			return func(ctx context.Context, t *engine.Attempt) error {
				var contributions schema.Sink
				if m.cluster == nil {
					contributions = t.Sink(schema.HopContributions)
				}
				stats, err := b.Bucket(ctx, t.ReadChunk(delays, stages.BucketColumns()), t.Sink(schema.DelayBuckets), contributions)
				t.SetStats(stats)
				t.Add(t.Cost)
				return err
			}, nil
		}, nil
	}
	return s
}
