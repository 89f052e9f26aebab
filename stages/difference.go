package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"parsimon/schema"
	"parsimon/stages/topology"
)

// Difference is what a failure adds to the FCT of one flow.
type Difference struct {
	Row     int64 // in table flows
	Failure int32 // place in the failures given to NewDetours
	NS      int64 // may be negative
	IdealNS int64 // ideal FCT on the flow's new path; 0 if its path is unchanged
	Lost    bool  // it has no path
}

// Differences simulates the links in [lo, hi) whose flows change under a failure: once without failures and once
// for each failure that changes which flows cross the link. It reads hops as Simulate does and appends, by link,
// the change of each flow's delay at the link. stats, by failure, counts the cases.
//
// This is a first-order estimate: links that the same flows cross are assumed to delay them as before, although
// the packets may arrive at other times.
func (s *Simulator) Differences(ctx context.Context, lo, hi int32, hops schema.Batches, d *Detours,
	stats []SimulateStats, out []Difference) ([]Difference, error) {
	if err := s.readInput(lo, hi, hops, d.Changed); err != nil {
		return out, err
	}
	s.input.feedbackAt = s.input.feedbackAt[:0]
	all := s.input.order
	defer func() { s.input.order = all }()
	for id := lo; id < hi; id++ {
		moves := d.moves[d.moveAt[id]:d.moveAt[id+1]]
		if len(moves) == 0 {
			continue
		}
		var err error
		rows := all[s.input.starts[id-lo]:s.input.starts[id-lo+1]]
		if out, err = s.linkDifferences(ctx, d, s.net.Links[id], rows, moves, stats, out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// linkDifferences appends the differences of one link, which the given rows cross without failures.
func (s *Simulator) linkDifferences(ctx context.Context, d *Detours, link topology.Link, rows []int32, moves []move,
	stats []SimulateStats, out []Difference) ([]Difference, error) {
	delays, err := s.caseDelays(ctx, link, rows, s.loads.AvailableBps(&s.params, link), &stats[moves[0].failure])
	if err != nil {
		return out, err
	}
	before := slices.Clone(delays) // by place in rows
	read := len(s.input.rows.link)
	for len(moves) > 0 {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		failure := moves[0].failure
		n := 0
		for n < len(moves) && moves[n].failure == failure {
			n++
		}
		var after []int32
		after, out = s.applyMoves(d, link, rows, before, moves[:n], out)
		delays, err := s.caseDelays(ctx, link, after, d.availableAfter(link, failure, s.loads), &stats[failure])
		if err != nil {
			return out, fmt.Errorf("%w, with failure %d", err, failure)
		}
		k := 0 // place in rows; rows that stay have the same order in after
		for i, row := range after {
			was := int64(0)
			if int(row) < read {
				for rows[k] != row {
					k++
				}
				was = before[k]
			}
			if delays[i] != was {
				out = append(out, Difference{Row: s.input.rows.flowRow[row], Failure: failure, NS: delays[i] - was})
			}
		}
		s.input.rows.truncate(read)
		moves = moves[n:]
	}
	return out, nil
}

// applyMoves returns the rows that cross a link with a failure, by flow row. Rows of flows that come to the link
// are appended to the input; flows that leave it are appended to out with the delay that they lose. moves are
// those of the failure, by flow row.
func (s *Simulator) applyMoves(d *Detours, link topology.Link, rows []int32, before []int64, moves []move,
	out []Difference) ([]int32, []Difference) {
	after := make([]int32, 0, len(rows)+len(moves))
	k := 0
	for _, m := range moves {
		f := &d.flows[m.flow]
		for k < len(rows) && s.input.rows.flowRow[rows[k]] < f.row {
			after = append(after, rows[k])
			k++
		}
		if m.hop == leaves {
			out = append(out, Difference{Row: f.row, Failure: m.failure, NS: -before[k]})
			k++
			continue
		}
		after = append(after, int32(len(s.input.rows.link)))
		s.input.rows.appendDetour(d, link, f, m.hop)
	}
	return append(after, rows[k:]...), out
}

// appendDetour appends the row of a flow that comes to a link, with the columns for estimator Flow.
func (h *caseRows) appendDetour(d *Detours, link topology.Link, f *detour, hop int16) {
	path := d.links[f.path : f.path+f.hops]
	prev, delayToLink := int32(-1), int64(0)
	for _, l := range path[:hop] {
		prev = l
		delayToLink += d.net.Links[l].DelayNS
	}
	h.link, h.firstLink, h.prevLink = append(h.link, link.ID), append(h.firstLink, path[0]), append(h.prevLink, prev)
	h.flowRow, h.flowID = append(h.flowRow, f.row), append(h.flowID, f.id)
	h.size, h.start = append(h.size, f.size), append(h.start, f.start)
	h.delayToLink, h.pathDelay = append(h.delayToLink, delayToLink), append(h.pathDelay, f.pathDelay)
	h.pathSend = append(h.pathSend, f.pathSend)
	up, down := slowestLinks(path, int(hop), func(l int32) int64 { return d.net.Links[l].BandwidthBps })
	h.upBps, h.downBps = append(h.upBps, up), append(h.downBps, down)
	h.betweenPS = append(h.betweenPS, between(path, int(hop), func(l int32) int64 { return d.net.Links[l].BandwidthBps }))
	h.hop, h.hops = append(h.hop, hop), append(h.hops, int16(f.hops))
}

// caseDelays simulates a link of the given available bandwidth with the given rows, and returns the delay of each: its
// FCT less its ideal FCT there. The result is valid until the next case.
func (s *Simulator) caseDelays(ctx context.Context, link topology.Link, rows []int32, availableBps int64,
	stats *SimulateStats) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	began := time.Now()
	s.input.order = rows
	if err := s.buildCase(link, 0, len(rows)); err != nil {
		return nil, err
	}
	s.c.TargetBps = availableBps
	s.c.Record = false
	if err := s.simulateCase(ctx, link, rows); err != nil {
		return nil, fmt.Errorf("link %d (%s): %w", link.ID, s.net.LinkName(link.ID), err)
	}
	took := time.Since(began).Nanoseconds()
	stats.Add(SimulateStats{
		Cases: 1, PacketHops: s.result.PacketsSent, KernelNS: took, LongestCaseNS: took, LongestLink: link.ID,
	})
	delays := s.result.FCTNS
	for i, ideal := range s.result.IdealNS {
		delays[i] -= ideal
	}
	return delays, nil
}

// Differences adds up the differences of each flow and failure, in any order, and adds what the new path does to
// the flows that change theirs. The result is by flow row and failure, in the memory of its argument.
func (d *Detours) Differences(of []Difference) []Difference {
	for i := range d.flows {
		f := &d.flows[i]
		of = append(of, Difference{Row: f.row, Failure: f.failure, IdealNS: f.ideal, Lost: f.hops == 0})
	}
	slices.SortFunc(of, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Failure, b.Failure))
	})
	sums := of[:0]
	for _, x := range of {
		if n := len(sums) - 1; n >= 0 && sums[n].Row == x.Row && sums[n].Failure == x.Failure {
			sums[n].NS += x.NS
			sums[n].IdealNS = max(sums[n].IdealNS, x.IdealNS)
			sums[n].Lost = sums[n].Lost || x.Lost
			continue
		}
		sums = append(sums, x)
	}
	return sums
}
