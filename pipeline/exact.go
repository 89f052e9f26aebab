package pipeline

import (
	"context"

	"parsimon/pipeline/engine"
)

// exactName is the name of the stage that simulates the whole network packet by packet, and of the variant
// that stores its tables. It equals the estimator's name (estimators.Exact), so that the tables of the
// estimate and of the stage share one variant.
const exactName = "exact"

// Exact simulates the whole network packet by packet, unless the lake has the results already. It needs no
// estimate, but stage route must be complete. The results are tables exact_fcts and exact_hops of variant
// exact.
func (e *Estimation) Exact(ctx context.Context) error {
	if err := e.exec.RunStage(ctx, nil, e.planner(e.variant).exactStage()); err != nil {
		return err
	}
	return e.Publish()
}

// ExactRecords returns the records of a complete simulation of the whole network.
func (e *Estimation) ExactRecords() (engine.Records, error) {
	return e.exec.Records(e.planner(e.variant).exactStage())
}
