package linksim

import (
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// omittedShare is the largest feedback_share of a link case that pass 2 omits. Another simulation of the link
// could change the round trips of its flows by at most this share. At loads of 40% to 80%, the second pass
// changes waits by 0.6 to 0.8 of it. Half this value costs 6% more processor time of link cases on scenario
// 47, and changes p50 to p99.9 by at most 0.3% on scenarios 47, 95 and 1001.
const omittedShare = 0.02

// Omitted has the links whose cases do not run, with their counters in table link_stats. In pass 2 these are
// links whose observations of pass 1 are accurate enough (ReadOmitted). With clusters these are the links
// that others represent (Represented).
type Omitted map[int32]tables.LinkCounters

// Runs reports whether the case of a link runs.
func (o Omitted) Runs(link int32) bool {
	_, omitted := o[link]
	return !omitted
}

type caseStats struct {
	LinkID int32 `col:"link_id"`
	tables.LinkCounters
}

// ReadOmitted returns the links that pass 2 omits. Links with a feedback_share of at most omittedShare hardly
// affect other links. Hosts' uplinks have queues that no other host fills, and the replay simulates them
// again. stats is table link_stats of pass 1.
func ReadOmitted(n *topology.Network, stats schema.Batches) (Omitted, error) {
	omitted := Omitted{}
	return omitted, columns.Each(stats, func(r *caseStats) error {
		if r.PacketsSent > 0 && (r.FeedbackShare <= omittedShare || n.FromHost(r.LinkID)) {
			// The slices of a row are only valid within its batch.
			r.CrowdedAtNS, r.CrowdedBytes = slices.Clone(r.CrowdedAtNS), slices.Clone(r.CrowdedBytes)
			omitted[r.LinkID] = r.LinkCounters
		}
		return nil
	})
}
