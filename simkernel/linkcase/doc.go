// Package linkcase simulates one link and the flows that cross it (Parsimon, NSDI'23, §3.2). The rest of the network
// is reduced to propagation delays and feedback: what the flows'
// packets met at the other hops of their paths, from an earlier simulation of those.
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
