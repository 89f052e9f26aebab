package stages

import (
	"container/heap"
	"math"

	"parsimon/simkernel"
)

// contention estimates which competition each flow of a link meets, without simulating packets. All flows on
// the link share it evenly at every moment, none faster than its host's uplink (processor sharing: Kleinrock,
// Queueing Systems II, §4.4; congestion control comes near it).
//
// That one number stands for load, for burstiness on all time scales, for sizes and for sources. Measured
// against simulated link cases, among flows of the same size, flows of similar contention explain four
// fifths of the variance of waits at hosts' uplinks and half of it in the fabric. The queue of all bytes
// (Lindley) explains half as much, the time of arrival nothing.
//
// Flows are added in start order (add). done then returns the contention of each.
type contention struct {
	params  *simkernel.Params
	bps     float64
	nowNS   float64
	served  float64 // ns of transmission at its own rate that a flow would have had by now if present since 0
	demand  float64 // rate that the present flows would use alone, relative to the link's
	present departures
	flows   []flowContention
}

// flowContention is the contention of one flow.
type flowContention struct {
	startNS, endNS float64
	aloneNS        float64 // duration without other flows
	share          float64 // of the link's bandwidth that the flow could use alone
	ahead          float64 // shares of the flows present at its start; above 1 there is a queue
}

// departure is a present flow and the value of contention.served at which it ends.
type departure struct {
	served float64
	flow   int32
}

// departures is a heap.Interface by served.
type departures []departure

func (h departures) Len() int           { return len(h) }
func (h departures) Less(i, j int) bool { return h[i].served < h[j].served }
func (h departures) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *departures) Push(x any) { *h = append(*h, x.(departure)) }

// Pop implements heap.Interface.
func (h *departures) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// reset begins a link of the given available bandwidth.
func (x *contention) reset(p *simkernel.Params, bps int64) {
	*x = contention{params: p, bps: float64(bps), present: x.present[:0], flows: x.flows[:0]}
}

// add adds the link's next flow in start order. sourceBps is the available bandwidth of its host's uplink.
func (x *contention) add(sizeBytes, startNS, sourceBps int64) {
	x.advance(float64(startNS))
	bps := min(x.bps, float64(sourceBps))
	alone := float64(sizeBytes+x.params.Packets(sizeBytes)*x.params.HeaderBytes) * 8e9 / bps
	heap.Push(&x.present, departure{x.served + alone, int32(len(x.flows))})
	x.flows = append(x.flows, flowContention{startNS: float64(startNS), aloneNS: alone, share: bps / x.bps,
		ahead: x.demand})
	x.demand += bps / x.bps
}

// done returns the contention of the flows, in the order in which they were added; valid until reset.
func (x *contention) done() []flowContention {
	x.advance(math.Inf(1))
	return x.flows
}

// advance serves the present flows until the given time.
func (x *contention) advance(untilNS float64) {
	for len(x.present) > 0 {
		rate := min(1, 1/x.demand)
		next := x.nowNS + (x.present[0].served-x.served)/rate
		if next > untilNS {
			x.served += (untilNS - x.nowNS) * rate
			break
		}
		gone := heap.Pop(&x.present).(departure)
		x.nowNS, x.served = next, gone.served
		f := &x.flows[gone.flow]
		f.endNS = next
		if x.demand -= f.share; len(x.present) == 0 {
			x.demand = 0 // discards rounding errors
		}
	}
	x.nowNS = untilNS
}

// expectedSlowdown is the slowdown that contention lets the flow expect on a path of the given propagation
// delay. Besides sharing the link, the flow finds a queue: what the flows before it send in a window beyond
// the link's rate, and half a packet of each of them.
func (c *flowContention) expectedSlowdown(x *contention, pathDelayNS int64) float64 {
	full := float64(x.params.PayloadBytes + x.params.HeaderBytes)
	queue := (max(0, c.ahead-1)*float64(x.params.NominalWindow()) + c.ahead*full/2) * 8e9 / x.bps
	alone := c.aloneNS + 2*float64(pathDelayNS)
	return (alone + c.endNS - c.startNS - c.aloneNS + queue) / alone
}
