package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/confidence"
	"parsimon/stages/diagnose"
	"parsimon/stages/estimators"
	"parsimon/stages/exact"
	feedback "parsimon/stages/flow"
	paper "parsimon/stages/independent"
	"parsimon/stages/ingest"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/topology"
)

// Generated describes a workload once its flows are in the lake: the scenario's row of table scenarios.
type Generated struct {
	lake.FlowStats
	Rejects      int64
	SetAside     int64 // rejects that are no flows by their own account
	Merged       int64 // rows of a trace that were merged into flows
	Dependencies int64
	ComputeSteps int64
	GenerateStats
}

// GenerateStats are the statistics of stage generate, for people.
type GenerateStats struct {
	RejectReasons   []ingest.RejectCount `json:"reject_reasons,omitempty"`
	Notes           []string             `json:"notes,omitempty"`   // remarks about the flow file, for the user
	ExpectedMaxLoad float64              `json:"expected_max_load"` // of the most loaded link, from the matrices; 0 for traces
	ExpectedMaxLink int32                `json:"expected_max_link"`
}

// columns are the columns of table scenarios.
func (g *Generated) columns() map[string]*int64 {
	return map[string]*int64{
		"flows": &g.Flows, "rejects": &g.Rejects, "set_aside": &g.SetAside, "merged": &g.Merged,
		"synthetic_starts": &g.SyntheticStarts, "dependencies": &g.Dependencies, "compute_steps": &g.ComputeSteps,
		"first_start_ns": &g.FirstStartNS, "last_start_ns": &g.LastStartNS,
	}
}

// completeGenerated reads what stage generate found, which must be complete.
func completeGenerated(l *lake.Lake, generate *engine.Stage) (r engine.Records, g Generated, err error) {
	if r, err = engine.Complete(l, generate, MethodVersion); err == nil {
		g, err = readGenerated(l, r)
	}
	return r, g, err
}

// readGenerated reads the counts of a complete stage generate.
func readGenerated(l *lake.Lake, r engine.Records) (g Generated, err error) {
	rows := int64(0)
	err = columns.ForEach(l.Read(schema.Scenarios, r.Files(schema.Scenarios), nil), func(rec arrow.Record) error {
		rows += rec.NumRows()
		for name, value := range g.columns() {
			*value = columns.Int64s(rec, name)[0]
		}
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("table scenarios has %d rows for a scenario, want 1", rows)
	}
	if err != nil {
		return g, err
	}
	stats, err := engine.Stats[GenerateStats](r)
	if err == nil && len(stats) > 0 {
		g.GenerateStats = stats[0]
	}
	return g, err
}

// generateStage writes the topology and the flows of the scenario. It is one task: the flows are one stream in start
// order.
func (m *method) generateStage() *engine.Stage {
	s := &engine.Stage{
		Name: "generate", Place: m.base(), Unit: "flows", Command: "parsimon run --lake " + m.Lake.Path() + " SCENARIO",
		Writes: []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Dependencies,
			schema.JobFlows, schema.Rejects},
		Cut: oneTask,
	}
	if m.source != nil {
		s.Reads = m.source.reads
	}
	s.Open = func(*engine.Inputs) (engine.Worker, error) {
		if m.source == nil {
			return nil, &engine.IncompleteError{Stage: s}
		}
		return m.writeScenario, nil
	}
	s.Check = func(r engine.Records) error {
		g, err := readGenerated(m.Lake, r)
		if err == nil {
			err = m.refuseFlows(&g)
		}
		if err == nil && m.source != nil && m.source.check != nil {
			err = m.source.check(&g)
		}
		return err
	}
	return s
}

