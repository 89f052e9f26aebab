package linkcase

import "parsimon/simkernel"

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
}

// Counters describe what passed the target of a case.
type Counters struct {
	PacketsSent   int64
	PacketsMarked int64
	BusyNS        int64 // time during which the target was sending
	MaxQueueBytes int64 // maximum queue in wire bytes, packet in service included
	MaxQueueAtNS  int64 // the first time of that maximum
	WaitSumNS     int64 // sum of the packets' waits in the target's queue; 0 for FirstHop
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
