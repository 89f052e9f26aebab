package stages

import (
	"container/heap"
	"math"

	"parsimon/simkernel"
)

// A crowd says which company the flows of a link keep, as far as can be told without simulating packets:
// all flows on the link share it evenly at every moment, none faster than its host's own link (processor
// sharing: Kleinrock, Queueing Systems II, §4.4; congestion control comes near it). That stands for load,
// for burstiness on every time scale, for sizes and for sources, all at once. Held against the waits and
// marks of simulated link cases of the same size, flows that are neighbours by their company explain four
// fifths of the variance of waits at hosts' links and a half in the fabric; what Lindley's queue of all
// bytes says explains half of that, and the moment nothing.
type contention struct {
	params   *simkernel.Params
	bps      float64
	at       float64 // ns
	served   float64 // what a flow would have been served by now at its own rate, in ns of it, had it always been here
	wanted   float64 // what the flows here would send if each had the link to itself, over what the link can
	observed leaving
	flows    []contender
}

// A company is what a flow met.
type contender struct {
	startNS, leftNS float64
	alone           float64 // time it would need without company, ns
	share           float64 // of the link's bandwidth, that it could use alone
	ahead           float64 // shares of those that were there when it came: above 1, there is a queue
}

// slowed is the time the flow needed over what it would alone.
func (c *contender) slowed() float64 { return (c.leftNS - c.startNS) / c.alone }

// A leaver is a flow on the link, and by when it has been served.
type leaver struct {
	served float64
	flow   int32
}

type leaving []leaver

func (h leaving) Len() int           { return len(h) }
func (h leaving) Less(i, j int) bool { return h[i].served < h[j].served }
func (h leaving) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *leaving) Push(x any) { *h = append(*h, x.(leaver)) }

// Pop is heap.Interface's.
func (h *leaving) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// reset begins with a link of that available bandwidth.
func (x *contention) reset(p *simkernel.Params, bps int64) {
	*x = contention{params: p, bps: float64(bps), observed: x.observed[:0], flows: x.flows[:0]}
}

// add takes the link's next flow in start order, of a host whose own link has that available bandwidth.
func (x *contention) add(size, start, sourceBps int64) {
	x.serve(float64(start))
	bps := min(x.bps, float64(sourceBps))
	alone := float64(size+x.params.Packets(size)*x.params.HeaderBytes) * 8e9 / bps
	heap.Push(&x.observed, leaver{x.served + alone, int32(len(x.flows))})
	x.flows = append(x.flows, contender{startNS: float64(start), alone: alone, share: bps / x.bps, ahead: x.wanted})
	x.wanted += bps / x.bps
}

// done answers what each flow met, in the order they came; valid until reset.
func (x *contention) done() []contender {
	x.serve(math.Inf(1))
	return x.flows
}

// serve lets time pass.
func (x *contention) serve(until float64) {
	for len(x.observed) > 0 {
		rate := min(1, 1/x.wanted)
		next := x.at + (x.observed[0].served-x.served)/rate
		if next > until {
			x.served += (until - x.at) * rate
			break
		}
		gone := heap.Pop(&x.observed).(leaver)
		x.at, x.served = next, gone.served
		f := &x.flows[gone.flow]
		f.leftNS = next
		if x.wanted -= f.share; len(x.observed) == 0 {
			x.wanted = 0 // not what rounding left
		}
	}
	x.at = until
}

// expected is the slowdown that the company lets the flow expect, of that propagation from end to end:
// beside sharing, it finds a queue of what those before it send in a window above what the link can,
// and half a packet of each of them.
func (c *contender) expected(x *contention, delayNS int64) float64 {
	full := float64(x.params.PayloadBytes + x.params.HeaderBytes)
	queue := (max(0, c.ahead-1)*float64(x.params.WindowBytes) + c.ahead*full/2) * 8e9 / x.bps
	alone := c.alone + 2*float64(delayNS)
	return (alone + c.leftNS - c.startNS - c.alone + queue) / alone
}
