package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// ClusterStats are the statistics of stage cluster.
type ClusterStats struct {
	Links           int `json:"links"`
	Representatives int `json:"representatives"`
}

// clusterStage finds links that are alike and, for each such cluster, the link whose case stands for all of them. It is
// one task, which uses all workers.
func (m *method) clusterStage() *engine.Stage {
	hops := m.route.Output(schema.Hops)
	s := &engine.Stage{
		Name: "cluster", Place: m.variant.place(m.ID()), Unit: "links", Command: m.command("cluster", m.variant),
		Reads:  []engine.Output{m.route.Output(schema.LinkLoads), hops},
		Writes: []schema.Table{schema.LinkClusters},
		Cut:    func(*engine.Inputs, []engine.Task) ([]engine.Task, error) { return []engine.Task{{}}, nil },
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err != nil {
			return nil, err
		}
		cluster := func(ctx context.Context, t *engine.Attempt) error {
			features, err := m.features(ctx, t, in, loads)
			if err != nil {
				return err
			}
			clusters, err := m.variant.Cluster.Cluster(ctx, features)
			if err != nil {
				return err
			}
			stats := ClusterStats{Links: len(clusters)}
			for _, c := range clusters {
				if c.Link == c.Representative {
					stats.Representatives++
				}
			}
			t.SetStats(stats)
			return stages.WriteClusters(clusters, t.Sink(schema.LinkClusters))
		}
		return func() (engine.Worker, error) { return cluster, nil }, nil
	}
	return s
}

// features works out the features of all links on all workers, a range of links at a time.
func (m *method) features(ctx context.Context, t *engine.Attempt, in *engine.Inputs,
	loads *stages.Loads) ([]stages.LinkFeatures, error) {
	features := make([]stages.LinkFeatures, len(m.Network.Links))
	ranges := m.cutLinks(loads, everyLink, minPartitions)
	err := engine.Parallel(ctx, m.Workers, len(ranges), func() (func(context.Context, int) error, error) {
		return func(ctx context.Context, i int) error {
			lo, hi := ranges[i].Lo, ranges[i].Hi
			rows := in.Read(m.route.Output(schema.Hops), stages.FeatureColumns(), linkRange(lo, hi))
			defer func() { _ = rows.Close() }() // read to its end, or an error is reported
			t.Add(hi - lo)
			return m.variant.Cluster.Features(ctx, m.Network, &m.Spec.Params, loads, int32(lo), int32(hi), rows, features)
		}, nil
	})
	return features, err
}
