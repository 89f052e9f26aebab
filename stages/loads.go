package stages

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// LinkLoad is what one link carries.
type LinkLoad struct {
	Flows, Bytes, Packets     int64
	FirstStartNS, LastStartNS int64
}

// add puts the flows of y to those of x.
func (x *LinkLoad) add(y LinkLoad) {
	if x.Flows == 0 {
		x.FirstStartNS, x.LastStartNS = y.FirstStartNS, y.LastStartNS
	}
	x.Flows += y.Flows
	x.Bytes += y.Bytes
	x.Packets += y.Packets
	x.FirstStartNS = min(x.FirstStartNS, y.FirstStartNS)
	x.LastStartNS = max(x.LastStartNS, y.LastStartNS)
}

// Loads is what every link carries, by link id, and the time the workload spans.
type Loads struct {
	Links                     []LinkLoad
	FirstStartNS, LastStartNS int64
}

// ReadLoads adds up the link_loads rows of all chunks.
func ReadLoads(n *topology.Network, in schema.Batches) (*Loads, error) {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: math.MaxInt64, LastStartNS: math.MinInt64}
	err := columns.ForEach(in, func(rec arrow.Record) error {
		link, flows, bytes, packets := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flows"), columns.Int64s(rec, "bytes"), columns.Int64s(rec, "packets")
		first, last := columns.Int64s(rec, "first_start_ns"), columns.Int64s(rec, "last_start_ns")
		for i, id := range link {
			if id < 0 || int(id) >= len(l.Links) {
				return fmt.Errorf("link_loads names link %d, the topology has %d links", id, len(l.Links))
			}
			l.Links[id].add(LinkLoad{flows[i], bytes[i], packets[i], first[i], last[i]})
			l.FirstStartNS = min(l.FirstStartNS, first[i])
			l.LastStartNS = max(l.LastStartNS, last[i])
		}
		return nil
	})
	return l, err
}

// Load is the link's offered load: the bytes of its flows, without headers, over what it could
// carry from the workload's first start to its last (the paper's measure). 0 if that is no time.
func (l *Loads) Load(link topology.Link) float64 {
	span := l.LastStartNS - l.FirstStartNS
	if l.Links[link.ID].Flows == 0 || span <= 0 {
		return 0
	}
	return float64(l.Links[link.ID].Bytes) * 8e9 / float64(span) / float64(link.BandwidthBps)
}

// leastAvailable is the share of a link that its ACKs leave to data at least. ACKs of one-byte
// packets can outweigh the packets; where they would, the reverse direction is itself held back
// by them, which a link case does not see. The floor keeps such a case solvable.
const leastAvailable = 0.1

// AvailableBps is the link's bandwidth less the ACKs it carries (paper, §3.2, "Correcting for ACK
// traffic"): the ACKs of the flows on the reverse link, one per packet, over the time those flows
// span from first to last start. A burst cannot be acknowledged faster than the reverse link sends
// it, so the span is at least the time its packets need there.
func (l *Loads) AvailableBps(p *simkernel.Params, link topology.Link) int64 {
	return availableBps(link.BandwidthBps, l.Links[topology.Reverse(link.ID)], p)
}

// availableBps is that of a link of that bandwidth whose reverse carries the load. Both directions of a
// cable have the same bandwidth.
func availableBps(bps int64, reverse LinkLoad, p *simkernel.Params) int64 {
	if reverse.Flows == 0 {
		return bps
	}
	bw := float64(bps)
	wireBytes := float64(reverse.Bytes + reverse.Packets*p.HeaderBytes)
	spanNS := max(float64(reverse.LastStartNS-reverse.FirstStartNS), wireBytes*8e9/bw)
	ackBps := math.Round(float64(reverse.Packets*p.AckBytes) * 8e9 / spanNS)
	return max(simkernel.MinBps, int64(max(bw-ackBps, bw*leastAvailable)))
}

// sources answers the available bandwidths of hosts' own links, each worked out once.
func (l *Loads) sources(n *topology.Network, p *simkernel.Params) func(first int32) int64 {
	known := map[int32]int64{}
	return func(first int32) int64 {
		bps, ok := known[first]
		if !ok {
			bps = l.AvailableBps(p, n.Links[first])
			known[first] = bps
		}
		return bps
	}
}
