package stages

import (
	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// MovedColumns names the columns of table link_stats that Moved reads.
func MovedColumns() []string { return []string{"link_id", "packets_sent", "mean_wait_ns"} }

// A Movement is how much the last pass changed the waits in links' queues.
type Movement struct {
	// Share is the sum over links of the change of all waits, as a fraction of the sum of waits in the later
	// pass; 0 if nothing waits.
	Share float64
	// Links is the change of the waits of each link, by link id, relative to the later pass: negative if they
	// fell, 0 for a link without waits. Hosts' uplinks have 0.
	Links []float64
}

// Moved compares table link_stats of two passes. Hosts' uplinks are left out: they have no queue that other
// hosts fill.
func Moved(n *topology.Network, before, after schema.Batches) (Movement, error) {
	m := Movement{Links: make([]float64, len(n.Links))}
	old, err := switchWaits(n, before)
	if err != nil {
		return m, err
	}
	now, err := switchWaits(n, after)
	if err != nil {
		return m, err
	}
	var all, changed float64
	for i := range now {
		all += now[i]
		changed += max(now[i]-old[i], old[i]-now[i])
		if now[i] > 0 {
			m.Links[i] = (now[i] - old[i]) / now[i]
		}
	}
	if all > 0 {
		m.Share = changed / all
	}
	return m, nil
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
