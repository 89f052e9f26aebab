package sampling

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"parsimon/schema/names"
	"parsimon/stages/confidence"
	"parsimon/stages/rng"
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
const cells = confidence.Cells(2e-4)

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

// compareSamples compares a quantile of two samples of the same windows. ok is false if one side has no flows, or only in one
// window.
//
// The interval is of log(other/base), with the variance of the jackknife that leaves out a window of a stratum at a
// time, the same on both sides (Wolter, Introduction to Variance Estimation, 2nd ed., §4.5). What a window does to
// both cancels. The degrees of freedom are those of Sample.variance.
func compareSamples(base, other Sample, p, confidence float64) (d Difference, ok bool) {
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

// Shape of the strata and rounds.
const (
	loadClasses = 4 // quarters of the slots by load
	timePieces  = 4 // of each load class
	firstRound  = 2 // slots drawn from each stratum in the first round
	growth      = 2 // each later round adds 1/growth of the slots drawn so far
)

// A Design divides the slots of a workload into strata.
type Design struct {
	Strata [][]int // numbers of slots, in the order of drawing
	loads  []float64
}

// NewDesign divides slots into strata of similar load and neighbouring time and orders each stratum at random. The
// order depends on the seed, and on nothing that is estimated. The load is that of the slot and of the slots before it
// for so long in all: long flows that began earlier still take bandwidth.
func NewDesign(slots []Slot, seed uint64, loadNS int64) *Design {
	d := &Design{loads: loads(slots, loadNS)}
	byLoad := make([]int, len(slots))
	for i := range byLoad {
		byLoad[i] = i
	}
	slices.SortStableFunc(byLoad, func(a, b int) int { return cmp.Compare(d.loads[a], d.loads[b]) })
	for _, class := range pieces(byLoad, loadClasses) {
		slices.Sort(class) // by time
		for _, stratum := range pieces(class, timePieces) {
			n := uint64(len(d.Strata))
			random := rng.New(seed, rng.Window, n)
			for i := len(stratum) - 1; i > 0; i-- {
				j := random.IntN(i + 1)
				stratum[i], stratum[j] = stratum[j], stratum[i]
			}
			d.Strata = append(d.Strata, stratum)
		}
	}
	return d
}

// Merged is the design with one stratum in place of each 2 or 4 that follow each other, for fewer slots in a round: it
// draws from them in turn, and the variance has what differs between them, too (collapsed strata: Cochran §5A.12).
func (d *Design) Merged(parts int) *Design {
	m := &Design{loads: d.loads}
	for strata := range slices.Chunk(d.Strata, parts) {
		var all []int
		for i := range d.loads { // of a stratum at most
			for _, h := range []int{0, 2, 1, 3} {
				if h < len(strata) && i < len(strata[h]) {
					all = append(all, strata[h][i])
				}
			}
		}
		m.Strata = append(m.Strata, all)
	}
	return m
}

// loads are the offered loads, in bytes per ns, of slots together with those before them that end within overNS.
func loads(slots []Slot, overNS int64) []float64 {
	all := make([]float64, len(slots))
	first, bytes := 0, int64(0)
	for i, s := range slots {
		bytes += s.Bytes
		for first < i && slots[first].ToNS <= s.ToNS-overNS {
			bytes -= slots[first].Bytes
			first++
		}
		all[i] = float64(bytes) / float64(max(1, s.ToNS-slots[first].FromNS))
	}
	return all
}

// pieces cuts a list into at most n pieces of about the same length, each of at least firstRound items where there are
// as many.
func pieces(list []int, n int) (out [][]int) {
	n = max(1, min(n, len(list)/firstRound))
	for i := range n {
		out = append(out, slices.Clone(list[i*len(list)/n:(i+1)*len(list)/n]))
	}
	return out
}

// First is how many slots of each stratum the first round draws.
func (d *Design) First() []int {
	return names.Of(d.Strata, func(s []int) int { return min(firstRound, len(s)) })
}

// Next is how many slots of each stratum are drawn after another round, given those drawn so far. Half of the slots are
// allocated by Neyman's rule (Cochran §5.5) with the load of a stratum in place of the standard deviation of its slots,
// which grows with the load, and half in proportion to the strata. Deviations that are estimated from the drawn slots
// would allocate few slots where they happen to be too small, and make intervals too narrow there: measured coverage
// falls by 3%.
func (d *Design) Next(drawn []int) []int {
	total, slots, product := 0, 0, 0.0
	deviation := make([]float64, len(d.Strata))
	for h, s := range d.Strata {
		for _, n := range s {
			deviation[h] += d.loads[n] / float64(len(s))
		}
		total, slots = total+drawn[h], slots+len(s)
		product += float64(len(s)) * deviation[h]
	}
	target := min(slots, total+max(1, total/growth))
	next := slices.Clone(drawn)
	for ; total < target; total++ {
		best, most := -1, math.Inf(-1)
		for h, s := range d.Strata {
			share := float64(len(s)) / float64(slots)
			if product > 0 {
				share = (share + float64(len(s))*deviation[h]/product) / 2
			}
			if lack := share*float64(target) - float64(next[h]); next[h] < len(s) && lack > most {
				best, most = h, lack
			}
		}
		next[best]++
	}
	return next
}

// Drawn are the numbers of the slots that are drawn when counts slots of each stratum are, in the order of time.
func (d *Design) Drawn(counts []int) (slots []int) {
	for h, n := range counts {
		slots = append(slots, d.Strata[h][:n]...)
	}
	slices.Sort(slots)
	return slots
}

// A Slot is a part of the workload between two times: the cluster that is drawn or not.
type Slot struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"` // excluded
	Flows  int64 `json:"flows"`
	Bytes  int64 `json:"bytes"`
}

// A Cutter cuts a workload into slots of about the same number of flows. Flows that start at the same time are in the
// same slot. A Cutter is used by one goroutine at a time: Add for every flow in start order, then Slots.
type Cutter struct {
	most  int64 // flows of a slot
	slots []Slot
	last  int64 // start of the last flow
	given bool  // the slots are
	at    int
}

// NewCutter cuts slots of so many flows, at least one.
func NewCutter(flows int64) *Cutter { return &Cutter{most: max(1, flows), at: -1} }

// Recount counts the flows of another workload in slots of the same times. Flows outside all slots are not counted.
func Recount(slots []Slot) *Cutter {
	c := &Cutter{slots: slices.Clone(slots), given: true}
	for i := range c.slots {
		c.slots[i].Flows, c.slots[i].Bytes = 0, 0
	}
	return c
}

// Add adds a flow. Starts do not descend.
func (c *Cutter) Add(startNS, bytes int64) {
	switch {
	case c.given:
		for c.at < len(c.slots) && c.slots[c.at].ToNS <= startNS {
			c.at++
		}
		if c.at == len(c.slots) || c.slots[c.at].FromNS > startNS {
			return
		}
	case c.at < 0 || c.slots[c.at].Flows >= c.most && startNS > c.last:
		if c.at >= 0 {
			c.slots[c.at].ToNS = startNS
		}
		c.slots = append(c.slots, Slot{FromNS: startNS})
		c.at++
	}
	c.slots[c.at].Flows++
	c.slots[c.at].Bytes += bytes
	c.last = startNS
}

// Slots returns the slots in order. Those that were cut cover the time from the first start to the last without gaps.
func (c *Cutter) Slots() []Slot {
	if n := len(c.slots) - 1; n >= 0 && !c.given {
		c.slots[n].ToNS = c.last + 1
	}
	return c.slots
}
