package network

import (
	"cmp"
	"math"
	"slices"
)

// A worker has one domain, or several in large networks, so that work can be balanced; each domain adds mail and waits.
const (
	domainsPerWorker = 4    // at most
	leastPorts       = 16   // of a domain
	fitPorts         = 4000 // of a domain, if a worker has several
)

// domainsFor returns how many domains there are for so many workers.
func (n *Network) domainsFor(workers int) int {
	if workers <= 1 {
		return 1
	}
	each := max(1, min(domainsPerWorker, len(n.links)/workers/fitPorts))
	return max(1, min(len(n.links)/leastPorts, workers*each))
}

// partition divides the nodes of a network into at most that many domains with about the same work, between which few
// packets pass. Hosts are in the domain of their first switch, and the ends of short links in the same one. The
// division affects the speed of a Network, never its results.
//
// The work of a link follows from its bandwidth and from the packets of the first flows. It is a multilevel partition:
// nodes that share most of their work are clustered, and clusters again; those of the last level are divided; at each
// level back, nodes move to the domain with which they share more. Clusters and moves are by label propagation with a
// bound of the size (Meyerhenke, Sanders, Schulz, "Partitioning complex networks via size-constrained clustering", SEA
// 2014). Of several bounds that division is taken which costs least.
func (n *Network) partition(domains int, first []newFlow) []int32 {
	if domains == 1 {
		return make([]int32, len(n.host))
	}
	out := make([][]int32, len(n.host)) // links of each node
	for l, link := range n.links {
		out[link.SrcNode] = append(out[link.SrcNode], int32(l))
	}
	g := &graph{work: make([]float64, len(n.host)), edges: make([][]edge, len(n.host))}
	for l, work := range n.shares(first) {
		link := n.links[l]
		g.work[link.SrcNode] += work
		g.edges[link.SrcNode] = append(g.edges[link.SrcNode], edge{link.DstNode, work})
		g.edges[link.DstNode] = append(g.edges[link.DstNode], edge{link.SrcNode, work})
	}
	groupOf := n.groups(out, domains)
	groups, least := g.join(groupOf), math.Inf(1)
	var of []int32
	for perDomain := 1.0; perDomain <= mostClusters; perDomain *= 2 {
		some := groups.divide(domains, perDomain)
		if cost := groups.cost(some, domains); cost < least {
			of, least = some, cost
		}
	}
	domainOf := make([]int32, len(n.host))
	for v, group := range groupOf {
		domainOf[v] = of[group]
	}
	return renumbered(domainOf)
}

// trafficWeight is how much the packets of the first flows count over the bandwidth. They do not say all.
const trafficWeight = 4

// shares returns the share of each link in the bandwidth of all and in the packets of flows, with their ACKs.
func (n *Network) shares(flows []newFlow) []float64 {
	shares, packets := make([]float64, len(n.links)), make([]float64, len(n.links))
	for i := range flows {
		for _, l := range flows[i].path {
			packets[l] += float64(n.params.Packets(flows[i].size))
		}
	}
	allBps, all := 0.0, 1.0
	for l, link := range n.links {
		allBps += float64(link.BandwidthBps)
		all += 2 * packets[l]
	}
	for l, link := range n.links {
		shares[l] = float64(link.BandwidthBps)/allBps + trafficWeight*(packets[l]+packets[l^1])/all
	}
	return shares
}

// A graph is nodes, or clusters of them, with the work of each and what it shares with others.
type graph struct {
	work  []float64
	edges [][]edge
}

type edge struct {
	to   int32
	work float64
}

// join returns the graph of clusters, from 0, of which of gives that of each node.
func (g *graph) join(of []int32) *graph {
	count := slices.Max(of) + 1
	joined := &graph{work: make([]float64, count), edges: make([][]edge, count)}
	for v, c := range of {
		joined.work[c] += g.work[v]
		for _, e := range g.edges[v] {
			if to := of[e.to]; to != c {
				joined.edges[c] = append(joined.edges[c], edge{to, e.work})
			}
		}
	}
	for c, edges := range joined.edges { // those to one cluster are one edge
		slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.to, b.to) })
		one := edges[:0]
		for _, e := range edges {
			if last := len(one) - 1; last >= 0 && one[last].to == e.to {
				one[last].work += e.work
			} else {
				one = append(one, e)
			}
		}
		joined.edges[c] = one
	}
	return joined
}

// cost is what a division costs: the most work of a domain, and what passes between domains, over the mean.
func (g *graph) cost(of []int32, domains int) float64 {
	load, passes := make([]float64, domains), 0.0
	for v, d := range of {
		load[d] += g.work[v]
		for _, e := range g.edges[v] {
			if of[e.to] != d {
				passes += e.work / 2
			}
		}
	}
	return (slices.Max(load)*float64(domains) + passes) / g.total()
}

// total is the work of all nodes.
func (g *graph) total() (sum float64) {
	for _, work := range g.work {
		sum += work
	}
	return sum
}

