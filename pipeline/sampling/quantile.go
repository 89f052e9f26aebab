package sampling

import (
	"math"
	"sort"
)

// A stratum has the slowdowns of a group of flows in the drawn slots of one stratum.
type stratum struct {
	Slots int          // slots of the whole stratum
	Drawn []*histogram // one for each drawn slot; nil for a slot without flows of the group
}

// A sample has the slowdowns of a group of flows by stratum.
type sample []stratum

// flows returns the weighted number of flows and the greatest cell with a flow.
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

// Flows returns the number of flows in the drawn slots.
func (s sample) Flows() (n int64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			n += c.Flows()
		}
	}
	return n
}

// weight is the number of flows of the workload for which a flow of a drawn slot stands.
func (h stratum) weight() float64 { return float64(h.Slots) / float64(len(h.Drawn)) }

// upTo returns the weighted number of flows up to and including a cell.
func (s sample) upTo(cell int32) (sum float64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			sum += h.weight() * float64(c.UpTo(cell))
		}
	}
	return sum
}

// variance returns the estimated variance V of a sum over strata and its degrees of freedom. A stratum
// contributes scale · Σ (x − x̄)² over its drawn slots, times the finite population correction. of returns
// the x and the scale of a stratum with n drawn slots.
//
// V is a sum of squares u² over the drawn slots. Satterthwaite's degrees of freedom, 2V² / Var(V), assume
// that u is normal within a stratum. The few drawn slots of one stratum cannot show that it is not. All
// strata together can: Var(V) is about ⅔ Σ u⁴, which is Σ u⁴ without the squared expectations, a third of it
// for normal u. If a few slots contribute most of the variance, this estimate gives few degrees of freedom.
// The smaller of the two values is returned.
func (s sample) variance(of func(h int, n float64) (x []float64, scale float64)) (v, df float64) {
	var (
		fourth  float64 // Σ u⁴
		squares float64 // Σ over strata of the squared variance by its degrees of freedom
		slots   float64
		free    float64 // degrees of freedom of all strata
	)
	for h, stratum := range s {
		n := float64(len(stratum.Drawn))
		if n < 2 || len(stratum.Drawn) == stratum.Slots {
			continue // a stratum with one slot or with all slots drawn has no sampling variance
		}
		all, scale := of(h, n)
		sum := 0.0
		part := 0.0
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
		slots += n
		free = free + n - 1
	}
	if fourth > 0 {
		df = min(v*v/squares, 3*v*v/fourth*free/slots, free)
	}
	return v, df
}

// varianceAt returns the variance and the degrees of freedom of the distribution function at a cell.
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

// A quantileEstimate is a quantile of the slowdown of the whole workload with its interval.
type quantileEstimate struct {
	Value, Lo, Hi float64
	Beyond        int64 // flows of the sample above the quantile
	Open          bool  // no slowdown of the sample is significantly above the quantile; Hi is the largest one
}

// Quantile estimates quantile p and its interval at a confidence such as 0.95. ok is false for a sample
// without flows.
func (s sample) Quantile(p, confidence float64) (e quantileEstimate, ok bool) {
	flows, largest := s.flows()
	if e.Value, ok = s.value(p); !ok {
		return e, false
	}
	at := cellOf(e.Value)
	// above tests F = p on the logit scale, on which the error of F is symmetric near 0 and 1, too.
	above := func(c int32, sign float64) bool {
		f := s.upTo(c) / flows
		v, df := s.varianceAt(c, flows)
		if v == 0 || f <= 0 || f >= 1 {
			return c >= at
		}
		return logit(f)+sign*StudentT(confidence, df)*math.Sqrt(v)/(f*(1-f)) >= logit(p)
	}
	// F is significantly below p to the left of lo, and significantly above p to the right of hi.
	lo := min(at, first(largest, func(c int32) bool { return above(c, 1) }))
	hi := max(at, first(largest, func(c int32) bool { return above(c, -1) }))
	e.Lo = cells.Slowdown(int(lo), 0)
	e.Hi = cells.Slowdown(int(hi), 1)
	e.Open = hi == largest
	for _, h := range s {
		for _, c := range h.Drawn {
			e.Beyond += c.Flows() - c.UpTo(at)
		}
	}
	return e, true
}

// value returns quantile p, interpolated between two flows as in package queries. ok is false for a sample
// without flows.
func (s sample) value(p float64) (slowdown float64, ok bool) {
	flows, largest := s.flows()
	below, part := math.Modf(p * max(0, flows-1))
	of := func(place float64) float64 {
		return cells.Slowdown(int(first(largest, func(c int32) bool { return s.upTo(c) > place })), 0.5)
	}
	low := of(below)
	high := of(math.Ceil(below + part))
	return low + part*(high-low), flows > 0
}

// first returns the first cell for which reached holds, or largest if none does.
func first(largest int32, reached func(cell int32) bool) int32 {
	return int32(sort.Search(int(max(0, largest)), func(c int) bool { return reached(int32(c)) }))
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }
