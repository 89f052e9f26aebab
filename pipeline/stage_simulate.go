package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/stages"
)

// passStage runs the cases of links in pass n of estimator flow: in pass 1 of every link, without feedback; in pass 2,
// given the feedback, not of those whose observations of stage first can stand.
func (m *method) passStage(n int, feedback engine.Output, first *engine.Stage) *engine.Stage {
	s := m.caseStage(m.variant.pass(n), feedback, first, schema.HopObservations)
	s.Pass = n
	return s
}

// caseStage runs link cases, a range of links a task: for estimator independent that of every link once. first is pass
// 1, for pass 2.
func (m *method) caseStage(v Variant, feedback engine.Output, first *engine.Stage, out schema.Table) *engine.Stage {
	hops := m.route.Output(schema.Hops)
	s := &engine.Stage{
		Name: "simulate", Place: v.place(m.ID()), Unit: "packet-hops", Command: m.command("simulate", v),
		Reads:       m.withCluster(m.route.Output(schema.LinkLoads), hops),
		Writes:      []schema.Table{out, schema.LinkStats},
		BytesPerRow: 250,
		Cut: func(in *engine.Inputs, prior []engine.Task) ([]engine.Task, error) {
			o, err := m.simulatorOptions(in, nil)
			if err != nil {
				return nil, err
			}
			return m.linkTasks(o.Loads, o.Omitted.Runs, prior), nil
		},
		Work: func(in *engine.Inputs, tasks []engine.Task) ([]int64, error) {
			o, err := m.simulatorOptions(in, first)
			if err != nil {
				return nil, err
			}
			return m.caseWork(tasks, &o), nil
		},
	}
	if first != nil {
		s.Reads = append(s.Reads, feedback, first.Output(schema.LinkStats))
	}
	s.Open = m.openCases(first, func(ctx context.Context, sim *stages.Simulator, t *engine.Attempt) (stages.SimulateStats,
		error) {
		links := t.Range("link_id")
		var given schema.Batches
		if first != nil {
			given = t.Read(feedback, links)
		}
		return sim.Simulate(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, links), given,
			t.Sink(out), t.Sink(schema.LinkStats), t.Add)
	})
	return s
}

// openCases is the Open of a stage whose tasks run does with a simulator. first is as in simulatorOptions.
func (m *method) openCases(first *engine.Stage,
	run func(context.Context, *stages.Simulator, *engine.Attempt) (stages.SimulateStats, error),
) func(*engine.Inputs) (engine.Worker, error) {
	return func(in *engine.Inputs) (engine.Worker, error) {
		o, err := m.simulatorOptions(in, first)
		newSimulator := func() (*stages.Simulator, error) { return stages.NewSimulator(o) }
		return engine.WithMemory(newSimulator, func(ctx context.Context, s *stages.Simulator, t *engine.Attempt) error {
			stats, err := run(ctx, s, t)
			t.SetStats(stats)
			t.SetCritical(stats.LongestCaseNS)
			return err
		}), err
	}
}

// caseWork is about how long the link cases of each task take, in packets behind the first hop. A packet of a host's
// uplink takes a twelfth of that.
func (m *method) caseWork(tasks []engine.Task, o *stages.SimulatorOptions) []int64 {
	work := make([]int64, len(tasks))
	for n, t := range tasks {
		for id := int32(t.Lo); id < int32(t.Hi); id++ {
			if !o.Omitted.Runs(id) {
				continue
			}
			packets := o.Loads.Links[id].Packets
			if m.Network.FromHost(id) {
				packets /= 12
			}
			work[n] += packets
		}
	}
	return work
}

// simulatorOptions are those of stages that run link cases. first is pass 1, for pass 2, which omits links.
func (m *method) simulatorOptions(in *engine.Inputs, first *engine.Stage) (o stages.SimulatorOptions, err error) {
	o = stages.SimulatorOptions{Network: m.Network, Params: m.Spec.Params, Estimator: m.variant.Estimator,
		Rooms: stages.Rooms(m.Network, m.Spec.Params, m.Spec.Switches)}
	if m.Cache != nil {
		o.Cache = m.Cache
	}
	if o.Loads, err = m.readLoads(in); err != nil {
		return o, err
	}
	o.Omitted, err = m.omitted(in, first)
	return o, err
}

