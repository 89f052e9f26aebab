package stages

import (
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// settledShare is the feedback_share up to which a link's case is not simulated again after the first pass. Another
// simulation could change the round trips of the link's flows by at most this share, and the second pass changes waits
// by 0.6 to 0.8 of it on networks at 40% to 80% load. Half of it costs 6% more processor time of link cases on scenario
// 47 and moves p50 to p99.9 by 0.3% at most there, on 95 and on 1001. The converse, to omit links whose feedback did
// not change, does not work: waits react to small changes of feedback by much where they are long.
const settledShare = 0.02

// RenewsNICWaits reports whether hosts' uplinks are simulated again with the feedback of pass n, if another pass
// follows (SimulateUplinks). What other hosts do reaches an uplink only through the rates and windows of its
// flows, so its NIC waits change less than the waits of other links, and every other pass is enough. The passes
// themselves leave uplinks out: the last one's would be of no use, because the replay follows.
func RenewsNICWaits(pass int) bool { return pass%2 == 0 }

// omits reports whether passes after the first omit the case of a link with such a feedback_share.
func omits(n *topology.Network, link int32, share float64) bool {
	return n.FromHost(link) || share <= settledShare
}

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

// Settled are the links whose cases a pass omits because their observations of an earlier pass can stand, with their
// counters in table link_stats.
type Settled map[int32]linkCounters

// ReadSettled returns the links that a pass omits: those that matter so little to others that their feedback_share is
// up to settledShare, and hosts' uplinks. stats is table link_stats of the pass before.
func ReadSettled(n *topology.Network, stats schema.Batches) (Settled, error) {
	return ReadOmitted(stats, func(link int32, share float64) bool { return omits(n, link, share) })
}

// ReadUnfed returns the links that need no feedback in pass n: those that it omits, but for uplinks whose NIC waits are
// renewed with it. stats is table link_stats of the pass before.
func ReadUnfed(n *topology.Network, pass int, stats schema.Batches) (Settled, error) {
	return ReadOmitted(stats, func(link int32, share float64) bool {
		return omits(n, link, share) && !(n.FromHost(link) && RenewsNICWaits(pass))
	})
}

// Omit returns links as settled ones without counters, for what writes no table link_stats.
func Omit(n *topology.Network, omit func(link int32) bool) Settled {
	settled := Settled{}
	for id := range n.Links {
		if omit(int32(id)) {
			settled[int32(id)] = linkCounters{}
		}
	}
	return settled
}

// MattersToOthers reports whether a pass simulates a link again for what it contributes to the feedback of others:
// feedback_share, of table link_stats.
func MattersToOthers(share float64) bool { return share > settledShare }

// ReadOmitted returns those of the links that omit selects by their feedback_share, and that carried packets. stats is
// table link_stats of an earlier pass.
func ReadOmitted(stats schema.Batches, omit func(link int32, share float64) bool) (Settled, error) {
	settled := Settled{}
	return settled, columns.ForEach(stats, func(rec arrow.Record) error {
		share, cached := columns.Float64s(rec, "feedback_share"), columns.Named(rec, "cached").(*array.Boolean)
		sent, marked, busy := columns.Int64s(rec, "packets_sent"), columns.Int64s(rec, "packets_marked"),
			columns.Int64s(rec, "busy_ns")
		queue, at := columns.Int64s(rec, "max_queue_bytes"), columns.Int64s(rec, "max_queue_at_ns")
		meanQueue, meanWait := columns.Float64s(rec, "mean_queue_packets"), columns.Float64s(rec, "mean_wait_ns")
		for i, link := range columns.Int32s(rec, "link_id") {
			if sent[i] > 0 && omit(link, share[i]) {
				settled[link] = linkCounters{sent[i], marked[i], busy[i], queue[i], at[i], meanQueue[i], meanWait[i],
					share[i], cached.Value(i)}
			}
		}
		return nil
	})
}

// Settle omits the cases of these links from the next passes; their rows of table link_stats are those of the pass
// before.
func (s *Simulator) Settle(links Settled) { s.settled = links }
