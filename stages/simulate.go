package stages

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// SimulateStats counts what the simulation of some links did. Durations are wall-clock times and differ
// from run to run; everything else is a function of the input.
type SimulateStats struct {
	Cases         int64 `json:"cases"` // simulated; cached ones are not counted
	PacketHops    int64 `json:"packet_hops"`
	KernelNS      int64 `json:"kernel_ns"`
	LongestCaseNS int64 `json:"longest_case_ns"`
	LongestLink   int32 `json:"longest_link"`

	CachedCases int64 `json:"cached_cases"` // results found in a CaseStore
	CachedHops  int64 `json:"cached_packet_hops"`
	CachedNS    int64 `json:"cached_ns"`
}

// Add adds the counts of another range of links.
func (s *SimulateStats) Add(o SimulateStats) {
	s.Cases += o.Cases
	s.PacketHops += o.PacketHops
	s.KernelNS += o.KernelNS
	if o.LongestCaseNS > s.LongestCaseNS {
		s.LongestCaseNS, s.LongestLink = o.LongestCaseNS, o.LongestLink
	}
	s.CachedCases += o.CachedCases
	s.CachedHops += o.CachedHops
	s.CachedNS += o.CachedNS
}

// Simulator runs the link cases of one scenario, a range of links at a time. It reuses its memory and is
// used by one goroutine at a time.
type Simulator struct {
	SimulatorOptions
	kernel  *linkcase.Kernel
	replays bool // cases observe nothing

	input  caseInput
	build  caseBuilder
	cache  caseCache
	c      linkcase.Case // the current case
	result linkcase.Result

	observed columns.Arena // by flow of the current case: its observations, encoded
	share    float64       // feedbackShare of the current case

	delays       []hopDelayRow
	stats        []linkStatRow
	observations observationRows
	senders      []senderRow
}

// SimulatorOptions say which link cases a Simulator builds and runs.
type SimulatorOptions struct {
	Network *topology.Network
	Params  simkernel.Params
	Loads   *Loads
	// Estimator says how cases are built: for Independent as in the paper; for Flow also with the part of the round trip
	// that the case leaves out, and with feedback.
	Estimator Estimator
	// Rooms are those of limited buffers, by link; nil: they have no end.
	Rooms []int64
	// Cache stores results of link cases; nil: none.
	Cache   CaseStore
	Omitted Omitted // by Simulate
}

// NewSimulator returns a simulator.
func NewSimulator(o SimulatorOptions) (*Simulator, error) {
	k, err := linkcase.NewKernel(o.Params)
	if err != nil {
		return nil, err
	}
	links := len(o.Network.Links)
	s := &Simulator{SimulatorOptions: o, kernel: k,
		build: caseBuilder{source: make([]int32, links), sourceOwner: make([]int32, links)}}
	s.cache.hash = xxh3.New()
	s.cache.head, err = s.Params.AppendIdentity(nil)
	return s, err
}

// Simulate runs the link case of every link in [lo, hi) that carries flows.
//
// It reads hops, the rows of table hops of these links; rows of other links are skipped, and the rows of a link must
// come in the order of flow_row. For Flow it also reads feedback, the same rows of table feedback; nil for none. It
// writes table link_stats, one row for every link in [lo, hi), and to out, for Independent, table hop_delays by link
// and flow_row, or, for Flow, table hop_observations by flow_row and hop.
//
// The result of a link is a function of its own rows and of the loads, so it does not depend on the range or the
// worker. progress, if not nil, is called with the packet-hops of each finished case. Errors name the link.
func (s *Simulator) Simulate(ctx context.Context, lo, hi int32, hops, feedback schema.Batches,
	out, stats schema.Sink, progress func(packetHops int64)) (SimulateStats, error) {
	s.delays, s.stats = s.delays[:0], s.stats[:0]
	for _, link := range s.Network.Links[lo:hi] {
		s.stats = append(s.stats, s.Loads.stat(&s.Params, link, s.Omitted[link.ID]))
	}
	s.observations.reset()
	add := func(id int32, rows []int32, cached bool) error {
		s.stats[id-lo].linkCounters = s.counters(cached)
		if s.Estimator == Independent {
			return s.addDelays(rows, out)
		}
		s.observations.add(s, id, rows)
		return nil
	}
	done, err := s.run(ctx, lo, hi, hops, feedback, s.Omitted.Runs, progress, add)
	if err == nil && s.Estimator == Independent {
		err = s.flushDelays(out)
	} else if err == nil {
		err = s.observations.flush(out)
	}
	if err != nil {
		return done, err
	}
	return done, linkStatTable.Write(stats, s.stats)
}