// omitted are the links whose cases do not run: in pass 2, given the stage of pass 1, and with clusters.
func (m *method) omitted(in *engine.Inputs, first *engine.Stage) (stages.Omitted, error) {
	if first != nil {
		return stages.ReadOmitted(m.Network, in.Read(first.Output(schema.LinkStats), nil))
	}
	of, err := m.representatives(in)
	return stages.Represented(of), err
}

// Rows that a partition of links should have, so that several fit the memory of a worker (about 100 bytes a row, and
// the observations): more where there are many partitions, since each reads from every file of hops. minPartitions
// keeps several workers busy on a small scenario.
const (
	partitionRows    = 500_000
	maxPartitionRows = 2_000_000
	manyPartitions   = 64
	minPartitions    = 16
)

func everyLink(int32) bool { return true }

// linkTasks cuts the wanted links into ranges. Unless a number of partitions is asked for, a stage that was begun keeps
// its ranges.
func (m *method) linkTasks(loads *stages.Loads, want func(int32) bool, prior []engine.Task) []engine.Task {
	if m.Partitions > 0 || len(prior) == 0 {
		return m.cutLinks(loads, want)
	}
	return names.Of(prior, func(p engine.Task) engine.Task { return rangeTask(loads, want, p.Lo, p.Hi) })
}

// rangeTask is the task of links lo to hi.
func rangeTask(loads *stages.Loads, want func(int32) bool, lo, hi int64) engine.Task {
	t := engine.Task{Lo: lo, Hi: hi}
	for id := lo; id < hi; id++ {
		t.Rows += loads.Links[id].Flows
		if want(int32(id)) {
			t.Cost += loads.Links[id].Packets
		}
	}
	return t
}

// cutLinks cuts the wanted links into as many ranges of about the same cost as are asked for or, if no number is, by
// size. Then the ranges depend on nothing but the workload, so that runs with other settings find each other's results.
func (m *method) cutLinks(loads *stages.Loads, want func(int32) bool) []engine.Task {
	var rows, packets int64
	for id, l := range loads.Links {
		if want(int32(id)) {
			rows += l.Flows
			packets += l.Packets
		}
	}
	ranges := int64(m.Partitions)
	if ranges <= 0 {
		size := min(max(partitionRows, rows/manyPartitions), maxPartitionRows)
		ranges = max(minPartitions, (rows+size-1)/size)
	}
	var tasks []engine.Task
	var lo, cost int64
	left := packets
	for id, l := range loads.Links {
		if !want(int32(id)) {
			continue
		}
		share := left / max(1, ranges-int64(len(tasks)))
		if cost > 0 && cost+l.Packets/2 > share && int64(len(tasks)) < ranges-1 {
			tasks = append(tasks, rangeTask(loads, want, lo, int64(id)))
			lo, left, cost = int64(id), left-cost, 0
		}
		cost += l.Packets
	}
	return append(tasks, rangeTask(loads, want, lo, int64(len(loads.Links))))
}

// feedbackStage turns observations into feedback, a chunk of flows a task: those of pass 1, first, into that of every
// hop whose case pass 2 does not omit; or, where first is nil, those of the last pass into that of hosts' uplinks.
func (m *method) feedbackStage(name string, v Variant, observed []engine.Output, writes schema.Table,
	first *engine.Stage) *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: name, Place: v.place(m.ID()), Unit: "flows", Command: m.command(name, v),
		Reads:       append([]engine.Output{flows}, observed...),
		Writes:      []schema.Table{writes},
		BytesPerRow: 1300,
		Cut:         m.byChunk,
	}
	if first != nil {
		s.Pass, s.Reads = 1, append(s.Reads, first.Output(schema.LinkStats))
	}
	s.Open = func(in *engine.Inputs) (engine.Worker, error) {
		omitted, err := m.omitted(in, first)
		return engine.WithMemory(func() (*stages.FeedbackBuilder, error) {
			return stages.NewFeedbackBuilder(m.Network, &m.Spec.Params, m.Spec.Seed, omitted), nil
		}, func(ctx context.Context, x *stages.FeedbackBuilder, t *engine.Attempt) error {
			return x.Build(ctx, first == nil, t.Lo, t.Hi-t.Lo, readObserved(t, observed), t.Sink(writes))
		}), err
	}
	return s
}

// readObserved streams the observations of the task's flows, those of the last pass first.
func readObserved(t *engine.Attempt, observed []engine.Output) schema.Batches {
	return t.ReadAll(observed, t.Range("flow_row"))
}

