package linksim

import (
	"fmt"
	"slices"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// crowdedPart sets how long a queue must be for a link case to record it: 1/crowdedPart of the buffer space
// of its port. Shorter queues leave other ports their space.
const crowdedPart = 8

// caseBuilder has the tables that buildCase uses to number the sources of a case, by link id.
type caseBuilder struct {
	caseNo      int32
	source      []int32 // by first link: index of the case's last source; valid where sourceOwner is caseNo
	sourceOwner []int32
	other       []int32 // by source of the case: index of another source of the same host, or -1
}

// buildCase builds the link case of the rows at positions [from, to) of the input's order (paper, §3.2).
func (s *Simulator) buildCase(link topology.Link, from, to int) error {
	r := s.input.rows
	c := &s.c
	b := &s.build
	clearCase(c)
	b.caseNo++
	b.other = b.other[:0]
	c.Record = s.Detail == Observations && !s.replays
	c.Behind = r[s.input.order[from]].Hop > 0
	c.RoomBytes = 0
	if c.Behind && s.Rooms != nil {
		c.RoomBytes = max(1, s.Rooms[link.ID]/crowdedPart)
	}
	c.TargetBps = s.links[link.ID].availableBps
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
			c.SlowestBps = append(c.SlowestBps, path.SlowestBps)
			c.RoundTripNS = append(c.RoundTripNS, path.RoundTripNS)
			c.SendNS = append(c.SendNS, path.SendNS)
		}
		if s.Detail == Observations {
			path := &s.input.paths[i]
			c.ReturnNS = append(c.ReturnNS, s.returnNS(link, r[i].FirstLink, path.PathSendNS))
			c.UpstreamBps = append(c.UpstreamBps, path.UpstreamBps)
			c.DownstreamBps = append(c.DownstreamBps, path.DownstreamBps)
			c.BetweenPS = append(c.BetweenPS, path.BetweenPS)
		}
	}
	return s.decodeFeedback(from, to)
}

// clearCase removes the sources and flows of a case and keeps the memory.
func clearCase(c *linkcase.Case) {
	c.SourceBps = c.SourceBps[:0]
	c.SourceDelayNS = c.SourceDelayNS[:0]
	c.Source = c.Source[:0]
	c.SizeBytes = c.SizeBytes[:0]
	c.StartNS = c.StartNS[:0]
	c.PathDelayNS = c.PathDelayNS[:0]
	c.ReturnNS = c.ReturnNS[:0]
	c.Feedback = c.Feedback[:0]
	c.FlowKey = c.FlowKey[:0]
	c.Hops = c.Hops[:0]
	c.SlowestBps = c.SlowestBps[:0]
	c.RoundTripNS = c.RoundTripNS[:0]
	c.SendNS = c.SendNS[:0]
	c.UpstreamBps = c.UpstreamBps[:0]
	c.DownstreamBps = c.DownstreamBps[:0]
	c.BetweenPS = c.BetweenPS[:0]
}

func (s *Simulator) pathOf(row int32) simkernel.Path {
	r := &s.input.rows[row]
	path := &s.input.paths[row]
	slowest := s.Network.Links[r.LinkID].BandwidthBps
	first := s.Network.Links[r.FirstLink].BandwidthBps
	for _, bps := range []int64{first, path.UpstreamBps, path.DownstreamBps} {
		if bps > 0 {
			slowest = min(slowest, bps)
		}
	}
	return simkernel.Path{
		Hops: int(r.Hops), SlowestBps: slowest,
		RoundTripNS: 2*r.PathDelayNS + path.PathSendNS, SendNS: path.PathSendNS,
	}
}

// sourceOf returns the index, in the case, of the row's source: the uplink of the flow's host. It adds the
// source if no earlier flow has it. Detail says which flows share a source.
func (s *Simulator) sourceOf(row int32) int32 {
	c := &s.c
	b := &s.build
	first := s.input.rows[row].FirstLink
	delay := s.input.rows[row].DelayToLinkNS
	other := int32(-1)
	if b.sourceOwner[first] == b.caseNo {
		other = b.source[first]
		for at := other; at >= 0; at = b.other[at] {
			if s.Detail == Delays || c.SourceDelayNS[at] == delay {
				return at
			}
		}
	}
	b.sourceOwner[first] = b.caseNo
	b.source[first] = int32(len(c.SourceBps))
	b.other = append(b.other, other)
	c.SourceBps = append(c.SourceBps, s.links[first].availableBps)
	c.SourceDelayNS = append(c.SourceDelayNS, delay)
	return b.source[first]
}

// decodeFeedback decodes the feedback of the rows into the case. Blocks that are not stored are zero.
func (s *Simulator) decodeFeedback(from, to int) error {
	in := &s.input
	c := &s.c
	given := func(place int32) bool { return place >= 0 }
	if len(in.feedbackAt) == 0 || !slices.ContainsFunc(in.feedbackAt[from:to], given) {
		return nil // zero blocks would give the same result, but the kernel is faster without feedback
	}
	layout := s.Params.Layout()
	for at := from; at < to; at++ {
		i := in.order[at]
		had := len(c.Feedback)
		want := had + int(layout.Blocks(s.Params.Packets(in.rows[i].SizeBytes)))
		place := in.feedbackAt[at]
		if place >= 0 {
			var err error
			if c.Feedback, err = ReadBlocks(c.Feedback, in.feedback.At(int(place))); err != nil {
				return fmt.Errorf("flow row %d: %w", in.rows[i].FlowRow, err)
			}
			had = len(c.Feedback)
			if had > want {
				return fmt.Errorf("flow row %d: %w", in.rows[i].FlowRow, ErrBlocks)
			}
		}
		c.Feedback = columns.Grow(c.Feedback, want-had)[:want]
		clear(c.Feedback[had:])
	}
	return nil
}

// returnNS returns the transmission times, in ns, of a full packet and its ACK on the links of the path that
// the case does not simulate. It simulates the source and the target.
func (s *Simulator) returnNS(link topology.Link, first int32, pathSendNS int64) int64 {
	left := pathSendNS - s.links[first].sendNS
	if link.ID != first {
		left -= s.links[link.ID].sendNS
	}
	return max(0, left)
}
