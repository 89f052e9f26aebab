package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
)

// exactName is the name of the stage that simulates a whole network packet by packet, and of the variant of its tables.
// It is also the estimator's name (estimators.Exact): its estimates have these tables beside their own.
const exactName = "exact"

// Exact simulates the whole network packet by packet, or finds that it was. The estimate need not exist, but stage
// route must be complete. The results are tables exact_fcts and exact_hops of variant exact.
func (e *Estimation) Exact(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.planner(e.variant).exactStage()); err != nil {
		return err
	}
	return e.Publish()
}

// ExactRecords are the records of a complete whole-network simulation.
func (e *Estimation) ExactRecords() (engine.Records, error) {
	return e.exec.Records(e.planner(e.variant).exactStage())
}
