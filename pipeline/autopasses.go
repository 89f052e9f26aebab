package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// estimateUntilSettled makes DefaultPasses passes, and two more at a time while the estimate itself says that more may
// change it (stages.PassesStats), maxAutoPasses at most. One pass alone would not do: waits that react to each other
// swing, so what an odd number of passes finds is compared with an odd one.
func estimateUntilSettled(ctx context.Context, e *Estimation) error {
	for e.variant.Passes = DefaultPasses; ; e.variant.Passes += 2 {
		if err := e.run(ctx); err != nil {
			return err
		}
		found, err := passesStats(e)
		if err != nil || !found.MorePasses() || e.variant.Passes+2 > maxAutoPasses {
			return err
		}
		e.Log.Info().Int("passes", e.variant.Passes).Float64("disagreement", found.Disagreement).
			Bool("warned", found.Warned).Msg("two more passes")
	}
}

// passesStats returns what the last stage found out about passes.
func passesStats(e *Estimation) (stages.PassesStats, error) {
	records, err := e.Records(schema.Warnings)
	if err != nil {
		return stages.PassesStats{}, err
	}
	all, err := engine.Stats[stages.PassesStats](records)
	if err != nil || len(all) == 0 {
		return stages.PassesStats{}, err
	}
	return all[0], nil
}
