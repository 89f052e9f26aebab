package stages

import (
	"fmt"

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
	sources     []caseSource // of the case
	feeder      []int32      // place among the case's feeders, valid where feederOwner is caseNo
	feederOwner []int32
}

func newCaseBuilder(links int) caseBuilder {
	return caseBuilder{source: make([]int32, links), sourceOwner: make([]int32, links), feeder: make([]int32, links),
		feederOwner: make([]int32, links)}
}

// buildCase builds the link case of the rows at places from..to-1 of the input's order (paper, §3.2).
func (s *Simulator) buildCase(link topology.Link, from, to int) error {
	r, c, b := s.input.rows, &s.c, &s.build
	resetCase(c)
	b.caseNo++
	b.sources = b.sources[:0]
	c.Record = s.estimator == Flow && !s.replays
	c.Kind = linkcase.Behind
	if from < to && r[s.input.order[from]].Hop == 0 {
		c.Kind = linkcase.FirstHop
	}
	c.TargetBps = s.availableBps(link.ID)
	traits := s.params.Transport.Traits()
	c.MarkBytes, c.MaxMarkBytes = s.params.MarkBytes(link.BandwidthBps, link.DelayNS)
	if traits.RandomMarks {
		c.MarkKey = simkernel.MarkKey(s.params.Seed, link.ID)
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
		if s.params.NeedsPaths() {
			path := s.pathOf(i)
			c.SlowestBps, c.RoundTripNS = append(c.SlowestBps, path.SlowestBps), append(c.RoundTripNS, path.RoundTripNS)
		}
		if s.estimator == Flow {
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
	c.Feeder, c.FeederBps, c.ReturnNS, c.Feedback = c.Feeder[:0], c.FeederBps[:0], c.ReturnNS[:0], c.Feedback[:0]
	c.FlowKey, c.Hops = c.FlowKey[:0], c.Hops[:0]
	c.SlowestBps, c.RoundTripNS = c.SlowestBps[:0], c.RoundTripNS[:0]
	c.UpstreamBps, c.DownstreamBps, c.BetweenPS = c.UpstreamBps[:0], c.DownstreamBps[:0], c.BetweenPS[:0]
}

// pathOf returns what the sender of a row knows of its path.
func (s *Simulator) pathOf(row int32) simkernel.Path {
	r := s.input.rows
	slowest := s.net.Links[r[row].LinkID].BandwidthBps
	for _, id := range []int32{r[row].FirstLink, r[row].PrevLink} {
		if id >= 0 {
			slowest = min(slowest, s.net.Links[id].BandwidthBps)
		}
	}
	for _, bps := range []int64{r[row].UpstreamBps, r[row].DownstreamBps} {
		if bps > 0 {
			slowest = min(slowest, bps)
		}
	}
	return simkernel.Path{
		Hops: int(r[row].Hops), SlowestBps: slowest, RoundTripNS: 2*r[row].PathDelayNS + r[row].PathSendNS,
	}
}

// A caseSource is a source of a case for estimator Flow: packets of one host that reach the target over the same
// link and with the same delay. For Independent, as in the paper, a host is one source, with the delay of its first
// flow.
type caseSource struct {
	prev    int32 // the link before the target
	delayNS int64
	other   int32 // the place of another source of the same host; -1: none
}

// sourceOf returns the place of the row's source in the case, a host's uplink. It adds the source if the row
// is the first of its flows.
func (s *Simulator) sourceOf(row int32) int32 {
	r, c, b := s.input.rows, &s.c, &s.build
	first, delay := r[row].FirstLink, r[row].DelayToLinkNS
	prev, other := int32(-1), int32(-1)
	if s.estimator == Flow {
		prev = r[row].PrevLink
	}
	if b.sourceOwner[first] == b.caseNo {
		other = b.source[first]
		if s.estimator != Flow {
			return other
		}
		for at := other; at >= 0; at = b.sources[at].other {
			if b.sources[at].prev == prev && b.sources[at].delayNS == delay {
				return at
			}
		}
	}
	b.sourceOwner[first], b.source[first] = b.caseNo, int32(len(c.SourceBps))
	b.sources = append(b.sources, caseSource{prev, delay, other})
	c.SourceBps = append(c.SourceBps, s.availableBps(first))
	c.SourceDelayNS = append(c.SourceDelayNS, delay)
	if s.estimator == Flow && c.Kind == linkcase.Behind {
		c.Feeder = append(c.Feeder, s.feederOf(prev, first))
	}
	return b.source[first]
}

// feederOf returns the place in the case of the link before the target; -1 if that is the source itself.
func (s *Simulator) feederOf(prev, first int32) int32 {
	if prev == first {
		return -1
	}
	b := &s.build
	if b.feederOwner[prev] != b.caseNo {
		b.feederOwner[prev], b.feeder[prev] = b.caseNo, int32(len(s.c.FeederBps))
		s.c.FeederBps = append(s.c.FeederBps, s.availableBps(prev))
	}
	return b.feeder[prev]
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
	layout := s.params.Layout()
	for at := from; at < to; at++ {
		i, had := in.order[at], len(c.Feedback)
		want := had + int(layout.Blocks(s.params.Packets(in.rows[i].SizeBytes)))
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
	return s.loads.AvailableBps(&s.params, s.net.Links[id])
}

// sendNS returns the transmission time of a full packet on a link.
func (s *Simulator) sendNS(id int32) int64 {
	return s.params.SendNS(s.params.PayloadBytes+s.params.HeaderBytes, s.net.Links[id].BandwidthBps)
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
