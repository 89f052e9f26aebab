package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/stages"
)

// clusterStage is, for estimator Flow, a part of the first pass: links are as alike in the others.
func (r *Run) clusterStage() stage {
	at := r.variant()
	if r.estimator == stages.Flow {
		at = r.pass(1)
	}
	return stage{"cluster", at, []schema.Table{schema.LinkClusters}}
}

func (r *Run) imputeStage(n int) stage {
	return stage{"impute", r.pass(n), []schema.Table{schema.ImputedObservations}}
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

// simulated says which links have a case of their own.
func simulated(of []int32) func(int32) bool {
	if of == nil {
		return everyLink
	}
	return func(id int32) bool { return of[id] == id }
}

// minLendTasks is the least number of tasks of stage lend. Each reads of all the links that answer for
// its own: more would read the same again and again.
const minImputeTasks = 2

// Lend hands what flows met at representatives in the run's last pass on to the flows of the links that
// they answer for.
func (r *Run) Impute(ctx context.Context) error {
	switch {
	case r.estimator != stages.Flow:
		return fmt.Errorf("estimator %s has no stage lend", r.estimator)
	case r.cluster == nil:
		return errors.New("without clustering every link has its own case, and there is nothing to lend")
	}
	return r.imputePass(ctx, r.passes)
}

func (r *Run) imputePass(ctx context.Context, n int) error {
	if r.cluster == nil {
		return nil
	}
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	of, err := r.representatives()
	if err != nil {
		return err
	}
	plan, passed, err := r.inputs(r.passStage(n))
	if err != nil {
		return err
	}
	waits := partsOf(passed, schema.HopObservations)
	s := r.imputeStage(n)
	tasks := r.cutLinksInto(loads, func(id int32) bool { return of[id] >= 0 && of[id] != id }, minImputeTasks)
	return r.perform(ctx, s, tasks, "packet-hops", func() (work, error) {
		l := stages.NewImputer(r.net, r.spec.Params, loads, of)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				first, end := donorRange(l, of, t)
				theirs := &keyRange{"link_id", first, end}
				in := r.lake.read(schema.Hops, hops, stages.ImputeColumns(), &keyRange{"link_id", t.Lo, t.Hi})
				defer closeQuietly(in)
				from := r.lake.read(schema.Hops, hops, stages.ImputeColumns(), theirs)
				defer closeQuietly(from)
				observed := r.lake.read(schema.HopObservations, donorFiles(plan, waits, l, of, t), stages.ObservationColumns(), nil)
				defer closeQuietly(observed)
				err := l.Impute(ctx, int32(t.Lo), int32(t.Hi), in, from, observed, out[0])
				r.progress.add(t.Cost)
				return 0, nil, err
			})
		}, nil
	})
}

// lenders is a range of the links that answer for those of a task.
func donorRange(l *stages.Imputer, of []int32, t task) (first, end int64) {
	first = int64(len(of))
	for id := int32(t.Lo); id < int32(t.Hi); id++ {
		if l.IsImputed(id) {
			first, end = min(first, int64(of[id])), max(end, int64(of[id])+1)
		}
	}
	return min(first, end), end
}

// ofLenders are the files of hop_observations, one a task of the pass, that hold what flows met there.
func donorFiles(plan stagePlan, waits []part, l *stages.Imputer, of []int32, t task) []part {
	wanted := make([]bool, len(waits))
	for id := int32(t.Lo); id < int32(t.Hi); id++ {
		if l.IsImputed(id) {
			n, _ := slices.BinarySearchFunc(plan.Tasks, int64(of[id]), func(t task, id int64) int {
				if t.Hi <= id {
					return -1
				}
				return 1
			})
			wanted[n] = true
		}
	}
	var parts []part
	for n, p := range waits {
		if wanted[n] {
			parts = append(parts, p)
		}
	}
	return parts
}

// waits finds what flows met in pass n, in their links' own cases and lent, to be streamed as often as
// wanted.
func (r *Run) waits(n int) (func(keep *keyRange) schema.Batches, error) {
	_, passed, err := r.inputs(r.passStage(n))
	if err != nil {
		return nil, err
	}
	own := partsOf(passed, schema.HopObservations)
	var imputed []part
	if r.cluster != nil {
		_, done, err := r.inputs(r.imputeStage(n))
		if err != nil {
			return nil, err
		}
		imputed = partsOf(done, schema.ImputedObservations)
	}
	return func(keep *keyRange) schema.Batches {
		return &inTurn{
			r.lake.read(schema.HopObservations, own, stages.ObservationColumns(), keep),
			r.lake.read(schema.ImputedObservations, imputed, stages.ObservationColumns(), keep),
		}
	}, nil
}

// inTurn is one stream after the other.
type inTurn []schema.Batches

// Next returns the next batch.
func (s *inTurn) Next() (arrow.Record, error) {
	for {
		rec, err := (*s)[0].Next()
		if len(*s) == 1 || !errors.Is(err, io.EOF) {
			return rec, err
		}
		if err := (*s)[0].Close(); err != nil {
			return nil, err
		}
		*s = (*s)[1:]
	}
}

// Close closes the streams that are left.
func (s *inTurn) Close() error {
	var errs []error
	for _, one := range *s {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
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
