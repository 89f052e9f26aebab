package sampling

import (
	"math"
	"sort"
)

// A Stratum describes one stratum: the counts of the slots drawn from it.
type stratum struct {
	Slots int          // of the whole stratum
	Drawn []*histogram // nil: a drawn slot without a flow of the group
}

// A Sample is the strata of a group of flows.
type sample []stratum

// flows is the weighted number of flows, and largest the greatest cell with a flow.
func (s sample) flows() (weighted float64, largest int32) {
	largest = -1
	for _, h := range s {
		for _, c := range h.Drawn {
			weighted += h.weight() * float64(c.Flows())
			largest = max(largest, c.last())
		}
	}
	return weighted, largest
}

// Flows is the number of flows in the drawn slots.
func (s sample) Flows() (n int64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			n += c.Flows()
		}
	}
	return n
}

func (h stratum) weight() float64 { return float64(h.Slots) / float64(len(h.Drawn)) }

// upTo is the weighted number of flows up to and including a cell.
func (s sample) upTo(cell int32) (sum float64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			sum += h.weight() * float64(c.UpTo(cell))
		}
	}
	return sum
}

// variance returns the estimated variance of a sum over strata, and its degrees of freedom: of scale · Σ (x − x̄)² over
// the drawn slots of each stratum, with the finite population correction. of gives the x of a stratum with n drawn
// slots, and the scale.
//
// The variance is a sum of squares u² over the drawn slots. Satterthwaite's degrees of freedom, 2V² / Var(V), take
// the u of a stratum as normal, and a sample of a few slots of a stratum does not show that they are not. Over all
// strata it does: Var(V) is about ⅔ Σ u⁴ (all of Σ u⁴ but the squares of the expectations, which for normal u are a
// third of it). A few slots with most of the variance so give few degrees of freedom. The smaller of both counts.
func (s sample) variance(of func(h int, n float64) (x []float64, scale float64)) (v, df float64) {
	fourth, squares, slots, free := 0.0, 0.0, 0.0, 0.0
	for h, stratum := range s {
		n := float64(len(stratum.Drawn))
		if n < 2 || len(stratum.Drawn) == stratum.Slots {
			continue // a stratum of one slot, or drawn whole, has no sampling variance
		}
		all, scale := of(h, n)
		sum, part := 0.0, 0.0
		for _, x := range all {
			sum += x
		}
		for _, x := range all {
			square := scale * (1 - n/float64(stratum.Slots)) * (x - sum/n) * (x - sum/n)
			part += square
			fourth += square * square
		}
		v += part
		squares += part * part / (n - 1)
		slots, free = slots+n, free+n-1
	}
	if fourth > 0 {
		df = min(v*v/squares, 3*v*v/fourth*free/slots, free)
	}
	return v, df
}

// varianceAt is the variance of the distribution function at a cell.
func (s sample) varianceAt(cell int32, flows float64) (v, df float64) {
	f := s.upTo(cell) / flows
	return s.variance(func(h int, n float64) (x []float64, scale float64) {
		for _, c := range s[h].Drawn {
			x = append(x, float64(c.UpTo(cell))-f*float64(c.Flows())) // y − f·m
		}
		scale = s[h].weight() / flows
		return x, scale * scale * n / (n - 1)
	})
}

// An Estimate is a quantile of slowdown of the whole workload with its interval.
type quantileEstimate struct {
	Value, Lo, Hi float64
	Beyond        int64 // flows of the sample above the quantile
	Open          bool  // no slowdown of the sample is significantly above the quantile: Hi is its largest
}

// Quantile estimates a quantile with an interval of a confidence such as 0.95. ok is false for a sample without flows.
func (s sample) Quantile(p, confidence float64) (e quantileEstimate, ok bool) {
	flows, largest := s.flows()
	if e.Value, ok = s.value(p); !ok {
		return e, false
	}
	at := cellOf(e.Value)
	// above tests F = p on the scale of logits, on which the error of F near 0 and 1 is symmetric.
	above := func(c int32, sign float64) bool {
		f := s.upTo(c) / flows
		v, df := s.varianceAt(c, flows)
		if v == 0 || f <= 0 || f >= 1 {
			return c >= at
		}
		return logit(f)+sign*StudentT(confidence, df)*math.Sqrt(v)/(f*(1-f)) >= logit(p)
	}
	// The bounds of the test: F is significantly below p left of lo, and above p right of hi.
	lo := min(at, first(largest, func(c int32) bool { return above(c, 1) }))
	hi := max(at, first(largest, func(c int32) bool { return above(c, -1) }))
	e.Lo, e.Hi, e.Open = cells.Slowdown(int(lo), 0), cells.Slowdown(int(hi), 1), hi == largest
	for _, h := range s {
		for _, c := range h.Drawn {
			e.Beyond += c.Flows() - c.UpTo(at)
		}
	}
	return e, true
}

// value is a quantile, interpolated between two flows as in package queries. ok is false for a sample without flows.
func (s sample) value(p float64) (slowdown float64, ok bool) {
	flows, largest := s.flows()
	below, part := math.Modf(p * max(0, flows-1))
	of := func(place float64) float64 {
		return cells.Slowdown(int(first(largest, func(c int32) bool { return s.upTo(c) > place })), 0.5)
	}
	low, high := of(below), of(math.Ceil(below+part))
	return low + part*(high-low), flows > 0
}

// first is the first cell up to largest for which reached holds.
func first(largest int32, reached func(cell int32) bool) int32 {
	return int32(sort.Search(int(max(0, largest)), func(c int) bool { return reached(int32(c)) }))
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }
