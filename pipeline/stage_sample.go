package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// sampleStage finds the FCT and slowdown of each flow from what other stages have found, a chunk of flows a task.
func (m *method) sampleStage(reads []engine.Output, writes []schema.Table,
	sample func(context.Context, *stages.Sampler, *engine.Attempt) error) *engine.Stage {
	return &engine.Stage{
		Name: "sample", Place: m.variant.place(m.ID()), Unit: "flows", Command: m.command("sample", m.variant),
		Reads:       append([]engine.Output{m.generate.Output(schema.Flows)}, reads...),
		Writes:      writes,
		BytesPerRow: 900,
		Cut:         m.byChunk,
		Open: engine.Always(engine.WithMemory(func() (*stages.Sampler, error) {
			sampler := stages.NewSampler(m.Network, m.Spec.Params)
			sampler.Limited = !m.Spec.Switches.IsZero()
			return sampler, nil
		}, sample)),
	}
}

// sampleDrawsStage adds up the contributions of each flow's hops, for estimator independent.
func (m *method) sampleDrawsStage(contributions *engine.Stage) *engine.Stage {
	hops := contributions.Output(schema.HopContributions)
	return m.sampleStage([]engine.Output{hops}, []schema.Table{schema.Slowdowns},
		func(ctx context.Context, s *stages.Sampler, t *engine.Attempt) error {
			return s.Sample(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(m.generate.Output(schema.Flows)),
				t.Read(hops, t.Range("flow_row")), t.Sink(schema.Slowdowns))
		})
}

// sampleReplaysStage finds each flow's FCT as a mean of that by the replay of its host's uplink and of those by its link
// cases, and divides the delay among its hops by their observations, for estimator flow.
func (m *method) sampleReplaysStage(observed []engine.Output, replay *engine.Stage) *engine.Stage {
	fcts := replay.Output(schema.SenderFCTs)
	return m.sampleStage(append([]engine.Output{fcts}, observed...),
		[]schema.Table{schema.Slowdowns, schema.HopContributions, schema.CaseSlowdowns},
		func(ctx context.Context, s *stages.Sampler, t *engine.Attempt) error {
			return s.SampleReplays(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(m.generate.Output(schema.Flows)),
				readObserved(t, observed), t.Read(fcts, t.Range("flow_row")),
				t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions), t.Sink(schema.CaseSlowdowns))
		})
}

// sampleExactStage takes each flow's FCT from the simulation of the whole network, for estimator exact.
func (m *method) sampleExactStage(exact *engine.Stage) *engine.Stage {
	fcts, hops := exact.Output(schema.ExactFCTs), exact.Output(schema.ExactHops)
	return m.sampleStage([]engine.Output{fcts, hops}, []schema.Table{schema.Slowdowns, schema.HopContributions},
		func(ctx context.Context, s *stages.Sampler, t *engine.Attempt) error {
			return s.SampleExact(ctx, t.Lo, t.Hi-t.Lo, t.ReadChunk(m.generate.Output(schema.Flows)),
				t.Read(fcts, t.Range("flow_row")), t.Read(hops, t.Range("flow_row")),
				t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions))
		})
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
		if err == nil && g.Closed() {
			err = setClosedSpan(in.Read(sample.Output(schema.Slowdowns), nil), loads)
		}
		if err != nil {
			return err
		}
		r := estimateReader{m, in, t, &g, chunkTasks(in.Files(m.generate.Output(schema.Flows))),
			sample.Output(schema.Slowdowns), contributions.Output(schema.HopContributions), nil}
		if rooms := stages.Rooms(m.Network, m.Spec.Params, m.Spec.Switches); limited && rooms != nil {
			r.overflow, err = stages.NewOverflow(m.Network, &m.Spec.Params, m.Spec.Switches, rooms, loads,
				m.variant.Estimator, in.Read(cases.Output(schema.LinkStats), nil))
			if err != nil {
				return err
			}
		}
		intervals, watch, err := r.intervals(ctx, loads)
		if err != nil {
			return err
		}
		found := stages.ReasonsForWholeNetwork(m.Network, &m.Spec.Params, loads)
		t.SetStats(watch.TailLink())
		if m.variant.Estimator == stages.WholeNetwork {
			found = append(stages.FullLinks(m.Network, &m.Spec.Params, loads), m.bufferWarnings(loads)...)
		}
		found = slices.Concat(watch.Warnings(m.variant.Estimator, m.variant.Passes, intervals), found,
			stages.InputWarnings(m.Network, &m.Spec.Params, loads, g.Notes))
		rows, warnings := stages.IntervalsRecord(intervals), stages.WarningsRecord(found)
		defer rows.Release()
		defer warnings.Release()
		return errors.Join(t.Sink(schema.Intervals).Write(rows), t.Sink(schema.Warnings).Write(warnings))
	})
	return s
}

// bufferWarnings are those of limited buffers in an estimate of the whole network, which are known before it.
func (m *method) bufferWarnings(loads *stages.Loads) []stages.Warning {
	return append(stages.HeadroomWarnings(m.Network, m.Spec.Params, m.Spec.Switches, m.Spec.Classes),
		stages.GoBackWarnings(m.Network, &m.Spec.Params, m.Spec.Switches, loads)...)
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
	overflow      *stages.Overflow // nil: buffers have no end
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
	var cases stages.CaseSlowdowns
	if sample := r.slowdowns.Stage; sample.WritesTable(schema.CaseSlowdowns) {
		var err error
		if cases, err = stages.ReadCaseSlowdowns(r.in.Read(sample.Output(schema.CaseSlowdowns), nil)); err != nil {
			return nil, err
		}
	}
	x := stages.NewIntervals(r.generated.FirstStartNS, max(r.generated.LastStartNS, loads.LastStartNS), cases)
	return x, r.eachChunk(ctx,
		func(_ engine.Task, slowdowns schema.Batches) error { return x.Read(slowdowns) })
}

// watch reads all flows again and, of an estimate by link cases, what their hops contribute.
func (r *estimateReader) watch(ctx context.Context, tails stages.Tails,
	loads *stages.Loads) (*stages.TailWatch, error) {
	watch := stages.NewTailWatch(r.Network, loads, tails, r.overflow)
	return watch, r.eachChunk(ctx, func(c engine.Task, slowdowns schema.Batches) error {
		if r.variant.Estimator == stages.WholeNetwork {
			return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, nil)
		}
		hops := r.in.Read(r.contributions, &lake.Range{Column: "flow_row", Lo: c.Lo, Hi: c.Hi})
		return watch.Watch(c.Lo, c.Hi-c.Lo, slowdowns, hops)
	})
}
