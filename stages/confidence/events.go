package confidence

import "parsimon/schema/sizebin"

// A workload may have no event of congestion that is as large as the average one. It then has small
// percentiles, and batches of time that differ little, so an interval from these batches alone is too narrow
// on its upper side. Flow sizes and loads say how many flows an event has even if none occurred.
//
// moreEvents is the number of events that the upper bound allows for, in addition to those that occurred. If
// no event is observed, three are the upper bound of the expected number at 95% (the rule of three: Hanley
// and Lippman-Hand, Journal of the American Medical Association 249(13), 1983).
const moreEvents = 3

// Traffic has what the intervals of drawn delays need to know about all flows.
type Traffic struct {
	Flows int64
	// ByteMeanBytes is the mean size of flows, weighted by size: that of the flow that a random byte belongs to.
	ByteMeanBytes float64
}

// Traffic returns what is known after ReadDrawn.
func (x *Intervals) Traffic() Traffic {
	return Traffic{Flows: x.all.bins[sizebin.Count].flows, ByteMeanBytes: x.squares / max(1, x.bytes)}
}

// SetEvent sets the share of all flows that belongs to one event of congestion. Call it before Rows. Flows of
// each size bin and label are assumed to have the same share.
func (x *Intervals) SetEvent(share float64) { x.event = share }

// moreBeyond is the factor by which more events increase the number of flows that are beyond a quantile.
func moreBeyond(q, event float64) float64 { return 1 + moreEvents*event/(1-q) }
