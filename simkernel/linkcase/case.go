// Package linkcase simulates one link and the flows that cross it (Parsimon, NSDI'23, §3.2). The rest of the network is
// reduced to propagation delays and feedback: what packets met at the other hops, from an earlier simulation of those.
//
//	source 0 ──┐                                            delivered: FCT
//	source 1 ──┤                                                  ▲
//	source 2 ──┴── delay ────────▶ │ target FIFO, marks (ECN) │───┴── delay ──┐
//	   │                                                                      │ ACK
//	   ▲                                                                      │
//	   └──────────────────────────────────────────────────────────────────────┘
//	NIC wait        upstream wait           wait, marks        downstream wait
//	(feedback)       (feedback)            (observation)      (feedback, marks)
//
// A source is a host with its own link: it paces its flows, limits them by their windows and serves them round
// robin. Case has the columns. In a FirstHop case the host's own link is the target, and there is no queue in
// the network. Result has each flow's FCT and ideal FCT, the target's counters and, if recorded, the
// observations: per block of a flow's packets their wait and marks (simkernel.Block).
//
// A Kernel simulates cases one after the other and allocates nothing per packet. twin_test.go has a slow, simple
// simulator that it must agree with in every bit.
package linkcase

import (
	"fmt"

	"parsimon/simkernel"
)

// Kind is the place of the target link on the paths of its flows (paper, §3.2, figure 4: cases A, B and C; B
// and C are simulated alike).
type Kind uint8

const (
	// FirstHop says that the target is a host's own uplink. There is one source, which is the target, and no marks: the
	// host serves its sendable flows round robin, so nothing queues in the network.
	FirstHop Kind = iota
	// Behind says that the target is behind the sources' own links, in the middle of the network or at the last hop. It
	// is a FIFO that marks.
	Behind
)

// Case is the input of one link's simulation, as columns. Simulate only reads it.
type Case struct {
	Kind Kind
	// TargetBps is the bandwidth that the target has for data (its own minus the ACKs that it carries); > 0.
	// Unused for FirstHop, where SourceBps[0] is the target's.
	TargetBps int64
	// MarkBytes is the marking threshold (Params.MarkBytes): a packet is marked if more wire bytes are left
	// behind it in the queue when its service starts. Unused for FirstHop.
	MarkBytes int64
	// With Traits.RandomMarks packets are marked at random between MarkBytes and MaxMarkBytes
	// (Params.MarkBytes). The random numbers are keyed by MarkKey, which is of the link, and FlowKey, which
	// is of each flow (nil: its row).
	MaxMarkBytes int64
	MarkKey      uint64
	FlowKey      []uint64

	// Sources, one row each: available bandwidth of the host's link (> 0), and propagation delay from the host to
	// the sending end of the target (0 for FirstHop).
	SourceBps     []int64
	SourceDelayNS []int64

	// Flows, one row each, in start order. The order of equal starts is the order in which a host takes them up.
	// Source indexes the sources. PathDelayNS is the propagation delay from source to destination, and of an
	// ACK back.
	Source      []int32
	SizeBytes   []int64
	StartNS     []int64
	PathDelayNS []int64

	// Hops is, by flow, the number of links of its path (nil: 0). See Traits.UsesHops.
	Hops []int16

	// SlowestBps and RoundTripNS are, by flow, those of its path (simkernel.Path). With Params.NeedsPaths.
	SlowestBps, RoundTripNS []int64

	// The rest of the network. Each of these columns may be nil.

	// ReturnNS is, by flow, the time to send a full packet and its ACK on the links of the path that the case
	// does not simulate, and what the ACK waits. It is part of the round trip only, not of the FCT.
	ReturnNS []int64
	// UpstreamBps is, by flow, the bandwidth of the slowest link between the source's own and the target, and
	// DownstreamBps of the slowest link behind the target; 0 if the flow's packets never wait for each other
	// there. A flow's packets pass these links at intervals of at least their transmission times, as if they
	// were alone there: observations exclude waits for packets of the same flow, so the case that receives them as
	// feedback must produce these itself.
	//
	// With DownstreamBps in a FirstHop case, UpstreamNS of the feedback is the wait before that link, and WaitNS
	// the wait at and behind it.
	UpstreamBps, DownstreamBps []int64
	// BetweenPS is, by flow, the time per byte, in ps, of all links together between the source's own and the target
	// that store and forward each packet. A case leaves these times out, as they are the same for all
	// full packets. A shorter last packet arrives earlier by what it is shorter, but not before it was sent, nor before
	// the packets ahead of it. In a FirstHop case, of the links before that of DownstreamBps.
	BetweenPS []int32
	// Feedback is what the flows' packets met at the other hops: Params.Layout().Blocks(packets) blocks per flow, flow
	// after flow. A packet leaves its host NICWaitNS later, arrives at the target UpstreamNS later, and is acknowledged
	// and delivered WaitNS later. It counts as marked if Marks has its bit.
	Feedback []simkernel.Block
	// Record requests Result.Observed.
	Record bool
	// RoomBytes requests Counters.CrowdedNS: what a limited buffer can hold at a target Behind, at least
	// a packet. 0 is unlimited.
	RoomBytes int64
}

