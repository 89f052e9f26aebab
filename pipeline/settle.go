package pipeline

import (
	"context"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/histogram"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// estimateUntilSettled makes passes, each followed by an estimate, until p50, p90 and p99 of slowdown change by less
// than autoChange, or than half the width of their intervals.
func (e *Estimation) estimateUntilSettled(ctx context.Context) error {
	var before []float64
	for n := 1; ; n++ {
		e.variant.Passes = n
		if err := e.run(ctx, e.planOf(e.variant.pass(n+1))); err != nil {
			return err
		}
		now, widths, err := e.percentiles()
		if err != nil {
			return err
		}
		settled := before != nil
		for i := range before {
			settled = settled && math.Abs(now[i]/before[i]-1) < max(autoChange, widths[i])
		}
		e.Log.Info().Int("passes", n).Floats64("p50_p90_p99", now).Msg("estimate")
		if settled || n == maxAutoPasses {
			return e.Collect()
		}
		before = now
	}
}

// percentiles are p50, p90 and p99 of the slowdowns, each to within histogram.Step, and half of the relative width of
// their 95% intervals, as if flows were independent: the order statistics at q ± 1.96 √(q (1 − q) / n) (Conover,
// Practical Nonparametric Statistics, §3.2).
func (e *Estimation) percentiles() (values, widths []float64, err error) {
	var all histogram.Histogram
	err = e.EachSlowdown(func(f SampledFlow) { all.Add(f.Slowdown, 1) })
	if err != nil {
		return nil, nil, err
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		half := 1.96 * math.Sqrt(q*(1-q)/float64(max(1, all.Flows())))
		at := all.Quantiles([]float64{max(0, q-half), q, min(1, q+half)})
		values = append(values, at[1])
		widths = append(widths, (at[2]/at[0]-1)/2)
	}
	return values, widths, nil
}

// A SampledFlow is a row of table slowdowns.
type SampledFlow struct {
	Row      int64
	Service  string // valid during the call
	IdealNS  int64
	FCTNS    int64
	Slowdown float64
}

// EachSlowdown calls do for every flow of the estimate, in the order of table flows.
func (e *Estimation) EachSlowdown(do func(f SampledFlow)) error {
	sample, err := e.exec.Records(e.plan().Find("sample", 0))
	if err != nil {
		return err
	}
	in := e.Lake.Read(schema.Slowdowns, sample.Files(schema.Slowdowns),
		[]string{"flow_row", "service", "ideal_ns", "fct_ns", "slowdown"}, nil)
	return columns.Consume(in, func(rec arrow.Record) error {
		rows, ideals, fcts := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "ideal_ns"), columns.Int64s(rec, "fct_ns")
		service, slowdowns := columns.Text(rec, "service"), columns.Float64s(rec, "slowdown")
		for i, row := range rows {
			do(SampledFlow{row, service.Value(i), ideals[i], fcts[i], slowdowns[i]})
		}
		return nil
	})
}
