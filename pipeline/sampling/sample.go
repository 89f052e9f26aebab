package sampling

import (
	"math"
	"sort"
)

// A Stratum is what is known of one stratum: the counts of the slots drawn from it.
type Stratum struct {
	Slots int       // of the whole stratum
	Drawn []*Counts // nil: a drawn slot without a flow of the group
}

// A Sample is the strata of a group of flows.
type Sample []Stratum

// flows is the weighted number of flows, and largest the greatest cell with a flow.
func (s Sample) flows() (weighted float64, largest int32) {
	largest = -1
	for _, h := range s {
		for _, c := range h.Drawn {
			if c != nil {
				weighted += h.weight() * float64(c.Flows())
				largest = max(largest, c.last())
			}
		}
	}
	return weighted, largest
}

// Flows is the number of flows in the drawn slots.
func (s Sample) Flows() (n int64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			if c != nil {
				n += c.Flows()
			}
		}
	}
	return n
}

func (h Stratum) weight() float64 { return float64(h.Slots) / float64(len(h.Drawn)) }

// at returns the estimated distribution function at a cell.
func (s Sample) at(cell int32, flows float64) float64 {
	sum := 0.0
	for _, h := range s {
		for _, c := range h.Drawn {
			if c != nil {
				sum += h.weight() * float64(c.UpTo(cell))
			}
		}
	}
	return sum / flows
}

// variance returns the estimated variance of the distribution function at a cell, and its degrees of freedom.
//
// The variance is a sum of squares u² over the drawn slots. Satterthwaite's degrees of freedom, 2V² / Var(V), take
// the u of a stratum as normal, and a sample of a few slots of a stratum does not show that they are not. Over all
// strata it does: Var(V) is about ⅔ Σ u⁴ (all of Σ u⁴ but the squares of the expectations, which for normal u are a
// third of it). A few slots with most of the variance so give few degrees of freedom. The smaller of both counts.
func (s Sample) variance(cell int32, flows float64) (v, df float64) {
	f := s.at(cell, flows)
	fourth, squares, slots, free := 0.0, 0.0, 0.0, 0.0
	for _, h := range s {
		n := float64(len(h.Drawn))
		if n < 2 || len(h.Drawn) == h.Slots {
			continue // a stratum of one slot, or drawn whole, has no sampling variance
		}
		factor := h.weight() / flows
		factor *= factor * (1 - n/float64(h.Slots)) * n / (n - 1)
		sum := 0.0
		for _, c := range h.Drawn {
			sum += h.residual(c, cell, f)
		}
		part := 0.0
		for _, c := range h.Drawn {
			u := h.residual(c, cell, f) - sum/n
			part += factor * u * u
			fourth += factor * factor * u * u * u * u
		}
		v += part
		squares += part * part / (n - 1)
		slots += n
		free += n - 1
	}
	return v, degrees(v, squares, fourth, slots, free)
}

// degrees are the degrees of freedom of a variance v of so many slots and at most free degrees, which is a sum of the
// squares of strata. squares sums (the squares of a stratum)²/(n−1), fourth the fourth powers.
func degrees(v, squares, fourth, slots, free float64) (df float64) {
	if fourth > 0 {
		df = min(v*v/squares, 3*v*v/fourth*free/slots)
	}
	return min(df, free)
}

// residual is y − f·m of a drawn slot.
func (Stratum) residual(c *Counts, cell int32, f float64) float64 {
	if c == nil {
		return 0
	}
	return float64(c.UpTo(cell)) - f*float64(c.Flows())
}

// An Estimate is a quantile of slowdown of the whole workload with its interval.
type Estimate struct {
	Value, Lo, Hi float64
	Beyond        int64 // flows of the sample above the quantile
}

// Quantile estimates a quantile with an interval of a confidence such as 0.95. ok is false for a sample without flows.
func (s Sample) Quantile(p, confidence float64) (e Estimate, ok bool) {
	flows, largest := s.flows()
	if flows == 0 {
		return e, false
	}
	at := first(largest, func(c int32) bool { return s.at(c, flows) >= p })
	// above tests F = p on the scale of logits, on which the error of F near 0 and 1 is symmetric.
	above := func(c int32, sign float64) bool {
		f := s.at(c, flows)
		v, df := s.variance(c, flows)
		if v == 0 || f <= 0 || f >= 1 {
			return f >= p
		}
		return logit(f)+sign*StudentT(confidence, df)*math.Sqrt(v)/(f*(1-f)) >= logit(p)
	}
	// The bounds of the test: F is significantly below p left of lo, and above p right of hi.
	lo := min(at, first(largest, func(c int32) bool { return above(c, 1) }))
	hi := max(at, first(largest, func(c int32) bool { return above(c, -1) }))
	e = Estimate{Value: Slowdown(at, 0.5), Lo: Slowdown(lo, 0), Hi: Slowdown(hi, 1)}
	for _, h := range s {
		for _, c := range h.Drawn {
			if c != nil {
				e.Beyond += c.Flows() - c.UpTo(at)
			}
		}
	}
	return e, true
}

// value is a quantile. ok is false for a sample without flows.
func (s Sample) value(p float64) (slowdown float64, ok bool) {
	flows, largest := s.flows()
	at := first(largest, func(c int32) bool { return s.at(c, flows) >= p })
	return Slowdown(at, 0.5), flows > 0
}

// first is the first cell up to largest for which reached holds.
func first(largest int32, reached func(cell int32) bool) int32 {
	return int32(sort.Search(int(max(0, largest)), func(c int) bool { return reached(int32(c)) }))
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }
