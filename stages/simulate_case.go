package stages

import (
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// caseBuilder holds what the cases of many links ask for again and again, by link id.
type caseBuilder struct {
	caseNo      int32
	source      []int32 // by first link: the last place among the case's sources, valid where sourceOwner is caseNo
	sourceOwner []int32
	other       []int32 // by source of the case: the place of another source of the same host; -1: none
}

// buildCase builds the link case of the rows at places from..to-1 of the input's order (paper, §3.2).
func (s *Simulator) buildCase(link topology.Link, from, to int) error {
	r, c, b := s.input.rows, &s.c, &s.build
	resetCase(c)
	b.caseNo++
	b.other = b.other[:0]
	c.Record = s.Estimator == Flow && !s.replays
	c.Kind = linkcase.Behind
	if from < to && r[s.input.order[from]].Hop == 0 {
		c.Kind = linkcase.FirstHop
	}
	c.TargetBps = s.availableBps(link.ID)
	traits := s.Params.Transport.Traits()
	c.MarkBytes, c.MaxMarkBytes = s.Params.MarkBytes(link.BandwidthBps, link.DelayNS)
	if traits.RandomMarks {
		c.MarkKey = simkernel.MarkKey(s.Params.Seed, link.ID)
	}
	for at := from; at < to; at++ {
		i := s.input.order[at]
		source := s.sourceOf(i)
		c.Source = append(c.Source, source)
		c.SizeBytes = append(c.SizeBytes, r[i].SizeBytes)
		if traits.RandomMarks {
			c.FlowKey = append(c.FlowKey, uint64(r[i].FlowRow))
		}
		if traits.UsesHops {
			c.Hops = append(c.Hops, r[i].Hops)
		}
		c.StartNS = append(c.StartNS, r[i].StartNS)
		c.PathDelayNS = append(c.PathDelayNS, max(r[i].PathDelayNS, c.SourceDelayNS[source]))
		if s.Params.NeedsPaths() {
			path := s.pathOf(i)
			c.SlowestBps, c.RoundTripNS = append(c.SlowestBps, path.SlowestBps), append(c.RoundTripNS, path.RoundTripNS)
		}
		if s.Estimator == Flow {
			c.ReturnNS = append(c.ReturnNS, s.returnNS(link, r[i].FirstLink, r[i].PathSendNS))
			c.UpstreamBps, c.DownstreamBps = append(c.UpstreamBps, r[i].UpstreamBps), append(c.DownstreamBps, r[i].DownstreamBps)
			c.BetweenPS = append(c.BetweenPS, r[i].BetweenPS)
		}
	}
	return s.addFeedback(from, to)
}

func resetCase(c *linkcase.Case) {
	c.SourceBps, c.SourceDelayNS = c.SourceBps[:0], c.SourceDelayNS[:0]
	c.Source, c.SizeBytes, c.StartNS, c.PathDelayNS = c.Source[:0], c.SizeBytes[:0], c.StartNS[:0], c.PathDelayNS[:0]
	c.ReturnNS, c.Feedback = c.ReturnNS[:0], c.Feedback[:0]
	c.FlowKey, c.Hops = c.FlowKey[:0], c.Hops[:0]
	c.SlowestBps, c.RoundTripNS = c.SlowestBps[:0], c.RoundTripNS[:0]
	c.UpstreamBps, c.DownstreamBps, c.BetweenPS = c.UpstreamBps[:0], c.DownstreamBps[:0], c.BetweenPS[:0]
}

// pathOf returns what the sender of a row knows of its path.
func (s *Simulator) pathOf(row int32) simkernel.Path {
	r := s.input.rows
	slowest := s.Network.Links[r[row].LinkID].BandwidthBps
	for _, bps := range []int64{s.Network.Links[r[row].FirstLink].BandwidthBps, r[row].UpstreamBps, r[row].DownstreamBps} {
		if bps > 0 {
			slowest = min(slowest, bps)
		}
	}
	return simkernel.Path{
		Hops: int(r[row].Hops), SlowestBps: slowest, RoundTripNS: 2*r[row].PathDelayNS + r[row].PathSendNS,
	}
}

// sourceOf returns the place of the row's source in the case, a host's uplink. It adds the source if the row is the
// first of its flows. For estimator Flow, a source is the packets of one host that reach the target with the same
// delay. For Independent, as in the paper, a host is one source, with the delay of its first flow.
func (s *Simulator) sourceOf(row int32) int32 {
	c, b := &s.c, &s.build
	first, delay, other := s.input.rows[row].FirstLink, s.input.rows[row].DelayToLinkNS, int32(-1)
	if b.sourceOwner[first] == b.caseNo {
		other = b.source[first]
		for at := other; at >= 0; at = b.other[at] {
			if s.Estimator == Independent || c.SourceDelayNS[at] == delay {
				return at
			}
		}
	}
	b.sourceOwner[first], b.source[first] = b.caseNo, int32(len(c.SourceBps))
	b.other = append(b.other, other)
	c.SourceBps = append(c.SourceBps, s.availableBps(first))
	c.SourceDelayNS = append(c.SourceDelayNS, delay)
	return b.source[first]
}

// addFeedback decodes the feedback of the rows into the case, all blocks of every flow.
func (s *Simulator) addFeedback(from, to int) error {
	in, c := &s.input, &s.c
	if len(in.feedbackAt) == 0 {
		return nil
	}
	none := true
	for _, place := range in.feedbackAt[from:to] {
		none = none && place < 0
	}
	if none {
		return nil // the same case as with zero blocks, but the kernel is faster without feedback
	}
	layout := s.Params.Layout()
	for at := from; at < to; at++ {
		i, had := in.order[at], len(c.Feedback)
		want := had + int(layout.Blocks(s.Params.Packets(in.rows[i].SizeBytes)))
		if place := in.feedbackAt[at]; place >= 0 {
			var err error
			if c.Feedback, err = readBlocks(c.Feedback, in.feedback.At(int(place))); err != nil {
				return fmt.Errorf("flow row %d: %w", in.rows[i].FlowRow, err)
			}
			if had = len(c.Feedback); had > want {
				return fmt.Errorf("flow row %d: %w", in.rows[i].FlowRow, errBlocks)
			}
		}
		c.Feedback = columns.Grow(c.Feedback, want-had)[:want]
		clear(c.Feedback[had:])
	}
	return nil
}

// availableBps returns a link's bandwidth less that of the ACKs on it.
func (s *Simulator) availableBps(id int32) int64 {
	return s.Loads.AvailableBps(&s.Params, s.Network.Links[id])
}

// idealNS returns the ideal FCT of flow k of the current case, in a row of the input. At its host's uplink ACKs that
// come while it sends (Loads.Simultaneous) are no part of that: they delay it.
func (s *Simulator) idealNS(k int, row int32) int64 {
	r, ideal := &s.input.rows[row], s.result.IdealNS[k]
	if !s.Loads.Simultaneous || r.Hop > 0 {
		return ideal
	}
	slowest := s.Network.Links[r.LinkID].BandwidthBps
	if r.DownstreamBps > 0 {
		slowest = min(slowest, r.DownstreamBps)
	}
	flow := LinkLoad{Bytes: r.SizeBytes, Packets: s.Params.Packets(r.SizeBytes)}
	return ideal - int64(max(0, flow.busyNS(s.availableBps(r.LinkID), &s.Params)-flow.busyNS(slowest, &s.Params)))
}

// sendNS returns the transmission time of a full packet on a link.
func (s *Simulator) sendNS(id int32) int64 {
	return s.Params.SendNS(s.Params.PayloadBytes+s.Params.HeaderBytes, s.Network.Links[id].BandwidthBps)
}

// returnNS returns the transmission times of a full packet and its ACK on those links of the path that the
// case does not simulate: all but the source and the target.
func (s *Simulator) returnNS(link topology.Link, first int32, pathSendNS int64) int64 {
	left := pathSendNS - s.sendNS(first)
	if link.ID != first {
		left -= s.sendNS(link.ID)
	}
	return max(0, left)
}

// simulateCase runs the current case, that of the given rows.
func (s *Simulator) simulateCase(rows []int32) error {
	if err := s.kernel.Simulate(&s.c, &s.result); err != nil {
		return err
	}
	if s.result.Unfinished > 0 {
		var ids []int64
		for k, i := range rows {
			if s.result.FCTNS[k] < 0 && len(ids) < 10 {
				ids = append(ids, s.input.rows[i].FlowID)
			}
		}
		return fmt.Errorf("%d flows do not finish within the longest time that the kernel can represent, "+
			"among them %v: the link is too slow for them", s.result.Unfinished, ids)
	}
	s.encodeObservations()
	s.share = s.feedbackShare(rows)
	return nil
}

// caseInput holds the rows of table hops of the links in [lo, hi), and their feedback.
type caseInput struct {
	rows   []hopRow
	order  []int32 // rows by link; those of a link stay in the order of flow_row
	starts []int32 // by link - lo: its first place in order; one more at the end

	feedback   columns.Arena // as encoded in the table
	feedbackAt []int32       // by place in order: place in feedback, -1 if there is none; empty: no feedback
}

// readInput reads the rows of the wanted links in [lo, hi) and sorts them by link (a stable counting sort).
func (s *Simulator) readInput(lo, hi int32, hops schema.Batches, want func(int32) bool) error {
	var expected int64
	for id := lo; id < hi; id++ {
		if want(id) {
			expected += s.Loads.Links[id].Flows
		}
	}
	in := &s.input
	in.rows = slices.Grow(in.rows[:0], int(expected))
	counts := make([]int32, hi-lo+1)
	if expected > 0 {
		link, wanted := int32(-1), false
		err := columns.Each(hops, func(r *hopRow) error {
			if r.LinkID != link {
				link, wanted = r.LinkID, r.LinkID >= lo && r.LinkID < hi && want(r.LinkID)
			}
			if wanted {
				counts[link-lo]++
				in.rows = append(in.rows, *r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	in.starts = append(in.starts[:0], 0)
	for i, n := range counts[:hi-lo] {
		in.starts = append(in.starts, in.starts[i]+n)
	}
	next := counts
	copy(next, in.starts)
	in.order = resize(in.order, len(in.rows))
	for i := range in.rows {
		place := &next[in.rows[i].LinkID-lo]
		in.order[*place] = int32(i)
		*place++
	}
	return nil
}

// readFeedback reads the feedback of the wanted links in [lo, hi), rows of the input in its order. What has no row has
// no feedback; nil stands for none at all.
func (in *caseInput) readFeedback(lo, hi int32, feedback schema.Batches, want func(int32) bool) error {
	in.feedback.Reset()
	in.feedbackAt = in.feedbackAt[:0]
	if feedback == nil || len(in.order) == 0 {
		return nil
	}
	next := slices.Clone(in.starts[:hi-lo])
	in.feedbackAt = resize(in.feedbackAt, len(in.order))
	for i := range in.feedbackAt {
		in.feedbackAt[i] = -1
	}
	n := int32(0)
	return columns.Each(feedback, func(r *givenRow) error {
		if r.Link < lo || r.Link >= hi || !want(r.Link) {
			return nil
		}
		at, end := next[r.Link-lo], in.starts[r.Link-lo+1]
		for at < end && in.rows[in.order[at]].FlowRow < r.Row {
			at++
		}
		if at == end || in.rows[in.order[at]].FlowRow != r.Row {
			return fmt.Errorf("feedback: flow row %d is on link %d, which is not so in table hops", r.Row, r.Link)
		}
		next[r.Link-lo] = at + 1
		in.feedbackAt[at] = n
		in.feedback.Add(r.Observed)
		n++
		return nil
	})
}

// givenRow are the columns of tables feedback and sender_feedback that Simulate and Replay read.
type givenRow struct {
	Link     int32  `col:"link_id"`
	Row      int64  `col:"flow_row"`
	Observed []byte `col:"observed"`
}
