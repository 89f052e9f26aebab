package stages

import (
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// settledShare is the feedback_share up to which a link's case is not simulated again in later passes. Another
// simulation could change the round trips of the link's flows by at most this share, which is a tenth of the
// accuracy that is asked for. The converse, to omit links whose feedback did not change, does not work: waits react to
// small changes of feedback by much where they are long.
const settledShare = 0.01

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

// Settle omits, in the passes that follow, the cases of links that matter so little to others that their
// observations of an earlier pass can stand: those of a feedback_share up to settledShare. stats is table link_stats
// of the pass before; the rows of omitted links are copied to the table of the next pass. Hosts' uplinks are never
// omitted: what they observe is not in the share.
func (s *Simulator) Settle(stats schema.Batches) error {
	s.settled = map[int32]linkCounters{}
	return columns.ForEach(stats, func(rec arrow.Record) error {
		share, cached := columns.Float64s(rec, "feedback_share"), columns.Named(rec, "cached").(*array.Boolean)
		sent, marked, busy := columns.Int64s(rec, "packets_sent"), columns.Int64s(rec, "packets_marked"),
			columns.Int64s(rec, "busy_ns")
		queue, at := columns.Int64s(rec, "max_queue_bytes"), columns.Int64s(rec, "max_queue_at_ns")
		meanQueue, meanWait := columns.Float64s(rec, "mean_queue_packets"), columns.Float64s(rec, "mean_wait_ns")
		for i, link := range columns.Int32s(rec, "link_id") {
			if sent[i] > 0 && share[i] <= settledShare && !s.net.FromHost(link) {
				s.settled[link] = linkCounters{sent[i], marked[i], busy[i], queue[i], at[i], meanQueue[i], meanWait[i],
					share[i], cached.Value(i)}
			}
		}
		return nil
	})
}
