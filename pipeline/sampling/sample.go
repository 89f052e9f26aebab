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
func (s Sample) variance(cell int32, flows float64) (v, df float64) {
	f := s.at(cell, flows)
	squares := 0.0
	most := 0
	for _, h := range s {
		n := float64(len(h.Drawn))
		if n < 2 || len(h.Drawn) == h.Slots {
			continue // a stratum of one slot, or drawn whole, has no sampling variance
		}
		most += len(h.Drawn) - 1
		part := h.spread(cell, f) * n / flows / flows * h.weight() * h.weight() * (1 - n/float64(h.Slots))
		v += part
		squares += part * part / (n - 1)
	}
	if squares > 0 {
		df = v * v / squares
	}
	return v, min(df, float64(most))
}

// spread is the variance between the stratum's slots of y − f·m.
func (h Stratum) spread(cell int32, f float64) float64 {
	sum, squares, n := 0.0, 0.0, float64(len(h.Drawn))
	for _, c := range h.Drawn {
		if c != nil {
			z := float64(c.UpTo(cell)) - f*float64(c.Flows())
			sum += z
			squares += z * z
		}
	}
	return max(0, squares-sum*sum/n) / (n - 1)
}

// An Estimate is a quantile of slowdown of the whole workload with its interval.
type Estimate struct {
	Value, Lo, Hi float64
	Beyond        int64 // flows of the sample above the quantile
}

// HalfWidth is half of the interval's width, relative to the quantile.
func (e Estimate) HalfWidth() float64 { return (e.Hi - e.Lo) / 2 / e.Value }

// Quantile estimates a quantile with an interval of a confidence such as 0.95. ok is false for a sample without flows.
func (s Sample) Quantile(p, confidence float64) (e Estimate, ok bool) {
	flows, largest := s.flows()
	if flows == 0 {
		return e, false
	}
	find := func(reached func(cell int32) bool) int32 {
		return int32(sort.Search(int(largest), func(c int) bool { return reached(int32(c)) }))
	}
	at := find(func(c int32) bool { return s.at(c, flows) >= p })
	half := func(c int32) float64 {
		v, df := s.variance(c, flows)
		if v == 0 {
			return 0
		}
		return StudentT(confidence, df) * math.Sqrt(v)
	}
	// The bounds of the test: F is significantly below p left of lo, and above p right of hi.
	lo := min(at, find(func(c int32) bool { return s.at(c, flows)+half(c) >= p }))
	hi := max(at, find(func(c int32) bool { return s.at(c, flows)-half(c) >= p }))
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