// writeScenario writes nodes, links and the flows of the source, and the scenario's row.
func (m *method) writeScenario(ctx context.Context, t *engine.Attempt) error {
	nodes, links := m.Network.NodesRecord(), m.Network.LinksRecord()
	defer nodes.Release()
	defer links.Release()
	if err := errors.Join(t.Sink(schema.Nodes).Write(nodes), t.Sink(schema.Links).Write(links)); err != nil {
		return err
	}
	chunks := lake.NewFlowWriter(t.Session(), m.base(), t.Add)
	defer chunks.Abandon()
	g, err := m.source.write(ctx, t, chunks)
	if err == nil {
		if chunks.Chunks != nil { // else the files are shared
			g.FlowStats = chunks.Stats()
		}
		err = m.refuseFlows(g)
	}
	if err != nil {
		return err
	}
	flows, err := chunks.Finish()
	if err != nil {
		return err
	}
	t.Adopt(flows...)
	if g.Flows == 0 {
		return errors.New("the workload has no flow that can be simulated")
	}
	row := m.scenarioRecord(g)
	defer row.Release()
	t.SetStats(g.GenerateStats)
	return t.Sink(schema.Scenarios).Write(row)
}

// scenarioRecord is the scenario's row of table scenarios.
func (m *method) scenarioRecord(g *Generated) arrow.Record {
	row := columns.Row{
		"scenario_id": string(m.ID()), "name": m.Spec.Name, "seed": int64(m.Spec.Seed), "spec": string(m.Spec.Canonical),
	}
	for name, value := range g.columns() {
		row[name] = *value
	}
	if m.Base != "" {
		row["base_id"] = string(m.Base)
	}
	if m.Spec.MaxLoad > 0 {
		row["max_load"] = m.Spec.MaxLoad
	}
	return columns.RecordOf(schema.Scenarios, []columns.Row{row}, func(r columns.Row) columns.Row { return r })
}

// routeStage chooses each flow's path and explodes flows to hops, a chunk of flows a task.
func (m *method) routeStage() *engine.Stage {
	flows := m.generate.Output(schema.Flows)
	return &engine.Stage{
		Name: "route", Place: m.base(), Unit: "flows", Command: m.baseCommand("route"),
		Reads:       []engine.Output{flows},
		Writes:      []schema.Table{schema.Hops, schema.LinkLoads},
		BytesPerRow: 250,
		Cut:         m.byChunk,
		Check:       m.checkReachable,
		Open: engine.Always(func(ctx context.Context, t *engine.Attempt) error {
			in := t.ReadChunk(flows)
			_, err := route.Flows(ctx, m.Router, &m.Spec.Params, in, int32(t.N), t.Lo, t.Sink(schema.Hops),
				t.Sink(schema.LinkLoads), route.Options{AllowUnreachable: m.Spec.AllowUnreachable,
					Simultaneous: m.Spec.FoundStarts})
			if unreachable := (*topology.UnreachableError)(nil); errors.As(err, &unreachable) {
				err = fmt.Errorf("%w (--allow-unreachable counts such flows instead)", err)
			}
			return err
		}),
	}
}

// checkReachable reports flows without a path, unless they are accepted.
func (m *method) checkReachable(r engine.Records) error {
	if m.Spec.AllowUnreachable {
		return nil
	}
	generate, err := engine.Complete(m.Lake, m.generate, MethodVersion)
	if err != nil {
		return err
	}
	n, first, err := m.unreachable(generate, r)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)", n, first)
	}
	return err
}

