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
				defer t.Add(t.Cost)
				return b.Bucket(ctx, t.ReadChunk(delays), t.Sink(schema.DelayBuckets), contributions)
			}, nil
		}, nil
	}
	return s
}

// drawStage draws what each hop contributes to each flow from the buckets of the link that stands for the hop's link.
func (m *method) drawStage(bucket *engine.Stage) *engine.Stage {
	hops, buckets := m.route.Output(schema.Hops), bucket.Output(schema.DelayBuckets)
	s := &engine.Stage{
		Name: "draw", Place: m.variant.place(m.ID()), Unit: "hops", Command: m.command("draw", m.variant),
		Reads:       m.withCluster(m.route.Output(schema.LinkLoads), hops, buckets),
		Writes:      []schema.Table{schema.HopContributions},
		BytesPerRow: 150,
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
				return d.Draw(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, nil, t.Range("link_id")),
					t.Read(buckets, nil, nil), t.Sink(schema.HopContributions))
			}, nil
		}, err
	}
	return s
}

// clusterStage finds links that are alike and, for each such cluster, the link whose case stands for all of them. It is
// one task, which uses all workers.
func (m *method) clusterStage() *engine.Stage {
	hops := m.route.Output(schema.Hops)
	s := &engine.Stage{
		Name: "cluster", Place: m.variant.place(m.ID()), Unit: "links", Command: m.command("cluster", m.variant),
		Reads:  []engine.Output{m.route.Output(schema.LinkLoads), hops},
		Writes: []schema.Table{schema.LinkClusters},
		Cut:    oneTask,
	}
	s.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		features, err := m.features(ctx, t)
		if err != nil {
			return err
		}
		clusters, err := m.variant.Cluster.Cluster(ctx, features)
		if err != nil {
			return err
		}
		return stages.ClusterTable.Write(t.Sink(schema.LinkClusters), clusters)
	})
	return s
}

// features works out the features of all links on all workers, a range of links at a time.
func (m *method) features(ctx context.Context, t *engine.Attempt) ([]stages.LinkFeatures, error) {
	loads, err := m.readLoads(t.Inputs())
	if err != nil {
		return nil, err
	}
	features := make([]stages.LinkFeatures, len(m.Network.Links))
	ranges := m.cutLinks(loads, everyLink)
	err = engine.Parallel(ctx, m.Workers, len(ranges), func() (func(context.Context, int) error, error) {
		return func(ctx context.Context, i int) error {
			lo, hi := ranges[i].Lo, ranges[i].Hi
			rows := t.Inputs().Read(m.route.Output(schema.Hops), nil, linkRange(lo, hi))
			t.Add(hi - lo)
			return stages.Features(ctx, m.Network, &m.Spec.Params, loads, int32(lo), int32(hi), rows, features)
		}, nil
	})
	return features, err
}
