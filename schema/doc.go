// Package schema is the vocabulary of the system: the tables of the lake with their columns, units,
// keys and sort orders, and the streams of record batches that stages pass to each other.
//
// The words, used everywhere and never for two things:
//
//   - node, host, switch: a vertex of the topology; hosts send and receive flows
//   - link: ONE direction of a cable (link_id, src_node, dst_node, bandwidth_bps, delay_ns = propagation)
//   - cable: the two links between two nodes; a failure takes the cable
//   - flow: flow_id, src, dst, size_bytes, start_ns and its labels service and vnet
//   - path, hop: the links a flow crosses, and one of them (hop 0 is the host's own uplink)
//   - link case: one link's simulation input, link parameters and the flows that cross it
//   - FCT: from the flow's start to the delivery of its last byte at the receiver, ns
//   - ideal FCT: the FCT of the same flow alone in the network on the same path
//   - slowdown: FCT / ideal FCT, at least 1
//   - hop delay: a flow's link-case FCT minus its ideal there, ns
//   - packet-normalised delay: hop delay / number of packets, ns per packet
//   - bucket: a contiguous flow-size range of one link with its delays
//   - scenario: topology + workload + transport + seed; scenario_id is a hash of all of it
//
// Units end names: _ns, _bytes, _bps. Times are integers. The package imports nothing of ours.
package schema
