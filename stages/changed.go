package stages

import (
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// ReadChanges returns, by link id, by how much the traffic of a link differs from that in another scenario: the
// difference of their packets relative to those of the other scenario; infinite where that has none, or another
// bandwidth; 0 where all is the same. stats is table link_stats of that scenario.
func ReadChanges(n *topology.Network, p *simkernel.Params, loads *Loads, stats schema.Batches) ([]float64, error) {
	changes := make([]float64, len(n.Links))
	for id := range changes {
		if loads.Links[id].Flows > 0 {
			changes[id] = math.Inf(1)
		}
	}
	return changes, columns.ForEach(stats, func(rec arrow.Record) error {
		bandwidth, available := columns.Int64s(rec, "bandwidth_bps"), columns.Int64s(rec, "available_bps")
		flows, bytes, packets := columns.Int64s(rec, "flows"), columns.Int64s(rec, "bytes"), columns.Int64s(rec, "packets")
		for i, id := range columns.Int32s(rec, "link_id") {
			if int(id) >= len(n.Links) {
				continue
			}
			link, now := n.Links[id], &loads.Links[id]
			changes[id] = 0
			switch {
			case now.Flows > 0 && (flows[i] == 0 || link.BandwidthBps != bandwidth[i]):
				changes[id] = math.Inf(1)
			case now.Flows != flows[i] || now.Bytes != bytes[i] || now.Packets != packets[i]:
				changes[id] = math.Abs(float64(now.Packets-packets[i])) / float64(packets[i])
				changes[id] = max(changes[id], math.SmallestNonzeroFloat64)
			}
			if now.Flows > 0 {
				changes[id] = max(changes[id], math.Abs(float64(loads.AvailableBps(p, link)-available[i]))/float64(available[i]))
			}
		}
		return nil
	})
}
