// Package linksim builds the link case of each link from the hops of its flows, simulates it, and writes the
// results.
package linksim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// Stats counts the work of simulating some links. Durations are wall-clock times and differ from run to run.
// All other fields depend only on the input.
type Stats struct {
	Cases         int64 `json:"cases"` // simulated; cached cases are not counted
	PacketHops    int64 `json:"packet_hops"`
	KernelNS      int64 `json:"kernel_ns"`
	LongestCaseNS int64 `json:"longest_case_ns"`
	LongestLink   int32 `json:"longest_link"`

	CachedCases int64 `json:"cached_cases"` // results found in a CaseStore
	CachedHops  int64 `json:"cached_packet_hops"`
	CachedNS    int64 `json:"cached_ns"`
}

// Add adds the counts of another range of links.
func (s *Stats) Add(o Stats) {
	s.Cases += o.Cases
	s.PacketHops += o.PacketHops
	s.KernelNS += o.KernelNS
	if o.LongestCaseNS > s.LongestCaseNS {
		s.LongestCaseNS = o.LongestCaseNS
		s.LongestLink = o.LongestLink
	}
	s.CachedCases += o.CachedCases
	s.CachedHops += o.CachedHops
	s.CachedNS += o.CachedNS
}

// A Simulator runs the link cases of one scenario, one range of links at a time. It reuses its memory and
// must not be used by several goroutines at a time.
type Simulator struct {
	Options
	kernel  *linkcase.Kernel
	replays bool // cases record no observations

	input  caseInput
	build  caseBuilder
	cache  caseCache
	c      linkcase.Case // the current case
	result linkcase.Result

	links []linkTimes // by link id

	observed columns.Arena // encoded observations, by flow of the current case
	share    float64       // of the current case: see setObserved

	delays       []HopDelay // of the current case
	stats        []tables.LinkStat
	observations observationRows
	senders      []tables.SenderFCT
}

// linkTimes is what the cases of other links know of a link.
type linkTimes struct {
	availableBps int64 // Loads.AvailableBps
	sendNS       int64 // transmission time of a full packet
}

// Detail says how much a link case knows of the paths of its flows, and what it records.
type Detail uint8

const (
	// Delays builds cases as in the paper: each host is one source, with the delay of its first flow.
	Delays Detail = iota
	// Observations builds cases that also know the rest of each flow's round trip and accept feedback. The
	// flows of a host that reach the link with the same delay share a source. Simulate writes table
	// hop_observations.
	Observations
)

// Options say which link cases a Simulator builds and how it runs them.
type Options struct {
	*step.Model
	Loads *route.Loads
	// Detail says how much a case knows of its flows' paths, and what it records.
	Detail Detail
	// Rooms has the buffer space of each link in bytes, by link id. It is nil if buffers are unlimited.
	Rooms []int64
	// Cache stores results of link cases. It may be nil.
	Cache   CaseStore
	Omitted Omitted // links whose cases Simulate does not run
	// Progress, if not nil, is called with the packet-hops of each finished case.
	Progress func(packetHops int64)
}

// New returns a simulator.
func New(o Options) (*Simulator, error) {
	k, err := linkcase.NewKernel(o.Params)
	if err != nil {
		return nil, err
	}
	links := len(o.Network.Links)
	s := &Simulator{Options: o, kernel: k,
		build: caseBuilder{source: make([]int32, links), sourceOwner: make([]int32, links)}}
	for _, link := range o.Network.Links {
		full := s.Params.PayloadBytes + s.Params.HeaderBytes
		s.links = append(s.links, linkTimes{
			availableBps: o.Loads.AvailableBps(&s.Params, link),
			sendNS:       s.Params.SendNS(full, link.BandwidthBps),
		})
	}
	s.cache.hash = xxh3.New()
	s.cache.head, err = s.Params.AppendIdentity(nil)
	return s, err
}

// Input is what the simulation of some links reads: table hops and, if it is not nil, table feedback. In
// both, the rows of a link must be in the order of flow_row. Rows of other links are skipped.
type Input struct {
	Hops, Feedback schema.Batches
}

// A HopDelay is what a link case finds about one of its flows.
type HopDelay struct {
	tables.FlowAtHop
	FCTNS   int64 // in the link case
	IdealNS int64 // of the flow alone in the link case
}

