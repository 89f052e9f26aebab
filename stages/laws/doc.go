// Package laws holds the estimates of a workload against two laws that every network of store-and-forward links keeps.
// An estimate that contradicts one of them is wrong, whatever the truth is. The laws have no parameters to tune.
//
// # Too early
//
// All packets of a flow cross each link of its path after its start and before its end. For a flow with start s and FCT
// t on a path with propagation delays d, with times a to send its first and z to send its last packet on a link,
//
//	at link h it sends for   p = the time to send all of its packets there
//	not before               r = s + Σ (a + d) over the links before h
//	not after                e = s + t − d(h) − Σ (z + d) over the links behind h
//
// Theorem (Horn, Naval Research Logistics Quarterly 21(1), 1974): one link can send every flow for p within [r, e] if
// and only if it can do so by sending, at any time, for the available flow of the least e. If a flow then ends L later
// than e, some flow that is to end by e is estimated at least L too early: the flows that the link has sent for without
// a pause, and that are to end by e, take L longer than there is time. The link is free to interrupt packets in this
// schedule, which only helps.
//
// # Too late
//
// A link cannot send for longer than it has packets. Let a flow be alone at all links of its path but link h. Let D be
// the time in which a packet and its ACK go to and fro when each of them waits for one packet at most, or the time
// between two packets at the least rate that the transport permits, if that is longer; k the number of packets that the
// flow sends within D at the least, from the transport's smallest window and rate; and a the time to send one at link
// h.
//
// Theorem: when flows have been present so, for longer than D each, and Σ k·a > max D, link h is sending. For if it
// were idle, no packet of theirs would be at h; nothing but their own windows and rates would have held them for the
// last D; so each has sent k packets over h in that time; which take longer than D. Hence the time during which this
// holds between two times cannot exceed the time to send everything that can have been at the link between them:
// packets of all flows that started before the second time and had not ended a D before the first, and ACKs of those
// that cross the cable in the other direction. The excess is the time by which the flows present are estimated too late
// together.
//
// The premises are that the sender's rate and window have a minimum (simkernel.Params.MinRateBps), that ACKs are sent
// first, and that they do not wait for other ACKs. DCQCN's share the queue of data in switches: for DCQCN the second
// law is not checked.
package laws
