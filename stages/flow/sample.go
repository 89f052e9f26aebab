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

// A Sampler finds the FCT of each flow from its replay and from its link cases. It reuses its memory and is used by one
// goroutine at a time.
type Sampler struct {
	model     *step.Model
	slowdowns *slowdown.Writer

	observed observationIndex
	senders  []sender // by flow of the chunk
	blocks   []simkernel.Block
	cases    confidence.CaseSlowdowns
}

// A sender is the FCT of a flow by the replay of its host's uplink; below 0 if it was not replayed.
type sender struct{ fctNS, idealNS int64 }

// NewSampler returns a sampler for flows of a scenario.
func NewSampler(m *step.Model) *Sampler {
	return &Sampler{model: m, slowdowns: slowdown.NewWriter(m)}
}

// Observed is what Sample reads of a chunk of flows: table hop_observations of the last pass and table sender_fcts of
// the replay, in any order. Rows of other flows are skipped.
type Observed struct {
	Observations, Senders schema.Batches
}

// Output takes what Sample writes. Cases takes table case_slowdowns: what another link case says of the flows, that of
// the hop where a flow's last packet waits longest.
type Output struct {
	slowdown.Sink
	Cases schema.Sink
}

// Sample writes the slowdowns of one chunk of flows. A flow's delay is that of its replay and of its link cases (see
// blend). It is divided among the hops as slowdown.Writer.Attribute says.
func (s *Sampler) Sample(ctx context.Context, c slowdown.Chunk, in Observed, out Output) error {
	if err := s.observed.read(c.FirstRow, c.Rows, in.Observations); err != nil {
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
		if caseNS := longestWaitCase(hops, to.DelayNS); caseNS >= 0 {
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

// decode completes the hops of a flow from what its packets observed there.
func (s *Sampler) decode(hops []slowdown.Hop, sizeBytes int64) error {
	layout, packets := s.model.Params.Layout(), s.model.Params.Packets(sizeBytes)
	last := int(layout.Blocks(packets)) - 1
	limited := !s.model.Buffers.IsZero() // packets that wait for longer than a buffer has room for would be dropped
	for h := range hops {
		hop := &hops[h]
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

// blend returns the delay of the current flow: a mean of its delay by the replay of its host's uplink and of those by
// the link cases of its other hops.
//
// Each case has the queue of its own link packet by packet and is given the other hops by number of packet. Where a
// flow waits at one hop for far longer than a round trip, its rate follows from that queue: a packet that leaves a bit
// earlier or later meets another queue, which the hop's case knows and the replay does not. Errors of the replay do not
// cancel there, and the last flow of a burst ends too late. Elsewhere the replay is better, because it is given the
// waits of the last pass and a case those of the pass before. So the case of hop h has the weight
//
//	(wₕ / Σ w)²  ·  wₕ / (wₕ + round trip without waits)
//
// where w is the flow's mean wait. The first factor is the square of the part of the waits that is at the hop: where
// several hops are loaded, none of their cases is right. The second is the estimate of how much the queue reacts that
// also damps feedback (see damp). The replay has the rest.
func (s *Sampler) blend(path []int32, hops []slowdown.Hop, replayNS int64) int64 {
	var waits float64
	for h := range hops {
		waits += hops[h].MeanNS
	}
	trip, more := float64(route.RoundTripNS(s.model.Network, &s.model.Params, path)), 0.0
	for h := 1; h < len(hops); h++ {
		w := hops[h].MeanNS
		if w == 0 || hops[h].NS < 0 {
			continue
		}
		// The conversion keeps compilers from fusing the product and the sum: same bits on every machine.
		part := w / waits
		more += float64(part * part * (w / (w + trip)) * (hops[h].NS - float64(replayNS)))
	}
	return replayNS + int64(math.Round(more))
}

// longestWaitCase returns the delay of a flow by the case of the hop where its last packet waits longest; delayNS if
// there is none.
func longestWaitCase(hops []slowdown.Hop, delayNS int64) int64 {
	longest := int64(0)
	for _, hop := range hops {
		if hop.NS >= 0 && hop.LastNS > longest {
			longest, delayNS = hop.LastNS, int64(hop.NS)
		}
	}
	return delayNS
}