// Counters describe what passed the target of a case.
type Counters struct {
	PacketsSent   int64
	PacketsMarked int64
	BusyNS        int64 // time during which the target was sending
	MaxQueueBytes int64 // maximum queue in wire bytes, packet in service included
	MaxQueueAtNS  int64 // the first time of that maximum
	WaitSumNS     int64 // sum of the packets' waits in the target's queue; 0 for FirstHop
	CrowdedNS     int64 // time during which the queue was longer than Case.RoomBytes
}

// Result is the output of one case: one row per flow, and counters. Simulate reuses its slices.
type Result struct {
	// FCTNS is the time from a flow's start to the delivery of its last byte, feedback included. It is -1 for
	// a flow that could not finish within the kernel's horizon (Unfinished counts these).
	FCTNS []int64
	// IdealNS is the FCT of the flow alone in the same case, without feedback. FCTNS >= IdealNS always.
	IdealNS []int64
	// WaitNS is the time that the flow's last packet waited in the target's queue.
	WaitNS []int64
	// Observed is what the packets met at the target, in the layout of Case.Feedback. It is empty without
	// Case.Record.
	Observed   []simkernel.Block
	Unfinished int64
	Counters
}

// Limits of a case. They keep every sum of times within an int64.
const (
	MaxBps       = 100_000_000_000_000 // of any link: 100 Tbps
	MaxDelayNS   = 1 << 40             // of a path: 18 minutes
	MaxSizeBytes = 1 << 50             // of a flow
	MaxSources   = 1 << 24             // of a case
	MaxFlows     = 1<<31 - 1           // of a case
	MaxBlocks    = 1<<32 - 1           // of a case, where blocks are counted
)

// checkTables validates the numbers of sources and flows, and that all columns of a table have them. Those of paths are
// needed where windows depend on paths, and later ones may be missing.
func (k *Kernel) checkTables(c *Case) error {
	flows, sources := len(c.StartNS), len(c.SourceBps)
	switch {
	case sources > MaxSources:
		return fmt.Errorf("%d sources, the limit is %d", sources, MaxSources)
	case flows > MaxFlows:
		return fmt.Errorf("%d flows, the limit is %d", flows, MaxFlows)
	case len(c.SourceDelayNS) != sources:
		return fmt.Errorf("columns of sources differ in length: %d bandwidths, %d delays", sources, len(c.SourceDelayNS))
	}
	names := [...]string{"Source", "SizeBytes", "PathDelayNS", "SlowestBps", "RoundTripNS", "Hops", "FlowKey", "ReturnNS",
		"UpstreamBps", "DownstreamBps", "BetweenPS"}
	for i, rows := range [len(names)]int{len(c.Source), len(c.SizeBytes), len(c.PathDelayNS), len(c.SlowestBps),
		len(c.RoundTripNS), len(c.Hops), len(c.FlowKey), len(c.ReturnNS), len(c.UpstreamBps), len(c.DownstreamBps),
		len(c.BetweenPS)} {
		if rows != flows && (i < 3 || i < 5 && k.needsPaths || i >= 5 && rows != 0) {
			return fmt.Errorf("columns of flows differ in length: %d starts, %d rows of %s", flows, rows, names[i])
		}
	}
	return nil
}

