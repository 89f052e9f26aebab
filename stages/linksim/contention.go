package linksim

import (
	"math"

	"parsimon/schema/sizebin"
	"parsimon/simkernel"
)

// contention estimates how much competition each flow of a link meets, without simulating packets. All flows
// on the link share it evenly at every moment, but none is faster than its host's uplink (processor sharing:
// Kleinrock, Queueing Systems II, §4.4). Congestion control approximates this.
//
// This estimate reflects load, burstiness on all time scales, flow sizes and sources. In simulated link
// cases, among flows of the same size, it explains four fifths of the variance of waits at hosts' uplinks and
// half of it in the fabric. The queue length without congestion control (Lindley) explains half as much, and
// the time of arrival explains nothing.
//
// add adds flows, which must be in start order. done then returns the contention of each flow.
type contention struct {
	params  *simkernel.Params
	bps     float64
	window  float64 // bytes that a sender has in flight at most
	nowNS   float64
	served  float64     // transmission time, in ns at its own rate, of a flow present since time 0
	demand  float64     // rate that the present flows would use alone, relative to the link's
	present []departure // in descending order of served: the next flow to finish is last
	flows   []flowContention

	slowdowns [sizebin.Count][]float64 // expected slowdowns of the flows, by size bin
}

type flowContention struct {
	startNS, endNS float64
	aloneNS        float64 // duration without other flows
	share          float64 // of the link's bandwidth that the flow could use alone
	ahead          float64 // sum of the shares of the flows present at its start; above 1 there is a queue
}

// A departure is a flow that is present, and the value of contention.served at which it finishes.
type departure struct {
	served float64
	flow   int32
}

func (x *contention) reset(bps int64) {
	*x = contention{params: x.params, bps: float64(bps), window: float64(x.params.NominalWindow()),
		present: x.present[:0], flows: x.flows[:0], slowdowns: x.slowdowns}
}

// add adds the next flow of the link, in start order. sourceBps is the available bandwidth of its host's
// uplink.
func (x *contention) add(sizeBytes, startNS, sourceBps int64) {
	x.advance(float64(startNS))
	bps := min(x.bps, float64(sourceBps))
	alone := float64(sizeBytes+x.params.Packets(sizeBytes)*x.params.HeaderBytes) * 8e9 / bps
	d := departure{x.served + alone, int32(len(x.flows))}
	x.present = append(x.present, d)
	at := len(x.present) - 1
	for at > 0 && x.present[at-1].served <= d.served { // few of the flows finish before the new one
		x.present[at] = x.present[at-1]
		at--
	}
	x.present[at] = d
	share := bps / x.bps
	x.flows = append(x.flows, flowContention{startNS: float64(startNS), aloneNS: alone, share: share,
		ahead: x.demand})
	x.demand += share
}

// done returns the contention of all flows, in the order of add. The result is valid until reset.
func (x *contention) done() []flowContention {
	x.advance(math.Inf(1))
	return x.flows
}

func (x *contention) advance(untilNS float64) {
	for len(x.present) > 0 {
		gone := x.present[len(x.present)-1]
		rate := 1.0
		next := x.nowNS + (gone.served - x.served)
		if x.demand > 1 {
			rate = 1 / x.demand
			next = x.nowNS + (gone.served-x.served)/rate
		}
		if next > untilNS {
			x.served += (untilNS - x.nowNS) * rate
			break
		}
		x.present = x.present[:len(x.present)-1]
		x.nowNS = next
		x.served = gone.served
		f := &x.flows[gone.flow]
		f.endNS = next
		x.demand -= f.share
		if len(x.present) == 0 {
			x.demand = 0 // discards rounding errors
		}
	}
	x.nowNS = untilNS
}

// expectedSlowdown returns the slowdown that the flow's contention implies on a path of the given propagation
// delay. Besides sharing the link, the flow waits in a queue. The queue has what the flows before it send
// within a window in excess of the link's rate, plus half a packet of each of them.
func (c *flowContention) expectedSlowdown(x *contention, pathDelayNS int64) float64 {
	full := float64(x.params.PayloadBytes + x.params.HeaderBytes)
	queue := (max(0, c.ahead-1)*x.window + c.ahead*full/2) * 8e9 / x.bps
	alone := c.aloneNS + 2*float64(pathDelayNS)
	return (alone + c.endNS - c.startNS - c.aloneNS + queue) / alone
}
