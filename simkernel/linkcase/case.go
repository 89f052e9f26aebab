// Package linkcase simulates one link and the flows that cross it (Parsimon, NSDI'23, §3.2). The rest of the
// network is reduced to propagation delays and feedback: the waits and marks of packets at the other hops,
// from an earlier simulation of these.
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
// A source is a host with its own link. It paces its flows, limits them by their windows and serves them
// round robin. Case has the columns of the input. In the case of a first hop, the target is the host's own
// link, and there is no queue in the network. Result has the FCT and the ideal FCT of each flow, the target's
// counters and, if recorded, the observations: waits and marks by block of a flow's packets
// (simkernel.Block).
//
// A Kernel simulates cases one after the other and does not allocate memory per packet. Several functions
// pass packets through a target that is not a first hop. The faster ones leave out what cannot matter for
// their packets, and return before the first packet that is not theirs:
//
//	runQueue  any packet (kernel.go)
//	cruise    full packets of sources with one flow, whose windows stay open (cruise.go)
//	train     round trips of one such flow that repeat the one before, without waits (cruise.go)
//	glide     packets at line rate of flows whose ACKs change nothing; few ACKs are read (glide.go)
//	coast     packets of such flows only, none of which can be marked; nothing is logged (glide.go)
//	alone     round trips of one such flow, during which no other source sends (glide.go)
//
// twin_test.go has a slow and simple simulator, with which the kernel must agree in every bit.
package linkcase

import (
	"cmp"
	"fmt"
	"math"

	"parsimon/simkernel"
)

// Case is the input of the simulation of one link, as columns. Simulate only reads it.
type Case struct {
	// Behind means that the target is behind the sources' own links, in the middle of the network or at the
	// last hop. It is a FIFO that marks packets (paper, §3.2, figure 4: cases B and C, which are simulated in
	// the same way). Otherwise the target is a host's own uplink, a first hop (case A). It is the only
	// source, and there are no marks, because the host serves its sendable flows round robin, so that nothing
	// queues in the network.
	Behind bool
	// TargetBps is the bandwidth of the target for data: its own minus that of the ACKs that it carries. It
	// must be above 0. It is not used for a first hop, where SourceBps[0] is the bandwidth of the target.
	TargetBps int64
	// MarkBytes is the marking threshold (Params.MarkBytes). A packet is marked if more wire bytes are in the
	// queue behind it when its service starts. It is not used for a first hop.
	MarkBytes int64
	// With Traits.RandomMarks, packets are marked at random between MarkBytes and MaxMarkBytes
	// (Params.MarkBytes). The random numbers depend on MarkKey of the link and FlowKey of the flow (if nil,
	// on its row).
	MaxMarkBytes int64
	MarkKey      uint64
	FlowKey      []uint64

	// These columns have one row per source: the available bandwidth of the host's link (> 0), and the
	// propagation delay from the host to the sending end of the target (0 for a first hop).
	SourceBps     []int64
	SourceDelayNS []int64

	// These columns have one row per flow, in start order. A host accepts flows with equal start times in
	// this order. Source is an index into the sources. PathDelayNS is the propagation delay from source to
	// destination, which is also that of an ACK.
	Source      []int32
	SizeBytes   []int64
	StartNS     []int64
	PathDelayNS []int64

	// Hops has the number of links of each flow's path. If it is nil, all are 0. See Traits.UsesHops.
	Hops []int16

	// SlowestBps, RoundTripNS and SendNS are properties of each flow's path (simkernel.Path). With
	// Params.NeedsPaths.
	SlowestBps, RoundTripNS, SendNS []int64

	// The following columns describe the rest of the network. Each of them may be nil.

	// ReturnNS has, for each flow, the transmission times of a full packet and its ACK on links that the case
	// does not simulate, plus the wait of the ACK. It is part of the round trip only, not of the FCT.
	ReturnNS []int64
	// UpstreamBps has, for each flow, the bandwidth of the slowest link between the source's own and the
	// target. DownstreamBps is that of the slowest link behind the target. They are 0 if packets of the flow
	// never wait for each other there. A flow's packets leave these links at intervals of at least their
	// transmission times, as if they were alone. Observations exclude waits for packets of the same flow, so
	// the case that receives them as feedback must reproduce these waits.
	//
	// For a first hop with DownstreamBps, UpstreamNS of the feedback is the wait before that link, and WaitNS
	// the wait at and behind it.
	UpstreamBps, DownstreamBps []int64
	// BetweenPS has, for each flow, the total time per byte, in ps, of the links between the source's own and
	// the target that store and forward packets. A case omits these times, because they are the same for all
	// full packets. A last packet that is shorter arrives earlier by the difference, but not before it was
	// sent, nor before the packets ahead of it. For a first hop, these are the links before that of
	// DownstreamBps.
	BetweenPS []int32
	// Feedback has the waits and marks of the flows' packets at the other hops. Each flow has
	// Params.Layout().Blocks(packets) blocks, and flows follow one another. A packet leaves its host
	// NICWaitNS later, arrives at the target UpstreamNS later, and is acknowledged and delivered WaitNS
	// later. It is marked if its bit in Marks is set.
	Feedback []simkernel.Block
	// Record requests Result.Observed.
	Record bool
	// RoomBytes requests Result.CrowdedAtNS of a target with Behind. It is the length of a queue that affects
	// a limited buffer, at least a packet. 0 means unlimited.
	RoomBytes int64
}

