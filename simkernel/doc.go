// Package simkernel simulates packets: one link case, or a whole network.
//
// It is pure: columns in, columns out. It imports no other package of this module, does no I/O, reads no
// clock, starts no goroutine, has no mutable package state, and allocates nothing per packet.
//
// # A link case
//
// A Kernel simulates one link and the flows that cross it (Parsimon, NSDI'23, §3.2). The rest of the network
// is reduced to propagation delays, at most one link before the target, and feedback: what the flows'
// packets met at the other hops of their paths, from an earlier simulation of those.
//
//	source 0 ──┐                                            delivered: FCT
//	source 1 ──┼─ feeder 0 ──┐                                    ▲
//	source 2 ──┘             ├──▶ │ target FIFO, marks (ECN) │────┴── delay ──┐
//	source 3 ────────────────┘                                                │ ACK
//	   ▲                                                                      │
//	   └──────────────────────────────────────────────────────────────────────┘
//	NIC wait        upstream wait           wait, marks        downstream wait
//	(feedback)       (feedback)            (observation)      (feedback, marks)
//
// A source is a host with its own link: it paces its flows, limits them by their windows and serves them round
// robin. Case has the columns. In a FirstHop case the host's own link is the target, and there is no queue in
// the network. Result has each flow's FCT and ideal FCT, the target's counters and, if recorded, the
// observations: per block of a flow's packets their wait, marks and hint (Block).
//
// # A whole network
//
// A Network simulates every packet of every flow at every hop of its path, with unlimited buffers; a
// BufferedNetwork has finite ones, with losses and recovery. Both consist of the same parts as a link case: the
// transports, the link speeds and the ideal FCT.
//
// # Files
//
//	case.go block.go params.go         input and output of a link case
//	transport.go                       registry and interface of transports, scenario keys
//	dctcp.go dcqcn.go timely.go        one transport each: constants, spec, sender
//	hpcc.go swift.go
//	kernel.go check.go                 Kernel: order of events, main loop, validation
//	source.go flow.go feeder.go        its hosts, active flows, links before the target
//	target.go mark.go                  its queue, random marks
//	kernel_sender.go                   its senders of transports other than DCTCP
//	bytime.go                          their feedback by time
//	firsthop.go                        its first hops
//	cruise.go solo.go train.go         its fast paths: single packets, one active flow, a packet train
//	solo_firsthop.go                   the same for first hops: one flow,
//	rounds_firsthop.go                 whole rounds of several flows
//	pick.go tournament.go              its priority queue
//	network*.go                        Network
//	buffered*.go                       BufferedNetwork
//	time.go ideal.go                   picoseconds, bytes to time; ideal FCT
//
// twin_test.go and network_twin_test.go have slow, simple simulators that the fast ones must agree with in every
// bit.
package simkernel

// Version is part of Params.AppendIdentity. It must change whenever Kernel computes a different Result from the
// same Case and Params.
const Version = 4
