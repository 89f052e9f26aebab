// Package sampling draws windows of time from a workload and estimates quantiles of the whole workload from the flows
// of the drawn windows, with confidence intervals.
//
//	flows by start ──► slots of equal flows ──► strata by load and time ──► drawn slots (windows), in rounds
//	                                                                            │
//	whole workload's quantile, interval ◄── weighted counts of slowdown by window ◄── estimates of the windows
//
// The design is stratified cluster sampling without replacement (Cochran, Sampling Techniques, 3rd ed., ch. 5 and
// 9A): a slot is a cluster, and flows of one slot depend on each other in any way. With N slots in stratum h, n of
// them drawn, a flow of a drawn slot has the weight N/n. The distribution function is a ratio of two weighted totals,
//
//	F(x) = Σ w·y(x) / Σ w·m        m flows of a slot, y(x) of them of slowdown at most x
//
// and its variance is that of the linearized totals z = y − F·m between the slots of each stratum, with the finite
// population correction 1 − n/N (Cochran §6.11; Särndal, Swensson, Wretman, Model Assisted Survey Sampling, §5.6):
//
//	V(x) = Σ_h (N/n)² · (1 − n/N) · n/(n−1) · Σ_i (z_i − z̄)² / (Σ w·m)²
//
// The interval of a quantile p contains every x at which a t test does not reject F(x) = p (test inversion: Woodruff,
// JASA 47, 1952; Francisco and Fuller, Annals of Statistics 19(1), 1991). The test is of logit F, whose standard
// error is that of F divided by F(1 − F) (Korn and Graubard, Survey Methodology 24(2), 1998): near 1 the error of F
// is skewed. The degrees of freedom are Satterthwaite's.
//
// The interval is of the whole workload's quantile as the same method would estimate it. It does not contain the
// method's own error. README.md has its measured coverage.
package sampling

import (
	"math"
	"slices"
	"sort"

	"parsimon/stages"
)

// A Stratum describes one stratum: the counts of the slots drawn from it.
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
			weighted += h.weight() * float64(c.Flows())
			largest = max(largest, c.last())
		}
	}
	return weighted, largest
}

// Flows is the number of flows in the drawn slots.
func (s Sample) Flows() (n int64) {
	for _, h := range s {
		for _, c := range h.Drawn {
			n += c.Flows()
		}
	}
	return n
}

func (h Stratum) weight() float64 { return float64(h.Slots) / float64(len(h.Drawn)) }