// A DelaySink receives the delays that the link cases of a task find.
type DelaySink interface {
	// Begin begins a task.
	Begin(t step.Task)
	// AddLink adds the flows of a link, by flow_row. Links are added in ascending order. hops is valid until
	// AddLink returns.
	AddLink(hops []HopDelay) error
	// End ends a task whose links have all been added.
	End() error
}

// Simulate runs the link cases of a range of links with Observations. It skips links without flows and
// omitted links. It writes a row of table link_stats for every link of the range, and table hop_observations
// by flow_row and hop. Most flows observe nothing at most hops. These hops have no row if they have no
// delay either, except with feedback, because the row replaces that of the pass before.
//
// The result of a link depends only on its own rows and the loads, so it does not depend on the range or the
// worker. Errors name the link.
func (s *Simulator) Simulate(
	ctx context.Context, links step.Range, in Input, observations, stats schema.Sink,
) (Stats, error) {
	s.observations.reset()
	s.observations.whole = in.Feedback != nil
	add := func(id int32, rows []int32) error {
		s.observations.add(s, id, rows)
		return nil
	}
	done, err := s.runAll(ctx, links, in, add, stats)
	if err != nil {
		return done, err
	}
	return done, s.observations.flush(observations)
}

// SimulateDelays is Simulate with Delays. It passes the delays of each link to sink.
func (s *Simulator) SimulateDelays(
	ctx context.Context, links step.Range, hops schema.Batches, sink DelaySink, stats schema.Sink,
) (Stats, error) {
	add := func(_ int32, rows []int32) error {
		s.setDelays(rows)
		return sink.AddLink(s.delays)
	}
	done, err := s.runAll(ctx, links, Input{Hops: hops}, add, stats)
	if err != nil {
		return done, err
	}
	return done, sink.End()
}

// runAll runs the cases of a range that are not omitted, calls add after each, and writes table link_stats.
func (s *Simulator) runAll(
	ctx context.Context, links step.Range, in Input, add func(id int32, rows []int32) error,
	stats schema.Sink,
) (Stats, error) {
	s.stats = s.stats[:0]
	for _, link := range s.Network.Links[links.Lo:links.Hi] {
		s.stats = append(s.stats, s.Loads.Stat(&s.Params, link, s.Omitted[link.ID]))
	}
	done, err := s.run(ctx, links, in, s.Omitted.Runs, func(id int32, rows []int32, cached bool) error {
		s.stats[int64(id)-links.Lo].LinkCounters = s.counters(cached)
		return add(id, rows)
	})
	if err != nil {
		return done, err
	}
	return done, tables.LinkStats.Write(stats, s.stats)
}

