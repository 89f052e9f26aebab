package pipeline

import (
	"context"
	"errors"
	"sync"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

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
	s.Open = func(_ context.Context, in *engine.Inputs) (engine.NewWorker, error) {
		loads, err := m.readLoads(in)
		if err == nil {
			err = m.setClosedSpan(in, sample.Output(schema.Slowdowns), loads)
		}
		if err != nil {
			return nil, err
		}
		work := func(ctx context.Context, t *engine.Attempt) error {
			r := estimateReader{m, in, t, chunkTasks(in.Files(m.generate.Output(schema.Flows))), sample.Output(schema.Slowdowns),
				contributions.Output(schema.HopContributions)}
			intervals, watch, err := r.intervals(ctx, loads)
			if err != nil {
				return err
			}
			found := stages.ReasonsForWholeNetwork(m.Network, &m.Spec.Params, loads)
			if m.variant.Estimator == stages.WholeNetwork {
				found = append(stages.FullLinks(m.Network, &m.Spec.Params, loads),
					stages.GoBackWarnings(m.Network, &m.Spec.Params, m.Spec.Switches, loads)...)
			}
			if limited {
				rows := in.Read(cases.Output(schema.LinkStats), nil, nil)
				full, err := stages.BufferWarnings(m.Network, m.Spec.Switches, loads, rows)
				_ = rows.Close() // read to its end, or an error is reported
				if err != nil {
					return err
				}
				found = append(found, full...)
			}
			found = append(watch.Warnings(m.variant.Estimator, m.variant.Passes, intervals), found...)
			rows, warnings := stages.IntervalsRecord(intervals), stages.WarningsRecord(found)
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
func (r *estimateReader) eachChunk(ctx context.Context,
	do func(c engine.Task, slowdowns schema.Batches) error) error {
	for n, c := range r.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		slowdowns := r.Lake.Read(schema.Slowdowns, r.in.Files(r.slowdowns)[n:n+1], nil, nil)
		err := do(c, slowdowns)
		_ = slowdowns.Close() // read to its end, or an error is reported
		if err != nil {
			return err
		}
		r.attempt.Add(c.Cost)
	}
	return nil
}

// intervals returns the intervals of the percentiles, and what has watched all flows.
func (r *estimateReader) intervals(ctx context.Context,
	loads *stages.Loads) (rows []stages.Interval, watch *stages.TailWatch, err error) {
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
func (r *estimateReader) groups(ctx context.Context, loads *stages.Loads) (*stages.Intervals, error) {
	g, err := readGenerated(r.Lake, r.in.Records(r.method.generate))
	if err != nil {
		return nil, err
	}
	var cases stages.CaseSlowdowns
	if sample := r.slowdowns.Stage; sample.WritesTable(schema.CaseSlowdowns) {
		in := r.in.Read(sample.Output(schema.CaseSlowdowns), nil, nil)
		defer func() { _ = in.Close() }() // read to its end, or an error is reported
		if cases, err = stages.ReadCaseSlowdowns(in); err != nil {
			return nil, err
		}
	}
	x := stages.NewIntervals(g.FirstStartNS, max(g.LastStartNS, loads.LastStartNS), cases)
	return x, r.eachChunk(ctx,
		func(_ engine.Task, slowdowns schema.Batches) error { return x.Read(slowdowns) })
}

// watch reads all flows again and, of an estimate by link cases, what their hops contribute.
func (r *estimateReader) watch(ctx context.Context, tails stages.Tails,
	loads *stages.Loads) (*stages.TailWatch, error) {
	watch := stages.NewTailWatch(r.Network, loads, tails)
	return watch, r.eachChunk(ctx, func(c engine.Task, slowdowns schema.Batches) error {
		if r.variant.Estimator == stages.WholeNetwork {
			return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, nil)
		}
		hops := r.in.Read(r.contributions, nil, &lake.Range{Column: "flow_row", Lo: c.Lo, Hi: c.Hi})
		defer func() { _ = hops.Close() }() // read to its end, or an error is reported
		return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, hops)
	})
}
