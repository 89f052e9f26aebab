package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// A Sampler computes the FCT of each flow from its replay and its link cases. It reuses its memory and must
// not be used by several goroutines at a time.
type Sampler struct {
	model     *step.Model
	trips     route.RoundTrips
	slowdowns *slowdown.Writer

	observed observationIndex
	senders  []sender // by flow of the chunk
	blocks   []simkernel.Block
	cases    confidence.CaseSlowdowns
}

// A sender has the FCT of a flow in the replay of its host's uplink. It is below 0 if the flow was not
// replayed.
type sender struct{ fctNS, idealNS int64 }

// NewSampler returns a sampler for flows of a scenario.
func NewSampler(m *step.Model) *Sampler {
	return &Sampler{
		model: m, trips: route.NewRoundTrips(m.Network, &m.Params), slowdowns: slowdown.NewWriter(m),
		observed: observationIndex{model: m},
	}
}

// Observed is what Sample reads for a chunk of flows: the chunk, once more, for the paths of its flows, table
// hop_observations of the last pass and table sender_fcts of the replay. Both tables may be in any order.
// Rows of flows of other chunks are skipped.
type Observed struct {
	Flows, Observations, Senders schema.Batches
}

// Output receives what Sample writes. Cases receives table case_slowdowns: the slowdowns of the flows
// according to the link case of the hop where their last packet waits longest.
type Output struct {
	slowdown.Sink
	Cases schema.Sink
}

// Sample writes the slowdowns of one chunk of flows. A flow's delay is computed from its replay and its link
// cases (see blend). slowdown.Writer.Attribute divides it among the hops.
func (s *Sampler) Sample(ctx context.Context, c slowdown.Chunk, in Observed, out Output) error {
	routed := slowdown.Chunk{FirstRow: c.FirstRow, Rows: c.Rows, Flows: in.Flows}
	if err := s.observed.read(routed, in.Observations); err != nil {
		return err
	}
	if err := s.readSenders(c.FirstRow, c.Rows, in.Senders); err != nil {
		return err
	}
	s.cases = confidence.CaseSlowdowns{}
	err := s.slowdowns.Write(ctx, c, out.Sink, func(f int, sizeBytes int64, to *slowdown.Flow) error {
		hops, err := s.observed.Hops(f)
		if err != nil || len(hops) == 0 {
			return err
		}
		if s.senders[f].fctNS < 0 {
			return errors.New("no row in sender_fcts")
		}
		if err := s.decode(hops, sizeBytes); err != nil {
			return err
		}
		to.Path = s.observed.Path()
		to.IdealNS = s.slowdowns.IdealNS(to.Path, sizeBytes)
		to.DelayNS = s.blend(to.Path, hops, s.senders[f].fctNS-s.senders[f].idealNS)
		caseNS := longestWaitCase(hops, to.DelayNS)
		if caseNS >= 0 {
			s.cases.Count(sizeBytes, float64(to.IdealNS+caseNS)/float64(to.IdealNS))
		}
		s.slowdowns.Attribute(c.FirstRow+int64(f), sizeBytes, hops, to)
		return nil
	})
	if err != nil {
		return err
	}
	return s.cases.Write(out.Cases)
}

func (s *Sampler) readSenders(firstRow, rows int64, in schema.Batches) error {
	s.senders = columns.Resize(s.senders, int(rows))
	for i := range s.senders {
		s.senders[i] = sender{fctNS: -1}
	}
	return columns.Each(in, func(r *tables.SenderFCT) error {
		switch {
		case r.FlowRow < firstRow || r.FlowRow >= firstRow+rows:
			return nil
		case r.FCTNS < r.IdealNS:
			return fmt.Errorf("sender_fcts: flow row %d has an FCT of %d ns, below its ideal FCT of %d ns", r.FlowRow,
				r.FCTNS, r.IdealNS)
		}
		s.senders[r.FlowRow-firstRow] = sender{r.FCTNS, r.IdealNS}
		return nil
	})
}

// decode adds to the hops of a flow what its packets observed there.
func (s *Sampler) decode(hops []slowdown.Hop, sizeBytes int64) error {
	layout := s.model.Params.Layout()
	packets := s.model.Params.Packets(sizeBytes)
	last := int(layout.Blocks(packets)) - 1
	// If buffers are limited, a packet that waits longer than a full buffer lasts would be dropped
	limited := !s.model.Buffers.IsZero()
	for h := range hops {
		hop := &hops[h]
		if hop.Number < 0 {
			continue
		}
		var err error
		if s.blocks, err = linksim.ReadBlocks(s.blocks[:0], s.observed.encoded.At(int(hop.Number))); err != nil {
			return fmt.Errorf("hop_observations, hop %d: %w", h, err)
		}
		if h > 0 && last < len(s.blocks) {
			hop.LastNS = int64(s.blocks[last].WaitNS)
		}
		var sum int64
		for i := range s.blocks {
			if s.blocks[i] == (simkernel.Block{}) {
				continue
			}
			if limited {
				hop.LongestNS = max(hop.LongestNS, int64(s.blocks[i].WaitNS))
			}
			sum += layout.Packets(packets, int64(i)) * int64(s.blocks[i].WaitNS)
			hop.Marks += int64(bits.OnesCount16(s.blocks[i].Marks))
		}
		hop.MeanNS = float64(sum) / float64(packets)
	}
	return nil
}

// blend returns the delay of the current flow in ns: a weighted mean of its delay in the replay of its host's
// uplink and its delays in the link cases of its other hops.
//
// Each case simulates the queue of its own link packet by packet, and receives the other hops as feedback by
// packet number. If a flow waits at one hop for much longer than a round trip, its rate depends on that
// queue: a packet that leaves slightly earlier or later meets a different queue. The case of that hop
// accounts for this, but the replay does not. Errors of the replay then do not cancel, and the last flow of a
// burst finishes too late. Elsewhere the replay is more accurate, because it receives the waits of the last
// pass, while a case receives those of the pass before. So the case of hop h has the weight
//
//	(wₕ / Σ w)²  ·  wₕ / (wₕ + round trip without waits)
//
// where w is the flow's mean wait. The first factor is the square of the hop's share of the waits: if several
// hops are loaded, none of their cases is accurate. The second factor estimates how much the queue reacts, as
// in damp. The replay has the remaining weight.
func (s *Sampler) blend(path []int32, hops []slowdown.Hop, replayNS int64) int64 {
	var waits float64
	for h := range hops {
		waits += hops[h].MeanNS
	}
	trip := float64(s.trips.PathNS(path))
	more := 0.0
	for h := 1; h < len(hops); h++ {
		w := hops[h].MeanNS
		if w == 0 || hops[h].NS < 0 {
			continue
		}
		// The conversion prevents compilers from fusing the product and the sum, so that every machine
		// computes the same bits.
		part := w / waits
		more += float64(part * part * (w / (w + trip)) * (hops[h].NS - float64(replayNS)))
	}
	return replayNS + int64(math.Round(more))
}

// longestWaitCase returns the delay of a flow, in ns, in the case of the hop where its last packet waits
// longest. It returns delayNS if the packet waits at no hop.
func longestWaitCase(hops []slowdown.Hop, delayNS int64) int64 {
	longest := int64(0)
	for _, hop := range hops {
		if hop.NS >= 0 && hop.LastNS > longest {
			longest = hop.LastNS
			delayNS = int64(hop.NS)
		}
	}
	return delayNS
}
