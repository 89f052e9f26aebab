package stages

import (
	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// MovedColumns names the columns of table link_stats that Moved reads.
func MovedColumns() []string { return []string{"link_id", "packets_sent", "mean_wait_ns"} }

// Moved compares table link_stats of two passes. It returns the sum over links of the change of all waits in
// the link's queue, as a fraction of the sum of waits in the later pass; 0 if nothing waits. Hosts' uplinks
// are left out: they have no queue that other hosts fill.
func Moved(n *topology.Network, before, after schema.Batches) (float64, error) {
	old, err := switchWaits(n, before)
	if err != nil {
		return 0, err
	}
	now, err := switchWaits(n, after)
	if err != nil {
		return 0, err
	}
	var all, changed float64
	for i := range now {
		all += now[i]
		changed += max(now[i]-old[i], old[i]-now[i])
	}
	if all == 0 {
		return 0, nil
	}
	return changed / all, nil
}

// switchWaits returns the sum of waits in ns, by link id; 0 for hosts' uplinks.
func switchWaits(n *topology.Network, in schema.Batches) ([]float64, error) {
	waits := make([]float64, len(n.Links))
	return waits, columns.ForEach(in, func(rec arrow.Record) error {
		packets, wait := columns.Int64s(rec, "packets_sent"), columns.Float64s(rec, "mean_wait_ns")
		for i, link := range columns.Int32s(rec, "link_id") {
			if !n.FromHost(link) {
				waits[link] = float64(packets[i]) * wait[i]
			}
		}
		return nil
	})
}
