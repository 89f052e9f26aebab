package pipeline

import (
	"context"

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
	if m.earlier != nil {
		s.Reads = append(s.Reads, m.earlier.Output(schema.Intervals))
	}
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		work := func(ctx context.Context, t *engine.Attempt) error {
			r := estimateReader{m, in, t, chunkTasks(in.Files(generate.Output(schema.Flows))), sample.Output(schema.Slowdowns),
				contributions.Output(schema.HopContributions)}
			intervals, err := r.intervals(ctx, generate)
			if err != nil {
				return err
			}
			found, busyTail, err := r.weaknesses(ctx, intervals, last, before)
			if err != nil {
				return err
			}
			earlier, err := m.earlierPasses(in)
			if err != nil {
				return err
			}
			found = append(found, stages.MovedPercentile(m.variant.Passes, intervals, earlier)...)
			found = append(found, m.warmWarning()...)
			t.SetStats(stages.NewPassesStats(m.variant.Passes, intervals, found, busyTail, earlier))
			rows := stages.IntervalsRecord(intervals)
			defer rows.Release()
			if err := t.Sink(schema.Intervals).Write(rows); err != nil {
				return err
			}
			warnings := stages.WeaknessRecord(found)
			defer warnings.Release()
			return t.Sink(schema.Warnings).Write(warnings)
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
	return s
}

// earlierPasses are the statistics of the estimate that this one is compared with; nil if there is none.
func (m *method) earlierPasses(in *engine.Inputs) (*stages.PassesStats, error) {
	if m.earlier == nil {
		return nil, nil
	}
	all, err := engine.Stats[stages.PassesStats](in.Records(m.earlier))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
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

func (r *estimateReader) intervals(ctx context.Context, generate *engine.Stage) ([]stages.Interval, error) {
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
	err = r.eachChunk(ctx, stages.IntervalColumns(),
		func(_ engine.Task, slowdowns schema.Batches) error { return x.Read(slowdowns) })
	return x.Rows(), err
}

// weaknesses finds what speaks against the estimate, and which part of the slowest flows' delay is at busy links. last
// and before wrote link_stats of the last two passes.
func (r *estimateReader) weaknesses(ctx context.Context, intervals []stages.Interval,
	last, before *engine.Stage) (found []stages.Weakness, busyTail float64, err error) {
	stats := r.in.Read(last.Output(schema.LinkStats), nil, nil)
	defer func() { _ = stats.Close() }() // read to its end, or an error is reported
	tails := stages.TailsOf(intervals)
	finder, err := stages.NewWeaknessFinder(r.Network, r.Spec.Params, r.variant.Estimator, tails, stats)
	if err != nil {
		return nil, 0, err
	}
	defer finder.Close()
	err = r.eachChunk(ctx, stages.TailColumns(), func(c engine.Task, slowdowns schema.Batches) error {
		hops := r.in.Read(r.contributions, stages.TailHopColumns(), &lake.Range{Column: "flow_row", Lo: c.Lo, Hi: c.Hi})
		defer func() { _ = hops.Close() }() // likewise
		return finder.Watch(c.Lo, c.Hi-c.Lo, slowdowns, hops)
	})
	if err != nil {
		return nil, 0, err
	}
	if before == nil {
		return finder.Weaknesses(nil, intervals), finder.BusyTail(), nil
	}
	moved, err := movedBy(r.in, r.Network, before, last)
	if err != nil {
		return nil, 0, err
	}
	return finder.Weaknesses(&moved, intervals), finder.BusyTail(), nil
}

// movedBy is how a sweep over links changed their waits.
func movedBy(in *engine.Inputs, n *topology.Network, before, after *engine.Stage) (stages.Movement, error) {
	then := in.Read(before.Output(schema.LinkStats), stages.MovedColumns(), nil)
	now := in.Read(after.Output(schema.LinkStats), stages.MovedColumns(), nil)
	defer func() { _, _ = then.Close(), now.Close() }() // read to their ends, or an error is reported
	return stages.Moved(n, then, now)
}
