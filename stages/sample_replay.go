package stages

import (
	"context"
	"errors"
	"fmt"
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

	blocks       []simkernel.Block
	marks, waits []int64 // of the current flow, by hop
	out          contributionRows
}

// SampleReplays is Sample for estimator Flow. It reads, for the chunk, table hop_observations of the last
// pass and table sender_fcts of the replay, in any order; rows of other flows are skipped. SampleStats.Cases has what
// another link case says of each flow: that of the hop where its last packet waits longest.
//
// A flow's delay is the FCT less the ideal FCT of its replay. The delay is divided among the hops, for
// table hop_contributions: each hop contributes the wait of the flow's last packet there. The rest, which
// the sender lost by reducing its rate, is divided in proportion to the hops' marks; if there are none, it
// belongs to hop 0, where the host's other flows compete with it.
func (s *Sampler) SampleReplays(ctx context.Context, firstRow, rows int64, flows, observed, senders schema.Batches,
	out, contributions schema.Sink) (SampleStats, error) {
	x := &s.replay
	x.out.reset()
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
		delay := x.fctNS[f] - x.idealNS[f]
		if err := s.attribute(firstRow, f, hops, sizeBytes, delay); err != nil {
			return nil, 0, err
		}
		if len(x.out.flowRow) >= columns.BatchRows {
			if err := x.out.flush(contributions); err != nil {
				return nil, 0, err
			}
		}
		return s.path, delay, nil
	})
	if err != nil {
		return stats, err
	}
	return stats, x.out.flush(contributions)
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

// attribute divides a flow's delay among its hops and leaves its path in s.path.
func (s *Sampler) attribute(firstRow int64, f, hops int, sizeBytes, delayNS int64) error {
	x := &s.replay
	s.caseNS = delayNS
	longest := int64(0)
	last := int(s.params.Layout().Blocks(s.params.Packets(sizeBytes))) - 1
	s.path, x.marks, x.waits = s.path[:0], x.marks[:0], x.waits[:0]
	rest, allMarks := delayNS, int64(0)
	for h := range hops {
		var err error
		if x.blocks, err = readBlocks(x.blocks[:0], x.observed.at(f, h)); err != nil {
			return fmt.Errorf("hop_observations, hop %d: %w", h, err)
		}
		var wait, marks int64
		if h > 0 && last < len(x.blocks) {
			wait = int64(x.blocks[last].WaitNS)
			if delay := x.observed.delayNS(f, h); delay >= 0 && wait > longest {
				longest, s.caseNS = wait, delay
			}
			wait = min(wait, rest)
		}
		for i := range x.blocks {
			marks += int64(bits.OnesCount16(x.blocks[i].Marks))
		}
		rest -= wait
		allMarks += marks
		s.path, x.marks, x.waits = append(s.path, x.observed.link(f, h)), append(x.marks, marks), append(x.waits, wait)
	}
	for h, link := range s.path {
		share := 0.0
		if allMarks > 0 {
			share = float64(rest) * (float64(x.marks[h]) / float64(allMarks))
		} else if h == 0 {
			share = float64(rest)
		}
		wait := float64(x.waits[h])
		x.out.append(firstRow+int64(f), int16(h), int16(hops), link, wait+share, wait)
	}
	return nil
}
