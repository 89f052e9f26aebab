package route

import (
	"fmt"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// LinkLoad is the load of one link: its flows, and when the first and the last of them start.
type LinkLoad struct {
	Flows        int64 `col:"flows"`
	Bytes        int64 `col:"bytes"`
	Packets      int64 `col:"packets"`
	FirstStartNS int64 `col:"first_start_ns"`
	LastStartNS  int64 `col:"last_start_ns"`
	// BothNS is the time, in ns, during which the link and its reverse both send, if each sends one flow
	// after another (step.SimultaneousAcks).
	BothNS int64 `col:"both_ns"`
}

// BusyNS returns the time, in ns, that a link with the given bandwidth takes to send what it carries,
// including headers.
func (x *LinkLoad) BusyNS(bps int64, p *simkernel.Params) float64 {
	return float64(x.Bytes+x.Packets*p.HeaderBytes) * 8e9 / float64(bps)
}

func (x *LinkLoad) add(y LinkLoad) {
	if x.Flows == 0 {
		x.FirstStartNS = y.FirstStartNS
		x.LastStartNS = y.LastStartNS
	}
	x.Flows += y.Flows
	x.Bytes += y.Bytes
	x.Packets += y.Packets
	x.BothNS += y.BothNS
	x.FirstStartNS = min(x.FirstStartNS, y.FirstStartNS)
	x.LastStartNS = max(x.LastStartNS, y.LastStartNS)
}

// Loads has what every link carries, by link id, and the first and the last start of the flows.
type Loads struct {
	Links                     []LinkLoad
	FirstStartNS, LastStartNS int64
	Simultaneous              bool // BothNS is known and not 0 on all links

	// The link that takes longest to send the bytes that it carries, and its bandwidth.
	busiest    LinkLoad
	busiestBps int64
}

// ReadLoads reads table link_loads and sums the rows of all chunks. A link id that the topology does not have
// is an error, and so is a negative number of flows.
func ReadLoads(n *topology.Network, in schema.Batches) (*Loads, error) {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: math.MaxInt64, LastStartNS: math.MinInt64}
	err := columns.Each(in, func(r *linkLoad) error {
		if r.LinkID < 0 || int(r.LinkID) >= len(l.Links) {
			return fmt.Errorf("link_loads: link %d is not in the topology, which has %d links", r.LinkID, len(l.Links))
		}
		link := &l.Links[r.LinkID]
		link.add(r.LinkLoad)
		if r.Flows < 0 || link.Flows < 0 {
			return fmt.Errorf("link_loads: link %d, chunk %d: %d flows", r.LinkID, r.Chunk, r.Flows)
		}
		l.Simultaneous = l.Simultaneous || r.BothNS > 0
		l.FirstStartNS = min(l.FirstStartNS, r.FirstStartNS)
		l.LastStartNS = max(l.LastStartNS, r.LastStartNS)
		return nil
	})
	for id, x := range l.Links {
		bps := n.Links[id].BandwidthBps
		if l.busiestBps == 0 || float64(x.Bytes)*float64(l.busiestBps) > float64(l.busiest.Bytes)*float64(bps) {
			l.busiest = x
			l.busiestBps = bps
		}
	}
	return l, err
}

// Totals returns sums over the links: the number of flows that have a path, and packets × links crossed.
func (l *Loads) Totals(n *topology.Network) (flows, packetHops int64) {
	for id, x := range l.Links {
		if n.FromHost(int32(id)) { // first link of a path, because hosts do not forward
			flows += x.Flows
		}
		packetHops += x.Packets
	}
	return flows, packetHops
}

// Stretch lengthens the time in which the flows start by a factor, which divides all loads by it.
func (l *Loads) Stretch(times float64) {
	l.LastStartNS = l.FirstStartNS + int64(times*float64(l.LastStartNS-l.FirstStartNS))
}

// Load returns the offered load of a link, as the paper defines it: the bytes of its flows, without headers,
// divided by its capacity between the first start and the last. It returns 0 if all flows start at the same
// time.
func (l *Loads) Load(link topology.Link) float64 {
	span := l.LastStartNS - l.FirstStartNS
	x := l.Links[link.ID]
	if x.Flows+x.Packets == 0 || span <= 0 {
		return 0
	}
	return float64(l.Links[link.ID].Bytes) * 8e9 / float64(span) / float64(link.BandwidthBps)
}

// ReportedLoad returns column load of a link. It is Load unless all flows start at the same time. In that
// case, the load refers to the time that the busiest link takes to send what it carries, including headers.
// The last flow finishes no earlier.
func (l *Loads) ReportedLoad(p *simkernel.Params, link topology.Link) float64 {
	x := l.Links[link.ID]
	if l.LastStartNS > l.FirstStartNS || x.Flows+x.Packets == 0 {
		return l.Load(link)
	}
	return float64(x.Bytes) * 8e9 / l.busiest.BusyNS(l.busiestBps, p) / float64(link.BandwidthBps)
}

