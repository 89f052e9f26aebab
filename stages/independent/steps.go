package independent

import (
	"context"

	"parsimon/schema"
	"parsimon/stages/diagnose"
	"parsimon/stages/exact"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
)

// Estimator returns the paper's estimator (§3).
func Estimator() step.Estimator {
	return step.Estimator{
		Name:     "independent",
		Summary:  "link cases as in the paper",
		Steps:    steps,
		Cost:     cost,
		Clusters: true,
	}
}

// steps returns the steps of the estimator. Each link case runs once, and delays are drawn independently from
// the distributions of the links.
func steps(m *step.Model, o step.Options, flows *step.Step) []*step.Step {
	routed := route.Step(m, flows)
	all := []*step.Step{routed}
	// barrier: a link case needs all of its flows.
	var clustered *step.Step
	if o.ClusterError > 0 {
		clustered = linksim.ClusterStep(m, linksim.Clustering{Error: o.ClusterError}, routed)
		all = append(all, clustered)
	}
	cases := linksim.Step(m, linksim.Cases{
		Routed: routed, Clustered: clustered, Detail: linksim.Delays, Cache: o.Cache,
	})
	bucketed := bucketStep(m, cases, clustered)
	drawn := bucketed
	all = append(all, cases, bucketed)
	if clustered != nil {
		drawn = drawStep(m, routed, clustered, bucketed)
		all = append(all, drawn)
	}
	// barrier: a flow needs all of its hops.
	summed := sumStep(m, flows, drawn)
	all = append(all, summed)
	if o.Intervals == step.WithIntervals {
		all = append(all, diagnose.Step(m, diagnose.Estimate{
			Flows: flows, Routed: routed, Slowdowns: summed, Contributions: drawn, Cases: cases, Buckets: bucketed,
			Clusters: clustered, Rooms: exact.Rooms, Waits: diagnose.DelayAsWait, Warnings: warnings,
		}))
	}
	return all
}

// warnings returns the warnings of the estimator.
func warnings(m *step.Model, f *diagnose.Findings) []diagnose.Warning {
	return append(f.Watch.LoadedTwice(), diagnose.ReasonsForWholeNetwork(m, f.Loads)...)
}

// bucketStep groups the hop delays of links into distributions by flow size. Without clusters it also draws
// what each hop contributes to each flow, because it already has the flows in order of size.
func bucketStep(m *step.Model, cases, clustered *step.Step) *step.Step {
	delays := cases.Output(schema.HopDelays)
	s := &step.Step{
		Name:        "bucket",
		Reads:       []step.Output{delays},
		Writes:      []schema.Table{schema.DelayBuckets},
		Cut:         step.Cut{By: step.LikeStep, Of: delays},
		Unit:        "hops",
		BytesPerRow: 150,
	}
	if clustered == nil {
		s.Writes = append(s.Writes, schema.HopContributions)
	}
	s.Open = withBucketer(m, func(ctx context.Context, b *Bucketer, t step.Task) error {
		in := t.Part(delays, t.Number())
		return b.Bucket(ctx, in, t.Sink(schema.DelayBuckets), t.Sink(schema.HopContributions))
	})
	return s
}

// withBucketer returns the Open of a step whose tasks use a bucketer.
func withBucketer(
	m *step.Model, do func(context.Context, *Bucketer, step.Task) error,
) func(step.Inputs) (step.Work, error) {
	newBucketer := func() (*Bucketer, error) { return NewBucketer(m), nil }
	return step.Always(step.WithMemory(newBucketer, do))
}

// drawStep draws what each hop contributes to each flow, from the buckets of the representative of the hop's
// link.
func drawStep(m *step.Model, routed, clustered, bucketed *step.Step) *step.Step {
	hops := routed.Output(schema.Hops)
	buckets := bucketed.Output(schema.DelayBuckets)
	loads := routed.Output(schema.LinkLoads)
	return &step.Step{
		Name:        "draw",
		Reads:       []step.Output{loads, hops, buckets, clustered.Output(schema.LinkClusters)},
		Writes:      []schema.Table{schema.HopContributions},
		Cut:         step.Cut{By: step.ByLinks, Of: loads, Cost: step.Flows},
		Unit:        "hops",
		BytesPerRow: 150,
		Open: withBucketer(m, func(ctx context.Context, b *Bucketer, t step.Task) error {
			of, err := linksim.Representatives(m, t, clustered)
			if err != nil {
				return err
			}
			in := DrawInput{of, t.Read(step.Select(t, "link_id"), hops), t.Read(step.All, buckets)}
			return b.Draw(ctx, t.Range(), in, t.Sink(schema.HopContributions))
		}),
	}
}

// sumStep sums what the hops of each flow contribute.
func sumStep(m *step.Model, flows, drawn *step.Step) *step.Step {
	hops := drawn.Output(schema.HopContributions)
	newSummer := func() (*Summer, error) { return NewSummer(m), nil }
	work := step.WithMemory(newSummer, func(ctx context.Context, s *Summer, t step.Task) error {
		contributed := t.Read(step.Select(t, "flow_row"), hops)
		return s.Sum(ctx, slowdown.ChunkOf(t, flows), contributed, t.Sink(schema.Slowdowns))
	})
	return slowdown.Step(flows, []step.Output{hops}, []schema.Table{schema.Slowdowns}, work)
}