// Replay runs the link cases of the hosts' uplinks in [lo, hi) with the feedback of the last pass (table
// sender_feedback) and writes table sender_fcts by flow_row: the FCT of each flow, as its sender observes it
// when the waits and marks of the whole path act on it. It reads hops as Simulate does.
func (s *Simulator) Replay(ctx context.Context, lo, hi int32, hops, feedback schema.Batches, out schema.Sink,
	progress func(packetHops int64)) (SimulateStats, error) {
	s.senders = s.senders[:0]
	s.replays = true
	defer func() { s.replays = false }()
	wants := s.Network.FromHost
	done, err := s.run(ctx, lo, hi, hops, feedback, wants, progress, func(_ int32, rows []int32, _ bool) error {
		for k, i := range rows {
			s.senders = append(s.senders, senderRow{s.input.rows[i].FlowRow, s.result.FCTNS[k], s.idealNS(k, i)})
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	rows := s.senders
	places := s.observations.sorter.byFlow(len(rows), func(i int) (int64, int16) { return rows[i].FlowRow, 0 })
	return done, senderTable.WriteOrdered(out, rows, places, nil)
}

// run simulates the wanted cases of [lo, hi) that have flows, one after the other, and calls done after each.
func (s *Simulator) run(ctx context.Context, lo, hi int32, hops, feedback schema.Batches, wants func(link int32) bool,
	progress func(packetHops int64), done func(link int32, rows []int32, cached bool) error) (SimulateStats, error) {
	var stats SimulateStats
	if err := s.readInput(lo, hi, hops, wants); err != nil {
		return stats, err
	}
	if err := s.input.readFeedback(lo, hi, feedback, wants); err != nil {
		return stats, err
	}
	for id := lo; id < hi; id++ {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		from, to := s.input.starts[id-lo], s.input.starts[id-lo+1]
		if from == to || !wants(id) {
			continue
		}
		link, rows := s.Network.Links[id], s.input.order[from:to]
		began, packets := time.Now(), s.Loads.Links[id].Packets
		cached, err := s.caseResult(link, int(from), int(to), packets)
		if err != nil {
			return stats, fmt.Errorf("link %d (%s): %w", id, s.Network.LinkName(id), err)
		}
		took := time.Since(began).Nanoseconds()
		if err := done(id, rows, cached); err != nil {
			return stats, err
		}
		if cached {
			stats.Add(SimulateStats{CachedCases: 1, CachedHops: packets, CachedNS: took, LongestCaseNS: took, LongestLink: id})
		} else {
			stats.Add(SimulateStats{Cases: 1, PacketHops: packets, KernelNS: took, LongestCaseNS: took, LongestLink: id})
		}
		if progress != nil {
			progress(packets)
		}
	}
	return stats, nil
}

// caseResult builds the case of the rows at places from..to-1 of the input's order, and brings s.result to its
// result, from the cache or by simulation.
func (s *Simulator) caseResult(link topology.Link, from, to int, packets int64) (cached bool, err error) {
	if err := s.buildCase(link, from, to); err != nil {
		return false, err
	}
	rows := s.input.order[from:to]
	if s.Cache == nil || packets < minCachedPackets {
		return false, s.simulateCase(rows)
	}
	key := s.caseKey()
	value, ok := s.Cache.Lookup(key, s.cache.value[:0])
	if s.cache.value = value; ok && s.decodeResult(value) == nil {
		return true, nil
	}
	if err := s.simulateCase(rows); err != nil {
		return false, err
	}
	s.cache.value = s.encodeResult(s.cache.value[:0])
	s.Cache.Store(key, s.cache.value)
	return false, nil
}

// omittedShare is the feedback_share up to which pass 2 omits a link's case. Another simulation could change the round
// trips of the link's flows by at most this share, and the second pass changes waits by 0.6 to 0.8 of it on networks at
// 40% to 80% load. Half of it costs 6% more processor time of link cases on scenario 47 and moves p50 to p99.9 by 0.3%
// at most there, on 95 and on 1001.
const omittedShare = 0.02

// feedbackShare returns how much the current case contributes to the feedback of its flows' other hops: the mean over
// the packets of wait / round trip without waits, plus the share of marked packets.
func (s *Simulator) feedbackShare(rows []int32) float64 {
	if !s.c.Record {
		return 0
	}
	in, layout, at := s.input.rows, s.Params.Layout(), 0
	var sum, all float64
	for _, i := range rows {
		packets, trip := s.Params.Packets(in[i].SizeBytes), float64(2*in[i].PathDelayNS+in[i].PathSendNS)
		for b := range layout.Blocks(packets) {
			o := &s.result.Observed[at]
			at++
			if o.WaitNS == 0 && o.Marks == 0 {
				continue
			}
			// The conversion keeps compilers from fusing the product and the sum: same bits on every machine.
			sum += float64(float64(layout.Packets(packets, b))*float64(o.WaitNS)) +
				float64(trip*float64(bits.OnesCount16(o.Marks)))
		}
		all += float64(float64(packets) * trip)
	}
	if all == 0 {
		return 0
	}
	return sum / all
}

// Omitted are the links whose cases do not run, with their counters in table link_stats: in pass 2 because their
// observations of pass 1 can stand (ReadOmitted), with clusters because others represent them (Represented).
type Omitted map[int32]linkCounters

// Runs reports whether the case of a link is not omitted.
func (o Omitted) Runs(link int32) bool {
	_, omitted := o[link]
	return !omitted
}

type caseStats struct {
	LinkID int32 `col:"link_id"`
	linkCounters
}

// ReadOmitted returns the links that pass 2 omits: those that matter so little to others that their feedback_share is
// up to omittedShare, and hosts' uplinks, whose queues no other host fills and which the replay simulates again. stats
// is table link_stats of pass 1.
func ReadOmitted(n *topology.Network, stats schema.Batches) (Omitted, error) {
	omitted := Omitted{}
	return omitted, columns.Each(stats, func(r *caseStats) error {
		if r.PacketsSent > 0 && (r.FeedbackShare <= omittedShare || n.FromHost(r.LinkID)) {
			r.CrowdedAtNS, r.CrowdedBytes = slices.Clone(r.CrowdedAtNS), slices.Clone(r.CrowdedBytes) // rows are of the batch
			omitted[r.LinkID] = r.linkCounters
		}
		return nil
	})
}

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
	c.SourceBps, c.SourceDelayNS = c.SourceBps[:0], c.SourceDelayNS[:0]
	c.Source, c.SizeBytes, c.StartNS, c.PathDelayNS = c.Source[:0], c.SizeBytes[:0], c.StartNS[:0], c.PathDelayNS[:0]
	c.ReturnNS, c.Feedback = c.ReturnNS[:0], c.Feedback[:0]
	c.FlowKey, c.Hops = c.FlowKey[:0], c.Hops[:0]
	c.SlowestBps, c.RoundTripNS = c.SlowestBps[:0], c.RoundTripNS[:0]
	c.UpstreamBps, c.DownstreamBps, c.BetweenPS = c.UpstreamBps[:0], c.DownstreamBps[:0], c.BetweenPS[:0]
	b.caseNo++
	b.other = b.other[:0]
	c.Record = s.Estimator == Flow && !s.replays
	c.Behind, c.RoomBytes = r[s.input.order[from]].Hop > 0, 0
	if c.Behind && s.Rooms != nil {
		c.RoomBytes = max(1, s.Rooms[link.ID]/crowdedPart)
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
	return s.decodeFeedback(from, to)
}

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

// decodeFeedback decodes the feedback of the rows into the case, all blocks of every flow.
func (s *Simulator) decodeFeedback(from, to int) error {
	in, c := &s.input, &s.c
	given := func(place int32) bool { return place >= 0 }
	if len(in.feedbackAt) == 0 || !slices.ContainsFunc(in.feedbackAt[from:to], given) {
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
	link := &s.Network.Links[r.LinkID]
	slowest := min(link.BandwidthBps, cmp.Or(r.DownstreamBps, link.BandwidthBps))
	flow := LinkLoad{Bytes: r.SizeBytes, Packets: s.Params.Packets(r.SizeBytes)}
	return ideal - int64(max(0, flow.busyNS(s.availableBps(r.LinkID), &s.Params)-flow.busyNS(slowest, &s.Params)))
}

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
		add := func(r *hopRow) error {
			if r.LinkID != link {
				link, wanted = r.LinkID, r.LinkID >= lo && r.LinkID < hi && want(r.LinkID)
			}
			if wanted {
				counts[link-lo]++
				in.rows = append(in.rows, *r)
			}
			return nil
		}
		var err error
		if s.Estimator == Independent && !s.Loads.Simultaneous && !s.Params.NeedsPaths() {
			err = columns.Each(hops, func(r *localHop) error { return add(&hopRow{localHop: *r}) })
		} else {
			err = columns.Each(hops, add)
		}
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
	in.order = columns.Resize(in.order, len(in.rows))
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
	in.feedbackAt = slices.Repeat([]int32{-1}, len(in.order))
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
			return fmt.Errorf("feedback: flow row %d does not cross link %d in table hops", r.Row, r.Link)
		}
		next[r.Link-lo] = at + 1
		in.feedbackAt[at] = n
		in.feedback.Add(r.Observed)
		n++
		return nil
	})
}

