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

// LinkLoad is what one link carries: its flows, and the starts of the first and of the last of them.
type LinkLoad struct {
	Flows        int64 `col:"flows"`
	Bytes        int64 `col:"bytes"`
	Packets      int64 `col:"packets"`
	FirstStartNS int64 `col:"first_start_ns"`
	LastStartNS  int64 `col:"last_start_ns"`
	// BothNS is the time in which the link and its reverse send, if each sends its flows one after the other
	// (step.SimultaneousAcks).
	BothNS int64 `col:"both_ns"`
}

// BusyNS returns the time in which a link of a bandwidth sends what it carries, with headers.
func (x *LinkLoad) BusyNS(bps int64, p *simkernel.Params) float64 {
	return float64(x.Bytes+x.Packets*p.HeaderBytes) * 8e9 / float64(bps)
}

func (x *LinkLoad) add(y LinkLoad) {
	if x.Flows == 0 {
		x.FirstStartNS, x.LastStartNS = y.FirstStartNS, y.LastStartNS
	}
	x.Flows += y.Flows
	x.Bytes += y.Bytes
	x.Packets += y.Packets
	x.BothNS += y.BothNS
	x.FirstStartNS = min(x.FirstStartNS, y.FirstStartNS)
	x.LastStartNS = max(x.LastStartNS, y.LastStartNS)
}

// Loads is what every link carries, by link id, and the time from the first start to the last.
type Loads struct {
	Links                     []LinkLoad
	FirstStartNS, LastStartNS int64
	Simultaneous              bool // BothNS is known, and not 0 everywhere

	// The link that needs the longest time to send the bytes that it carries, and its bandwidth.
	busiest    LinkLoad
	busiestBps int64
}

// ReadLoads reads table link_loads and adds up the rows of all chunks. A link id that the topology does not have
// is an error.
func ReadLoads(n *topology.Network, in schema.Batches) (*Loads, error) {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: math.MaxInt64, LastStartNS: math.MinInt64}
	err := columns.Each(in, func(r *linkLoad) error {
		if r.LinkID < 0 || int(r.LinkID) >= len(l.Links) {
			return fmt.Errorf("link_loads: link %d is not in the topology, which has %d links", r.LinkID, len(l.Links))
		}
		l.Links[r.LinkID].add(r.LinkLoad)
		l.Simultaneous = l.Simultaneous || r.BothNS > 0
		l.FirstStartNS, l.LastStartNS = min(l.FirstStartNS, r.FirstStartNS), max(l.LastStartNS, r.LastStartNS)
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

// Totals adds up the links: flows that have a path, and packets × links crossed.
func (l *Loads) Totals(n *topology.Network) (flows, packetHops int64) {
	for id, x := range l.Links {
		if n.FromHost(int32(id)) { // the first of a path, since hosts do not forward
			flows += x.Flows
		}
		packetHops += x.Packets
	}
	return flows, packetHops
}

// Load returns the link's offered load, as the paper measures it: the bytes of its flows, without headers,
// relative to its capacity from the workload's first start to its last; 0 if these are the same.
func (l *Loads) Load(link topology.Link) float64 {
	span := l.LastStartNS - l.FirstStartNS
	if x := l.Links[link.ID]; x.Flows+x.Packets == 0 || span <= 0 {
		return 0
	}
	return float64(l.Links[link.ID].Bytes) * 8e9 / float64(span) / float64(link.BandwidthBps)
}

// ReportedLoad is column load of a link: Load, or that of a burst. If all flows start at the same time, the load is over
// the time in which the busiest link sends what it carries, with headers. The flows live at least that long.
func (l *Loads) ReportedLoad(p *simkernel.Params, link topology.Link) float64 {
	x := l.Links[link.ID]
	if l.LastStartNS > l.FirstStartNS || x.Flows+x.Packets == 0 || l.busiestBps == 0 {
		return l.Load(link)
	}
	return float64(x.Bytes) * 8e9 / l.busiest.BusyNS(l.busiestBps, p) / float64(link.BandwidthBps)
}

// minAvailable is the least fraction of a link's bandwidth that ACKs leave to data. ACKs of one-byte packets take
// more bandwidth than the packets; in the network they would then slow the reverse direction, which a link case
// does not model. The minimum keeps such a case solvable.
const minAvailable = 0.1

// AvailableBps returns the link's bandwidth less that of the ACKs on it: one ACK for each packet of the flows on the
// reverse link, which come while that sends. It is their mean rate (paper, §3.2, "Correcting for ACK traffic"): the
// flows of the reverse link are spread from the first start to the last, but not sent faster than it can. Where BothNS
// is known, ACKs come in the part of the time in which the link sends while the reverse one sends data and ACKs, too.
// Both directions of a cable have the same bandwidth.
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
	share := busyNS / max(1, busyNS, float64(reverse.LastStartNS-reverse.FirstStartNS)) // of the time, in which it sends
	ackBps := math.Round(float64(reverse.Packets*p.AckBytes) * 8e9 / busyNS * share)
	return max(simkernel.MinBps, int64(max(bps-ackBps, bps*minAvailable)))
}

// Stat returns the row of a link in table link_stats. Counters are zero for a link without flows.
func (l *Loads) Stat(p *simkernel.Params, link topology.Link, counters tables.LinkCounters) tables.LinkStat {
	x := &l.Links[link.ID]
	return tables.LinkStat{
		LinkID: link.ID, SrcNode: link.Src, DstNode: link.Dst, Tier: link.Tier,
		BandwidthBps: link.BandwidthBps, AvailableBps: l.AvailableBps(p, link),
		Flows: x.Flows, Bytes: x.Bytes, Packets: x.Packets, Load: l.ReportedLoad(p, link), LinkCounters: counters,
	}
}

// A LinkRange is links Lo to Hi, excluded: a task of a step that is cut by links.
type LinkRange struct {
	step.Range
	Flows   int64 // of all links
	Packets int64 // of the links that are wanted
}

// Sizes of ranges of links in flows, so that several fit the memory of a worker (about 100 bytes a flow, and the
// observations). They are larger where there are many ranges, since each reads from every file of hops. minRanges keeps
// several workers busy on a small scenario.
const (
	rangeFlows    = 500_000
	maxRangeFlows = 2_000_000
	manyRanges    = 64
	minRanges     = 16
)

// Range returns links lo to hi as a range.
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

// Cut cuts the links into ranges whose wanted links have about the same number of packets: into that many or, for 0, by
// size. Then the ranges depend on nothing but the workload, so that runs with other settings find each other's results.
func (l *Loads) Cut(wants func(link int32) bool, ranges int) []LinkRange {
	var flows, packets int64
	for id, x := range l.Links {
		if wants(int32(id)) {
			flows += x.Flows
			packets += x.Packets
		}
	}
	if ranges <= 0 {
		size := min(max(rangeFlows, flows/manyRanges), maxRangeFlows)
		ranges = int(max(minRanges, (flows+size-1)/size))
	}
	var all []LinkRange
	var lo, cost int64
	left := packets
	for id, x := range l.Links {
		if !wants(int32(id)) {
			continue
		}
		share := left / int64(max(1, ranges-len(all)))
		if cost > 0 && cost+x.Packets/2 > share && len(all) < ranges-1 {
			all = append(all, l.Range(step.Range{Lo: lo, Hi: int64(id)}, wants))
			lo = int64(id)
			left -= cost
			cost = 0
		}
		cost += x.Packets
	}
	return append(all, l.Range(step.Range{Lo: lo, Hi: int64(len(l.Links))}, wants))
}

// EveryLink wants every link.
func EveryLink(int32) bool { return true }
