package stages

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// exactIndex holds what the whole-network simulation says of a chunk of flows: width places for each flow.
type exactIndex struct {
	startNS        []int64 // by flow: the start that came out
	moved          []movedFlow
	fctNS, idealNS []int64 // by flow; fctNS -1: it has no path
	hops, found    []int16 // by flow: length of its path, rows of exact_hops
	width          int
	link           []int32
	lastNS         []int64
	marks          []int32
}

// A movedFlow is what paths that move have done to a flow.
type movedFlow struct {
	idealNS          int64 // by so much its FCT was less than the ideal on its first path
	again, reordered int32 // packets
}

// ExactFCTColumns and ExactHopColumns name the columns of tables exact_fcts and exact_hops that SampleExact reads.
func ExactFCTColumns() []string {
	return []string{"flow_row", "start_ns", "hops", "ideal_ns", "fct_ns", "retransmissions", "reordered"}
}

// ExactHopColumns is explained at ExactFCTColumns.
func ExactHopColumns() []string {
	return []string{"flow_row", "hop", "link_id", "last_wait_ns", "packets_marked"}
}

// SampleExact is Sample for estimator WholeNetwork. It reads, for the chunk, tables exact_fcts and exact_hops of the
// simulation of the whole workload, in any order; rows of other flows are skipped. A flow's FCT is the simulated one.
// Its delay is divided among its hops as SampleReplays does it.
func (s *Sampler) SampleExact(ctx context.Context, firstRow, rows int64, flows, fcts, hops schema.Batches,
	out, contributions schema.Sink) (SampleStats, error) {
	x := &s.exact
	s.replay.out = s.replay.out[:0]
	s.caseNS = -1
	if err := x.readFCTs(firstRow, rows, fcts); err != nil {
		return SampleStats{}, err
	}
	if err := x.readHops(firstRow, rows, hops); err != nil {
		return SampleStats{}, err
	}
	stats, err := s.each(ctx, firstRow, rows, flows, out, func(f int, sizeBytes int64) ([]int32, int64, error) {
		if x.fctNS[f] < 0 {
			return nil, 0, nil
		}
		s.startNS = x.startNS[f]
		if x.found[f] != x.hops[f] {
			return nil, 0, fmt.Errorf("exact_hops has %d of its %d hops", x.found[f], x.hops[f])
		}
		s.path, s.replay.hops = s.path[:0], s.replay.hops[:0]
		for at := f * x.width; at < f*x.width+int(x.hops[f]); at++ {
			if x.link[at] < 0 || int(x.link[at]) >= len(s.net.Links) {
				return nil, 0, fmt.Errorf("exact_hops: link %d is not in the topology, which has %d links", x.link[at],
					len(s.net.Links))
			}
			s.path = append(s.path, x.link[at])
			s.replay.hops = append(s.replay.hops, hopOfFlow{lastNS: x.lastNS[at], marks: int64(x.marks[at]), delayNS: -1})
		}
		ideal := s.idealNS(s.path, sizeBytes)
		s.faster = x.moved[f]
		s.faster.idealNS = ideal - x.idealNS[f]
		if x.fctNS[f] < x.idealNS[f] || s.faster.idealNS < 0 || s.faster.idealNS > 0 && x.fctNS[f] != x.idealNS[f] {
			return nil, 0, fmt.Errorf("exact_fcts has an FCT of %d ns and an ideal FCT of %d ns; on this path it is %d ns",
				x.fctNS[f], x.idealNS[f], ideal)
		}
		delay := x.fctNS[f] - x.idealNS[f]
		s.attribute(firstRow+int64(f), delay, sizeBytes)
		return s.path, delay, s.replay.flush(contributions, columns.BatchRows)
	})
	if err != nil {
		return stats, err
	}
	return stats, s.replay.flush(contributions, 0)
}

// readFCTs reads the chunk's rows of table exact_fcts.
func (x *exactIndex) readFCTs(firstRow, rows int64, in schema.Batches) error {
	x.fctNS, x.idealNS, x.hops = resize(x.fctNS, int(rows)), resize(x.idealNS, int(rows)), resize(x.hops, int(rows))
	x.startNS, x.moved = resize(x.startNS, int(rows)), resize(x.moved, int(rows))
	for i := range x.fctNS {
		x.fctNS[i] = -1
	}
	x.width = 0
	return columns.ForEach(in, func(rec arrow.Record) error {
		fct, ideal, hops := columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns"), columns.Int16s(rec, "hops")
		start := columns.Int64s(rec, "start_ns")
		again, reordered := columns.Int32s(rec, "retransmissions"), columns.Int32s(rec, "reordered")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows || fct[i] == 0 && hops[i] == 0 { // the latter: a compute step
				continue
			}
			if fct[i] < 0 || hops[i] < 1 {
				return fmt.Errorf("exact_fcts: flow row %d has an FCT of %d ns over %d hops", row, fct[i], hops[i])
			}
			x.startNS[f], x.fctNS[f], x.idealNS[f], x.hops[f] = start[i], fct[i], ideal[i], hops[i]
			x.moved[f] = movedFlow{0, again[i], reordered[i]}
			x.width = max(x.width, int(hops[i]))
		}
		return nil
	})
}

// readHops reads the chunk's rows of table exact_hops.
func (x *exactIndex) readHops(firstRow, rows int64, in schema.Batches) error {
	n := int(rows) * x.width
	x.link, x.lastNS, x.marks = resize(x.link, n), resize(x.lastNS, n), resize(x.marks, n)
	x.found = resize(x.found, int(rows))
	clear(x.found)
	return columns.ForEach(in, func(rec arrow.Record) error {
		hop, link := columns.Int16s(rec, "hop"), columns.Int32s(rec, "link_id")
		last, marks := columns.Int64s(rec, "last_wait_ns"), columns.Int32s(rec, "packets_marked")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows {
				continue
			}
			if x.fctNS[f] < 0 || hop[i] < 0 || hop[i] >= x.hops[f] || last[i] < 0 || marks[i] < 0 {
				return fmt.Errorf("exact_hops: flow row %d has no hop %d, or a wait or marks below 0 there", row, hop[i])
			}
			at := int(f)*x.width + int(hop[i])
			x.link[at], x.lastNS[at], x.marks[at] = link[i], last[i], marks[i]
			x.found[f]++
		}
		return nil
	})
}
