package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// replayIndex holds what estimator Flow found out about a chunk of flows.
type replayIndex struct {
	observed       observationIndex
	fctNS, idealNS []int64 // by flow, of the replay; fctNS -1: none

	blocks []simkernel.Block
	hops   []hopOfFlow // of the current flow
	out    []contributionRow
}

// hopOfFlow is what a flow's packets observed at a hop, and what the hop's link case says of the whole path.
type hopOfFlow struct {
	lastNS  int64   // wait of the last packet; 0 for hop 0, whose only wait is the NIC wait
	meanNS  float64 // wait, mean over the packets
	marks   int64
	delayNS int64 // of the flow, by the hop's case; -1: it has none
}

// SampleReplays is Sample for estimator Flow. It reads, for the chunk, table hop_observations of the last
// pass and table sender_fcts of the replay, in any order; rows of other flows are skipped.
// SampleStats.Cases has what another link case says of each flow: that of the hop where its last packet waits longest.
//
// A flow's delay is that of its replay and of its link cases (see blend). It is divided among the hops, for table
// hop_contributions: each hop contributes the wait of the flow's last packet there.
// Of the rest, what a window costs that is smaller than the path needs belongs to no hop (column window_ns). What
// remains, which the sender lost by reducing its rate, is divided in proportion to the hops' marks; if there are none,
// it belongs to hop 0, where the host's other flows compete with it.
func (s *Sampler) SampleReplays(ctx context.Context, firstRow, rows int64, flows, observed, senders schema.Batches,
	out, contributions schema.Sink) (SampleStats, error) {
	x := &s.replay
	x.out = x.out[:0]
	if err := x.observed.readObservations(firstRow, rows, observed); err != nil {
		return SampleStats{}, err
	}
	if err := x.readSenders(firstRow, rows, senders); err != nil {
		return SampleStats{}, err
	}
	stats, err := s.each(ctx, firstRow, rows, flows, out, func(f int, sizeBytes int64) ([]int32, int64, error) {
		hops, err := x.observed.hopsOf(f, firstRow)
		if err != nil || hops == 0 {
			return nil, 0, err
		}
		if x.fctNS[f] < 0 {
			return nil, 0, errors.New("no row in sender_fcts")
		}
		if err := s.readHops(f, hops, sizeBytes); err != nil {
			return nil, 0, err
		}
		delay := s.blend(x.fctNS[f] - x.idealNS[f])
		s.caseNS = s.longestWaitCase(delay)
		s.attribute(firstRow+int64(f), delay, sizeBytes)
		return s.path, delay, x.flush(contributions, columns.BatchRows)
	})
	if err != nil {
		return stats, err
	}
	return stats, x.flush(contributions, 0)
}

// flush writes the contributions if there are at least so many.
func (x *replayIndex) flush(contributions schema.Sink, least int) error {
	if len(x.out) < least {
		return nil
	}
	err := contributionTable.Write(contributions, x.out)
	x.out = x.out[:0]
	return err
}

// readSenders reads the chunk's rows of table sender_fcts.
func (x *replayIndex) readSenders(firstRow, rows int64, senders schema.Batches) error {
	x.fctNS, x.idealNS = resize(x.fctNS, int(rows)), resize(x.idealNS, int(rows))
	for i := range x.fctNS {
		x.fctNS[i] = -1
	}
	return columns.ForEach(senders, func(rec arrow.Record) error {
		fct, ideal := columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows {
				continue
			}
			if fct[i] < ideal[i] {
				return fmt.Errorf("sender_fcts: flow row %d has an FCT of %d ns, below its ideal FCT of %d ns", row,
					fct[i], ideal[i])
			}
			x.fctNS[f], x.idealNS[f] = fct[i], ideal[i]
		}
		return nil
	})
}

// readHops reads the observations of a flow of the chunk into s.path and s.replay.hops.
func (s *Sampler) readHops(f, hops int, sizeBytes int64) error {
	x, layout, packets := &s.replay, s.params.Layout(), s.params.Packets(sizeBytes)
	last := int(layout.Blocks(packets)) - 1
	s.path, x.hops = s.path[:0], x.hops[:0]
	for h := range hops {
		var err error
		if x.blocks, err = readBlocks(x.blocks[:0], x.observed.at(f, h)); err != nil {
			return fmt.Errorf("hop_observations, hop %d: %w", h, err)
		}
		hop := hopOfFlow{delayNS: x.observed.delayNS(f, h)}
		if h > 0 && last < len(x.blocks) {
			hop.lastNS = int64(x.blocks[last].WaitNS)
		}
		var sum int64
		for i := range x.blocks {
			if x.blocks[i] == (simkernel.Block{}) {
				continue
			}
			sum += layout.Packets(packets, int64(i)) * int64(x.blocks[i].WaitNS)
			hop.marks += int64(bits.OnesCount16(x.blocks[i].Marks))
		}
		hop.meanNS = float64(sum) / float64(packets)
		s.path, x.hops = append(s.path, x.observed.link(f, h)), append(x.hops, hop)
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
// several hops are loaded, none of their cases is right, and with the part itself p99.9 was 9% too low on a network of
// 40G hosts and 10G links. The second is the estimate of how much the queue reacts that also damps feedback (see
// damp). The replay has the rest.
func (s *Sampler) blend(replayNS int64) int64 {
	hops := s.replay.hops
	var waits float64
	for h := range hops {
		waits += hops[h].meanNS
	}
	trip, more := float64(roundTripNS(s.net, &s.params, s.path)), 0.0
	for h := 1; h < len(hops); h++ {
		w := hops[h].meanNS
		if w == 0 || hops[h].delayNS < 0 {
			continue
		}
		// The conversion keeps compilers from fusing the product and the sum: same bits on every machine.
		part := w / waits
		more += float64(part * part * (w / (w + trip)) * float64(hops[h].delayNS-replayNS))
	}
	return replayNS + int64(math.Round(more))
}

// longestWaitCase returns the delay of the current flow by the case of the hop where its last packet waits longest;
// delayNS if there is none.
func (s *Sampler) longestWaitCase(delayNS int64) int64 {
	longest := int64(0)
	for _, hop := range s.replay.hops {
		if hop.delayNS >= 0 && hop.lastNS > longest {
			longest, delayNS = hop.lastNS, hop.delayNS
		}
	}
	return delayNS
}

// attribute divides the delay of the current flow, a row of table flows, among its hops and its window.
func (s *Sampler) attribute(row, delayNS, sizeBytes int64) {
	x := &s.replay
	rest, allMarks := delayNS, int64(0)
	for h := range x.hops {
		hop := &x.hops[h]
		hop.lastNS = min(hop.lastNS, rest)
		rest -= hop.lastNS
		allMarks += hop.marks
	}
	s.window = min(s.windowNS(s.path, sizeBytes), rest)
	rest -= s.window
	for h, link := range s.path {
		hop, share := &x.hops[h], 0.0
		if allMarks > 0 {
			share = float64(rest) * (float64(hop.marks) / float64(allMarks))
		} else if h == 0 {
			share = float64(rest)
		}
		wait := float64(hop.lastNS)
		x.out = append(x.out, contributionRow{row, int16(h), int16(len(x.hops)), link, wait + share, wait})
	}
}
