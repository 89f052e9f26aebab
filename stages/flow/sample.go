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
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// A Sampler computes the FCT of each flow from its replay and its link cases. It reuses its memory and must
// not be used by several goroutines at a time.
type Sampler struct {
	model     *step.Model
	slowdowns slowdown.Writer

	paths    []tables.FlowPath // by flow of the chunk
	observed observationIndex
	senders  []sender // by flow of the chunk
	cases    confidence.CaseSlowdowns

	// Of the current flow: hop 0 and the hops that observed anything, in the order of the path.
	hops   []hopAt
	shares []slowdown.Hop
	blocks []simkernel.Block // of one of them
}

// A hopAt is what is known about a flow at a hop.
type hopAt struct {
	slowdown.Hop
	meanNS float64 // average wait of the packets
	caseNS int64   // delay in the link case of the hop; below 0: it has none
}

// A sender has the FCT of a flow in the replay of its host's uplink. It is below 0 if the flow was not
// replayed.
type sender struct{ fctNS, idealNS int64 }

// NewSampler returns a sampler for flows of a scenario.
func NewSampler(m *step.Model) *Sampler {
	return &Sampler{model: m, observed: observationIndex{links: len(m.Network.Links)}}
}

// Observed is what Sample reads for a chunk of flows: what route wrote about the chunk, with table hops,
// table hop_observations of all passes, the last one first, and table sender_fcts of the replay. The last two
// may be in any order. Their rows of flows of other chunks are skipped.
type Observed struct {
	Routed                slowdown.Routed
	Hops                  schema.Batches
	Observations, Senders schema.Batches
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
	if err := s.read(c, in); err != nil {
		return err
	}
	s.cases = confidence.CaseSlowdowns{}
	err := s.slowdowns.Write(ctx, c, out.Sink, func(f int, sizeBytes int64, to *slowdown.Flow) error {
		path := &s.paths[f]
		replayed := s.senders[f].fctNS >= 0
		switch {
		case path.Hops == 0 && replayed:
			return errors.New("no row in flow_paths")
		case path.Hops == 0:
			return nil
		case !replayed:
			return errors.New("no row in sender_fcts")
		}
		if err := s.decode(f, sizeBytes); err != nil {
			return err
		}
		to.Hops = path.Hops
		to.IdealNS = path.IdealNS
		to.DelayNS = blend(s.hops, path.RoundTripNS, s.senders[f].fctNS-s.senders[f].idealNS)
		caseNS := longestWaitCase(s.hops, to.DelayNS)
		if caseNS >= 0 {
			s.cases.Count(sizeBytes, float64(to.IdealNS+caseNS)/float64(to.IdealNS))
		}
		s.shares = s.shares[:0]
		for h := range s.hops {
			s.shares = append(s.shares, s.hops[h].Hop)
		}
		s.slowdowns.Attribute(c.FirstRow+int64(f), path.WindowNS, s.shares, to)
		return nil
	})
	if err != nil {
		return err
	}
	return s.cases.Write(out.Cases)
}

func (s *Sampler) read(c slowdown.Chunk, in Observed) (err error) {
	if s.paths, err = c.ReadPaths(s.paths, in.Routed); err != nil {
		return err
	}
	if err := s.observed.read(c, in.Observations); err != nil {
		return err
	}
	// The links are those of hop_contributions. The feedback of senders depends on none but the first.
	if err := s.observed.check(in.Hops); err != nil {
		return err
	}
	return s.readSenders(c.FirstRow, c.Rows, in.Senders)
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

// decode sets hops to what the packets of flow f of the chunk observed.
func (s *Sampler) decode(f int, sizeBytes int64) error {
	path := &s.paths[f]
	rows, err := s.observed.Of(f, int(path.Hops), []int32{path.FirstLink})
	if err != nil {
		return err
	}
	s.hops = append(s.hops[:0], hopAt{Hop: slowdown.Hop{Link: path.FirstLink}})
	for _, row := range rows {
		r := &s.observed.rows[row]
		if s.blocks, err = s.observed.blocks(s.blocks[:0], f, row); err != nil {
			return err
		}
		at := s.hopOf(sizeBytes, r.hop)
		at.Link = r.link
		at.caseNS = r.delayNS
		if r.hop == 0 {
			s.hops[0] = at
		} else {
			s.hops = append(s.hops, at)
		}
	}
	return nil
}

// hopOf summarizes the current blocks, which a flow observed at a hop.
func (s *Sampler) hopOf(sizeBytes int64, hop int16) hopAt {
	at := hopAt{Hop: slowdown.Hop{Index: hop}}
	layout := s.model.Params.Layout()
	packets := s.model.Params.Packets(sizeBytes)
	last := int(layout.Blocks(packets)) - 1
	// If buffers are limited, a packet that waits longer than a full buffer lasts would be dropped
	limited := !s.model.Buffers.IsZero()
	if hop > 0 && last < len(s.blocks) {
		at.LastNS = int64(s.blocks[last].WaitNS)
	}
	var sum int64
	for i := range s.blocks {
		if s.blocks[i] == (simkernel.Block{}) {
			continue
		}
		if limited {
			at.LongestNS = max(at.LongestNS, int64(s.blocks[i].WaitNS))
		}
		sum += layout.Packets(packets, int64(i)) * int64(s.blocks[i].WaitNS)
		at.Marks += int64(bits.OnesCount16(s.blocks[i].Marks))
	}
	at.meanNS = float64(sum) / float64(packets)
	return at
}

// blend returns the delay of a flow in ns: a weighted mean of its delay in the replay of its host's
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
func blend(hops []hopAt, roundTripNS, replayNS int64) int64 {
	var waits float64
	for h := range hops {
		waits += hops[h].meanNS
	}
	more := 0.0
	for h := range hops {
		w := hops[h].meanNS
		if hops[h].Index == 0 || w == 0 || hops[h].caseNS < 0 {
			continue
		}
		// The conversion prevents compilers from fusing the product and the sum, so that every machine
		// computes the same bits.
		part := w / waits
		late := float64(hops[h].caseNS) - float64(replayNS)
		more += float64(part * part * (w / (w + float64(roundTripNS))) * late)
	}
	return replayNS + int64(math.Round(more))
}

// longestWaitCase returns the delay of a flow, in ns, in the case of the hop where its last packet waits
// longest. It returns delayNS if the packet waits at no hop.
func longestWaitCase(hops []hopAt, delayNS int64) int64 {
	longest := int64(0)
	for h := range hops {
		if hops[h].caseNS >= 0 && hops[h].LastNS > longest {
			longest = hops[h].LastNS
			delayNS = hops[h].caseNS
		}
	}
	return delayNS
}
