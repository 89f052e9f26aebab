package network

import (
	"math"
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// lookaheadPS is the least time from the start of a service at a link to the arrival of what it sends:
// propagation, and the transmission of the smallest packet.
func (n *Network) lookaheadPS(link Link) int64 {
	least := min(n.params.AckBytes, n.params.HeaderBytes+1)
	if n.pausers != nil {
		least = min(least, pauseBytes)
	}
	return link.DelayNS*simkernel.PSPerNS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(least)
}

// layOut divides the network into domains and sets up their ports, windows and steps. domainOf gives the
// domain of each node, from 0; every domain is there.
func (n *Network) layOut(domainOf []int32) {
	n.domainOf = domainOf
	domains := slices.Max(domainOf) + 1
	n.domains = make([]domain, domains)
	n.setWindows(domainOf)
	n.ports = make([]port, len(n.links))
	n.portOf = make([]int32, len(n.links))
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
	d.net = n
	d.id = id
	d.rules = n.rules
	d.ports = n.ports[d.low:][:len(links)]
	d.parts.init(d)
	d.first = int32(len(links))
	d.ofPorts = len(links)
	rest := make([]portRest, len(links))
	for u, l := range links {
		p := &d.ports[u]
		link := n.links[l]
		p.portRest = &rest[u]
		p.link, p.node, p.markKey = l, link.SrcNode, simkernel.MarkKey(n.params.Seed, l)
		p.kind = n.kindOf(link)
		p.rateAtPS = never
		if n.paths != nil {
			n.paths.failures.initRates(n, p)
		}
		if d.classes != nil {
			p.classes = &portClasses{}
		}
		far := domainOf[link.DstNode]
		if far != id && !slices.Contains(d.mail.neighbors, far) {
			d.mail.neighbors = append(d.mail.neighbors, far)
		}
		if n.host[link.SrcNode] {
			d.first = min(d.first, int32(u))
			d.nics = append(d.nics, nic{ring: ring{sendPS: unknown}, timerPS: never})
			if d.classes != nil {
				d.nics[len(d.nics)-1].classes = slices.Repeat([]ring{{sendPS: unknown}}, len(n.classes))
			}
			continue
		}
		if d.traits.AcksQueue || d.traits.Telemetry || d.deliveries != nil {
			p.bits |= portQueues
		}
		if d.classes != nil {
			p.classes.queues = make([]queue, len(n.classes))
		}
		if d.buffers != nil {
			b := &n.buffers[link.SrcNode]
			if b.high == 0 {
				b.low = int32(u)
			}
			b.high = int32(u) + 1
		}
	}
	d.sorter.ends = make([]int32, len(links))
	d.sorter.due = make([]duePort, len(links)*dueGroups)
	d.mail.outbox[0] = make([][]arrival, len(n.domains))
	d.mail.outbox[1] = make([][]arrival, len(n.domains))
	d.mail.mailPS = never
	d.mail.toOwn = slices.Repeat([]*calendar{&n.mailed}, len(n.domains))
	d.mail.toOwn[id] = &d.calendar
	n.calendars = append(n.calendars, &d.calendar)
}

// stepWindows is how many windows a step has if nothing limits its length.
const stepWindows = 8

// longestWindowPS bounds windows, so that calendar.slotAt is exact: the excess of perWindow over 2^64 /
// lengthPS times the time since a block began is less than 2^64 / lengthPS.
const longestWindowPS = 1 << 28

// setWindows sets the lengths of the steps and of the domains' windows. A step is not longer than the least
// lookahead between domains, and a multiple of every domain's window, which is not longer than the least
// lookahead within it.
func (n *Network) setWindows(domainOf []int32) {
	between := int64(never)
	within := make([]int64, len(n.domains))
	for i := range within {
		within[i] = longestWindowPS
	}
	for _, link := range n.links {
		a := domainOf[link.SrcNode]
		b := domainOf[link.DstNode]
		ahead := n.lookaheadPS(link)
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
	shift := make([]int, len(within))
	most := 0
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