// minAvailable is the smallest share of a link's bandwidth that ACKs leave for data. ACKs of one-byte packets
// use more bandwidth than the packets. In a network they would slow the reverse direction, which a link case
// does not model. The minimum ensures that such a case finishes.
const minAvailable = 0.1

// AvailableBps returns the link's bandwidth minus that of the ACKs on it. There is one ACK for each packet of
// the flows on the reverse link. Their average rate is used (paper, §3.2, "Correcting for ACK traffic"): the
// flows of the reverse link are spread over the time from the first start to the last, but not faster than
// the link can send. If BothNS is known, ACKs only arrive during the part of the link's sending time in which
// the reverse link also sends data and ACKs. Both directions of a cable have the same bandwidth.
func (l *Loads) AvailableBps(p *simkernel.Params, link topology.Link) int64 {
	reverse := &l.Links[topology.Reverse(link.ID)]
	if reverse.Flows+reverse.Packets == 0 {
		return link.BandwidthBps
	}
	bps := float64(link.BandwidthBps)
	busyNS := reverse.BusyNS(link.BandwidthBps, p)
	if l.Simultaneous {
		own := l.Links[link.ID].BusyNS(link.BandwidthBps, p)
		acks := float64(reverse.Packets*p.AckBytes) / (float64(reverse.Bytes + reverse.Packets*(p.HeaderBytes+p.AckBytes)))
		return max(simkernel.MinBps, int64(bps*(1-acks*float64(reverse.BothNS)/max(1, own))))
	}
	// The fraction of the time in which the reverse link sends.
	share := busyNS / max(1, busyNS, float64(reverse.LastStartNS-reverse.FirstStartNS))
	ackBps := math.Round(float64(reverse.Packets*p.AckBytes) * 8e9 / busyNS * share)
	return max(simkernel.MinBps, int64(max(bps-ackBps, bps*minAvailable)))
}

// Stat returns the row of a link in table link_stats. counters must be zero for a link without flows.
func (l *Loads) Stat(p *simkernel.Params, link topology.Link, counters tables.LinkCounters) tables.LinkStat {
	x := &l.Links[link.ID]
	return tables.LinkStat{
		LinkID: link.ID, SrcNode: link.Src, DstNode: link.Dst, Tier: link.Tier,
		BandwidthBps: link.BandwidthBps, AvailableBps: l.AvailableBps(p, link),
		Flows: x.Flows, Bytes: x.Bytes, Packets: x.Packets, Load: l.ReportedLoad(p, link), LinkCounters: counters,
	}
}

// A LinkRange is links Lo to Hi-1, one task of a step that is cut by links.
type LinkRange struct {
	step.Range
	Flows   int64 // of all links
	Packets int64 // of the wanted links
}

// Sizes of ranges of links, in flows. Several ranges fit into the memory of a worker (about 100 bytes per
// flow, plus the observations). If there are many ranges, they are larger, because each range reads from
// every file of hops. minRanges keeps several workers busy on a small scenario, however many there are.
const (
	rangeFlows    = 500_000
	maxRangeFlows = 2_000_000
	manyRanges    = 64
	minRanges     = 16
)

// Range returns a range of links as a LinkRange.
func (l *Loads) Range(links step.Range, wants func(link int32) bool) LinkRange {
	r := LinkRange{Range: links}
	for id := links.Lo; id < links.Hi; id++ {
		r.Flows += l.Links[id].Flows
		if wants(int32(id)) {
			r.Packets += l.Links[id].Packets
		}
	}
	return r
}

// Cut cuts the links into ranges whose wanted links have about the same number of packets. If ranges is 0,
// the number of ranges follows from the sizes. The ranges then depend only on the workload, so runs with
// other settings find each other's results.
func (l *Loads) Cut(wants func(link int32) bool, ranges int) []LinkRange {
	var packets int64
	for id, x := range l.Links {
		if wants(int32(id)) {
			packets += x.Packets
		}
	}
	if ranges <= 0 {
		ranges = max(minRanges, l.FewestRanges(wants))
	}
	var all []LinkRange
	var lo, cost int64
	left := packets
	for id, x := range l.Links {
		if !wants(int32(id)) {
			continue
		}
		// The last range has all that is left, so cost is not above its share.
		share := left / int64(ranges-len(all))
		if cost > 0 && cost+x.Packets/2 > share {
			all = append(all, l.Range(step.Range{Lo: lo, Hi: int64(id)}, wants))
			lo = int64(id)
			left -= cost
			cost = 0
		}
		cost += x.Packets
	}
	return append(all, l.Range(step.Range{Lo: lo, Hi: int64(len(l.Links))}, wants))
}

// FewestRanges returns the number of ranges of wanted links, at least 1, that follows from their sizes.
func (l *Loads) FewestRanges(wants func(link int32) bool) int {
	var flows int64
	for id, x := range l.Links {
		if wants(int32(id)) {
			flows += x.Flows
		}
	}
	size := min(max(rangeFlows, flows/manyRanges), maxRangeFlows)
	return int(max(1, (flows+size-1)/size))
}

// EveryLink selects every link.
func EveryLink(int32) bool { return true }