// replayStage runs the cases of the hosts' uplinks with complete feedback, which yields each flow's FCT.
func (m *method) replayStage(sender *engine.Stage) *engine.Stage {
	hops, feedback := m.route.Output(schema.Hops), sender.Output(schema.SenderFeedback)
	return &engine.Stage{
		Name: "replay", Place: m.variant.place(m.ID()), Unit: "packet-hops", Command: m.command("replay", m.variant),
		Reads:       []engine.Output{m.route.Output(schema.LinkLoads), hops, feedback},
		Writes:      []schema.Table{schema.SenderFCTs},
		BytesPerRow: 250,
		Cut: func(in *engine.Inputs, prior []engine.Task) ([]engine.Task, error) {
			loads, err := m.readLoads(in)
			if err != nil {
				return nil, err
			}
			return m.linkTasks(loads, m.Network.FromHost, prior), nil
		},
		Open: m.openCases(nil, func(ctx context.Context, sim *stages.Simulator, t *engine.Attempt) (stages.SimulateStats,
			error) {
			links := t.Range("link_id")
			return sim.Replay(ctx, int32(t.Lo), int32(t.Hi), t.Read(hops, links),
				t.Read(feedback, links), t.Sink(schema.SenderFCTs), t.Add)
		}),
	}
}

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
	s.Open = m.withBucketer(func(ctx context.Context, b *stages.Bucketer, t *engine.Attempt) error {
		return b.Bucket(ctx, t.ReadChunk(delays), t.Sink(schema.DelayBuckets), t.Sink(schema.HopContributions))
	})
	return s
}

// withBucketer is the Open of a stage whose tasks have a bucketer.
func (m *method) withBucketer(
	do func(context.Context, *stages.Bucketer, *engine.Attempt) error) func(*engine.Inputs) (engine.Worker, error) {
	return engine.Always(engine.WithMemory(func() (*stages.Bucketer, error) {
		return stages.NewBucketer(m.Spec.Params, m.Spec.Seed), nil
	}, do))
}

// drawStage draws what each hop contributes to each flow from the buckets of the link that stands for the hop's link.
func (m *method) drawStage(bucket *engine.Stage) *engine.Stage {
	hops, buckets := m.route.Output(schema.Hops), bucket.Output(schema.DelayBuckets)
	return &engine.Stage{
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
		Open: m.withBucketer(func(ctx context.Context, b *stages.Bucketer, t *engine.Attempt) error {
			of, err := m.representatives(t.Inputs())
			if err != nil {
				return err
			}
			return b.Draw(ctx, of, int32(t.Lo), int32(t.Hi), t.Read(hops, t.Range("link_id")),
				t.Read(buckets, nil), t.Sink(schema.HopContributions))
		}),
	}
}

// clusterStage finds links that are alike and, for each such cluster, the link whose case stands for all of them. It is
// one task, which uses all workers.
func (m *method) clusterStage() *engine.Stage {
	hops := m.route.Output(schema.Hops)
	return &engine.Stage{
		Name: "cluster", Place: m.variant.place(m.ID()), Unit: "links", Command: m.command("cluster", m.variant),
		Reads:  []engine.Output{m.route.Output(schema.LinkLoads), hops},
		Writes: []schema.Table{schema.LinkClusters},
		Cut:    oneTask,
		Open: engine.Always(func(ctx context.Context, t *engine.Attempt) error {
			features, err := m.features(ctx, t)
			if err != nil {
				return err
			}
			clusters, err := m.variant.Cluster.Cluster(ctx, features)
			if err != nil {
				return err
			}
			return stages.ClusterTable.Write(t.Sink(schema.LinkClusters), clusters)
		}),
	}
}

// features works out the features of all links on all workers, a range of links at a time.
func (m *method) features(ctx context.Context, t *engine.Attempt) ([]stages.LinkFeatures, error) {
	loads, err := m.readLoads(t.Inputs())
	if err != nil {
		return nil, err
	}
	features := make([]stages.LinkFeatures, len(m.Network.Links))
	ranges := m.cutLinks(loads, everyLink)
	err = engine.Parallel(ctx, m.Workers, len(ranges), func(ctx context.Context, i int) error {
		lo, hi := ranges[i].Lo, ranges[i].Hi
		rows := t.Inputs().Read(m.route.Output(schema.Hops), &lake.Range{Column: "link_id", Lo: lo, Hi: hi})
		t.Add(hi - lo)
		return stages.Features(ctx, m.Network, &m.Spec.Params, loads, int32(lo), int32(hi), rows, features)
	})
	return features, err
}
