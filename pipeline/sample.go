package pipeline

import (
	"context"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/stages"
)

func (r *Run) sampleStage() stage {
	sampled := []schema.Table{schema.Slowdowns}
	if r.estimator == stages.Flow {
		sampled = append(sampled, schema.HopContributions)
	}
	return stage{"sample", r.variant(), sampled}
}

// Sample puts the hops of each flow together, a chunk of flows a task, and brings the catalog of
// views up to date.
func (r *Run) Sample(ctx context.Context) error {
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	how := r.fromContributions
	if r.estimator == stages.Flow {
		how = r.fromReplays
	}
	sample, err := how()
	if err != nil {
		return err
	}
	s := r.sampleStage()
	err = r.perform(ctx, s, chunkTasks(flows), "flows", func() (work, error) {
		sampler := stages.NewSampler(r.net, r.spec.Params)
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := r.lake.read(schema.Flows, flows[n:n+1], nil, nil)
				defer closeQuietly(in)
				stats, err := sample(ctx, sampler, t, in, out)
				r.progress.add(t.Cost)
				return 0, stats, err
			})
		}, nil
	})
	if err != nil {
		return err
	}
	if r.estimating { // stage confidence follows, and does so
		return nil
	}
	return r.writeCatalog(s)
}

// A chunkSampler estimates the flows of a task.
type chunkSampler func(ctx context.Context, sampler *stages.Sampler, t task, flows schema.Batches, out []*partWriter) (stages.SampleStats, error)

// fromContributions goes by what stage bucket, or draw, found for each hop: estimator Independent.
func (r *Run) fromContributions() (chunkSampler, error) {
	_, bucketed, err := r.inputs(r.contributionsStage())
	if err != nil {
		return nil, err
	}
	contributions := partsOf(bucketed, schema.HopContributions)
	return func(ctx context.Context, sampler *stages.Sampler, t task, flows schema.Batches, out []*partWriter) (stages.SampleStats, error) {
		hops := r.lake.read(schema.HopContributions, contributions, stages.ContributionColumns(), &keyRange{"flow_row", t.Lo, t.Hi})
		defer closeQuietly(hops)
		return sampler.Sample(ctx, t.Lo, t.Hi-t.Lo, flows, hops, out[0])
	}, nil
}

// fromJourneys goes by the hosts' own cases, and what packets met in the last pass: estimator Flow.
func (r *Run) fromReplays() (chunkSampler, error) {
	waits, err := r.waits(r.passes)
	if err != nil {
		return nil, err
	}
	_, sent, err := r.inputs(r.sendersStage())
	if err != nil {
		return nil, err
	}
	senders := partsOf(sent, schema.SenderFCTs)
	return func(ctx context.Context, sampler *stages.Sampler, t task, flows schema.Batches, out []*partWriter) (stages.SampleStats, error) {
		keep := &keyRange{"flow_row", t.Lo, t.Hi}
		observed := waits(keep)
		defer closeQuietly(observed)
		fcts := r.lake.read(schema.SenderFCTs, senders, nil, keep)
		defer closeQuietly(fcts)
		return sampler.SampleReplays(ctx, t.Lo, t.Hi-t.Lo, flows, observed, fcts, out[0], out[1])
	}, nil
}

// writeCatalog brings the lake's views up to date after a stage, unless the scenario is about to go
// again or others still do tasks of the stage.
func (r *Run) writeCatalog(after stage) error {
	if r.passing || !r.whole(after) {
		return nil
	}
	return queries.WriteCatalog(r.lake.root)
}
