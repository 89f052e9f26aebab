package network

import (
	"math"
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// There are a few domains per worker, so that their work can be balanced, but each costs mail and waits.
const (
	domainsPerWorker = 4
	leastPorts       = 16  // of a domain
	fitPorts         = 500 // of a domain, if there are more than workers
)

// lookaheadPS is the least time from the start of a service at a link to the arrival of what it sends: propagation, and
// the transmission of the smallest packet.
func (n *Network) lookaheadPS(link Link) int64 {
	least := min(n.params.AckBytes, n.params.HeaderBytes+1)
	if n.pausers != nil {
		least = min(least, pauseBytes)
	}
	return link.DelayNS*simkernel.PSPerNS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(least)
}

// layOut divides the network into domains and sets up their ports, windows and steps. domainOf gives the domain of each
// node, from 0; every domain is there.
func (n *Network) layOut(domainOf []int32) {
	n.domainOf = domainOf
	n.setRules()
	domains := slices.Max(domainOf) + 1
	n.domains = make([]domain, domains)
	n.setWindows(domainOf)
	n.ports, n.portOf = make([]port, len(n.links)), make([]int32, len(n.links))
	n.kinds = map[portKind]*portKind{}
	order := make([]int32, len(n.links)) // links by domain, switches before hosts, by node
	for l := range order {
		order[l] = int32(l)
	}
	rank := func(l int32) (r int64) {
		src := n.links[l].SrcNode
		r = int64(domainOf[src])<<33 | int64(src)
		if n.host[src] {
			r |= 1 << 32
		}
		return r
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(min(1, max(-1, rank(a)-rank(b)))) })
	for u, l := range order {
		n.portOf[l] = int32(u)
	}
	at := 0
	for i := range n.domains {
		d := &n.domains[i]
		d.low = int32(at)
		for at < len(order) && domainOf[n.links[order[at]].SrcNode] == int32(i) {
			at++
		}
		d.init(n, int32(i), order[d.low:at], domainOf)
	}
}

// init sets up a domain whose ports are those of some links.
func (d *domain) init(n *Network, id int32, links []int32, domainOf []int32) {
	d.net, d.id, d.rules, d.moves, d.ports = n, id, n.rules, n.moves, n.ports[d.low:][:len(links)]
	d.first, d.ofPorts = int32(len(links)), len(links)
	rest := make([]portRest, len(links))
	for u, l := range links {
		p, link := &d.ports[u], n.links[l]
		p.portRest = &rest[u]
		p.link, p.node, p.markKey = l, link.SrcNode, simkernel.MarkKey(n.params.Seed, l)
		p.kind, p.rateAtPS = n.kindOf(link), never
		if n.moves != nil {
			n.moves.initRates(n, p)
		}
		if d.classed {
			p.classes = &portClasses{}
		}
		if far := domainOf[link.DstNode]; far != id && !slices.Contains(d.neighbors, far) {
			d.neighbors = append(d.neighbors, far)
		}
		if n.host[link.SrcNode] {
			d.first = min(d.first, int32(u))
			d.nics = append(d.nics, nic{ring: ring{sendPS: unknown}, timerPS: never})
			if d.classed {
				d.nics[len(d.nics)-1].classes = slices.Repeat([]ring{{sendPS: unknown}}, len(n.classes))
			}
			continue
		}
		if d.shared || d.telemetry || d.foresees {
			p.bits |= portQueues
		}
		if d.classed {
			p.classes.queues = make([]queue, len(n.classes))
		}
		if d.limited {
			b := &n.buffers[link.SrcNode]
			if b.high == 0 {
				b.low = int32(u)
			}
			b.high = int32(u) + 1
		}
	}
	d.ends, d.due = make([]int32, len(links)), make([]duePort, len(links)*dueGroups)
	d.outbox[0], d.outbox[1] = make([][]arrival, len(n.domains)), make([][]arrival, len(n.domains))
	d.mailPS = never
	d.toOwn = slices.Repeat([]*calendar{&n.mailed}, len(n.domains))
	d.toOwn[id] = &d.calendar
	n.calendars = append(n.calendars, &d.calendar)
}

// stepWindows is how many windows a step has if nothing limits its length.
const stepWindows = 8

// longestWindowPS bounds windows, so that calendar.slotAt is exact: the excess of perWindow over 2^64 / lengthPS times
// the time since a block began is less than 2^64 / lengthPS.
const longestWindowPS = 1 << 28

// setWindows sets the lengths of the steps and of the domains' windows. A step is not longer than the least lookahead
// between domains, and a multiple of every domain's window, which is not longer than the least lookahead within it.
func (n *Network) setWindows(domainOf []int32) {
	between, within := int64(never), make([]int64, len(n.domains))
	for i := range within {
		within[i] = longestWindowPS
	}
	for _, link := range n.links {
		a, b, ahead := domainOf[link.SrcNode], domainOf[link.DstNode], n.lookaheadPS(link)
		if a != b {
			between = min(between, ahead)
		} else {
			within[a] = min(within[a], ahead)
		}
		if n.frontier != nil && n.host[link.DstNode] {
			between = min(between, ahead)
		}
	}
	if between == never {
		between = slices.Min(within) * stepWindows
	}
	shift, most := make([]int, len(within)), 0
	for i, w := range within {
		shift[i] = bits.Len64(uint64((between - 1) / w)) // the least power of two that is at least between / w
		most = max(most, shift[i])
	}
	n.stepPS = between >> most << most
	for i := range n.domains {
		n.domains[i].lengthPS = n.stepPS >> shift[i]
		n.domains[i].perWindow = math.MaxUint64/uint64(n.domains[i].lengthPS) + 1
	}
}

// partition divides the nodes of a network into at most that many domains with about the same bandwidth. Hosts are in
// the domain of their first switch, and the ends of short links in the same one. A domain grows by the group of nodes
// that has the largest share of its bandwidth to the domain, so that few packets leave it (greedy graph growing:
// Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998). The division affects the speed of a Network, never its results.
func (n *Network) partition(domains int) []int32 {
	out := make([][]int32, len(n.host)) // links of each node
	for l, link := range n.links {
		out[link.SrcNode] = append(out[link.SrcNode], int32(l))
	}
	groupOf := n.groups(out, domains)
	groups := slices.Max(groupOf) + 1
	nodes := make([][]int32, groups)
	for v, g := range groupOf {
		nodes[g] = append(nodes[g], int32(v))
	}
	domainOf := slices.Repeat([]int32{-1}, len(n.host))
	near, weight := make([]float64, groups), make([]float64, groups) // bandwidth of a group to the domain, and in all
	total, sum, end, domain := 0.0, 0.0, 0.0, int32(-1)
	for _, link := range n.links {
		weight[groupOf[link.SrcNode]] += float64(link.BandwidthBps)
		total += float64(link.BandwidthBps)
	}
	for range groups {
		if sum >= end { // the next domain
			clear(near)
			domain++
			for end <= sum {
				end += total / float64(domains)
			}
		}
		best := int32(-1)
		for g := range groups {
			if domainOf[nodes[g][0]] < 0 && (best < 0 || near[g]*weight[best] > near[best]*weight[g]) {
				best = g
			}
		}
		sum += weight[best]
		for _, v := range nodes[best] {
			domainOf[v] = domain
			for _, l := range out[v] {
				near[groupOf[n.links[l].DstNode]] += float64(n.links[l].BandwidthBps)
			}
		}
	}
	return domainOf
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
