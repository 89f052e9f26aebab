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

// A Difference is what a failure adds to the FCT of one flow.
type Difference struct {
	Row     int64 // the flow's row in table flows
	Failure int32 // place in the list given to NewDetours
	NS      int64
	IdealNS int64 // on its new path; 0: it has not moved
	Lost    bool  // it has no path any more
}

// Differences runs the cases of the links in [lo, hi) that some detour changes: once as they are, and once
// for each cable whose failure changes which flows cross them. It reads hops as Simulate does, and appends, by
// link, what a flow's own delay there is more, or less, than before; stats, by failure, counts the cases.
//
// This is a first-order answer: links whose flows stay the same are taken to delay them as before, however
// differently the packets come to them.
func (s *Simulator) Differences(ctx context.Context, lo, hi int32, hops schema.Batches, d *Detours, stats []SimulateStats, out []Difference) ([]Difference, error) {
	if err := s.readInput(lo, hi, hops, d.Changed); err != nil {
		return out, err
	}
	s.input.feedbackAt = s.input.feedbackAt[:0]
	rows, order := len(s.input.rows.link), s.input.order
	defer func() { s.input.order = order }()
	var before []int64 // by place in the link's order: the delay as things are
	var changed []int32
	for id := lo; id < hi; id++ {
		moves := d.moves[d.linkAt[id]:d.linkAt[id+1]]
		if len(moves) == 0 {
			continue
		}
		link := s.net.Links[id]
		observed := order[s.input.starts[id-lo]:s.input.starts[id-lo+1]]
		s.input.order = observed
		own, err := s.caseDelays(ctx, link, s.loads.Links[topology.Reverse(id)], &stats[moves[0].failure])
		if err != nil {
			return out, err
		}
		before = append(before[:0], own...)
		for len(moves) > 0 {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			failure := moves[0].failure
			n := 0
			for n < len(moves) && moves[n].failure == failure {
				n++
			}
			s.input.rows.truncate(rows)
			changed, out = s.moved(d, link, observed, before, moves[:n], changed[:0], out)
			s.input.order = changed
			if own, err = s.caseDelays(ctx, link, d.loadAfter(topology.Reverse(id), failure, s.loads.Links[topology.Reverse(id)]), &stats[failure]); err != nil {
				return out, fmt.Errorf("%w, after failure %d", err, failure)
			}
			k := 0 // changed and here have those that stay in the same order
			for i, at := range changed {
				was := int64(0)
				if int(at) < rows {
					for observed[k] != at {
						k++
					}
					was = before[k]
				}
				if own[i] != was {
					out = append(out, Difference{Row: s.input.rows.flowRow[at], Failure: failure, NS: own[i] - was})
				}
			}
			moves = moves[n:]
		}
	}
	return out, nil
}

// moved appends the link's rows as they are after the moves, which are by flow row; what a flow that leaves
// was delayed goes out. Rows of flows that come are put behind all others.
func (s *Simulator) moved(d *Detours, link topology.Link, observed []int32, before []int64, moves []move, rows []int32, out []Difference) ([]int32, []Difference) {
	k := 0
	for _, m := range moves {
		f := &d.flows[m.flow]
		for k < len(observed) && s.input.rows.flowRow[observed[k]] < f.row {
			rows = append(rows, observed[k])
			k++
		}
		if m.hop == leaves {
			out = append(out, Difference{Row: f.row, Failure: m.failure, NS: -before[k]})
			k++
			continue
		}
		rows = append(rows, int32(len(s.input.rows.link)))
		s.input.rows.join(d, link, f, m.hop)
	}
	return append(rows, observed[k:]...), out
}

// join appends the row of a flow that comes to a link, its columns for estimator Flow included.
func (h *caseRows) join(d *Detours, link topology.Link, f *detour, hop int16) {
	path := d.links[f.path : f.path+f.hops]
	prev, delayTo := int32(-1), int64(0)
	for _, l := range path[:hop] {
		prev = l
		delayTo += d.net.Links[l].DelayNS
	}
	h.link, h.firstLink, h.prevLink = append(h.link, link.ID), append(h.firstLink, path[0]), append(h.prevLink, prev)
	h.flowRow, h.flowID = append(h.flowRow, f.row), append(h.flowID, f.id)
	h.size, h.start = append(h.size, f.size), append(h.start, f.start)
	h.delayToLink, h.pathDelay, h.pathSend = append(h.delayToLink, delayTo), append(h.pathDelay, f.pathDelay), append(h.pathSend, f.pathSend)
	up, down := slowestLinks(path, int(hop), func(l int32) int64 { return d.net.Links[l].BandwidthBps })
	h.upBps, h.downBps = append(h.upBps, up), append(h.downBps, down)
	h.hop, h.hops = append(h.hop, hop), append(h.hops, int16(f.hops))
}

// caseDelays runs the case of the rows in s.input.order, the reverse link carrying that load, and returns what each is
// delayed: FCT less ideal FCT there.
func (s *Simulator) caseDelays(ctx context.Context, link topology.Link, reverse LinkLoad, stats *SimulateStats) ([]int64, error) {
	if len(s.input.order) == 0 {
		return nil, nil
	}
	began := time.Now()
	if err := s.buildCase(link, 0, len(s.input.order)); err != nil {
		return nil, err
	}
	s.c.TargetBps = availableBps(link.BandwidthBps, reverse, &s.params)
	s.c.Record = false
	if err := s.simulateCase(ctx, link, s.input.order); err != nil {
		return nil, fmt.Errorf("link %d (%d → %d): %w", link.ID, link.Src, link.Dst, err)
	}
	took := time.Since(began).Nanoseconds()
	stats.Add(SimulateStats{Cases: 1, PacketHops: s.result.PacketsSent, KernelNS: took, LongestCaseNS: took, LongestLink: link.ID})
	own := s.result.FCTNS
	for i, ideal := range s.result.IdealNS {
		own[i] -= ideal
	}
	return own, nil
}

// Differences adds up the differences of each flow and failure, which may come in any order, and what moving
// does to those that move. By flow row and failure.
func (d *Detours) Differences(of []Difference) []Difference {
	for i := range d.flows {
		f := &d.flows[i]
		of = append(of, Difference{Row: f.row, Failure: f.failure, IdealNS: f.ideal, Lost: f.hops == 0})
	}
	slices.SortFunc(of, func(a, b Difference) int { return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Failure, b.Failure)) })
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
