package pipeline

import (
	"context"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// estimateUntilSettled makes DefaultPasses passes, and two more at a time while the estimate itself says that more may
// change it (stages.PassesStats), maxAutoPasses at most. One pass alone would not do: waits that react to each other
// swing, so what an odd number of passes finds is compared with an odd one.
func (e *Estimation) estimateUntilSettled(ctx context.Context) error {
	for e.variant.Passes = DefaultPasses; ; e.variant.Passes += 2 {
		if err := e.run(ctx, nil); err != nil {
			return err
		}
		found, err := e.passesStats()
		if err != nil || !found.MorePasses() || e.variant.Passes+2 > maxAutoPasses {
			return err
		}
		e.Log.Info().Int("passes", e.variant.Passes).Float64("disagreement", found.Disagreement).
			Bool("unsettled", found.Unsettled).Msg("two more passes")
	}
}

// passesStats returns what the last stage found out about passes.
func (e *Estimation) passesStats() (stages.PassesStats, error) {
	records, err := e.exec.Records(e.plan().Find("intervals", 0))
	if err != nil {
		return stages.PassesStats{}, err
	}
	all, err := engine.Stats[stages.PassesStats](records)
	if err != nil || len(all) == 0 {
		return stages.PassesStats{}, err
	}
	return all[0], nil
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
