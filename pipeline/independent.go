package pipeline

import (
	"context"
	"fmt"

	"parsimon/schema"
	"parsimon/stages"
)

// The stages of estimator Independent, the paper's (§3): each link on its own, its delays as distributions.

func (r *Run) simulateStage() stage {
	return stage{"simulate", r.variant(), []schema.Table{schema.HopDelays, schema.LinkStats}}
}
func (r *Run) bucketStage() stage {
	if r.cluster != nil { // then stage draw makes the contributions
		return stage{"bucket", r.variant(), []schema.Table{schema.DelayBuckets}}
	}
	return stage{"bucket", r.variant(), []schema.Table{schema.DelayBuckets, schema.HopContributions}}
}

// contributionsStage is the one that makes table hop_contributions for estimator Independent.
func (r *Run) contributionsStage() stage {
	if r.cluster != nil {
		return r.drawStage()
	}
	return r.bucketStage()
}

// Simulate runs every link case, a range of links a task. For estimator Flow it is the last pass, and
// needs the passes before it.
func (r *Run) Simulate(ctx context.Context) error {
	if r.estimator == stages.Flow {
		return r.simulatePass(ctx, r.passes)
	}
	hops, loads, err := r.routed()
	if err != nil {
		return err
	}
	s := r.simulateStage()
	of, err := r.representatives()
	if err != nil {
		return err
	}
	want := simulated(of)
	tasks := r.linkTasks(s, loads, want)
	if err := r.findProgram(loads, want); err != nil {
		return err
	}
	keys, err := r.caseKeys(tasks, loads)
	if err != nil {
		return err
	}
	return r.performKeyed(ctx, s, tasks, keys, "packet-hops", r.cases(s, loads, hops, nil,
		func(ctx context.Context, sim *stages.Simulator, t task, in, _ schema.Batches, out []*partWriter) (stages.SimulateStats, error) {
			sim.Represent(of)
			return sim.Simulate(ctx, int32(t.Lo), int32(t.Hi), in, nil, out[0], out[1], r.progress.add)
		}))
}

// Bucket turns each partition's hop delays into distributions and contributions, ordered by flow.
func (r *Run) Bucket(ctx context.Context) error {
	if r.estimator != stages.Independent {
		return fmt.Errorf("estimator %s has no stage bucket: after its passes come senders and sample", r.estimator)
	}
	plan, simulated, err := r.inputs(r.simulateStage())
	if err != nil {
		return err
	}
	delays := partsOf(simulated, schema.HopDelays)
	tasks := make([]task, len(plan.Tasks))
	for n, t := range plan.Tasks {
		tasks[n] = task{t.Lo, t.Hi, delays[n].Rows}
	}
	s := r.bucketStage()
	return r.performKeyed(ctx, s, tasks, r.bucketKeys(delays), "hops", func() (work, error) {
		b := stages.NewBucketer(r.spec.Params, r.spec.Seed)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := r.lake.read(schema.HopDelays, delays[n:n+1], stages.BucketColumns(), nil)
				defer closeQuietly(in)
				var contributions schema.Sink
				if r.cluster == nil {
					contributions = out[1]
				}
				stats, err := b.Bucket(ctx, in, out[0], contributions)
				r.progress.add(t.Cost)
				return 0, stats, err
			})
		}, nil
	})
}
