package linksim

import (
	"context"

	"parsimon/schema"
	"parsimon/stages/exact"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// Cases says which link cases a step runs and what the step reads.
type Cases struct {
	Routed    *step.Step
	Clustered *step.Step // if not nil, the step simulates one link of each cluster
	Cache     CaseStore
	// Pass counts passes from 1. It is 0 if there is only one.
	Pass int
	// First is the step of pass 1 and is set for pass 2. Links whose observations of pass 1 are accurate
	// enough are omitted.
	First *step.Step
	// Feedback is the feedback that the cases of pass 2 and of the replay receive.
	Feedback step.Output
}

// Step returns the step that runs link cases and writes their observations to table hop_observations.
func Step(m *step.Model, c Cases) *step.Step {
	hops := c.Routed.Output(schema.Hops)
	out := schema.HopObservations
	s := c.newStep(m, "simulate", out, schema.LinkStats)
	s.Pass = c.Pass
	s.Open = c.open(m, func(ctx context.Context, sim *Simulator, t step.Task) (Stats, error) {
		links := sim.selects(t, sim.Omitted.Runs)
		in := Input{Hops: t.Read(links, hops)}
		if c.First != nil {
			in.Feedback = t.Read(links, c.Feedback)
		}
		return sim.Simulate(ctx, t.Range(), in, t.Sink(out), t.Sink(schema.LinkStats))
	})
	return s
}

// DelayStep returns the step that runs the link cases of the paper. Its tasks pass the delays that they find
// to sinks from newSink, which write the given tables. A sink serves one task at a time.
func DelayStep(m *step.Model, c Cases, newSink func() DelaySink, writes ...schema.Table) *step.Step {
	hops := c.Routed.Output(schema.Hops)
	s := c.newStep(m, "simulate", append(writes, schema.LinkStats)...)
	s.BytesPerRow += delayBytes
	type memory struct {
		*Simulator
		sink DelaySink
	}
	s.Open = func(in step.Inputs) (step.Work, error) {
		o, err := c.options(m, in)
		newMemory := func() (memory, error) {
			sim, err := New(o)
			return memory{sim, newSink()}, err
		}
		return step.WithMemory(newMemory, func(ctx context.Context, x memory, t step.Task) error {
			x.Progress = t.Add
			x.sink.Begin(t)
			hops := t.Read(x.selects(t, x.Omitted.Runs), hops)
			stats, err := x.SimulateDelays(ctx, t.Range(), hops, x.sink, t.Sink(schema.LinkStats))
			t.Note(stats, stats.LongestCaseNS)
			return err
		}), err
	}
	return s
}

// delayBytes is about how much memory a DelaySink needs for each hop, in bytes.
const delayBytes = 100

// ReplayStep returns the step that runs the cases of the hosts' uplinks with complete feedback. It yields the
// FCT of each flow.
func ReplayStep(m *step.Model, c Cases) *step.Step {
	hops := c.Routed.Output(schema.Hops)
	s := c.newStep(m, "replay", schema.SenderFCTs)
	s.Cut.Wants = func(step.Inputs) (func(int32) bool, error) { return m.Network.FromHost, nil }
	s.Costs = nil
	s.Open = c.open(m, func(ctx context.Context, sim *Simulator, t step.Task) (Stats, error) {
		links := sim.selects(t, m.Network.FromHost)
		in := Input{Hops: t.Read(links, hops), Feedback: t.Read(links, c.Feedback)}
		return sim.Replay(ctx, t.Range(), in, t.Sink(schema.SenderFCTs))
	})
	return s
}

func (c Cases) newStep(m *step.Model, name string, writes ...schema.Table) *step.Step {
	loads := c.Routed.Output(schema.LinkLoads)
	s := &step.Step{
		Name:        name,
		Reads:       []step.Output{loads, c.Routed.Output(schema.Hops)},
		Writes:      writes,
		Cut:         step.Cut{By: step.ByLinks, Of: loads},
		Unit:        "packet-hops",
		BytesPerRow: 250,
	}
	if c.Clustered != nil {
		s.Reads = append(s.Reads, c.Clustered.Output(schema.LinkClusters))
	}
	if c.Feedback.Step != nil {
		s.Reads = append(s.Reads, c.Feedback)
	}
	if c.First != nil {
		s.Reads = append(s.Reads, c.First.Output(schema.LinkStats))
	}
	s.Cut.Wants = func(in step.Inputs) (func(int32) bool, error) {
		of, err := Representatives(m, in, c.Clustered)
		return Represented(of).Runs, err
	}
	s.Costs = func(in step.Inputs, tasks []step.Range) ([]int64, error) {
		o, err := c.options(m, in)
		return costs(tasks, &o), err
	}
	return s
}

// open returns the Open of a step. Each of its tasks calls run with a simulator.
func (c Cases) open(m *step.Model,
	run func(context.Context, *Simulator, step.Task) (Stats, error)) func(step.Inputs) (step.Work, error) {
	return func(in step.Inputs) (step.Work, error) {
		o, err := c.options(m, in)
		o.Detail = Observations
		newSimulator := func() (*Simulator, error) { return New(o) }
		return step.WithMemory(newSimulator, func(ctx context.Context, s *Simulator, t step.Task) error {
			s.Progress = t.Add
			stats, err := run(ctx, s, t)
			t.Note(stats, stats.LongestCaseNS)
			return err
		}), err
	}
}

// options returns the options that all cases of a step share.
func (c Cases) options(m *step.Model, in step.Inputs) (Options, error) {
	o := Options{Model: m, Rooms: exact.Rooms(m), Cache: c.Cache}
	var err error
	o.Loads, err = route.LoadsOf(m, in, c.Routed)
	if err != nil {
		return o, err
	}
	if c.First != nil {
		o.Omitted, err = ReadOmitted(m.Network, in.Read(step.All, c.First.Output(schema.LinkStats)))
		return o, err
	}
	of, err := Representatives(m, in, c.Clustered)
	o.Omitted = Represented(of)
	return o, err
}

// uplinkCost is the number of packets of a host's uplink that take as long to simulate as one packet of
// another link.
const uplinkCost = 12

// costs estimates the duration of each task's link cases, in packets of links that are not hosts' uplinks.
func costs(tasks []step.Range, o *Options) []int64 {
	all := make([]int64, len(tasks))
	if o.Loads == nil {
		return all
	}
	for n, t := range tasks {
		for id := int32(t.Lo); id < int32(t.Hi); id++ {
			if !o.Omitted.Runs(id) {
				continue
			}
			packets := o.Loads.Links[id].Packets
			if o.Network.FromHost(id) {
				packets /= uplinkCost
			}
			all[n] += packets
		}
	}
	return all
}

// Representatives returns the representative of each link, by link id, or nil without clusters.
func Representatives(m *step.Model, in step.Inputs, clustered *step.Step) ([]int32, error) {
	if clustered == nil {
		return nil, nil
	}
	return ReadClusters(m.Network, in.Read(step.All, clustered.Output(schema.LinkClusters)))
}

// ClusterStep returns the step that finds clusters of similar links, and a representative of each cluster.
func ClusterStep(m *step.Model, c Clustering, routed *step.Step) *step.Step {
	loads := routed.Output(schema.LinkLoads)
	hops := routed.Output(schema.Hops)
	return &step.Step{
		Name:   "cluster",
		Reads:  []step.Output{loads, hops},
		Writes: []schema.Table{schema.LinkClusters},
		Unit:   "links",
		Open: step.Always(func(ctx context.Context, t step.Task) error {
			features, err := allFeatures(ctx, m, routed, t)
			if err != nil {
				return err
			}
			clusters, err := c.Cluster(ctx, features)
			if err != nil {
				return err
			}
			return ClusterTable.Write(t.Sink(schema.LinkClusters), clusters)
		}),
	}
}

// allFeatures computes the features of all links. Workers compute one range of links at a time.
func allFeatures(ctx context.Context, m *step.Model, routed *step.Step, t step.Task) ([]LinkFeatures, error) {
	loads, err := route.LoadsOf(m, t, routed)
	if err != nil {
		return nil, err
	}
	features := make([]LinkFeatures, len(m.Network.Links))
	ranges := loads.Cut(route.EveryLink, 0)
	err = t.Parallel(ctx, len(ranges), func(ctx context.Context, i int) error {
		links := ranges[i].Range
		hops := t.Read(step.Selection{Column: "link_id", Range: links}, routed.Output(schema.Hops))
		t.Add(links.Hi - links.Lo)
		return Features(ctx, FeatureInput{m, loads, hops}, links, features)
	})
	return features, err
}