type givenRow struct {
	Link     int32  `col:"link_id"`
	Row      int64  `col:"flow_row"`
	Observed []byte `col:"observed"`
}

func (s *Simulator) addDelays(rows []int32, out schema.Sink) error {
	r, res := s.input.rows, &s.result
	s.delays = columns.Grow(s.delays, len(rows))
	for k, i := range rows {
		s.delays = append(s.delays, hopDelayRow{hopDelay{r[i].flowAtHop, res.FCTNS[k], s.idealNS(k, i)}, res.WaitNS[k]})
	}
	if len(s.delays) < columns.BatchRows {
		return nil
	}
	return s.flushDelays(out)
}

func (s *Simulator) flushDelays(out schema.Sink) error {
	err := hopDelayTable.Write(out, s.delays)
	s.delays = s.delays[:0]
	return err
}

func (s *Simulator) counters(cached bool) linkCounters {
	c := &s.result.Counters
	return linkCounters{
		c.PacketsSent, c.PacketsMarked, c.BusyNS, c.MaxQueueBytes, c.MaxQueueAtNS,
		// Little's law: the sum of waits is the number of waiting packets, integrated over time.
		c.WaitSumNS / float64(max(1, c.BusyNS)),
		c.WaitSumNS / float64(max(1, c.PacketsSent)), s.share, cached,
		slices.Clone(s.result.CrowdedAtNS), slices.Clone(s.result.CrowdedBytes),
	}
}

