package stages

import (
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// omittedShare is the feedback_share up to which pass 2 omits a link's case. Another simulation could change the round
// trips of the link's flows by at most this share, and the second pass changes waits by 0.6 to 0.8 of it on networks at
// 40% to 80% load. Half of it costs 6% more processor time of link cases on scenario 47 and moves p50 to p99.9 by 0.3%
// at most there, on 95 and on 1001.
const omittedShare = 0.02

// feedbackShare returns how much the current case contributes to the feedback of its flows' other hops: the mean over
// the packets of wait / round trip without waits, plus the share of marked packets.
func (s *Simulator) feedbackShare(rows []int32) float64 {
	if s.estimator != Flow {
		return 0
	}
	in, layout, at := &s.input.rows, s.params.Layout(), 0
	var sum, all float64
	for _, i := range rows {
		packets, trip := s.params.Packets(in.size[i]), float64(2*in.pathDelay[i]+in.pathSend[i])
		for b := range layout.Blocks(packets) {
			o := &s.result.Observed[at]
			at++
			if o.WaitNS == 0 && o.Marks == 0 {
				continue
			}
			// The conversion keeps compilers from fusing the product and the sum: same bits on every machine.
			sum += float64(float64(layout.Packets(packets, b))*float64(o.WaitNS)) +
				float64(trip*float64(bits.OnesCount16(o.Marks)))
		}
		all += float64(float64(packets) * trip)
	}
	if all == 0 {
		return 0
	}
	return sum / all
}

// Omitted are the links whose cases pass 2 omits because their observations of pass 1 can stand, with their counters in
// table link_stats.
type Omitted map[int32]linkCounters

// ReadOmitted returns the links that pass 2 omits: those that matter so little to others that their feedback_share is
// up to omittedShare, and hosts' uplinks, whose queues no other host fills and which the replay simulates again. stats
// is table link_stats of pass 1.
func ReadOmitted(n *topology.Network, stats schema.Batches) (Omitted, error) {
	omitted := Omitted{}
	return omitted, columns.ForEach(stats, func(rec arrow.Record) error {
		share, cached := columns.Float64s(rec, "feedback_share"), columns.Named(rec, "cached").(*array.Boolean)
		sent, marked, busy := columns.Int64s(rec, "packets_sent"), columns.Int64s(rec, "packets_marked"),
			columns.Int64s(rec, "busy_ns")
		queue, at := columns.Int64s(rec, "max_queue_bytes"), columns.Int64s(rec, "max_queue_at_ns")
		meanQueue, meanWait := columns.Float64s(rec, "mean_queue_packets"), columns.Float64s(rec, "mean_wait_ns")
		for i, link := range columns.Int32s(rec, "link_id") {
			if sent[i] > 0 && (share[i] <= omittedShare || n.FromHost(link)) {
				omitted[link] = linkCounters{sent[i], marked[i], busy[i], queue[i], at[i], meanQueue[i], meanWait[i],
					share[i], cached.Value(i)}
			}
		}
		return nil
	})
}
