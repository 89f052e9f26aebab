package simkernel

// Kind says where the target link of a case lies on the paths of its flows (paper, §3.2, figure 4:
// cases A, B and C; B and C are simulated alike).
type Kind uint8

const (
	// FirstHop says that the target is the host's own uplink. There is one source, it IS the target, and it
	// never marks: the host serves its sendable flows round robin, so nothing queues in the network.
	FirstHop Kind = iota
	// Behind says that the target lies behind the sources' own links, in the middle of the network or at the
	// last hop. Packets reach it through their source's link; it is a FIFO that marks.
	Behind
)

// Case is the input of one link's simulation, as columns. Flows stand in start order (equal starts
// in any order that the caller keeps stable: it is the order in which a host takes them up).
//
// A Case is only read by Simulate, and what Simulate answers is a pure function of it and of Params.
type Case struct {
	Kind Kind
	// TargetBps is the target's available bandwidth (its own less the ACKs it carries); > 0.
	// Unused for FirstHop, where SourceBps[0] is the target's.
	TargetBps int64
	// MarkBytes: a packet is marked if, when it starts to be sent, more than this many wire bytes
	// are left behind it in the target's queue (Params.MarkBytes). Unused for FirstHop.
	MarkBytes int64
	// DCQCN marks between MarkBytes and MaxMarkBytes at random (Params.MaxMarkBytes), by draws keyed by
	// MarkKey, which is of the link, and FlowKey, which is of each flow (nil: its row).
	MaxMarkBytes int64
	MarkKey      uint64
	FlowKey      []uint64

	// Sources, one row each: available bandwidth of the host's own link (> 0) and propagation from
	// the host to the target's sending end (0 for FirstHop).
	SourceBps     []int64
	SourceDelayNS []int64

	// Flows, one row each. Source indexes the sources. PathDelayNS is the propagation of the whole
	// path, from source to destination; an ACK takes the same time back.
	Source      []int32
	SizeBytes   []int64
	StartNS     []int64
	PathDelayNS []int64

	// Hops is, by flow, the number of links of its path (nil: none is known). Swift's target depends on it.
	Hops []int16

	// What is known of the rest of the network. All of it may be left out (nil, false).

	// Feeder is, by source, the link before the target that the source's packets come over, an index
	// of FeederBps, the available bandwidths; -1 where that is the source's own link. A feeder is a
	// FIFO for the packets of this case: what comes over one link comes one after the other. It adds
	// the waits there only; propagation is in SourceDelayNS. A source has one packet at a feeder at a
	// time. Not for FirstHop.
	Feeder    []int32
	FeederBps []int64
	// ReturnNS is, by flow, what a full packet and its ACK need to be sent on the links of the path
	// that the case does not simulate; it is part of the round trip, and of nothing else.
	ReturnNS []int64
	// Elsewhere is what the flows' packets met at the other links of their paths, Blocks(packets)
	// blocks a flow, flow after flow. A packet leaves its host later by its hold, reaches the
	// target later by what it waited before, its ACK comes back later by its wait, and is marked if the packet was marked elsewhere; the flow is delivered
	// later by its last packet's wait.
	Feedback []Block
	// Record asks for Result.Here.
	Record bool
}

// Counters are what the target of a case saw.
type Counters struct {
	PacketsSent   int64
	PacketsMarked int64
	BusyNS        int64 // time the target was sending
	MaxQueueBytes int64 // deepest queue in wire bytes, the packet in service included
	MaxQueueAtNS  int64 // the first moment it was that deep
	WaitSumNS     int64 // sum of the packets' waits in the target's queue (host waits for FirstHop are not queueing: 0)
}

// Result holds the answers of one case, one row per flow of it, and its counters. Its slices are
// reused from one call of Simulate to the next.
type Result struct {
	// FCTNS is the time from a flow's start to the delivery of its last byte, what it met elsewhere
	// included, and -1 for a flow
	// that could not drain within the kernel's horizon (Unfinished counts them).
	FCTNS []int64
	// IdealNS is the FCT of the flow alone in the same case. FCTNS >= IdealNS always.
	IdealNS []int64
	// WaitNS is the time the flow's last packet waited in the target's queue.
	WaitNS []int64
	// Here is what the packets met at the target, laid out like Case.Elsewhere; empty unless
	// Case.Record.
	Observed   []Block
	Unfinished int64
	Counters
}
