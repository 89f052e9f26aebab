package network

import (
	"math/bits"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/partition"
	"parsimon/simkernel/network/roundrobin"
)

// lookaheadPS returns the shortest time from the start of a service at a link to the arrival of the item:
// propagation, and the transmission of the smallest packet.
func (n *Network) lookaheadPS(link Link) int64 {
	least := min(n.params.AckBytes, n.params.HeaderBytes+1)
	if n.pausers != nil {
		least = min(least, pauseBytes)
	}
	return link.DelayNS*simkernel.PSPerNS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(least)
}

// layOut divides the network into domains and creates their ports, windows and steps. domainOf has the domain
// of each node, from 0, and no domain is empty.
func (n *Network) layOut(domainOf []int32) {
	n.domainOf = domainOf
	domains := slices.Max(domainOf) + 1
	n.domains = make([]domain, domains)
	windowsPS := n.setSteps(domainOf)
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
		d.Calendar = calendar.New(at-int(d.low), windowsPS[i])
		d.init(n, int32(i), order[d.low:at], domainOf)
	}
}

// init creates a domain whose ports are those of the given links.
func (d *domain) init(n *Network, id int32, links []int32, domainOf []int32) {
	d.net = n
	d.id = id
	d.rules = n.rules
	d.ports = n.ports[d.low:][:len(links)]
	d.parts.init(d)
	d.first = int32(len(links))
	rest := make([]portRest, len(links))
	for u, l := range links {
		p := &d.ports[u]
		link := n.links[l]
		p.portRest = &rest[u]
		p.link, p.node, p.markKey = l, link.SrcNode, simkernel.MarkKey(n.params.Seed, l)
		p.kind = n.kindOf(link)
		p.rateAtPS = never
		if n.paths != nil {
			n.paths.initRates(n, p)
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
			d.nics = append(d.nics, nic{Ring: roundrobin.Ring{SendPS: roundrobin.Unknown}, timerPS: never})
			if d.classes != nil {
				unknown := roundrobin.Ring{SendPS: roundrobin.Unknown}
				d.nics[len(d.nics)-1].classes = slices.Repeat([]roundrobin.Ring{unknown}, len(n.classes))
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
	d.sorter = calendar.NewSorter(d.low, d.first, len(links))
	d.sorter.Limited = d.buffers != nil
	d.mail.outbox[0] = make([][]calendar.Arrival, len(n.domains))
	d.mail.outbox[1] = make([][]calendar.Arrival, len(n.domains))
	d.mail.mailPS = never
	d.mail.toOwn = slices.Repeat([]*calendar.Calendar{&n.mailed}, len(n.domains))
	d.mail.toOwn[id] = &d.Calendar
	n.calendars = append(n.calendars, &d.Calendar)
}

// stepWindows is the number of windows of a step if nothing else limits its length.
const stepWindows = 8

// setSteps sets the length of the steps, and returns the lengths of the domains' windows. A step is not
// longer than the least lookahead between domains, and a multiple of every domain's window. A window is not
// longer than the least lookahead within its domain.
func (n *Network) setSteps(domainOf []int32) (windowsPS []int64) {
	between := int64(never)
	within := make([]int64, len(n.domains))
	for i := range within {
		within[i] = calendar.LongestPS
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
	windowsPS = within
	for i := range windowsPS {
		windowsPS[i] = n.stepPS >> shift[i]
	}
	return windowsPS
}

// A portKind has the properties that all ports share whose links have the same bandwidth and delay and end in
// the same domain.
type portKind struct {
	sendPS  [2]int64 // time to send a full packet (forward) or an ACK (backward)
	delayPS int64
	far     int32 // domain of the far end
	wire    simkernel.WireTime
	rule    simkernel.MarkRule
	bps     float64

	classRules *[MaxClasses]simkernel.MarkRule // with classes
}

// kind returns the kind of a link's port.
func (n *Network) kind(link Link) portKind {
	p := &n.params
	from, always := p.MarkBytes(link.BandwidthBps, link.DelayNS)
	k := portKind{wire: simkernel.NewWireTime(float64(link.BandwidthBps)),
		delayPS: link.DelayNS * simkernel.PSPerNS, far: n.domainOf[link.DstNode], rule: p.MarkRule(from, always),
		bps: float64(link.BandwidthBps)}
	k.sendPS = [2]int64{k.wire.PS(n.fullBytes), k.wire.PS(p.AckBytes)}
	return k
}

// kindOf returns the kind of a link's port, with the rules of classes.
func (n *Network) kindOf(link Link) *portKind {
	k := n.kind(link)
	if n.kinds[k] == nil {
		of := k
		rules := n.rulesOf(link)
		of.classRules = &rules
		n.kinds[k] = &of
	}
	return n.kinds[k]
}

// Each worker has one domain. In large networks it has several, so that work can be balanced. More domains
// cause more mail and more waiting.
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

// trafficWeight is the weight of the packets of the first flows relative to that of the bandwidth. The first
// flows do not represent all flows.
const trafficWeight = 4

// shares returns, for each link, its share of the total bandwidth and its share of the packets of flows,
// including their ACKs.
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
