package independent

import (
	"context"
	"fmt"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/slowdown"
	"parsimon/stages/tables"
)

// A Summer sums the delays that the hops of each flow contribute. It reuses its memory and must not be used
// by several goroutines at a time.
type Summer struct {
	slowdowns slowdown.Writer
	paths     []tables.FlowPath // by flow of the chunk
	first     []int32           // by flow of the chunk: index in delays of its hop 0
	delays    []float64         // of all hops, 0 if a hop has no row
}

// Sum writes table slowdowns for one chunk of table flows: a row for every flow that has a path, in the order
// of the flows. The FCT is the ideal FCT on the flow's path plus the sum of its hops' contributions (paper,
// §3.4). Contributions are summed in path order, so the result does not depend on how they are partitioned,
// to the bit.
//
// routed is what route wrote about the chunk, and contributed is table hop_contributions, in any order. Rows
// of flows of other chunks are skipped. A row about a hop that is not on the flow's path is an error.
func (s *Summer) Sum(
	ctx context.Context, c slowdown.Chunk, routed slowdown.Routed, contributed schema.Batches, out schema.Sink,
) error {
	if err := s.read(c, routed, contributed); err != nil {
		return err
	}
	sink := slowdown.Sink{Slowdowns: out}
	return s.slowdowns.Write(ctx, c, sink, func(f int, _ int64, to *slowdown.Flow) error {
		path := &s.paths[f]
		sum := 0.0
		for _, ns := range s.delays[s.first[f]:][:path.Hops] {
			sum += ns
		}
		to.Hops = path.Hops
		to.IdealNS = path.IdealNS
		to.DelayNS = int64(math.Round(sum))
		to.WindowNS = min(path.WindowNS, to.DelayNS)
		return nil
	})
}

func (s *Summer) read(
	c slowdown.Chunk, routed slowdown.Routed, contributed schema.Batches,
) (err error) {
	if s.paths, err = c.ReadPaths(s.paths, routed); err != nil {
		return err
	}
	s.first = columns.Resize(s.first, len(s.paths))
	hops := 0
	for f := range s.paths {
		s.first[f] = int32(hops)
		hops += int(s.paths[f].Hops)
	}
	s.delays = columns.Resize(s.delays, hops)
	clear(s.delays)
	type contribution struct {
		FlowRow int64   `col:"flow_row"`
		Hop     int16   `col:"hop"`
		DelayNS float64 `col:"delay_ns"`
	}
	return columns.Each(contributed, func(r *contribution) error {
		f := r.FlowRow - c.FirstRow
		if f < 0 || f >= c.Rows {
			return nil
		}
		if r.Hop < 0 || r.Hop >= s.paths[f].Hops {
			return fmt.Errorf("hop_contributions: flow row %d has hop %d, which is not on its path of %d",
				r.FlowRow, r.Hop, s.paths[f].Hops)
		}
		s.delays[int(s.first[f])+int(r.Hop)] = r.DelayNS
		return nil
	})
}