// checkSources validates all columns that are not per flow, and sets up k.sources.
func (k *Kernel) checkSources(c *Case) error {
	switch c.Kind {
	case FirstHop:
		if n := len(c.SourceBps); n != 1 {
			return fmt.Errorf("a first hop has one source, this case has %d", n)
		}
		if c.SourceDelayNS[0] != 0 {
			return fmt.Errorf("source 0: delay_ns is %d, a first hop is its own source and needs 0", c.SourceDelayNS[0])
		}
	case Behind:
		if err := k.checkBps(c.TargetBps); err != nil {
			return fmt.Errorf("target: %w", err)
		}
		if c.MarkBytes < 0 {
			return fmt.Errorf("target: mark_bytes is %d, must not be negative", c.MarkBytes)
		}
		if k.traits.RandomMarks && c.MaxMarkBytes < c.MarkBytes {
			return fmt.Errorf("target: max_mark_bytes is %d, less than mark_bytes, %d", c.MaxMarkBytes, c.MarkBytes)
		}
	default:
		return fmt.Errorf("unknown kind of case %d", c.Kind)
	}
	k.sources = k.sources[:0]
	for i, bps := range c.SourceBps {
		if err := k.checkBps(bps); err != nil {
			return fmt.Errorf("source %d: %w", i, err)
		}
		d := c.SourceDelayNS[i]
		if d < 0 || d > MaxDelayNS {
			return fmt.Errorf("source %d: delay_ns is %d, must be 0 to 2^40", i, d)
		}
		k.sources = append(k.sources, source{delayPS: d * simkernel.PSPerNS, wire: simkernel.NewWireTime(float64(bps)),
			row: int32(i), served: -1})
	}
	return nil
}

// checkFeedback validates the feedback, and returns the number of blocks of all flows.
func (k *Kernel) checkFeedback(c *Case) (blocks int64, err error) {
	if !c.Record && len(c.Feedback) == 0 {
		return 0, nil
	}
	for i, size := range c.SizeBytes {
		n := k.layout.Blocks(k.params.Packets(size))
		if blocks+n > MaxBlocks {
			return 0, fmt.Errorf("flow row %d: the case has more than %d blocks of packets", i, int64(MaxBlocks))
		}
		for b := blocks; b < min(blocks+n, int64(len(c.Feedback))); b++ {
			f := &c.Feedback[b]
			if f.NICWaitNS|f.UpstreamNS|f.WaitNS < 0 { // any of them
				return 0, fmt.Errorf("flow row %d: block %d: NIC wait is %d ns, upstream wait %d ns, wait %d ns: must not be negative",
					i, b-blocks, f.NICWaitNS, f.UpstreamNS, f.WaitNS)
			}
		}
		blocks += n
	}
	if len(c.Feedback) > 0 && int64(len(c.Feedback)) != blocks {
		return 0, fmt.Errorf("the flows have %d blocks of packets, Feedback has %d", blocks, len(c.Feedback))
	}
	return blocks, nil
}

// checkPath validates the columns of a flow's path.
func (k *Kernel) checkPath(c *Case, row int) error {
	slowest := [...][]int64{c.UpstreamBps, c.DownstreamBps, c.SlowestBps}
	for i, bps := range slowest {
		if len(bps) == 0 || bps[row] == 0 && i < 2 || i == 2 && !k.needsPaths {
			continue
		}
		if err := k.checkBps(bps[row]); err != nil {
			return fmt.Errorf("slowest link: %w", err)
		}
	}
	switch {
	case k.needsPaths && (c.RoundTripNS[row] < 1 || c.RoundTripNS[row] > 4*MaxDelayNS):
		return fmt.Errorf("round_trip_ns is %d, must be 1 to 2^42", c.RoundTripNS[row])
	case len(c.ReturnNS) > 0 && (c.ReturnNS[row] < 0 || c.ReturnNS[row] > MaxDelayNS):
		return fmt.Errorf("return_ns is %d, must be 0 to 2^40", c.ReturnNS[row])
	case len(c.BetweenPS) > 0 && c.BetweenPS[row] < 0:
		return fmt.Errorf("the links before the target take %d ps per byte, must not be negative", c.BetweenPS[row])
	}
	return nil
}

// aloneTimes are how long a flow's full packets take at the links that space them in a case; 0 for those that it lacks.
type aloneTimes struct {
	source, upstream, target, downstream simkernel.WireTime

	pace simkernel.WireTime // between packets, at line rate, where that is below the source's bandwidth
}

// of makes the times those of a flow; target stays.
func (a *aloneTimes) of(k *Kernel, c *Case, row int) {
	s := &k.sources[c.Source[row]]
	a.source, a.downstream, a.pace = s.wire, slowestWire(c.DownstreamBps, row), 0
	if k.needsPaths {
		if limits := k.limitsOf(c, row); limits.LineBps < float64(c.SourceBps[c.Source[row]]) {
			a.pace = simkernel.NewWireTime(limits.LineBps)
		}
	}
	if c.Kind == Behind {
		a.upstream = slowestWire(c.UpstreamBps, row)
	}
}

