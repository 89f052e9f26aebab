// Package ns3 simulates one link case in one process of ns-3, in place of the link kernel: the RDMA simulator of
// HPCC's authors with the changes of Parsimon's (kwzhao/High-Precision-Congestion-Control, branch parsimon).
//
//	simkernel.Case → topology.txt, flows.txt, config.txt → ns-3 → fct.txt → simkernel.Result
//
// The network of a case is the paper's (§3.2, figure 4): the sources, each with a link of its own, the target,
// and behind it the destinations, on links so fast that nothing queues there. Destinations at the same distance
// are one node, because nothing behind the target distinguishes them.
//
//	source 0 ─┐
//	source 1 ─┤ switch ── target ── switch ─┬─ 10 × ── destination 0
//	…         ┘                             └─ 10 × ── destination 1
//
// If the target is a host's uplink, it takes the place of the source's link. If it is the last link of all paths,
// it ends at the destination.
//
// Each case runs in a directory of its own below Simulator.Scratch, which is removed afterwards. Files: ns3 runs
// the process, case lays out and writes the network, config its configuration, answer reads the FCTs.
package ns3
