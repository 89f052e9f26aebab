package network

import "parsimon/simkernel/network/partition"

// A worker has one domain, or several in large networks, so that work can be balanced. Each domain adds mail
// and waits.
const (
	domainsPerWorker = 4    // at most
	leastPorts       = 16   // of a domain
	fitPorts         = 4000 // of a domain, if a worker has several
)

// domainsFor returns the number of domains for a number of workers.
func (n *Network) domainsFor(workers int) int {
	if workers <= 1 {
		return 1
	}
	each := max(1, min(domainsPerWorker, len(n.links)/workers/fitPorts))
	return max(1, min(len(n.links)/leastPorts, workers*each))
}

// partition returns the domain of each node. The division affects the speed of a Network, never its results.
func (n *Network) partition(domains int, first []newFlow) []int32 {
	links := make([]partition.Link, len(n.links))
	for l, work := range n.shares(first) {
		link := n.links[l]
		links[l] = partition.Link{Src: link.SrcNode, Dst: link.DstNode, Work: work, AheadPS: n.lookaheadPS(link)}
	}
	return partition.Divide(links, n.host, domains)
}

// trafficWeight is how much the packets of the first flows count compared with the bandwidth. They do not
// represent all flows.
const trafficWeight = 4

// shares returns the share of each link in the bandwidth of all and in the packets of flows, with their ACKs.
func (n *Network) shares(flows []newFlow) []float64 {
	shares := make([]float64, len(n.links))
	packets := make([]float64, len(n.links))
	for i := range flows {
		for _, l := range flows[i].path {
			packets[l] += float64(n.params.Packets(flows[i].size))
		}
	}
	allBps := 0.0
	allPackets := 1.0
	for l, link := range n.links {
		allBps += float64(link.BandwidthBps)
		allPackets += 2 * packets[l]
	}
	for l, link := range n.links {
		ofPackets := (packets[l] + packets[l^1]) / allPackets
		shares[l] = float64(link.BandwidthBps)/allBps + trafficWeight*ofPackets
	}
	return shares
}