// divide returns the domain of each node. The work of a cluster is at most the mean of the domains over perDomain.
func (g *graph) divide(domains int, perDomain float64) []int32 {
	mean, largest := g.total()/float64(domains), slices.Max(g.work)
	of := make([]int32, len(g.work))
	for v := range of {
		of[v] = int32(v)
	}
	g.move(of, slices.Clone(g.work), mean/perDomain)
	clusters := renumbered(of)
	if coarse := g.join(clusters); len(coarse.work) < len(g.work) {
		parts := coarse.divide(domains, perDomain)
		for v, c := range clusters {
			of[v] = parts[c]
		}
	} else {
		of = g.spread(domains)
	}
	load := make([]float64, domains)
	for v, d := range of {
		load[d] += g.work[v]
	}
	g.move(of, load, max(mean*mostUneven, mean+largest/2))
	return of
}

const (
	mostClusters = 8    // with as much work as a domain, at the least bound
	mostUneven   = 1.02 // work of a domain over the mean
	moveRounds   = 16
)

// move moves nodes to neighboring parts with which they share more, or as much if that has less load, up to a load of
// a part. Parts above that lose nodes to those below in any case.
func (g *graph) move(of []int32, load []float64, most float64) {
	share := make([]float64, len(load))
	for range moveRounds {
		moved := false
		for v, work := range g.work {
			own, best := of[v], of[v]
			for _, e := range g.edges[v] {
				share[of[e.to]] += e.work
			}
			consider := func(to int32, most float64) {
				if to == own || load[to]+work > most {
					return
				}
				even := share[to] == share[best] && load[to]+work < load[own] && (best == own || load[to] < load[best])
				if share[to] > share[best] || even || best == own && load[own] > most {
					best = to
				}
			}
			for _, e := range g.edges[v] {
				consider(of[e.to], most)
			}
			if best == own && load[own] > most {
				consider(int32(slices.Index(load, slices.Min(load))), load[own]-work)
			}
			for _, e := range g.edges[v] {
				share[of[e.to]] = 0
			}
			if best != own {
				of[v], moved = best, true
				load[own] -= work
				load[best] += work
			}
		}
		if !moved {
			return
		}
	}
}

// spread gives the nodes, those with most work first, to the domain with least.
func (g *graph) spread(domains int) []int32 {
	of, load, order := make([]int32, len(g.work)), make([]float64, domains), make([]int, len(g.work))
	for v := range order {
		order[v] = v
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.work[b], g.work[a]) })
	for _, v := range order {
		of[v] = int32(slices.Index(load, slices.Min(load)))
		load[of[v]] += g.work[v]
	}
	return of
}

// renumbered returns the same parts, numbered from 0.
func renumbered(of []int32) []int32 {
	number, to := map[int32]int32{}, make([]int32, len(of))
	for v, part := range of {
		if _, ok := number[part]; !ok {
			number[part] = int32(len(number))
		}
		to[v] = number[part]
	}
	return to
}

// groups joins each host with its first switch, and the ends of links that are so short that they would determine the
// steps. As many of the shortest links are joined as leave groups small enough to be spread over the domains.
func (n *Network) groups(out [][]int32, domains int) (groupOf []int32) {
	toHost, aheads := make([]bool, len(n.links)), make([]int64, len(n.links)) // of both links of a cable
	for v := range out {
		i := slices.IndexFunc(out[v], func(l int32) bool { return n.host[v] && !n.host[n.links[l].DstNode] })
		if i >= 0 {
			toHost[out[v][i]], toHost[out[v][i]^1] = true, true
		}
	}
	for l := range aheads {
		aheads[l] = min(n.lookaheadPS(n.links[l]), n.lookaheadPS(n.links[l^1]))
	}
	order := slices.Compact(slices.Sorted(slices.Values(aheads)))
	joinPS := int64(0) // links with less are joined
	groupOf, largest := n.components(out, func(l int32) bool { return toHost[l] })
	for i := 0; i < len(order) && domains > 1; i, _ = slices.BinarySearch(order, joinPS) {
		joinPS = 2 * order[i]
		next, size := n.components(out, func(l int32) bool { return toHost[l] || aheads[l] < joinPS })
		if size > max(len(n.host)/(2*domains), largest) {
			break
		}
		groupOf, largest = next, size
	}
	return groupOf
}

// components returns the component of each node, from 0, that links of which joins is true make, and the size of the
// largest.
func (n *Network) components(out [][]int32, joins func(link int32) bool) (of []int32, largest int) {
	components := int32(0)
	of = slices.Repeat([]int32{-1}, len(out))
	for v := range of {
		if of[v] >= 0 {
			continue
		}
		of[v] = components
		members := []int32{int32(v)}
		for i := 0; i < len(members); i++ {
			for _, l := range out[members[i]] {
				if to := n.links[l].DstNode; of[to] < 0 && joins(l) {
					of[to] = components
					members = append(members, to)
				}
			}
		}
		largest = max(largest, len(members))
		components++
	}
	return of, largest
}