// Replay runs the link cases of the hosts' uplinks of a range with the feedback of the last pass (table
// sender_feedback). It writes table sender_fcts by flow_row. An FCT is that which the sender observes if it
// is subject to the waits and marks of the whole path.
func (s *Simulator) Replay(ctx context.Context, links step.Range, in Input, out schema.Sink) (Stats, error) {
	s.senders = s.senders[:0]
	s.replays = true
	defer func() { s.replays = false }()
	done, err := s.run(ctx, links, in, s.Network.FromHost, func(_ int32, rows []int32, _ bool) error {
		for k, i := range rows {
			s.senders = append(s.senders, tables.SenderFCT{
				FlowRow: s.input.rows[i].FlowRow, FCTNS: s.result.FCTNS[k], IdealNS: s.idealNS(k, i),
			})
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	rows := s.senders
	places := s.observations.sorter.ByFlow(len(rows), func(i int) (int64, int16) {
		return rows[i].FlowRow, 0
	})
	return done, tables.SenderFCTs.WriteOrdered(out, rows, places, nil)
}

// A doneFunc receives the result of a link's case. rows are the indexes of the link's rows in the input.
type doneFunc func(link int32, rows []int32, cached bool) error

// run simulates the wanted cases of a range that have flows, one after another, and calls done after each.
func (s *Simulator) run(
	ctx context.Context, links step.Range, in Input, wants func(int32) bool, done doneFunc,
) (Stats, error) {
	var stats Stats
	lo := int32(links.Lo)
	hi := int32(links.Hi)
	if err := s.readInput(lo, hi, in.Hops, wants); err != nil {
		return stats, err
	}
	if err := s.input.readFeedback(lo, hi, in.Feedback, wants); err != nil {
		return stats, err
	}
	for id := lo; id < hi; id++ {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		if !wants(id) {
			continue
		}
		from := s.input.starts[id-lo]
		to := s.input.starts[id-lo+1]
		link := s.Network.Links[id]
		load := &s.Loads.Links[id]
		if int64(to-from) != load.Flows {
			return stats, fmt.Errorf("hops: link %d (%s) has %d rows, and table link_loads has %d flows", id,
				s.Network.LinkName(id), to-from, load.Flows)
		}
		if from == to {
			continue
		}
		rows := s.input.order[from:to]
		began := time.Now()
		packets := load.Packets
		cached, err := s.caseResult(link, int(from), int(to), packets)
		if err != nil {
			return stats, fmt.Errorf("link %d (%s): %w", id, s.Network.LinkName(id), err)
		}
		took := time.Since(began).Nanoseconds()
		if err := done(id, rows, cached); err != nil {
			return stats, err
		}
		if cached {
			stats.Add(Stats{CachedCases: 1, CachedHops: packets, CachedNS: took, LongestCaseNS: took, LongestLink: id})
		} else {
			stats.Add(Stats{Cases: 1, PacketHops: packets, KernelNS: took, LongestCaseNS: took, LongestLink: id})
		}
		if s.Progress != nil {
			s.Progress(packets)
		}
	}
	return stats, nil
}

// caseResult builds the case of the rows at positions [from, to) of the input's order. It sets s.result, from
// the cache or by simulation.
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
	s.cache.value = value
	if ok && s.decodeResult(value) == nil {
		return true, nil
	}
	if err := s.simulateCase(rows); err != nil {
		return false, err
	}
	s.cache.value = s.encodeResult(s.cache.value[:0])
	s.Cache.Store(key, s.cache.value)
	return false, nil
}

// idealNS returns the ideal FCT of flow k of the current case, in ns. row is its row of the input. At a
// host's uplink, the ideal FCT excludes the ACKs that the host sends at the same time (Loads.Simultaneous):
// they are part of the delay.
func (s *Simulator) idealNS(k int, row int32) int64 {
	r := &s.input.rows[row]
	ideal := s.result.IdealNS[k]
	if !s.Loads.Simultaneous || r.Hop > 0 {
		return ideal
	}
	link := &s.Network.Links[r.LinkID]
	slowest := min(link.BandwidthBps, cmp.Or(s.input.paths[row].DownstreamBps, link.BandwidthBps))
	flow := route.LinkLoad{Bytes: r.SizeBytes, Packets: s.Params.Packets(r.SizeBytes)}
	return ideal - int64(max(0, flow.BusyNS(s.links[r.LinkID].availableBps, &s.Params)-flow.BusyNS(slowest,
		&s.Params)))
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
	s.setObserved(rows)
	return nil
}

// setDelays sets the delays of the current case.
func (s *Simulator) setDelays(rows []int32) {
	s.delays = columns.Resize(s.delays, len(rows))
	for k, i := range rows {
		s.delays[k] = HopDelay{s.input.rows[i].FlowAtHop, s.result.FCTNS[k], s.idealNS(k, i)}
	}
}

func (s *Simulator) counters(cached bool) tables.LinkCounters {
	c := &s.result.Counters
	return tables.LinkCounters{
		PacketsSent: c.PacketsSent, PacketsMarked: c.PacketsMarked, BusyNS: c.BusyNS,
		MaxQueueBytes: c.MaxQueueBytes, MaxQueueAtNS: c.MaxQueueAtNS,
		// By Little's law, the sum of waits equals the number of waiting packets, integrated over time.
		MeanQueuePackets: c.WaitSumNS / float64(max(1, c.BusyNS)),
		MeanWaitNS:       c.WaitSumNS / float64(max(1, c.PacketsSent)),
		FeedbackShare:    s.share,
		Cached:           cached,
		CrowdedAtNS:      slices.Clone(s.result.CrowdedAtNS),
		CrowdedBytes:     slices.Clone(s.result.CrowdedBytes),
	}
}