// upTo is the weighted number of flows up to and including a cell.
func (s Sample) upTo(cell int32) (sum float64) {
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
func (s Sample) variance(of func(h int, n float64) (x []float64, scale float64)) (v, df float64) {
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
func (s Sample) varianceAt(cell int32, flows float64) (v, df float64) {
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
type Estimate struct {
	Value, Lo, Hi float64
	Beyond        int64 // flows of the sample above the quantile
	Open          bool  // no slowdown of the sample is significantly above the quantile: Hi is its largest
}

// Quantile estimates a quantile with an interval of a confidence such as 0.95. ok is false for a sample without flows.
func (s Sample) Quantile(p, confidence float64) (e Estimate, ok bool) {
	flows, largest := s.flows()
	if e.Value, ok = s.value(p); !ok {
		return e, false
	}
	at := CellOf(e.Value)
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
func (s Sample) value(p float64) (slowdown float64, ok bool) {
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

// cells are those that slowdowns are counted in.
const cells = stages.Cells(2e-4)

// CellOf returns the cell of a slowdown of at least 1.
func CellOf(slowdown float64) int32 { return int32(cells.Of(slowdown)) }

// Counts are the slowdowns of a group of flows in one slot. The zero value is empty. Add, then Seal, then the others,
// for which nil is empty, too.
type Counts struct {
	cells []int32 // ascending once sealed
	upTo  []int64 // flows up to and including the cell
}

// Add adds a flow.
func (c *Counts) Add(cell int32) { c.cells = append(c.cells, cell) }

// Seal sorts the flows.
func (c *Counts) Seal() {
	slices.Sort(c.cells)
	cells := c.cells[:0]
	c.upTo = nil
	for i, cell := range c.cells {
		if n := len(cells) - 1; n >= 0 && cells[n] == cell {
			c.upTo[n] = int64(i) + 1
			continue
		}
		cells, c.upTo = append(cells, cell), append(c.upTo, int64(i)+1)
	}
	c.cells = slices.Clip(cells)
}

// Flows is the number of flows.
func (c *Counts) Flows() int64 {
	if c == nil || len(c.upTo) == 0 {
		return 0
	}
	return c.upTo[len(c.upTo)-1]
}

// UpTo is the number of flows up to and including a cell.
func (c *Counts) UpTo(cell int32) int64 {
	if c == nil || len(c.cells) == 0 || c.cells[0] > cell {
		return 0
	}
	return c.upTo[sort.Search(len(c.cells), func(i int) bool { return c.cells[i] > cell })-1]
}

// last is the greatest cell with a flow; -1 without flows.
func (c *Counts) last() int32 {
	if c == nil || len(c.cells) == 0 {
		return -1
	}
	return c.cells[len(c.cells)-1]
}

// A Difference is a quantile of slowdown of two estimates of a workload, from the same windows.
type Difference struct {
	Base, Other    float64
	Change, Lo, Hi float64 // Other / Base - 1
}

// Compare compares a quantile of two samples of the same windows. ok is false if one side has no flows, or only in one
// window.
//
// The interval is of log(other/base), with the variance of the jackknife that leaves out a window of a stratum at a
// time, the same on both sides (Wolter, Introduction to Variance Estimation, 2nd ed., §4.5). What a window does to
// both cancels. The degrees of freedom are those of Sample.variance.
func Compare(base, other Sample, p, confidence float64) (d Difference, ok bool) {
	change := func(a, b Sample) float64 {
		x, okX := a.value(p)
		y, okY := b.value(p)
		if !okX || !okY {
			return math.NaN()
		}
		return math.Log(y / x)
	}
	middle := change(base, other)
	v, df := base.variance(func(h int, n float64) (left []float64, scale float64) {
		for i := range base[h].Drawn {
			left = append(left, change(base.without(h, i), other.without(h, i)))
		}
		return left, (n - 1) / n
	})
	if math.IsNaN(middle + v) {
		return d, false
	}
	half := StudentT(confidence, df) * math.Sqrt(v)
	d.Base, _ = base.value(p)
	d.Other, _ = other.value(p)
	d.Change, d.Lo, d.Hi = math.Exp(middle)-1, math.Exp(middle-half)-1, math.Exp(middle+half)-1
	return d, true
}

// without is the sample without a drawn slot.
func (s Sample) without(h, i int) Sample {
	out := slices.Clone(s)
	out[h].Drawn = slices.Concat(s[h].Drawn[:i], s[h].Drawn[i+1:])
	return out
}

// StudentT returns the quantile t of Student's distribution with df degrees of freedom such that |T| ≤ t has the
// probability confidence. df is at least 1 and need not be whole. Source: Hill, Algorithm 396, CACM 13(10), 1970, to
// about 6 digits.
func StudentT(confidence, df float64) float64 {
	p, n := 1-confidence, max(1, df)
	switch n {
	case 1:
		return 1 / math.Tan(p*math.Pi/2)
	case 2:
		return math.Sqrt(2/(p*(2-p)) - 2)
	}
	a := 1 / (n - 0.5)
	b := 48 / (a * a)
	c := ((20700*a/b-98)*a-16)*a + 96.36
	d := ((94.5/(b+c)-3)/b + 1) * math.Sqrt(a*math.Pi/2) * n
	x := d * p
	y := math.Pow(x, 2/n)
	if y > 0.05+a {
		x = -math.Sqrt2 * math.Erfinv(1-p)
		y = x * x
		if n < 5 {
			c += 0.3 * (n - 4.5) * (x + 0.6)
		}
		c += (((0.05*d*x-5)*x-7)*x-2)*x + b
		y = (((((0.4*y+6.3)*y+36)*y+94.5)/c-y-3)/b + 1) * x
		y = math.Expm1(a * y * y)
	} else {
		y = ((1/(((n+6)/(n*y)-0.089*d-0.822)*(n+2)*3)+0.5/(n+4))*y-1)*(n+1)/(n+2) + 1/y
	}
	return math.Sqrt(n * y)
}
