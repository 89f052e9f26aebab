package stages

import (
	"fmt"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
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
	// (RouteOptions.Simultaneous).
	BothNS int64 `col:"both_ns"`
}

// busyNS returns the time in which a link of a bandwidth sends what it carries, with headers.
func (x *LinkLoad) busyNS(bps int64, p *simkernel.Params) float64 {
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
}

// ReadLoads reads table link_loads and adds up the rows of all chunks. A link id that the topology does not have
// is an error.
func ReadLoads(n *topology.Network, in schema.Batches) (*Loads, error) {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: math.MaxInt64, LastStartNS: math.MinInt64}
	return l, columns.Each(in, func(r *loadRow) error {
		if r.LinkID < 0 || int(r.LinkID) >= len(l.Links) {
			return fmt.Errorf("link_loads: link %d is not in the topology, which has %d links", r.LinkID, len(l.Links))
		}
		l.Links[r.LinkID].add(r.LinkLoad)
		l.Simultaneous = l.Simultaneous || r.BothNS > 0
		l.FirstStartNS, l.LastStartNS = min(l.FirstStartNS, r.FirstStartNS), max(l.LastStartNS, r.LastStartNS)
		return nil
	})
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
	busyNS := reverse.busyNS(link.BandwidthBps, p)
	if l.Simultaneous {
		own := l.Links[link.ID].busyNS(link.BandwidthBps, p)
		acks := float64(reverse.Packets*p.AckBytes) / (float64(reverse.Bytes + reverse.Packets*(p.HeaderBytes+p.AckBytes)))
		return max(simkernel.MinBps, int64(bps*(1-acks*float64(reverse.BothNS)/max(1, own))))
	}
	share := busyNS / max(1, busyNS, float64(reverse.LastStartNS-reverse.FirstStartNS)) // of the time, in which it sends
	ackBps := math.Round(float64(reverse.Packets*p.AckBytes) * 8e9 / busyNS * share)
	return max(simkernel.MinBps, int64(max(bps-ackBps, bps*minAvailable)))
}

// stat returns the row of a link in table link_stats; counters are zero for a link without flows.
func (l *Loads) stat(p *simkernel.Params, link topology.Link, counters linkCounters) linkStatRow {
	x := &l.Links[link.ID]
	return linkStatRow{link.ID, link.Src, link.Dst, link.Tier, link.BandwidthBps, l.AvailableBps(p, link), x.Flows,
		x.Bytes, x.Packets, l.Load(link), counters, switchCounters{}}
}
