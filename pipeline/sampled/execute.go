package sampled

import (
	"context"
	"errors"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
)

// Execute estimates a scenario of windows, whose flows the lake holds, in the variant and the lake of the base, by
// other processes or machines. No process holds the scenario meanwhile.
type Execute func(ctx context.Context, id lake.ScenarioID) error

// ErrWhole says that windows would be most of the workload, and that the whole is to be estimated instead.
var ErrWhole = errors.New("windows would be most of the workload: estimate the whole instead")

// executed writes the flows of windows, gives the scenario up for execute, and opens it again.
func (s *sampler) executed(
	ctx context.Context, run *pipeline.Estimation, reopen func() (*pipeline.Estimation, error),
) (*pipeline.Estimation, error) {
	err := run.Generate(ctx)
	run.Close()
	if err == nil {
		err = s.execute(ctx, run.ID())
	}
	if err != nil {
		return nil, err
	}
	return reopen()
}
