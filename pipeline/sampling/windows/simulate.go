package windows

import (
	"cmp"
	"context"
	"math"
	"slices"

	"parsimon/schema"
	"parsimon/stages/exact"
	"parsimon/stages/tables"
)

// Stats describe the simulation of one part.
type Stats struct {
	exact.Stats
	FluidError
}

// Simulate simulates one part of the time packet by packet, with one worker. It returns a row for each flow
// that starts in a span of the part, in order of flow rows. flows reads the flows of the scenario of windows,
// all those of the workload.
func (s Scenario) Simulate(ctx context.Context, part [2]int64, flows, all FlowReader) (
	rows []tables.SlowdownRow, stats Stats, err error,
) {
	o := outlasting{fromNS: part[0], endNS: part[1], counts: s.Spec.Counts}
	if o.endNS > s.Spec.LastStartNS { // no flow starts later: packets are simulated until the last flow finishes
		o.endNS = 0
	}
	starting := func() schema.Batches { return flows(part[0], part[1]) }
	options := exact.Options{Workers: 1, Counts: s.Spec.Counts, EndNS: o.endNS}
	stats.Stats, err = exact.Simulate(ctx, s.Model, starting(), options, exact.Tables{
		Report: func(rows []tables.SlowdownRow) error {
			o.ended = append(o.ended, rows...)
			return nil
		},
		Left: func(f exact.LeftFlow) { o.left = append(o.left, f) },
	})
	if err != nil {
		return nil, stats, err
	}
	later := func() schema.Batches { return all(part[1], math.MaxInt64) }
	stats.FluidError, err = o.finish(ctx, newFluid(s.Model), starting, later)
	slices.SortFunc(o.ended, func(a, b tables.SlowdownRow) int { return cmp.Compare(a.FlowRow, b.FlowRow) })
	return o.ended, stats, err
}
