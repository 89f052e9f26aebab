package independent

import (
	"context"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// A Summer sums the delays that the hops of each flow contribute. It reuses its memory and must not be used
// by several goroutines at a time.
type Summer struct {
	slowdowns *slowdown.Writer
	hops      slowdown.HopIndex
}

// NewSummer returns a summer for flows of a scenario.
func NewSummer(m *step.Model) *Summer {
	return &Summer{slowdowns: slowdown.NewWriter(m)}
}

// Sum writes table slowdowns for one chunk of table flows: a row for every flow that has a path, in the order
// of the flows. The FCT is the ideal FCT on the flow's path plus the sum of its hops' contributions (paper,
// §3.4). Contributions are summed in path order, so the result does not depend on how they are partitioned,
// to the bit.
//
// contributed is table hop_contributions, in any order. Rows of flows of other chunks are skipped. If hops of
// a flow are missing, Sum returns an error that names the flow.
func (s *Summer) Sum(ctx context.Context, c slowdown.Chunk, contributed schema.Batches,
	out schema.Sink) error {
	s.hops.Begin(schema.HopContributions, c.FirstRow, c.Rows)
	err := columns.Each(contributed, func(r *tables.Contribution) error {
		return s.hops.Add(r.FlowRow, r.Hop, r.Hops, slowdown.Cell{Link: r.LinkID, NS: r.DelayNS})
	})
	if err != nil {
		return err
	}
	w := s.slowdowns
	return w.Write(ctx, c, slowdown.Sink{Slowdowns: out}, func(f int, sizeBytes int64, to *slowdown.Flow) error {
		hops, err := s.hops.Cells(f)
		if err != nil || len(hops) == 0 {
			return err
		}
		var sum float64
		for h := range hops {
			sum += hops[h].NS
		}
		to.Path = s.hops.Path()
		to.IdealNS = w.IdealNS(to.Path, sizeBytes)
		to.DelayNS = int64(math.Round(sum))
		to.WindowNS = min(w.WindowNS(to.Path, sizeBytes), to.DelayNS)
		return nil
	})
}
