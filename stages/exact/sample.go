package exact

import (
	"context"
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
)

// A Sampler computes the slowdowns of flows from a simulation of the whole network. It reuses its memory and
// must not be used by several goroutines at a time.
type Sampler struct {
	alone     *alone
	slowdowns slowdown.Writer
	hops      hopIndex
	fcts      []simulatedFCT // by flow of the chunk
}

// NewSampler returns a sampler for flows of a scenario.
func NewSampler(m *step.Model) *Sampler { return &Sampler{alone: newAlone(m)} }

// A simulatedFCT has the columns of table exact_fcts that Sample reads. FCT is -1 if the flow was not
// simulated.
type simulatedFCT struct {
	Row       int64 `col:"flow_row"`
	Start     int64 `col:"start_ns"`
	Hops      int16 `col:"hops"`
	Ideal     int64 `col:"ideal_ns"`
	FCT       int64 `col:"fct_ns"`
	Again     int32 `col:"retransmissions"`
	Reordered int32 `col:"reordered"`
}

// Simulated is what Sample reads: tables exact_fcts and exact_hops of the simulation of the whole workload,
// in any order. Rows of flows of other chunks are skipped.
type Simulated struct {
	FCTs, Hops schema.Batches
}

// Sample writes the slowdowns of one chunk of flows. A flow's FCT is the simulated one.
// slowdown.Writer.Attribute divides its delay among its hops.
func (s *Sampler) Sample(ctx context.Context, c slowdown.Chunk, in Simulated, out slowdown.Sink) error {
	if err := s.read(c.FirstRow, c.Rows, in); err != nil {
		return err
	}
	return s.slowdowns.Write(ctx, c, out, func(f int, sizeBytes int64, to *slowdown.Flow) error {
		x := &s.fcts[f]
		if x.FCT < 0 {
			return nil
		}
		hops, err := s.hops.of(f)
		if err != nil {
			return err
		}
		// If paths change, a flow may be faster than it would be alone on its first path. Its ideal FCT is
		// then its FCT.
		ideal := s.alone.idealNS(s.hops.path, sizeBytes)
		if x.FCT < x.Ideal || x.Ideal > ideal || x.Ideal < ideal && x.FCT != x.Ideal {
			return fmt.Errorf("exact_fcts has an FCT of %d ns and an ideal FCT of %d ns; on this path it is %d ns",
				x.FCT, x.Ideal, ideal)
		}
		to.Hops = x.Hops
		to.StartNS = x.Start
		to.Retransmissions = x.Again
		to.Reordered = x.Reordered
		to.IdealNS = x.Ideal
		to.DelayNS = x.FCT - x.Ideal
		windowNS := s.alone.windowNS(s.hops.path, sizeBytes)
		s.slowdowns.Attribute(c.FirstRow+int64(f), windowNS, hops, to)
		return nil
	})
}

func (s *Sampler) read(firstRow, rows int64, in Simulated) error {
	s.fcts = columns.Resize(s.fcts, int(rows))
	for i := range s.fcts {
		s.fcts[i] = simulatedFCT{FCT: -1}
	}
	err := columns.Each(in.FCTs, func(r *simulatedFCT) error {
		switch {
		// A compute step has neither an FCT nor hops.
		case r.Row < firstRow || r.Row >= firstRow+rows || r.FCT == 0 && r.Hops == 0:
			return nil
		case r.FCT < 0 || r.Hops < 1:
			return fmt.Errorf("exact_fcts: flow row %d has an FCT of %d ns over %d hops", r.Row, r.FCT, r.Hops)
		}
		s.fcts[r.Row-firstRow] = *r
		return nil
	})
	if err != nil {
		return err
	}
	s.hops.begin(firstRow, rows)
	for f := range s.fcts {
		s.hops.reserve(f, s.fcts[f].Hops)
	}
	return columns.Each(in.Hops, func(r *hopRow) error {
		switch {
		case r.FlowRow < firstRow || r.FlowRow >= firstRow+rows:
			return nil
		case r.LastWaitNS < 0 || r.PacketsMarked < 0:
			return fmt.Errorf("exact_hops: flow row %d has a wait or marks below 0 at hop %d", r.FlowRow, r.Hop)
		case r.LinkID < 0 || int(r.LinkID) >= len(s.alone.links):
			return fmt.Errorf("exact_hops: link %d is not in the topology, which has %d links", r.LinkID,
				len(s.alone.links))
		}
		return s.hops.add(r.FlowRow, slowdown.Hop{
			Index: r.Hop, Link: r.LinkID, LastNS: r.LastWaitNS, Marks: int64(r.PacketsMarked),
		})
	})
}
