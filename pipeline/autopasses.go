package pipeline

import (
	"context"
	"slices"

	"parsimon/pipeline/engine"
	"parsimon/schema"
	"parsimon/stages"
)

// autoPasses are the numbers of passes that AutoPasses tries in turn. Where two do not suffice, a third alone halves
// the error at best, and the fourth and fifth cost half of a pass each: they simulate only links that matter to
// others. From there on the numbers are odd: waits that react to each other swing, so what an odd number of passes
// finds is compared with an odd one. Where bursts meet on long paths, and with transports that react to delay, waits
// take up to eleven passes to settle.
var autoPasses = []int{2, 5, 7, 9, 11}

// estimateUntilSettled makes the first of autoPasses, at least Settings.LeastPasses, and more while the estimate itself
// says that more may change it (stages.PassesStats). Until that is known it keeps the temporary tables that the next
// pass reads.
func estimateUntilSettled(ctx context.Context, e *Estimation) error {
	tried := slices.DeleteFunc(slices.Clone(autoPasses), func(n int) bool { return n <= e.LeastPasses })
	if e.LeastPasses > 0 {
		tried = slices.Insert(tried, 0, e.LeastPasses)
	}
	for i, passes := range tried {
		e.variant.Passes = passes
		if i > 0 {
			e.tried = tried[i-1]
			if err := compareAgain(e); err != nil {
				return err
			}
		}
		if i+1 == len(tried) {
			break
		}
		longer := e.variant
		longer.Passes = tried[i+1]
		if err := e.runStages(ctx, e.method(longer).plan()); err != nil {
			return err
		}
		found, err := passesStats(e)
		if err != nil {
			return err
		}
		if !found.MorePasses(passes, e.Spec.Params.Transport) {
			return e.Collect()
		}
		if err := e.Publish(); err != nil {
			return err
		}
		e.Log.Info().Int("passes", passes).Float64("disagreement", found.Disagreement).Bool("warned", found.Suspect).
			Int("next", longer.Passes).Msg("more passes")
	}
	return e.run(ctx)
}

// compareAgain makes stage intervals run again if the lake has it from an estimate that was not compared with the one
// that AutoPasses made before: it was asked for by its number of passes.
func compareAgain(e *Estimation) error {
	found, err := passesStats(e)
	if err != nil || found.Compared == e.tried {
		return nil // it has not been complete, or has been compared
	}
	return engine.RemoveStage(e.exec.Session(), e.Plan().Writer(schema.Intervals))
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