// Counters describe the packets that passed the target of a case.
type Counters struct {
	PacketsSent   int64
	PacketsMarked int64
	BusyNS        int64   // time during which the target was sending
	MaxQueueBytes int64   // maximum of wire bytes in the queue when a service starts, packet served included
	MaxQueueAtNS  int64   // the first time of that maximum
	WaitSumNS     float64 // sum of the packets' waits in the target's queue; an integer; 0 for a first hop
}

// Result is the output of one case: one row per flow, and counters. Simulate reuses its slices.
type Result struct {
	// FCTNS is the time from a flow's start to the delivery of its last byte, including feedback. It is -1
	// for a flow that cannot finish within the kernel's horizon (Unfinished counts these).
	FCTNS []int64
	// IdealNS is the FCT of the flow if it is alone in the same case, without feedback. FCTNS is at least
	// IdealNS.
	IdealNS []int64
	// Observed has the waits and marks of packets at the target, in the layout of Case.Feedback. It is empty
	// unless Case.Record is set.
	Observed   []simkernel.Block
	Unfinished int64
	Counters
	// CrowdedAtNS and CrowdedBytes have the longest queue, in wire bytes, of each slot of CrowdSlotNS in
	// which the queue was longer than Case.RoomBytes, and its time. Slots begin at the first start. There are
	// at most maxCrowded slots.
	CrowdedAtNS, CrowdedBytes []float64
}

// CrowdSlotNS is the duration that a value of Result.CrowdedBytes covers: about a round trip without queues.
const (
	CrowdSlotNS = 10_000
	maxCrowded  = 1 << 16
)

// These are the limits of a case. They keep every sum of times within an int64.
const (
	MaxBps       = 100_000_000_000_000 // of any link: 100 Tbps
	MaxDelayNS   = 1 << 40             // of a path: 18 minutes
	MaxSizeBytes = 1 << 50             // of a flow
	MaxSources   = 1 << 24             // of a case
	MaxFlows     = 1<<31 - 1           // of a case
	MaxBlocks    = 1<<32 - 1           // of a case, where blocks are counted
)

// A bounded column has a number from lo to hi for each row. With orZero, 0 is valid, too. The column may be
// empty unless it is needed.
type bounded struct {
	name           string
	values         []int64
	lo, hi         int64
	needed, orZero bool
}

// checkColumns validates columns that have a value for each row. row names what a row is, such as a source.
func checkColumns(row string, rows int, all ...bounded) error {
	for _, c := range all {
		if len(c.values) != rows && (c.needed || len(c.values) > 0) {
			return fmt.Errorf("columns differ in length: %d %ss, %d of %s", rows, row, len(c.values), c.name)
		}
		for i, v := range c.values {
			if (v < c.lo || v > c.hi) && (v != 0 || !c.orZero) {
				return fmt.Errorf("%s %d: %s is %d, must be %d to %d", row, i, c.name, v, c.lo, c.hi)
			}
		}
	}
	return nil
}