// fctPS returns the FCT without propagation of a flow alone whose window never binds: n packets, all full but the last,
// which arrives earlyPS earlier than a full one. Full packets come at the longest of their times at the links that they
// have passed; the last one follows from that.
func (a *aloneTimes) fctPS(n, fullBytes, lastBytes, earlyPS int64) int64 {
	if n == 1 {
		return a.source.PS(lastBytes) - earlyPS + a.target.PS(lastBytes)
	}
	sourcePS, targetPS, downPS := a.source.PS(fullBytes), a.target.PS(fullBytes), a.downstream.PS(fullBytes)
	gapPS := max(sourcePS, a.pace.PS(fullBytes))     // between packets that leave the host
	arrivePS := max(gapPS, a.upstream.PS(fullBytes)) // and that arrive at the target
	before := n - 2                                  // packets between the first and the last

	arrived := sourcePS + before*arrivePS // the packet before the last, at the target
	at := max(arrived, (before+1)*gapPS+a.source.PS(lastBytes)-earlyPS, arrived+a.upstream.PS(lastBytes))
	departPS := arrivePS
	if a.target > 0 {
		departPS = max(arrivePS, targetPS)
		at = max(at, sourcePS+targetPS+before*departPS) + a.target.PS(lastBytes)
	}
	if a.downstream > 0 {
		at = max(at, sourcePS+targetPS+before*max(departPS, downPS)+downPS) // see behindTarget
	}
	return at
}

// checkBps validates a bandwidth.
func (k *Kernel) checkBps(bps int64) error {
	if bps < simkernel.MinBps || bps > MaxBps {
		return fmt.Errorf("bandwidth_bps is %d, must be 10,000 to 10^14", bps)
	}
	if simkernel.NewWireTime(float64(bps)).PS(1+k.params.HeaderBytes) < 1 {
		return fmt.Errorf("bandwidth_bps is %d: a packet of %d bytes would take no time", bps, 1+k.params.HeaderBytes)
	}
	return nil
}

// checkFlows validates the flows and computes their ideal FCTs: -1 if the flow could not finish within the
// horizon even when alone.
func (k *Kernel) checkFlows(c *Case, idealNS []int64) error {
	full := k.params.PayloadBytes + k.params.HeaderBytes
	var times aloneTimes
	k.earlyPS, k.earliestPS = k.earlyPS[:0], 0
	if c.Kind == Behind {
		times.target = simkernel.NewWireTime(float64(c.TargetBps))
	}
	for i := range c.StartNS {
		if err := k.checkFlow(c, i); err != nil {
			return fmt.Errorf("flow row %d: %w", i, err)
		}
		early := int64(0)
		if len(c.BetweenPS) > 0 {
			early = k.early(c, i)
			k.earlyPS, k.earliestPS = append(k.earlyPS, early), max(k.earliestPS, early)
		}
		idealNS[i] = -1
		times.of(k, c, i)
		size := c.SizeBytes[i]
		packets := k.params.Packets(size)
		slowest := max(times.source, times.upstream, times.target, times.downstream, times.pace)
		if float64(packets+2)*float64(slowest.PS(full)) >= 2*horizonPS {
			continue
		}
		ps := times.fctPS(packets, full, k.params.LastBytes(size), early) + c.PathDelayNS[i]*simkernel.PSPerNS
		if ps > horizonPS {
			continue
		}
		if idealNS[i] = simkernel.CeilNS(ps); packets > simkernel.MaxPackets {
			return fmt.Errorf("flow row %d: %d bytes are %d packets, the limit is 2^28", i, size, packets)
		}
	}
	return nil
}

// checkFlow validates a row of the flows.
func (k *Kernel) checkFlow(c *Case, row int) error {
	start, previous := c.StartNS[row], int64(0)
	if row > 0 {
		previous = c.StartNS[row-1]
	}
	of, size, delay := c.Source[row], c.SizeBytes[row], c.PathDelayNS[row]
	switch {
	case start < previous:
		return fmt.Errorf("start_ns is %d, after one of %d: starts must be sorted and not negative", start, previous)
	case of < 0 || int(of) >= len(k.sources):
		return fmt.Errorf("source is %d of %d", of, len(k.sources))
	case size < 1 || size > MaxSizeBytes:
		return fmt.Errorf("size_bytes is %d, must be 1 to 2^50", size)
	case delay < c.SourceDelayNS[of] || delay > MaxDelayNS:
		return fmt.Errorf("path delay_ns is %d, must be at least its source's %d and at most 2^40", delay,
			c.SourceDelayNS[of])
	}
	return k.checkPath(c, row)
}
