package linksim

import (
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// omittedShare is the feedback_share up to which pass 2 omits a link's case. Another simulation could change the round
// trips of the link's flows by at most this share, and the second pass changes waits by 0.6 to 0.8 of it on networks at
// 40% to 80% load. Half of it costs 6% more processor time of link cases on scenario 47 and moves p50 to p99.9 by 0.3%
// at most there, on 95 and on 1001.
const omittedShare = 0.02

// Omitted are the links whose cases do not run, with their counters in table link_stats: in pass 2 because their
// observations of pass 1 can stand (ReadOmitted), with clusters because others represent them (Represented).
type Omitted map[int32]tables.LinkCounters

// Runs reports whether the case of a link is not omitted.
func (o Omitted) Runs(link int32) bool {
	_, omitted := o[link]
	return !omitted
}

type caseStats struct {
	LinkID int32 `col:"link_id"`
	tables.LinkCounters
}

// ReadOmitted returns the links that pass 2 omits: those that matter so little to others that their feedback_share is
// up to omittedShare, and hosts' uplinks, whose queues no other host fills and which the replay simulates again. stats
// is table link_stats of pass 1.
func ReadOmitted(n *topology.Network, stats schema.Batches) (Omitted, error) {
	omitted := Omitted{}
	return omitted, columns.Each(stats, func(r *caseStats) error {
		if r.PacketsSent > 0 && (r.FeedbackShare <= omittedShare || n.FromHost(r.LinkID)) {
			r.CrowdedAtNS, r.CrowdedBytes = slices.Clone(r.CrowdedAtNS), slices.Clone(r.CrowdedBytes) // rows are of the batch
			omitted[r.LinkID] = r.LinkCounters
		}
		return nil
	})
}
