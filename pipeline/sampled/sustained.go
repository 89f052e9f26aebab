package sampled

import (
	"math"
	"sort"

	"parsimon/pipeline/sampling"
)

// A cut is a flow that outlasts the simulated part of its window. In the simulation it is alone after that, and as fast
// as in its ideal FCT.
type cut struct {
	slot   int
	groups []Key
	flow   float64 // simulated slowdown
	shared float64 // time in the part, in ideal FCTs
	done   float64 // share of its bytes that it sends in the part
}

// cutOf is a flow that ends after its part; false for one that does not.
func (r *round) cutOf(startNS, fctNS int64, slowdown float64) (c cut, ok bool) {
	end := r.endOf(startNS)
	if end-startNS >= fctNS {
		return c, false
	}
	ideal := float64(fctNS) / slowdown
	shared := float64(end-startNS) / ideal
	return cut{flow: slowdown, shared: shared, done: max(0, 1-(slowdown-shared))}, true
}

// endOf is the end of the simulated part in which a flow starts.
func (r *round) endOf(startNS int64) int64 {
	i := sort.Search(len(r.parts), func(i int) bool { return r.parts[i][1] > startNS })
	if i == len(r.parts) {
		return math.MaxInt64
	}
	return r.parts[i][1]
}

// sustain adds the slowdowns that cut flows would have if they went on at the mean rate at which all of them go in the
// parts. They are right on average and vary too little, because the rate of one flow does not.
func sustain(cuts []cut, to map[int]counts) {
	shared, done := 0.0, 0.0
	for _, c := range cuts {
		shared, done = shared+c.shared, done+c.done
	}
	for _, c := range cuts {
		slowdown := c.flow
		if done > 0 {
			slowdown = max(slowdown, c.shared+(1-c.done)*shared/done)
		}
		cell := sampling.CellOf(slowdown)
		for _, k := range c.groups {
			to[c.slot].add(k, cell)
		}
	}
}
