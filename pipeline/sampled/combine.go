package sampled

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

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
	stage.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		work := func(ctx context.Context, t *engine.Attempt) error {
			return s.write(ctx, t, rows, outputs)
		}
		return func() (engine.Worker, error) { return work, nil }, nil
	}
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
	if err := writeRecord(t.Sink(schema.Windows), s.windowsRecord()); err != nil {
		return err
	}
	weights := s.weights(s.drawn)
	for i, r := range s.rounds {
		err := columns.ForEach(t.Read(outputs[i], nil, nil), func(rec arrow.Record) error {
			t.Add(rec.NumRows())
			if err := ctx.Err(); err != nil {
				return err
			}
			return writeRecord(t.Sink(schema.SampledSlowdowns), s.sampledRecord(rec, r.slots, weights))
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

// weights are those of the drawn slots, so many of each stratum.
func (s *sampler) weights(drawn []int) map[int]float64 {
	weights := map[int]float64{}
	for h, slots := range s.design.Strata {
		for _, n := range slots[:drawn[h]] {
			weights[n] = float64(len(slots)) / float64(drawn[h])
		}
	}
	return weights
}

// windowsRecord is the batch of table windows.
func (s *sampler) windowsRecord() arrow.Record {
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
		slots, drawn := len(s.design.Strata[h]), s.drawn[h]
		out.Add(columns.Row{
			"window": int32(n), "round": int32(round[n] + 1), "window_scenario": string(s.rounds[round[n]].run.ID()),
			"stratum": int32(h), "stratum_slots": int32(slots), "stratum_drawn": int32(drawn),
			"weight": float64(slots) / float64(drawn), "from_ns": x.FromNS, "to_ns": x.ToNS, "warmup_ns": s.warmup.NS,
			"flows": x.Flows, "bytes": x.Bytes,
		})
	}
	return out.Record()
}

// sampledRecord is the batch of table sampled_slowdowns of those rows of table slowdowns that are in windows.
func (s *sampler) sampledRecord(rec arrow.Record, slots []int, weights map[int]float64) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.SampledSlowdowns.Arrow())
	defer b.Release()
	start := columns.Int64s(rec, "start_ns")
	var rows []int
	for i := range start {
		n, counted := s.slotOf(start[i], slots)
		if counted {
			rows = append(rows, i)
			b.Field(schema.SampledSlowdowns.Index("window")).(*array.Int32Builder).Append(int32(n))
			b.Field(schema.SampledSlowdowns.Index("weight")).(*array.Float64Builder).Append(weights[n])
		}
	}
	for at, c := range schema.SampledSlowdowns.Columns {
		switch to := b.Field(at).(type) {
		case *array.Int32Builder:
			if c.Name != "window" {
				copyRows(to.Append, columns.Int32s(rec, c.Name), rows)
			}
		case *array.Int64Builder:
			copyRows(to.Append, columns.Int64s(rec, c.Name), rows)
		case *array.Float64Builder:
			if c.Name != "weight" {
				copyRows(to.Append, columns.Float64s(rec, c.Name), rows)
			}
		case *array.StringBuilder:
			text := columns.Text(rec, c.Name)
			for _, i := range rows {
				to.Append(text.Value(i))
			}
		}
	}
	return b.NewRecord()
}

func copyRows[T any](add func(T), values []T, rows []int) {
	for _, i := range rows {
		add(values[i])
	}
}
