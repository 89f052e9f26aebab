package pipeline

import (
	"context"
	"math"

	"parsimon/pipeline/histogram"
)

// estimateUntilSettled makes passes, each followed by an estimate, until p50, p90 and p99 of slowdown change by less
// than autoChange, or than half the width of their intervals.
func estimateUntilSettled(ctx context.Context, e *Estimation) error {
	var before []float64
	for n := 1; ; n++ {
		e.variant.Passes = n
		if err := e.run(ctx, e.method(e.variant.pass(n+1)).plan()); err != nil {
			return err
		}
		now, widths, err := percentiles(e)
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
func percentiles(e *Estimation) (values, widths []float64, err error) {
	var all histogram.Histogram
	if err := EachSlowdown(e, func(f SampledFlow) { all.Add(f.Slowdown, 1) }); err != nil {
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
