package pipeline

import (
	"context"
	"fmt"

	"parsimon/schema"
	"parsimon/stages"
)

func (r *Run) clusterStage() stage {
	return stage{"cluster", r.variant(), []schema.Table{schema.LinkClusters}}
}

func (r *Run) drawStage() stage {
	return stage{"draw", r.variant(), []schema.Table{schema.HopContributions}}
}

// Cluster finds links that are alike, and for each such cluster the link that answers for it. Without
// clustering there is nothing to do.
func (r *Run) Cluster(ctx context.Context) error {
	if r.cluster == nil {
		return nil
	}
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	s := r.clusterStage()
	return r.perform(ctx, s, []task{{}}, "links", func() (work, error) {
		return func(ctx context.Context, n int, _ task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				features, err := r.features(ctx, hops, loads)
				if err != nil {
					return 0, nil, err
				}
				clusters, err := r.cluster.Cluster(ctx, features)
				if err != nil {
					return 0, nil, err
				}
				representatives := 0
				for _, c := range clusters {
					if c.Link == c.Representative {
						representatives++
					}
				}
				return 0, clusterStats{len(clusters), representatives}, stages.WriteClusters(clusters, out[0])
			})
		}, nil
	})
}

// clusterStats say what clustering came to.
type clusterStats struct {
	Links, Representatives int
}

// features works out the features of all links, on all workers: they need only a range of links each.
func (r *Run) features(ctx context.Context, hops []part, loads *stages.Loads) ([]stages.LinkFeatures, error) {
	features := make([]stages.LinkFeatures, len(r.net.Links))
	ranges := r.cutLinks(loads, everyLink)
	err := r.inParallel(ctx, len(ranges), func() (func(int) error, error) {
		return func(i int) error {
			lo, hi := ranges[i].Lo, ranges[i].Hi
			in := r.lake.read(schema.Hops, hops, stages.FeatureColumns(), &keyRange{"link_id", lo, hi})
			defer closeQuietly(in)
			r.progress.add(hi - lo)
			return r.cluster.Features(ctx, r.net, &r.spec.Params, loads, int32(lo), int32(hi), in, features)
		}, nil
	})
	return features, err
}

// representatives says, by link id, whose case answers for a link; nil without clustering.
func (r *Run) representatives() ([]int32, error) {
	if r.cluster == nil {
		return nil, nil
	}
	_, done, err := r.inputs(r.clusterStage())
	if err != nil {
		return nil, err
	}
	in := r.lake.read(schema.LinkClusters, partsOf(done, schema.LinkClusters), []string{"link_id", "representative"}, nil)
	defer closeQuietly(in)
	return stages.ReadClusters(r.net, in)
}

// Draw draws what each hop adds to each flow where links answer for others. Without clustering stage
// bucket has done so.
func (r *Run) Draw(ctx context.Context) error {
	if r.cluster == nil {
		return nil
	}
	if r.estimator != stages.Independent {
		return fmt.Errorf("estimator %s has no stage draw", r.estimator)
	}
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	_, bucketed, err := r.inputs(r.bucketStage())
	if err != nil {
		return err
	}
	of, err := r.representatives()
	if err != nil {
		return err
	}
	buckets := partsOf(bucketed, schema.DelayBuckets)
	s := r.drawStage()
	tasks := r.linkTasks(s, loads, everyLink)
	for i, t := range tasks {
		tasks[i].Cost = 0
		for id := t.Lo; id < t.Hi; id++ {
			tasks[i].Cost += loads.Links[id].Flows
		}
	}
	return r.perform(ctx, s, tasks, "hops", func() (work, error) {
		d := stages.NewDrawer(r.spec.Params, r.spec.Seed, of)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := r.lake.read(schema.Hops, hops, stages.DrawColumns(), &keyRange{"link_id", t.Lo, t.Hi})
				defer closeQuietly(in)
				have := r.lake.read(schema.DelayBuckets, buckets, stages.DrawBucketColumns(), nil)
				defer closeQuietly(have)
				err := d.Draw(ctx, int32(t.Lo), int32(t.Hi), in, have, out[0])
				r.progress.add(t.Cost)
				return 0, nil, err
			})
		}, nil
	})
}
