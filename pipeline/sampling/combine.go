package sampling

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
	"parsimon/stages/confidence"
	"parsimon/stages/tables"
)

// variant returns how the estimate is made.
func (s *sampler) variant() variant.Variant {
	confidencePercent := math.Round(s.ask.Confidence*1e4) / 100
	return s.base.Variant().Stored().OfWindows(len(s.counts), confidencePercent)
}

// combine writes the tables of the estimate and returns the answer.
func (s *sampler) combine(ctx context.Context, stopped string) (*Result, error) {
	rows := s.rows()
	stage := pipeline.CombineStage(s.base.ID(), s.variant())
	stage.Cut = func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
		flows := int64(s.sampledShare(s.counts) * float64(s.index.totals[all]))
		return []engine.Task{{Lo: 0, Hi: int64(len(s.counts)), Cost: flows}}, nil
	}
	for _, r := range s.rounds {
		stage.Reads = append(stage.Reads, r.run.Plan().Writer(schema.Slowdowns).Output(schema.Slowdowns))
	}
	stage.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		return s.write(ctx, t, rows, stage.Reads)
	})
	if err := s.base.Executor().RunStage(ctx, nil, stage); err != nil {
		return nil, err
	}
	if err := s.base.Publish(); err != nil {
		return nil, err
	}
	return s.result(rows, stopped, time.Since(s.began).Seconds()), nil
}

// A drawnWindow describes how a window was drawn.
type drawnWindow struct {
	stratum, round int
	weight         float64 // flows of the workload for which one of its flows stands
}

// write writes tables intervals, windows and sampled_slowdowns. outputs are the slowdowns of each round.
func (s *sampler) write(ctx context.Context, t *engine.Attempt, rows []Row, outputs []engine.Output) error {
	drawn := s.drawnWindows()
	intervals := confidence.Record(closedIntervals(rows))
	defer intervals.Release()
	windows := s.windowsRecord(drawn)
	defer windows.Release()
	err := errors.Join(t.Sink(schema.Intervals).Write(intervals), t.Sink(schema.Windows).Write(windows))
	for i, r := range s.rounds {
		if err == nil {
			err = s.writeSampled(ctx, t, outputs[i], r.slots, drawn)
		}
	}
	return err
}

// closedIntervals returns the intervals that have an upper end.
func closedIntervals(rows []Row) (all []confidence.Interval) {
	for _, r := range rows {
		if math.IsInf(float64(r.Hi), 1) {
			continue
		}
		all = append(all, confidence.Interval{
			By: r.Key.By, Service: r.Key.Label, VNet: r.Key.Label, SizeBin: r.SizeBin, Flows: r.Flows,
			Quantile: r.Quantile, Estimate: r.Estimate, Lo: r.Lo, Hi: float64(r.Hi), Warning: r.Warning,
		})
	}
	return all
}

// drawnWindows returns the drawn windows by slot number.
func (s *sampler) drawnWindows() map[int]*drawnWindow {
	drawn := map[int]*drawnWindow{}
	for h, slots := range s.design.Strata {
		for _, n := range slots[:s.drawn[h]] {
			drawn[n] = &drawnWindow{stratum: h, weight: float64(len(slots)) / float64(s.drawn[h])}
		}
	}
	for i, r := range s.rounds {
		for _, n := range r.slots {
			drawn[n].round = i
		}
	}
	return drawn
}

// windowsRecord returns the rows of table windows.
func (s *sampler) windowsRecord(drawn map[int]*drawnWindow) arrow.Record {
	return columns.RecordOf(schema.Windows, s.design.Drawn(s.drawn), func(n int) columns.Row {
		x := s.index.slots[n]
		w := drawn[n]
		return columns.Row{
			"window": int32(n), "round": int32(w.round + 1), "window_scenario": string(s.rounds[w.round].run.ID()),
			"stratum": int32(w.stratum), "stratum_slots": int32(len(s.design.Strata[w.stratum])),
			"stratum_drawn": int32(s.drawn[w.stratum]), "weight": w.weight, "from_ns": x.FromNS, "to_ns": x.ToNS,
			"warmup_ns": s.warmup.NS, "flows": x.Flows, "bytes": x.Bytes,
		}
	})
}

// A sampledRow is a row of table sampled_slowdowns.
type sampledRow struct {
	tables.SlowdownRow
	Window int32   `col:"window"`
	Weight float64 `col:"weight"`
}

var sampledTable = columns.TableOf[sampledRow](schema.SampledSlowdowns)

// writeSampled writes the flows of a round that start in windows to table sampled_slowdowns.
func (s *sampler) writeSampled(
	ctx context.Context, t *engine.Attempt, from engine.Output, slots []int, drawn map[int]*drawnWindow,
) error {
	var rows []sampledRow
	write := func() error {
		err := cmp.Or(ctx.Err(), sampledTable.Write(t.Sink(schema.SampledSlowdowns), rows))
		t.Add(int64(len(rows)))
		rows = rows[:0]
		return err
	}
	err := columns.Each(t.Read(from, nil), func(f *tables.SlowdownRow) error {
		n, counted := s.slotOf(f.StartNS, slots)
		if !counted {
			return nil
		}
		row := sampledRow{*f, int32(n), drawn[n].weight}
		row.Labels = f.Labels.Clone()
		rows = append(rows, row)
		if len(rows) < columns.BatchRows {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return err
}
