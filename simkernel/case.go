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
	// are left behind it in the target's queue. Unused for FirstHop.
	MarkBytes int64

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
	// FCTNS is the time from a flow's start to the delivery of its last byte, and -1 for a flow
	// that could not drain within the kernel's horizon (Unfinished counts them).
	FCTNS []int64
	// IdealNS is the FCT of the flow alone in the same case. FCTNS >= IdealNS always.
	IdealNS []int64
	// WaitNS is the time the flow's last packet waited in the target's queue.
	WaitNS     []int64
	Unfinished int64
	Counters
}