// check validates the columns, except the feedback and the order of flows.
func (k *Kernel) check(c *Case) error {
	flows := len(c.StartNS)
	sources := len(c.SourceBps)
	slowestBps := c.SlowestBps
	roundTripNS := c.RoundTripNS
	sendNS := c.SendNS
	if !k.needsPaths {
		slowestBps = nil
		roundTripNS = nil
		sendNS = nil
	}
	// A packet takes at least 1 ps.
	leastBps := int64(simkernel.MinBps)
	mostBps := min(MaxBps, (1+k.params.HeaderBytes)*8e12)
	sourceDelayNS := int64(MaxDelayNS)
	switch {
	case sources > MaxSources || flows > MaxFlows:
		return fmt.Errorf("%d sources and %d flows, the limits are %d and %d", sources, flows, MaxSources, MaxFlows)
	case !c.Behind && sources != 1:
		return fmt.Errorf("a first hop has one source, this case has %d", sources)
	case !c.Behind:
		sourceDelayNS = 0
	case c.TargetBps < leastBps || c.TargetBps > mostBps:
		return fmt.Errorf("target: bandwidth_bps is %d, must be %d to %d", c.TargetBps, leastBps, mostBps)
	case c.MarkBytes < 0 || k.traits.RandomMarks && c.MaxMarkBytes < c.MarkBytes:
		return fmt.Errorf("target: mark_bytes is %d and max_mark_bytes %d: must not be negative or descend",
			c.MarkBytes, c.MaxMarkBytes)
	}
	for i, rows := range [...]int{len(c.Source), len(c.Hops), len(c.FlowKey), len(c.BetweenPS)} {
		if rows != flows && (i == 0 || rows > 0) {
			return fmt.Errorf("columns differ in length: %d flow rows, %d of %s", flows, rows,
				[...]string{"source", "hops", "flow_key", "between_ps"}[i])
		}
	}
	return cmp.Or(checkColumns("source", sources, bounded{"bandwidth_bps", c.SourceBps, leastBps, mostBps, true,
		false}, bounded{"delay_ns", c.SourceDelayNS, 0, sourceDelayNS, true, false}),
		checkColumns("flow row", flows, bounded{"start_ns", c.StartNS, 0, math.MaxInt64, true, false},
			bounded{"size_bytes", c.SizeBytes, 1, MaxSizeBytes, true, false},
			bounded{"path delay_ns", c.PathDelayNS, 0, MaxDelayNS, true, false},
			bounded{"slowest_bps", slowestBps, leastBps, mostBps, k.needsPaths, false},
			bounded{"round_trip_ns", roundTripNS, 1, 4 * MaxDelayNS, k.needsPaths, false},
			bounded{"send_ns", sendNS, 0, 4 * MaxDelayNS, k.needsPaths, false},
			bounded{"return_ns", c.ReturnNS, 0, MaxDelayNS, false, false},
			bounded{"upstream_bps", c.UpstreamBps, leastBps, mostBps, false, true},
			bounded{"downstream_bps", c.DownstreamBps, leastBps, mostBps, false, true}))
}

// checkFeedback validates the feedback and returns the total number of blocks.
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
				return 0, fmt.Errorf("flow row %d: block %d: NIC wait is %d ns, upstream wait %d ns, wait %d ns: must "+
					"not be negative",
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

// checkFlows validates the flows and computes their ideal FCTs. The ideal FCT is -1 if the flow could not
// finish within the horizon even when alone. The case must have been checked.
func (k *Kernel) checkFlows(c *Case, idealNS []int64) error {
	full := k.params.PayloadBytes + k.params.HeaderBytes
	var times aloneTimes
	k.earlyPS = k.earlyPS[:0]
	k.earliestPS = 0
	if c.Behind {
		times.target = simkernel.NewWireTime(float64(c.TargetBps))
	}
	for i := range c.StartNS {
		of := c.Source[i]
		delayNS := c.PathDelayNS[i]
		switch {
		case i > 0 && c.StartNS[i] < c.StartNS[i-1]:
			return fmt.Errorf("flow row %d: start_ns is %d, after one of %d: starts must be sorted", i, c.StartNS[i],
				c.StartNS[i-1])
		case of < 0 || int(of) >= len(k.sources):
			return fmt.Errorf("flow row %d: source is %d of %d", i, of, len(k.sources))
		case delayNS < c.SourceDelayNS[of]:
			return fmt.Errorf("flow row %d: path delay_ns is %d, less than its source's %d", i, delayNS,
				c.SourceDelayNS[of])
		case len(c.BetweenPS) > 0 && c.BetweenPS[i] < 0:
			return fmt.Errorf("flow row %d: between_ps is %d, must not be negative", i, c.BetweenPS[i])
		}
		early := int64(0)
		if len(c.BetweenPS) > 0 {
			early = k.early(c, i)
			k.earlyPS = append(k.earlyPS, early)
			k.earliestPS = max(k.earliestPS, early)
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
		idealNS[i] = simkernel.CeilNS(ps)
		if packets > simkernel.MaxPackets {
			return fmt.Errorf("flow row %d: %d bytes are %d packets, the limit is 2^28", i, size, packets)
		}
	}
	return nil
}
