package stages

import (
	"context"
	"fmt"
	"math/bits"
	"time"

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
	// Cache stores results of link cases; nil: none.
	Cache CaseStore
	// Representative is the representative of each link, by link id (ReadClusters); nil: each is its own. Simulate runs
	// only the cases of representatives.
	Representative []int32
	// Omitted are links whose cases Simulate omits; their rows of table link_stats are those of the pass before.
	Omitted Omitted
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
// It reads hops, the rows of table hops of these links; rows of other links are skipped, and the rows of a
// link must come in the order of flow_row. For Flow it also reads feedback, the same rows of table
// feedback; nil for none. It writes table link_stats, one row for every link in [lo, hi), and to
// out, for Independent, table hop_delays by link and flow_row, or, for Flow, table hop_observations by flow_row and
// hop.
//
// The result of a link is a function of its own rows and of the loads, so it does not depend on the range
// or the worker. progress, if not nil, is called with the packet-hops of each finished case. Errors name
// the link.
func (s *Simulator) Simulate(ctx context.Context, lo, hi int32, hops, feedback schema.Batches,
	out, stats schema.Sink, progress func(packetHops int64)) (SimulateStats, error) {
	s.delays, s.stats = s.delays[:0], s.stats[:0]
	s.observations.reset()
	done, err := s.run(ctx, lo, hi, hops, feedback, caseRun{
		wants: func(id int32) bool {
			_, omitted := s.Omitted[id]
			return !omitted && (s.Representative == nil || s.Representative[id] < 0 || s.Representative[id] == id)
		},
		done: func(link topology.Link, rows []int32, cached bool) error {
			s.addStats(link, rows, cached)
			if s.Estimator == Independent {
				return s.addDelays(rows, out)
			}
			s.observations.add(s, link, rows)
			return nil
		},
		omitted: func(link topology.Link) {
			s.stats = append(s.stats, s.Loads.stat(&s.Params, link, s.Omitted[link.ID]))
		},
		progress: progress,
	})
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
	done, err := s.run(ctx, lo, hi, hops, feedback, caseRun{
		wants: s.Network.FromHost,
		done: func(_ topology.Link, rows []int32, _ bool) error {
			for k, i := range rows {
				s.senders = append(s.senders, senderRow{s.input.rows[i].FlowRow, s.result.FCTNS[k], s.idealNS(k, i)})
			}
			return nil
		},
		omitted:  func(topology.Link) {},
		progress: progress,
	})
	if err != nil {
		return done, err
	}
	rows := s.senders
	places := s.observations.sorter.byFlow(len(rows), func(i int) (int64, int16) { return rows[i].FlowRow, 0 })
	return done, senderTable.WriteOrdered(out, rows, places, nil)
}

// caseRun says which cases to run and what to do with their results.
type caseRun struct {
	wants    func(link int32) bool
	done     func(link topology.Link, rows []int32, cached bool) error // also called for links without flows
	omitted  func(link topology.Link)
	progress func(packetHops int64) // may be nil
}

// run simulates the wanted cases of [lo, hi), one after the other.
func (s *Simulator) run(ctx context.Context, lo, hi int32, hops, feedback schema.Batches,
	r caseRun) (SimulateStats, error) {
	var stats SimulateStats
	if err := s.readInput(lo, hi, hops, r.wants); err != nil {
		return stats, err
	}
	if err := s.input.readFeedback(lo, hi, feedback, r.wants); err != nil {
		return stats, err
	}
	for id := lo; id < hi; id++ {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		link := s.Network.Links[id]
		if !r.wants(id) {
			r.omitted(link)
			continue
		}
		from, to := s.input.starts[id-lo], s.input.starts[id-lo+1]
		rows := s.input.order[from:to]
		began, packets := time.Now(), s.Loads.Links[id].Packets
		cached, err := s.solve(link, int(from), int(to), packets)
		if err != nil {
			return stats, fmt.Errorf("link %d (%s): %w", link.ID, s.Network.LinkName(link.ID), err)
		}
		took := time.Since(began).Nanoseconds()
		if err := r.done(link, rows, cached); err != nil {
			return stats, err
		}
		if len(rows) == 0 {
			continue
		}
		if cached {
			stats.Add(SimulateStats{CachedCases: 1, CachedHops: packets, CachedNS: took, LongestCaseNS: took, LongestLink: id})
		} else {
			stats.Add(SimulateStats{Cases: 1, PacketHops: packets, KernelNS: took, LongestCaseNS: took, LongestLink: id})
		}
		if r.progress != nil {
			r.progress(packets)
		}
	}
	return stats, nil
}

// solve builds the case of the rows at places from..to-1 of the input's order, and brings s.result to its
// result, from the cache or by simulation.
func (s *Simulator) solve(link topology.Link, from, to int, packets int64) (cached bool, err error) {
	if err := s.buildCase(link, from, to); err != nil {
		return false, err
	}
	rows := s.input.order[from:to]
	if s.Cache == nil || len(rows) == 0 || packets < minCachedPackets {
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

// Omitted are the links whose cases pass 2 omits because their observations of pass 1 can stand, with their counters in
// table link_stats.
type Omitted map[int32]linkCounters

// caseStats are the columns of table link_stats that ReadOmitted reads.
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
			omitted[r.LinkID] = r.linkCounters
		}
		return nil
	})
}