// unreachable counts the flows without a path, and finds the first of them.
func (m *Model) unreachable(generate, routed engine.Records) (n int64, first *topology.UnreachableError, err error) {
	g, err := readGenerated(m.Lake, generate)
	if err != nil {
		return 0, nil, err
	}
	loads, err := route.ReadLoads(m.Network, m.Lake.Read(schema.LinkLoads, routed.Files(schema.LinkLoads), nil))
	if err != nil {
		return 0, nil, err
	}
	withPath, _ := loads.Totals(m.Network)
	if n = g.Flows - g.ComputeSteps - withPath; n <= 0 {
		return 0, nil, nil
	}
	var path []int32
	in := m.Lake.Read(schema.Flows, generate.Files(schema.Flows), nil)
	err = columns.Each(in, func(f *route.Flow) (err error) {
		if !route.ComputeStep(f.Src, f.Dst, f.SizeBytes) {
			path, err = m.Router.Path(f.ID, f.Src, f.Dst, path[:0])
		}
		return err
	})
	if errors.As(err, &first) {
		return n, first, nil
	}
	return n, nil, cmp.Or(err, fmt.Errorf("link_loads lacks %d flows, all of which have a path", n))
}

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
	s.Open = m.openCases(first, func(ctx context.Context, sim *linksim.Simulator, t *engine.Attempt) (linksim.Stats,
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
	run func(context.Context, *linksim.Simulator, *engine.Attempt) (linksim.Stats, error),
) func(*engine.Inputs) (engine.Worker, error) {
	return func(in *engine.Inputs) (engine.Worker, error) {
		o, err := m.simulatorOptions(in, first)
		newSimulator := func() (*linksim.Simulator, error) { return linksim.New(o) }
		return engine.WithMemory(newSimulator, func(ctx context.Context, s *linksim.Simulator, t *engine.Attempt) error {
			stats, err := run(ctx, s, t)
			t.SetStats(stats)
			t.SetCritical(stats.LongestCaseNS)
			return err
		}), err
	}
}

// caseWork is about how long the link cases of each task take, in packets behind the first hop. A packet of a host's
// uplink takes a twelfth of that.
func (m *method) caseWork(tasks []engine.Task, o *linksim.Options) []int64 {
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
func (m *method) simulatorOptions(in *engine.Inputs, first *engine.Stage) (o linksim.Options, err error) {
	o = linksim.Options{Network: m.Network, Params: m.Spec.Params, Detail: m.detail(),
		Rooms: exact.Rooms(m.Network, m.Spec.Params, m.Spec.Switches)}
	if m.Cache != nil {
		o.Cache = m.Cache
	}
	if o.Loads, err = m.readLoads(in); err != nil {
		return o, err
	}
	o.Omitted, err = m.omitted(in, first)
	return o, err
}

// detail is how much link cases of the estimator know and record.
func (m *method) detail() linksim.Detail {
	if m.variant.Estimator == estimators.Independent {
		return linksim.Delays
	}
	return linksim.Observations
}

// omitted are the links whose cases do not run: in pass 2, given the stage of pass 1, and with clusters.
func (m *method) omitted(in *engine.Inputs, first *engine.Stage) (linksim.Omitted, error) {
	if first != nil {
		return linksim.ReadOmitted(m.Network, in.Read(first.Output(schema.LinkStats), nil))
	}
	of, err := m.representatives(in)
	return linksim.Represented(of), err
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
func (m *method) linkTasks(loads *route.Loads, want func(int32) bool, prior []engine.Task) []engine.Task {
	if m.Partitions > 0 || len(prior) == 0 {
		return m.cutLinks(loads, want)
	}
	return names.Of(prior, func(p engine.Task) engine.Task { return rangeTask(loads, want, p.Lo, p.Hi) })
}

// rangeTask is the task of links lo to hi.
func rangeTask(loads *route.Loads, want func(int32) bool, lo, hi int64) engine.Task {
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
func (m *method) cutLinks(loads *route.Loads, want func(int32) bool) []engine.Task {
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
		return engine.WithMemory(func() (*feedback.FeedbackBuilder, error) {
			return feedback.NewFeedbackBuilder(m.Network, &m.Spec.Params, m.Spec.Seed, omitted), nil
		}, func(ctx context.Context, x *feedback.FeedbackBuilder, t *engine.Attempt) error {
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
		Open: m.openCases(nil, func(ctx context.Context, sim *linksim.Simulator, t *engine.Attempt) (linksim.Stats,
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
	s.Open = m.withBucketer(func(ctx context.Context, b *paper.Bucketer, t *engine.Attempt) error {
		return b.Bucket(ctx, t.ReadChunk(delays), t.Sink(schema.DelayBuckets), t.Sink(schema.HopContributions))
	})
	return s
}

// withBucketer is the Open of a stage whose tasks have a bucketer.
func (m *method) withBucketer(
	do func(context.Context, *paper.Bucketer, *engine.Attempt) error) func(*engine.Inputs) (engine.Worker, error) {
	return engine.Always(engine.WithMemory(func() (*paper.Bucketer, error) {
		return paper.NewBucketer(m.Spec.Params, m.Spec.Seed), nil
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
		Open: m.withBucketer(func(ctx context.Context, b *paper.Bucketer, t *engine.Attempt) error {
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
			return linksim.ClusterTable.Write(t.Sink(schema.LinkClusters), clusters)
		}),
	}
}

// features works out the features of all links on all workers, a range of links at a time.
func (m *method) features(ctx context.Context, t *engine.Attempt) ([]linksim.LinkFeatures, error) {
	loads, err := m.readLoads(t.Inputs())
	if err != nil {
		return nil, err
	}
	features := make([]linksim.LinkFeatures, len(m.Network.Links))
	ranges := m.cutLinks(loads, everyLink)
	err = engine.Parallel(ctx, m.Workers, len(ranges), func(ctx context.Context, i int) error {
		lo, hi := ranges[i].Lo, ranges[i].Hi
		rows := t.Inputs().Read(m.route.Output(schema.Hops), &lake.Range{Column: "link_id", Lo: lo, Hi: hi})
		t.Add(hi - lo)
		return linksim.Features(ctx, m.Network, &m.Spec.Params, loads, int32(lo), int32(hi), rows, features)
	})
	return features, err
}

// sampleStage finds the FCT and slowdown of each flow from what other stages have found, a chunk of flows a task.
func (m *method) sampleStage(reads []engine.Output, writes []schema.Table, work engine.Worker) *engine.Stage {
	return &engine.Stage{
		Name: "sample", Place: m.variant.place(m.ID()), Unit: "flows", Command: m.command("sample", m.variant),
		Reads:       append([]engine.Output{m.generate.Output(schema.Flows)}, reads...),
		Writes:      writes,
		BytesPerRow: 900,
		Cut:         m.byChunk,
		Open:        engine.Always(work),
	}
}

// chunk is the task's chunk of flows.
func (m *method) chunk(t *engine.Attempt) slowdown.Chunk {
	return slowdown.Chunk{FirstRow: t.Lo, Rows: t.Hi - t.Lo, Flows: t.ReadChunk(m.generate.Output(schema.Flows))}
}

// sinkOf takes the slowdowns and contributions of the task's flows.
func sinkOf(t *engine.Attempt) slowdown.Sink {
	return slowdown.Sink{Slowdowns: t.Sink(schema.Slowdowns), Contributions: t.Sink(schema.HopContributions)}
}

// sampleDrawsStage adds up the contributions of each flow's hops, for estimator independent.
func (m *method) sampleDrawsStage(contributions *engine.Stage) *engine.Stage {
	hops := contributions.Output(schema.HopContributions)
	newSummer := func() (*paper.Summer, error) { return paper.NewSummer(m.Network, m.Spec.Params), nil }
	return m.sampleStage([]engine.Output{hops}, []schema.Table{schema.Slowdowns},
		engine.WithMemory(newSummer, func(ctx context.Context, s *paper.Summer, t *engine.Attempt) error {
			return s.Sum(ctx, m.chunk(t), t.Read(hops, t.Range("flow_row")), t.Sink(schema.Slowdowns))
		}))
}

// sampleReplaysStage finds each flow's FCT as a mean of that by the replay of its host's uplink and of those by its
// link cases, and divides the delay among its hops by their observations, for estimator flow.
func (m *method) sampleReplaysStage(observed []engine.Output, replay *engine.Stage) *engine.Stage {
	fcts := replay.Output(schema.SenderFCTs)
	buffers := feedback.UnlimitedBuffers
	if !m.Spec.Switches.IsZero() {
		buffers = feedback.LimitedBuffers
	}
	newSampler := func() (*feedback.Sampler, error) {
		return feedback.NewSampler(m.Network, m.Spec.Params, buffers), nil
	}
	return m.sampleStage(append([]engine.Output{fcts}, observed...),
		[]schema.Table{schema.Slowdowns, schema.HopContributions, schema.CaseSlowdowns},
		engine.WithMemory(newSampler, func(ctx context.Context, s *feedback.Sampler, t *engine.Attempt) error {
			in := feedback.Observed{Observations: readObserved(t, observed), Senders: t.Read(fcts, t.Range("flow_row"))}
			return s.Sample(ctx, m.chunk(t), in, feedback.Output{Sink: sinkOf(t), Cases: t.Sink(schema.CaseSlowdowns)})
		}))
}

// sampleExactStage takes each flow's FCT from the simulation of the whole network, for estimator exact.
func (m *method) sampleExactStage(simulation *engine.Stage) *engine.Stage {
	fcts, hops := simulation.Output(schema.ExactFCTs), simulation.Output(schema.ExactHops)
	newSampler := func() (*exact.Sampler, error) { return exact.NewSampler(m.Network, m.Spec.Params), nil }
	return m.sampleStage([]engine.Output{fcts, hops}, []schema.Table{schema.Slowdowns, schema.HopContributions},
		engine.WithMemory(newSampler, func(ctx context.Context, s *exact.Sampler, t *engine.Attempt) error {
			in := exact.Simulated{
				FCTs: t.Read(fcts, t.Range("flow_row")),
				Hops: t.Read(hops, t.Range("flow_row")),
			}
			return s.Sample(ctx, m.chunk(t), in, sinkOf(t))
		}))
}

// intervalsStage writes the intervals of the percentiles of slowdown and the warnings. It is one task, which reads the
// estimate twice, a chunk of flows at a time. cases is the stage with the last link cases; nil: there are none.
func (m *method) intervalsStage(sample, contributions, cases *engine.Stage) *engine.Stage {
	s := &engine.Stage{
		Name: "intervals", Place: m.variant.place(m.ID()), Unit: "flows", Command: m.command("intervals", m.variant),
		Reads: []engine.Output{m.generate.Output(schema.Flows), sample.Output(schema.Slowdowns),
			contributions.Output(schema.HopContributions), m.route.Output(schema.LinkLoads)},
		Writes: []schema.Table{schema.Intervals, schema.Warnings},
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			all := engine.Task{}
			for _, c := range chunkTasks(in.Files(m.generate.Output(schema.Flows))) {
				all.Hi, all.Cost = c.Hi, all.Cost+2*c.Cost
			}
			return []engine.Task{all}, nil
		},
	}
	if sample.WritesTable(schema.CaseSlowdowns) {
		s.Reads = append(s.Reads, sample.Output(schema.CaseSlowdowns))
	}
	limited := cases != nil && !m.Spec.Switches.IsZero()
	if limited {
		s.Reads = append(s.Reads, cases.Output(schema.LinkStats))
	}
	s.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		in := t.Inputs()
		loads, err := m.readLoads(in)
		if err != nil {
			return err
		}
		g, err := readGenerated(m.Lake, in.Records(m.generate))
		if err != nil {
			return err
		}
		remarks, err := m.remarks(in.Read(sample.Output(schema.Slowdowns), nil), &g, loads)
		if err != nil {
			return err
		}
		r := estimateReader{m, in, t, &g, chunkTasks(in.Files(m.generate.Output(schema.Flows))),
			sample.Output(schema.Slowdowns), contributions.Output(schema.HopContributions), nil}
		if rooms := exact.Rooms(m.Network, m.Spec.Params, m.Spec.Switches); limited && rooms != nil {
			r.overflow, err = diagnose.NewOverflow(m.Network, &m.Spec.Params, m.Spec.Switches, rooms, loads,
				m.hopWaits(), in.Read(cases.Output(schema.LinkStats), nil))
			if err != nil {
				return err
			}
		}
		intervals, watch, err := r.intervals(ctx, loads)
		if err != nil {
			return err
		}
		t.SetStats(watch.TailLink())
		found := slices.Concat(m.warnings(watch, intervals, loads),
			diagnose.InputWarnings(m.Network, &m.Spec.Params, loads, remarks))
		rows, warnings := confidence.Record(intervals), diagnose.Record(found)
		defer rows.Release()
		defer warnings.Release()
		return errors.Join(t.Sink(schema.Intervals).Write(rows), t.Sink(schema.Warnings).Write(warnings))
	})
	return s
}

// hopWaits says where the waits of flows are in table hop_contributions.
func (m *method) hopWaits() diagnose.Waits {
	if m.variant.Estimator == estimators.Independent {
		return diagnose.DelayAsWait
	}
	return diagnose.OwnColumns
}

// warnings are those of the estimator.
func (m *method) warnings(w *diagnose.TailWatch, intervals []confidence.Interval, loads *route.Loads) []diagnose.Warning {
	out := w.Warnings()
	switch m.variant.Estimator {
	case estimators.Flow:
		if m.variant.Passes == 1 {
			out = append(out, diagnose.Unsettled())
		}
		out = slices.Concat(out, diagnose.Disagreements(intervals), w.SpreadOut())
	case estimators.Independent:
		out = append(out, w.LoadedTwice()...)
	case estimators.Exact:
		p := &m.Spec.Params
		return append(out, diagnose.OfWholeNetwork(m.Network, p, m.Spec.Switches, m.Spec.Classes, loads)...)
	}
	return append(out, diagnose.ReasonsForWholeNetwork(m.Network, &m.Spec.Params, loads)...)
}

// remarks returns the remarks about the flows and about events that begin when all flows have ended. It sets the time of
// a workload whose flows wait for others: what links are offered depends on what the network delivers.
func (m *method) remarks(slowdowns schema.Batches, g *Generated, loads *route.Loads) ([]string, error) {
	moves := m.Spec.Moves
	if !g.Closed() && len(moves.LateEvents(m.Network, g.LastStartNS)) == 0 {
		return g.Notes, slowdowns.Close()
	}
	end, err := lastEnd(slowdowns, loads.LastStartNS)
	if g.Closed() {
		loads.LastStartNS = end
	}
	return slices.Concat(g.Notes, moves.LateEvents(m.Network, end)), err
}

// An estimateReader reads the slowdowns and contributions of all flows, a chunk at a time.
type estimateReader struct {
	*method
	in            *engine.Inputs
	attempt       *engine.Attempt
	generated     *Generated
	chunks        []engine.Task
	slowdowns     engine.Output
	contributions engine.Output
	overflow      *diagnose.Overflow // nil: buffers have no end
}

// eachChunk gives do the slowdowns of each chunk of flows.
func (r *estimateReader) eachChunk(ctx context.Context,
	do func(c engine.Task, slowdowns schema.Batches) error) error {
	for n, c := range r.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(c, r.Lake.Read(schema.Slowdowns, r.in.Files(r.slowdowns)[n:n+1], nil)); err != nil {
			return err
		}
		r.attempt.Add(c.Cost)
	}
	return nil
}

// intervals returns the intervals of the percentiles, and the watch of all flows.
func (r *estimateReader) intervals(ctx context.Context,
	loads *route.Loads) (rows []confidence.Interval, watch *diagnose.TailWatch, err error) {
	groups, err := r.groups(ctx, loads)
	if err != nil {
		return nil, nil, err
	}
	tails := groups.Tails()
	var bootstrap sync.WaitGroup // while the flows are read again
	bootstrap.Go(func() { rows = groups.Rows() })
	watch, err = r.watch(ctx, tails, loads)
	bootstrap.Wait()
	return rows, watch, err
}

// groups counts the slowdowns of the groups that have intervals.
func (r *estimateReader) groups(ctx context.Context, loads *route.Loads) (*confidence.Intervals, error) {
	var cases confidence.CaseSlowdowns
	if sample := r.slowdowns.Stage; sample.WritesTable(schema.CaseSlowdowns) {
		var err error
		if cases, err = confidence.ReadCaseSlowdowns(r.in.Read(sample.Output(schema.CaseSlowdowns), nil)); err != nil {
			return nil, err
		}
	}
	x := confidence.New(r.generated.FirstStartNS, max(r.generated.LastStartNS, loads.LastStartNS), cases)
	return x, r.eachChunk(ctx,
		func(_ engine.Task, slowdowns schema.Batches) error { return x.Read(slowdowns) })
}

// watch reads all flows again and, of an estimate by link cases, what their hops contribute.
func (r *estimateReader) watch(ctx context.Context, tails confidence.Tails,
	loads *route.Loads) (*diagnose.TailWatch, error) {
	watch := diagnose.NewTailWatch(r.Network, loads, tails, r.overflow)
	return watch, r.eachChunk(ctx, func(c engine.Task, slowdowns schema.Batches) error {
		if r.variant.Estimator == estimators.Exact {
			return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, nil)
		}
		hops := r.in.Read(r.contributions, &lake.Range{Column: "flow_row", Lo: c.Lo, Hi: c.Hi})
		return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, hops)
	})
}
