package pipeline

import (
	"context"
	"errors"
	"sync"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// intervalsStage writes the intervals of the percentiles of slowdown and the warnings. It is one task, which reads the
// estimate twice, a chunk of flows at a time; the second time, it reads a chunk while the one before is checked.
// simulates are the stages that wrote link_stats, one a pass.
func (m *method) intervalsStage(generate, sample, contributions *engine.Stage,
	simulates []*engine.Stage) *engine.Stage {
	last := simulates[len(simulates)-1]
	s := &engine.Stage{
		Name: "intervals", Place: m.variant.place(m.ID()), Unit: "flows", Command: m.command("intervals", m.variant),
		Reads: []engine.Output{generate.Output(schema.Flows), sample.Output(schema.Slowdowns),
			contributions.Output(schema.HopContributions), last.Output(schema.LinkStats)},
		Writes: []schema.Table{schema.Intervals, schema.Warnings},
		Cut: func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
			all := engine.Task{}
			for _, c := range chunkTasks(in.Files(generate.Output(schema.Flows))) {
				all.Hi, all.Cost = c.Hi, all.Cost+2*c.Cost
			}
			return []engine.Task{all}, nil
		},
	}
	if m.variant.Backend != stages.Kernel {
		s.Program = func(in *engine.Inputs) (string, error) { return in.Records(sample).Program, nil }
	}
	var before *engine.Stage
	if len(simulates) > 1 {
		before = simulates[len(simulates)-2]
		s.Reads = append(s.Reads, before.Output(schema.LinkStats))
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		work := func(ctx context.Context, t *engine.Attempt) error {
			r := estimateReader{m, in, t, chunkTasks(in.Files(generate.Output(schema.Flows))), sample.Output(schema.Slowdowns),
				contributions.Output(schema.HopContributions)}
			intervals, finder, err := r.intervals(ctx, generate, last)
			if err != nil {
				return err
			}
			defer finder.Close()
			moved, err := lastMoved(in, m.Network, before, last)
			if err != nil {
				return err
			}
			found := finder.Weaknesses(moved, intervals)
			t.SetStats(stages.NewPassesStats(intervals, found, finder.BusyTail()))
			rows, warnings := stages.IntervalsRecord(intervals), stages.WeaknessRecord(found)
			defer rows.Release()
			defer warnings.Release()
			return errors.Join(t.Sink(schema.Intervals).Write(rows), t.Sink(schema.Warnings).Write(warnings))
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
	return s
}

// An estimateReader reads the slowdowns and contributions of all flows, a chunk at a time.
type estimateReader struct {
	*method
	in            *engine.Inputs
	attempt       *engine.Attempt
	chunks        []engine.Task
	slowdowns     engine.Output
	contributions engine.Output
}

// eachChunk gives do the slowdowns of each chunk of flows.
func (r *estimateReader) eachChunk(ctx context.Context, columns []string,
	do func(c engine.Task, slowdowns schema.Batches) error) error {
	for n, c := range r.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		slowdowns := r.Lake.Read(schema.Slowdowns, r.in.Files(r.slowdowns)[n:n+1], columns, nil)
		err := do(c, slowdowns)
		_ = slowdowns.Close() // read to its end, or an error is reported
		if err != nil {
			return err
		}
		r.attempt.Add(c.Cost)
	}
	return nil
}

// intervals returns the intervals of the percentiles, and a finder that has watched all flows. simulate wrote
// link_stats of the last pass.
func (r *estimateReader) intervals(ctx context.Context, generate, simulate *engine.Stage) (rows []stages.Interval,
	finder *stages.WeaknessFinder, err error) {
	groups, err := r.groups(ctx, generate)
	if err != nil {
		return nil, nil, err
	}
	tails := groups.Tails()
	var bootstrap sync.WaitGroup // while the flows are read again
	bootstrap.Go(func() { rows = groups.Rows() })
	finder, err = r.watch(ctx, tails, simulate)
	bootstrap.Wait()
	return rows, finder, err
}

// groups counts the slowdowns of the groups that have intervals.
func (r *estimateReader) groups(ctx context.Context, generate *engine.Stage) (*stages.Intervals, error) {
	g, err := generateStats(r.in.Records(generate))
	if err != nil {
		return nil, err
	}
	chunks, err := engine.Stats[stages.SampleStats](r.in.Records(r.slowdowns.Stage))
	if err != nil {
		return nil, err
	}
	var cases stages.CaseSlowdowns
	for i := range chunks {
		cases.Add(chunks[i].Cases)
	}
	x := stages.NewIntervals(g.FirstStartNS, g.LastStartNS, cases)
	return x, r.eachChunk(ctx, stages.IntervalColumns(),
		func(_ engine.Task, slowdowns schema.Batches) error { return x.Read(slowdowns) })
}

// watch has a finder watch all flows. simulate wrote link_stats of the last pass.
func (r *estimateReader) watch(ctx context.Context, tails stages.Tails,
	simulate *engine.Stage) (*stages.WeaknessFinder, error) {
	stats := r.in.Read(simulate.Output(schema.LinkStats), nil, nil)
	defer func() { _ = stats.Close() }() // read to its end, or an error is reported
	finder, err := stages.NewWeaknessFinder(r.Network, r.Spec.Params, r.variant.Estimator, tails, stats)
	if err != nil {
		return nil, err
	}
	err = r.eachChunk(ctx, stages.TailColumns(), func(c engine.Task, slowdowns schema.Batches) error {
		hops := r.in.Read(r.contributions, stages.TailHopColumns(), &lake.Range{Column: "flow_row", Lo: c.Lo, Hi: c.Hi})
		defer func() { _ = hops.Close() }() // likewise
		return finder.Watch(c.Lo, c.Hi-c.Lo, slowdowns, hops)
	})
	if err != nil {
		finder.Close()
		return nil, err
	}
	return finder, nil
}

// lastMoved is how the last pass changed the waits of links; nil if there was no pass before.
func lastMoved(in *engine.Inputs, n *topology.Network, before, last *engine.Stage) (*stages.Movement, error) {
	if before == nil {
		return nil, nil
	}
	then := in.Read(before.Output(schema.LinkStats), stages.MovedColumns(), nil)
	now := in.Read(last.Output(schema.LinkStats), stages.MovedColumns(), nil)
	defer func() { _, _ = then.Close(), now.Close() }() // read to their ends, or an error is reported
	by, err := stages.Moved(n, then, now)
	return &by, err
}
