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
	cases := caseStep(m, linksim.Cases{Routed: routed, Clustered: clustered, Cache: o.Cache})
	drawn := cases
	all = append(all, cases)
	if clustered != nil {
		drawn = drawStep(m, routed, clustered, cases)
		all = append(all, drawn)
	}
	// barrier: a flow needs all of its hops.
	summed := sumStep(flows, routed, drawn)
	all = append(all, summed)
	if o.Intervals == step.WithIntervals {
		all = append(all, diagnose.Step(m, diagnose.Estimate{
			Flows: flows, Routed: routed, Slowdowns: summed, Contributions: drawn, Cases: cases,
			Buckets: cases, Clusters: clustered, Rooms: exact.Rooms, Waits: diagnose.DelayAsWait, Warnings: warnings,
		}))
	}
	return all
}

// warnings returns the warnings of the estimator.
func warnings(m *step.Model, f *diagnose.Findings) []diagnose.Warning {
	return append(f.Watch.LoadedTwice(), diagnose.ReasonsForWholeNetwork(m, f.Loads)...)
}

// caseStep runs the link cases and groups the delays of each link into distributions by flow size. Without
// clusters it also draws what each hop contributes to each flow, because it already has the flows in order of
// size. Delays go from a link's case to its buckets in memory: no other step needs them.
func caseStep(m *step.Model, c linksim.Cases) *step.Step {
	writes := []schema.Table{schema.DelayBuckets}
	if c.Clustered == nil {
		writes = append(writes, schema.HopContributions)
	}
	return linksim.DelayStep(m, c, func() linksim.DelaySink { return NewBucketer(m) }, writes...)
}

// drawStep draws what each hop contributes to each flow, from the buckets of the representative of the hop's
// link. All tasks share the buckets, which take 8 bytes for each flow that a representative delays.
func drawStep(m *step.Model, routed, clustered, cases *step.Step) *step.Step {
	hops := routed.Output(schema.Hops)
	buckets := cases.Output(schema.DelayBuckets)
	loads := routed.Output(schema.LinkLoads)
	newBucketer := func() (*Bucketer, error) { return NewBucketer(m), nil }
	open := func(in step.Inputs) (step.Work, error) {
		of, err := linksim.Representatives(m, in, clustered)
		if err != nil {
			return nil, err
		}
		byLink, err := ReadBuckets(in.Read(step.All, buckets))
		return step.WithMemory(newBucketer, func(ctx context.Context, b *Bucketer, t step.Task) error {
			in := DrawInput{of, byLink, t.Read(step.Select(t, "link_id"), hops)}
			return b.Draw(ctx, t.Range(), in, t.Sink(schema.HopContributions))
		}), err
	}
	return &step.Step{
		Name:        "draw",
		Reads:       []step.Output{loads, hops, buckets, clustered.Output(schema.LinkClusters)},
		Writes:      []schema.Table{schema.HopContributions},
		Cut:         step.Cut{By: step.ByLinks, Of: loads, Cost: step.Flows},
		Unit:        "hops",
		BytesPerRow: 150,
		Open:        open,
	}
}

// sumStep sums what the hops of each flow contribute.
func sumStep(flows, routed, drawn *step.Step) *step.Step {
	hops := drawn.Output(schema.HopContributions)
	reads := []step.Output{routed.Output(schema.FlowPaths), routed.Output(schema.LinkLoads), hops}
	newSummer := func() (*Summer, error) { return new(Summer), nil }
	work := step.WithMemory(newSummer, func(ctx context.Context, s *Summer, t step.Task) error {
		contributed := t.Read(step.Select(t, "flow_row"), hops)
		chunk := slowdown.ChunkOf(t, flows)
		return s.Sum(ctx, chunk, slowdown.RoutedOf(t, routed), contributed, t.Sink(schema.Slowdowns))
	})
	return slowdown.Step(flows, reads, []schema.Table{schema.Slowdowns}, work)
}
