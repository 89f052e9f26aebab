package sampled

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// variant names the estimate in the lake: the variant of the windows, how many, and what else its intervals depend on.
func (s *sampler) variant() string {
	name := s.base.Variant().String() + pipeline.SampledPart + fmt.Sprint(len(s.counts))
	if s.ask.Confidence != 0.95 {
		name += fmt.Sprintf("-confidence-%g%%", math.Round(s.ask.Confidence*1e4)/100)
	}
	return name
}

// combine writes the tables and the answer.
func (s *sampler) combine(ctx context.Context, stopped string) (*Result, error) {
	rows := s.rows()
	stage := pipeline.CombineStage(s.base.ID(), s.variant())
	stage.Cut = func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
		return []engine.Task{{Lo: 0, Hi: int64(len(s.counts)),
			Cost: int64(s.sampledShare() * float64(s.index.totals[all]))}}, nil
	}
	outputs := make([]engine.Output, len(s.rounds))
	for i, r := range s.rounds {
		outputs[i] = r.run.Plan().Writer(schema.Slowdowns).Output(schema.Slowdowns)
	}
	stage.Reads = outputs
	stage.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		return s.write(ctx, t, rows, outputs)
	})
	if err := s.base.Executor().RunStage(ctx, nil, stage); err != nil {
		return nil, err
	}
	if err := s.base.Publish(); err != nil {
		return nil, err
	}
	return s.result(rows, stopped, time.Since(s.began).Seconds()), nil
}

func (s *sampler) write(ctx context.Context, t *engine.Attempt, rows []Row, outputs []engine.Output) error {
	if err := writeRecord(t.Sink(schema.Intervals), intervalsRecord(rows)); err != nil {
		return err
	}
	weights := map[int]float64{} // of the drawn slots
	for h, slots := range s.design.Strata {
		for _, n := range slots[:s.drawn[h]] {
			weights[n] = float64(len(slots)) / float64(s.drawn[h])
		}
	}
	if err := writeRecord(t.Sink(schema.Windows), s.windowsRecord(weights)); err != nil {
		return err
	}
	for i, r := range s.rounds {
		err := columns.ForEach(t.Read(outputs[i], nil, nil), func(rec arrow.Record) error {
			t.Add(rec.NumRows())
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.writeSampled(t.Sink(schema.SampledSlowdowns), rec, r.slots, weights)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeRecord(to schema.Sink, rec arrow.Record) error {
	defer rec.Release()
	return to.Write(rec)
}

// intervalsRecord is the batch of table intervals.
func intervalsRecord(rows []Row) arrow.Record {
	all := make([]stages.Interval, len(rows))
	for i, r := range rows {
		all[i] = stages.Interval{By: r.Key.By, Service: r.Key.Label, VNet: r.Key.Label, SizeBin: r.SizeBin,
			Flows: r.Flows, Quantile: r.Quantile, Estimate: r.Estimate, Lo: r.Lo, Hi: r.Hi, Warning: r.Warning}
	}
	return stages.IntervalsRecord(all)
}

// windowsRecord is the batch of table windows.
func (s *sampler) windowsRecord(weights map[int]float64) arrow.Record {
	stratum, round := map[int]int{}, map[int]int{}
	for h, slots := range s.design.Strata {
		for _, n := range slots {
			stratum[n] = h
		}
	}
	for i, r := range s.rounds {
		for _, n := range r.slots {
			round[n] = i
		}
	}
	out := columns.NewRows(schema.Windows)
	for _, n := range s.design.Drawn(s.drawn) {
		x, h := s.index.slots[n], stratum[n]
		out.Add(columns.Row{
			"window": int32(n), "round": int32(round[n] + 1), "window_scenario": string(s.rounds[round[n]].run.ID()),
			"stratum": int32(h), "stratum_slots": int32(len(s.design.Strata[h])), "stratum_drawn": int32(s.drawn[h]),
			"weight": weights[n], "from_ns": x.FromNS, "to_ns": x.ToNS, "warmup_ns": s.warmup.NS,
			"flows": x.Flows, "bytes": x.Bytes,
		})
	}
	return out.Record()
}

// writeSampled writes those rows of table slowdowns that are in windows to table sampled_slowdowns.
func (s *sampler) writeSampled(to schema.Sink, rec arrow.Record, slots []int, weights map[int]float64) error {
	starts := columns.Int64s(rec, "start_ns")
	for from, end := 0, 0; from < len(starts); from = end {
		n, counted := s.slotOf(starts[from], slots)
		for end = from + 1; end < len(starts); end++ { // rows of a window are neighbors, in general
			if m, too := s.slotOf(starts[end], slots); m != n || too != counted {
				break
			}
		}
		if !counted {
			continue
		}
		part := rec.NewSlice(int64(from), int64(end))
		var out []arrow.Array
		for _, c := range schema.SampledSlowdowns.Columns {
			switch c.Name {
			case "window":
				out = append(out, columns.Of(slices.Repeat([]int32{int32(n)}, end-from)))
			case "weight":
				out = append(out, columns.Of(slices.Repeat([]float64{weights[n]}, end-from)))
			default:
				out = append(out, columns.Named(part, c.Name))
			}
		}
		rows := array.NewRecord(schema.SampledSlowdowns.Arrow(), out, int64(end-from))
		err := to.Write(rows)
		rows.Release()
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