// CaseKey is the digest of everything that the result of a link case depends on: the version of the kernel,
// the transport's constants, and the case itself with its flows' starts relative to the first. Cases of the
// same key have the same result, in any scenario, run or link.
type CaseKey [16]byte

// CaseStore caches results of link cases. It is safe for use by several goroutines.
type CaseStore interface {
	// Lookup appends the result stored under the key to dst. ok is false if there is no verified result.
	Lookup(key CaseKey, dst []byte) (result []byte, ok bool)
	// Store keeps a copy of a result. It does not report failures: a run does not fail for them.
	Store(key CaseKey, result []byte)
}

// minCachedPackets is the least number of packets of a cached case. The kernel takes about 10 ns a packet; a
// lookup takes as long as about 500 packets, plus a part that grows with the number of flows and is a tenth
// of simulating them.
const minCachedPackets = 1000

type caseCache struct {
	hash   *xxh3.Hasher
	head   []byte  // first bytes of every case's digest
	starts []int64 // of the current case's flows, relative to the first
	value  []byte
}

// caseKey returns the digest of the current case: of all fields, in the byte order of the machine. The length of every
// column precedes it, so that different cases never have the same bytes.
func (s *Simulator) caseKey() CaseKey {
	m, c := &s.cache, s.c
	m.starts = m.starts[:0]
	for _, ns := range c.StartNS {
		m.starts = append(m.starts, ns-c.StartNS[0])
	}
	c.StartNS = m.starts
	m.hash.Reset()
	_, _ = m.hash.Write(m.head) // never fails
	for fields, i := reflect.ValueOf(&c).Elem(), 0; i < fields.NumField(); i++ {
		field, rows := fields.Field(i), 1
		at := field.Addr().UnsafePointer()
		typ := field.Type()
		if field.Kind() == reflect.Slice {
			rows, typ, at = field.Len(), typ.Elem(), field.UnsafePointer()
			_, _ = m.hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(rows)))
		}
		_, _ = m.hash.Write(unsafe.Slice((*byte)(at), rows*int(typ.Size())))
	}
	return m.hash.Sum128().Bytes()
}

