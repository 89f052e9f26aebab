package method

import (
	"context"
	"fmt"

	"parsimon/stages/estimators"
	"parsimon/stages/step"
	"parsimon/stages/workload"
)

// A Model is the information about a scenario that all steps share, except for its flows.
type Model = step.Model

// An Estimate says how slowdowns are estimated.
type Estimate struct {
	Estimator estimators.Name
	step.Options
	// Partitions is the number of ranges of links, and of chunks of flows; 0: 1. The result does not depend on
	// it.
	Partitions int
}

// Run estimates the slowdowns of flows, in the order of their starts, in memory.
//
// The steps of the estimator run one after another, so the barriers hold. A step that reads hops by link
// begins when every flow has its path, and a step that sums the hops of a flow begins when every link has
// been simulated. Within a step, tasks are independent. Package pipeline runs the same steps on many workers,
// from files to files.
func Run(ctx context.Context, m *Model, e Estimate, flows []workload.Row) (*Tables, error) {
	written, source, err := newTables(flows, max(1, e.Partitions))
	if err != nil {
		return nil, err
	}
	for _, s := range e.Estimator.Estimator().Plan(m, e.Options, source) {
		// barrier: the steps before this one have written everything that it reads
		tasks, err := written.cut(m, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		work, err := s.Open(written)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		for n, rows := range tasks {
			t := &task{Tables: written, step: s, number: n, rows: rows}
			if err := work(ctx, t); err != nil {
				return nil, fmt.Errorf("%s, task %d of %d: %w", s.Name, n+1, len(tasks), err)
			}
		}
	}
	return written, nil
}