// A stored result of a link case:
//
//	result   := counters share crowded flow*
//	counters := uvarint × 6      MaxQueueAtNS relative to the first start; 0 if nothing was queued
//	share    := 8 bytes          the case's feedbackShare
//	crowded  := uvarint(length) (uvarint(ns from the first start) uvarint(bytes))*
//	flow     := uvarint(ideal) uvarint(fct - ideal) uvarint(wait) uvarint(length) block*
//	block    := as in observations.go; none unless the case records observations

func (s *Simulator) encodeResult(b []byte) []byte {
	r, maxQueueAt := &s.result, int64(0)
	if r.MaxQueueBytes > 0 {
		maxQueueAt = r.MaxQueueAtNS - s.c.StartNS[0]
	}
	for _, x := range []int64{r.PacketsSent, r.PacketsMarked, r.BusyNS, r.MaxQueueBytes, maxQueueAt} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.WaitSumNS))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.share))
	b = binary.AppendUvarint(b, uint64(len(r.CrowdedAtNS)))
	for i, at := range r.CrowdedAtNS {
		b = binary.AppendUvarint(b, uint64(int64(at)-s.c.StartNS[0]))
		b = binary.AppendUvarint(b, uint64(r.CrowdedBytes[i]))
	}
	for i, fct := range r.FCTNS {
		observed := s.observed.At(i)
		for _, x := range []int64{r.IdealNS[i], fct - r.IdealNS[i], r.WaitNS[i], int64(len(observed))} {
			b = binary.AppendUvarint(b, uint64(x))
		}
		b = append(b, observed...)
	}
	return b
}

var errResult = errors.New("not the result of this link case")

// resultReader decodes numbers until the first error.
type resultReader struct {
	b      []byte
	failed bool
}

func (r *resultReader) next() int64 {
	v, n := binary.Uvarint(r.b)
	if r.failed = r.failed || n <= 0; r.failed {
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

func (r *resultReader) bytes(n int64) []byte {
	if r.failed = r.failed || n < 0 || n > int64(len(r.b)); r.failed {
		return make([]byte, 8)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// decodeResult sets s.result, s.share and s.observed to what b encodes. Bytes that are no result of the current case
// are an error.
func (s *Simulator) decodeResult(b []byte) error {
	r, c, in := &s.result, &s.c, resultReader{b: b}
	r.Counters = linkcase.Counters{
		PacketsSent: in.next(), PacketsMarked: in.next(), BusyNS: in.next(),
		MaxQueueBytes: in.next(), MaxQueueAtNS: in.next(),
	}
	if r.MaxQueueBytes > 0 {
		r.MaxQueueAtNS += c.StartNS[0]
	}
	r.WaitSumNS = math.Float64frombits(binary.LittleEndian.Uint64(in.bytes(8)))
	s.share = math.Float64frombits(binary.LittleEndian.Uint64(in.bytes(8)))
	r.CrowdedAtNS, r.CrowdedBytes = r.CrowdedAtNS[:0], r.CrowdedBytes[:0]
	for slots := in.next(); slots > 0 && !in.failed; slots-- {
		r.CrowdedAtNS = append(r.CrowdedAtNS, float64(in.next()+c.StartNS[0]))
		r.CrowdedBytes = append(r.CrowdedBytes, float64(in.next()))
	}
	n := len(c.StartNS)
	r.FCTNS, r.IdealNS, r.WaitNS = columns.Resize(r.FCTNS, n), columns.Resize(r.IdealNS, n), columns.Resize(r.WaitNS, n)
	s.observed.Reset()
	for i := range n {
		r.IdealNS[i] = in.next()
		r.FCTNS[i] = r.IdealNS[i] + in.next()
		r.WaitNS[i] = in.next()
		s.observed.Add(in.bytes(in.next()))
	}
	if in.failed || len(in.b) > 0 {
		return errResult
	}
	return nil
}
