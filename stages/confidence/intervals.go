// Package confidence computes confidence intervals of the percentiles of slowdown.
package confidence

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/schema/together"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

const (
	intervalBlocks = 100   // time blocks of the workload
	coarseBlocks   = 25    // of four time blocks each
	bootstraps     = 200   // replicates: the 5th from either end is the end of a 95% interval
	intervalStep   = 0.002 // relative width of a cell of slowdown; percentiles are accurate to half of it
	intervalLabels = 64    // services, virtual networks and pairs that have intervals; limits the memory
)

// Quantiles are the quantiles of slowdown that have intervals.
var Quantiles = []float64{0.5, 0.9, 0.99, 0.999}

// GroupBy names the label that the flows of an interval have in common.
type GroupBy uint8

// The groups of flows that have intervals.
const (
	ByNothing     GroupBy = iota // all flows, by size bin
	ByService                    // flows of one service, by size bin
	ByVNet                       // flows of one virtual network, all sizes
	ByServiceVNet                // flows of one service in one virtual network, all sizes
)

// Intervals computes confidence intervals of the percentiles of slowdown. They have two parts. The workload's
// part says how much a percentile depends on which flows happened to arrive: the same traffic at another time
// has other percentiles. The method's part (methodError) is the error of the estimate itself. It is known
// only for estimator flow.
//
// Flows of a burst are slow together. A few bursts with n flows are thus less informative than n independent
// flows, and a bootstrap of single flows would give intervals that are too narrow. This bootstrap draws
// blocks of time instead (block bootstrap: Künsch, Annals of Statistics 17(3), 1989). The weight of each
// block has a Poisson distribution of mean 1.
//
//	slowdowns → counts[time block][cell of slowdown], by group → 200 weighted quantiles → 5th and 196th
//
// A block must be longer than congestion lasts, which is not known. Two lengths are used, and the wider
// interval is reported.
//
// Delays that are drawn independently for each flow (ReadDrawn) do not show which flows are slow together.
// Their intervals come from the delays that the same flows had in link cases (drawnInterval).
//
// Memory grows with groups, blocks and cells, not with flows. An Intervals must not be used by several
// goroutines at a time. Call Read first, then Tails, then Rows.
type Intervals struct {
	firstNS, spanNS int64
	all             *intervalSet
	labels          map[GroupBy]map[workload.Labels]*intervalSet
	groups          map[workload.Labels][]*intervalSet     // by labels of flows; bounded, see groupsOf
	order           []*intervalSet                         // in the order of their first flows
	weights         []blockWeights                         // by replicate, for both lengths
	cases           CaseSlowdowns                          // nil: the method's part is not known
	drawn           bool                                   // groups count the flows in link cases, too
	bytes, squares  float64                                // sums of flow sizes and of their squares
	event           float64                                // share of the flows in one event of congestion
	estimates       [sizebin.Count + 1]map[float64]float64 // of all flows, by size bin and quantile
}

type groupedFlow struct {
	workload.Labels
	FlowRow   int64   `col:"flow_row"`
	IdealNS   int64   `col:"ideal_ns"`
	SizeBytes int64   `col:"size_bytes"`
	StartNS   int64   `col:"start_ns"`
	Slowdown  float64 `col:"slowdown"`
}

// An intervalSet has the groups of flows with the same labels: one for each size bin, then one for all sizes.
type intervalSet struct {
	by     GroupBy
	labels workload.Labels // that the flows have in common
	bins   [sizebin.Count + 1]intervalGroup
}

// An intervalGroup counts flows by time block and cell of slowdown.
type intervalGroup struct {
	flows   int64
	counts  blockCounts
	inCases blockCounts // by slowdown in link cases, with drawn delays
}

// blockCounts counts flows by time block and cell of slowdown.
type blockCounts [intervalBlocks][]uint32

// blockWeights are the weights of the time blocks.
type blockWeights [intervalBlocks]uint8

// New returns an Intervals for flows that start between firstNS and lastNS, inclusive. cases has the
// slowdowns of the flows in other link cases, or is nil if they are not known.
func New(firstNS, lastNS int64, cases CaseSlowdowns) *Intervals {
	x := &Intervals{
		firstNS: firstNS, spanNS: lastNS - firstNS + 1, cases: cases,
		labels: map[GroupBy]map[workload.Labels]*intervalSet{ByService: {}, ByVNet: {}, ByServiceVNet: {}},
		groups: map[workload.Labels][]*intervalSet{},
	}
	for i := range x.estimates {
		x.estimates[i] = map[float64]float64{}
	}
	x.all = x.add(ByNothing, workload.Labels{})
	for _, blocks := range []int{intervalBlocks, coarseBlocks} {
		for rep := range bootstraps {
			var w blockWeights
			for b := range w {
				s := rng.New(uint64(blocks), rng.Bootstrap, uint64(rep), uint64(b*blocks/intervalBlocks))
				w[b] = poissonOne(s.Uint64())
			}
			x.weights = append(x.weights, w)
		}
	}
	return x
}

// Read adds rows of table slowdowns, in start order. The number of services, virtual networks and pairs that
// have intervals is limited: the first ones have them. A flow that starts outside the times given to New is
// an error.
func (x *Intervals) Read(slowdowns schema.Batches) error {
	return columns.Each(slowdowns, func(r *groupedFlow) error {
		block, err := x.blockOf(r)
		if err != nil {
			return err
		}
		cell := cells.Of(r.Slowdown)
		bin := sizebin.Of(r.SizeBytes)
		x.eachGroup(r, bin, func(g *intervalGroup) {
			g.counts.count(block, cell)
			g.flows++
		})
		return nil
	})
}

// ReadDrawn is Read for slowdowns whose delays were drawn. caseDelayNS returns the sum of the delays that a
// flow had in the link cases of its path, by its row of table flows.
func (x *Intervals) ReadDrawn(slowdowns schema.Batches, caseDelayNS func(flowRow int64) int64) error {
	x.drawn = true
	return columns.Each(slowdowns, func(r *groupedFlow) error {
		block, err := x.blockOf(r)
		if err != nil {
			return err
		}
		cell := cells.Of(r.Slowdown)
		bin := sizebin.Of(r.SizeBytes)
		bytes := float64(r.SizeBytes)
		x.bytes += bytes
		x.squares += float64(bytes * bytes)
		inCase := cells.Of(float64(r.IdealNS+caseDelayNS(r.FlowRow)) / float64(r.IdealNS))
		x.eachGroup(r, bin, func(g *intervalGroup) {
			g.counts.count(block, cell)
			g.inCases.count(block, inCase)
			g.flows++
		})
		return nil
	})
}

// blockOf returns the time block in which a flow starts.
func (x *Intervals) blockOf(r *groupedFlow) (int, error) {
	if r.StartNS < x.firstNS || r.StartNS >= x.firstNS+x.spanNS {
		return 0, fmt.Errorf("slowdowns: a flow starts at %d ns, outside the workload", r.StartNS)
	}
	return int(float64(r.StartNS-x.firstNS) / float64(x.spanNS) * intervalBlocks), nil
}

// eachGroup calls do with the groups that a flow of a size bin belongs to.
func (x *Intervals) eachGroup(r *groupedFlow, bin int, do func(*intervalGroup)) {
	for _, set := range x.groupsOf(r.Labels) {
		do(&set.bins[sizebin.Count])
		if set.by <= ByService {
			do(&set.bins[bin])
		}
	}
}

func (x *Intervals) add(by GroupBy, labels workload.Labels) *intervalSet {
	set := &intervalSet{by: by, labels: labels}
	x.order = append(x.order, set)
	return set
}

// groupsOf returns the groups that flows with these labels belong to. It caches a limited number of results,
// because every flow of a trace may have its own labels.
func (x *Intervals) groupsOf(of workload.Labels) []*intervalSet {
	sets, known := x.groups[of]
	if known {
		return sets
	}
	of = of.Clone()
	sets = []*intervalSet{x.all}
	for i, labels := range []workload.Labels{{Service: of.Service}, {VNet: of.VNet}, of} {
		byLabels := x.labels[ByService+GroupBy(i)]
		set := byLabels[labels]
		if set == nil && len(byLabels) < intervalLabels { // otherwise there are too many
			set = x.add(ByService+GroupBy(i), labels)
			byLabels[labels] = set
		}
		if set != nil {
			sets = append(sets, set)
		}
	}
	if len(x.groups) < intervalLabels*intervalLabels {
		x.groups[of] = sets
	}
	return sets
}

func (n *blockCounts) count(block, cell int) {
	c := n[block]
	if cell >= len(c) {
		c = append(c, make([]uint32, cell+1-len(c))...)
		n[block] = c
	}
	c[cell]++
}

// Cells divides slowdowns into cells. Cell 0 is exactly 1. Cell k ends at exp(k × width), where the width is
// relative.
type Cells float64

const cells = Cells(intervalStep)

// Of returns the cell of a slowdown, which is 1 or more.
func (width Cells) Of(slowdown float64) int {
	if !(slowdown > 1) {
		return 0
	}
	return 1 + int(math.Log(slowdown)/float64(width))
}

// Slowdown returns the slowdown at a fraction of the cell's width.
func (width Cells) Slowdown(cell int, fraction float64) float64 {
	if cell == 0 {
		return 1
	}
	return math.Exp((float64(cell-1) + fraction) * float64(width))
}

// A percentile gets a warning if fewer than fewBeyond flows are beyond it, or if its interval, relative to
// it, is wider than wideInterval. With a hundred flows beyond, their number alone varies by 10%.
const (
	fewBeyond    = 100
	wideInterval = 0.2
)

// Interval is one row of table intervals.
type Interval struct {
	By       GroupBy
	Service  string // with ByService and ByServiceVNet
	VNet     string // with ByVNet and ByServiceVNet
	SizeBin  string
	Flows    int64
	Quantile float64
	Estimate float64
	Lo, Hi   float64 // 95%: of both parts if the method's is known, else of the workload only; NaN: unknown
	Warning  string  // why the workload is too short for this percentile, or empty

	Method *MethodPart // nil: Lo and Hi exclude the method's own error
}

// A MethodPart says how an interval is composed.
type MethodPart struct {
	WorkloadLo, WorkloadHi float64 // 95%, without the method's own error
	Error                  float64 // of the method, relative to the estimate
	Disagreement           float64 // percentile in the link cases where flows wait longest / estimate - 1
}

// Tails are the slowdowns at which the slowest 1% of the flows begin.
type Tails struct {
	All  float64
	Bins [sizebin.Count]float64 // +Inf for size bins with few flows
}

// FewInBin is the largest number of flows for which the slowest 1% of a size bin are not meaningful.
const FewInBin = 1000

// Tails returns the p99 of slowdown of all flows and of each size bin. Read must not be called afterwards.
func (x *Intervals) Tails() Tails {
	p99 := func(bin int, least int64) float64 {
		g := &x.all.bins[bin]
		if g.flows <= least {
			return math.Inf(1)
		}
		return cells.Slowdown(g.counts.accumulate(nil).cellOfAll(0.99), 0.5)
	}
	t := Tails{All: p99(sizebin.Count, 0)}
	for b := range t.Bins {
		t.Bins[b] = p99(b, FewInBin)
	}
	return t
}

// Rows returns the intervals of the groups that have flows: first those of all flows, then those of the
// labels in the order of their first flows. Read must not be called afterwards.
func (x *Intervals) Rows() []Interval {
	var out []Interval
	var of []*intervalGroup // by index into out / len(Quantiles)
	var between []float64   // quantiles that interpolate between flows
	var binOf []int
	bins := append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All})
	for _, set := range x.order {
		for b := range set.bins {
			g := &set.bins[b]
			if g.flows == 0 {
				continue
			}
			for _, q := range Quantiles {
				out = append(out, Interval{By: set.by, Service: set.labels.Service, VNet: set.labels.VNet,
					SizeBin: bins[b].Name, Flows: g.flows, Quantile: q})
				binOf = append(binOf, b)
			}
			of = append(of, g)
		}
	}
	between = make([]float64, len(out))
	every2nd := func(from int) func() { // the groups are independent of each other
		return func() {
			var c, inCases cumulative
			for i := from; i < len(of); i += 2 {
				c = of[i].counts.accumulate(c)
				inCases = of[i].inCases.accumulate(inCases)
				for n := range Quantiles {
					row := &out[i*len(Quantiles)+n]
					between[i*len(Quantiles)+n] = c.interpolated(row.Quantile)
					if x.drawn {
						drawnInterval(c, inCases, x.event, row)
					} else {
						x.interval(c, row)
					}
				}
			}
		}
	}
	together.Run(every2nd(0), every2nd(1))
	for i := range out {
		x.addMethod(binOf[i], &out[i])
		if !x.drawn {
			out[i].Warning = intervalWarning(&out[i])
		}
		out[i].interpolate(between[i])
	}
	return out
}

// interpolate replaces the estimate, which is the slowdown of a flow, by a quantile between two flows, as
// questions compute it. They differ in small groups. The interval contains the estimate.
func (i *Interval) interpolate(estimate float64) {
	i.Estimate = estimate
	if i.Lo <= i.Hi {
		i.Lo = min(i.Lo, estimate)
		i.Hi = max(i.Hi, estimate)
	}
}

// Forget removes the interval, which is not known.
func (i *Interval) Forget() {
	i.Lo = math.NaN()
	i.Hi = math.NaN()
	i.Warning = intervalWarning(i)
}

func (x *Intervals) interval(c cumulative, row *Interval) {
	at := c.cellOfAll(row.Quantile)
	lo := at
	hi := at
	for from := 0; from < len(x.weights); from += bootstraps {
		var cells []int
		for i := range bootstraps {
			if cell, ok := c.quantile(row.Quantile, &x.weights[from+i], at); ok {
				cells = append(cells, cell)
			}
		}
		slices.Sort(cells)
		outside := len(cells) * 25 / 1000 // at either end
		lo = min(lo, cells[outside])
		hi = max(hi, cells[len(cells)-1-outside])
	}
	row.Estimate = cells.Slowdown(at, 0.5)
	row.Lo = cells.Slowdown(lo, 0)
	row.Hi = cells.Slowdown(hi, 1)
}

// The method's own error follows from the disagreement of link cases. The other case is not exact either, so
// the disagreement is multiplied by methodFactor. All cases share some errors (the transport's reaction to
// averages over blocks, the ideal FCT of the path); these are methodBase of the delay. Both constants were
// chosen on the scenarios of datasets/ACCURACY.md, "What an estimate says about itself".
const (
	methodFactor = 1.5
	methodBase   = 0.03
)

func methodError(estimate, disagreement float64) float64 {
	return methodFactor*math.Abs(disagreement) + methodBase*(1-1/estimate)
}

// addMethod widens an interval by the method's part. The parts are independent, so the squares of their
// widths are added (Guide to the Expression of Uncertainty in Measurement, 5.1.2). The disagreement is that
// of all flows of the size bin.
func (x *Intervals) addMethod(bin int, row *Interval) {
	cell, ok := x.cases.quantile(bin, row.Quantile)
	if !ok {
		return
	}
	m := &MethodPart{WorkloadLo: row.Lo, WorkloadHi: row.Hi}
	if row.By == ByNothing {
		x.estimates[bin][row.Quantile] = row.Estimate
	}
	m.Disagreement = cells.Slowdown(cell, 0.5)/x.estimates[bin][row.Quantile] - 1
	m.Error = methodError(row.Estimate, m.Disagreement)
	row.Lo = max(1, row.Estimate-math.Hypot(row.Estimate-row.Lo, m.Error*row.Estimate))
	row.Hi = row.Estimate + math.Hypot(row.Hi-row.Estimate, m.Error*row.Estimate)
	row.Method = m
}

// cumulative has the number of a group's flows up to and including each cell, by time block.
type cumulative [][intervalBlocks]uint32

// accumulate sums the counts over the cells. It reuses the memory of c.
func (n *blockCounts) accumulate(c cumulative) cumulative {
	most := 0
	for _, counts := range n {
		most = max(most, len(counts))
	}
	c = columns.Resize(c, most)
	for b, counts := range n {
		flows := uint32(0)
		for cell := range c {
			if cell < len(counts) {
				flows += counts[cell]
			}
			c[cell][b] = flows
		}
	}
	return c
}

// upTo returns the weight of the flows up to and including a cell.
func (c cumulative) upTo(cell int, weights *blockWeights) (sum int64) {
	flows := &c[cell]
	for b := range flows {
		sum += int64(weights[b]) * int64(flows[b])
	}
	return sum
}

// quantile returns the cell of a quantile of the weighted flows. It is fast if the cell is close to near. If
// the total weight is 0, ok is false. p is at most 1.
func (c cumulative) quantile(p float64, weights *blockWeights, near int) (cell int, ok bool) {
	total := c.upTo(len(c)-1, weights)
	want := int64(math.Ceil(p * float64(total)))
	lo := near
	hi := near
	step := 1
	for ; c.upTo(hi, weights) < want; step *= 2 {
		lo = hi + 1
		hi = min(hi+step, len(c)-1)
	}
	for ; lo > 0 && c.upTo(lo-1, weights) >= want; step *= 2 {
		hi = lo - 1
		lo = max(lo-step, 0)
	}
	return lo + sort.Search(hi-lo, func(i int) bool { return c.upTo(lo+i, weights) >= want }), total > 0
}

// unweighted are the weights of the flows as they are.
var unweighted = func() (all blockWeights) {
	for b := range all {
		all[b] = 1
	}
	return all
}()

// cellOfAll returns the cell of a quantile of the unweighted flows. The group must have flows.
func (c cumulative) cellOfAll(p float64) int {
	cell, _ := c.quantile(p, &unweighted, 0)
	return cell
}

// interpolated returns a quantile of the unweighted slowdowns. It interpolates between order statistics, as
// questions do (quantile_cont). The group must have flows.
func (c cumulative) interpolated(p float64) float64 {
	at := p * float64(c.upTo(len(c)-1, &unweighted)-1)
	rank := int64(at)
	of := func(rank int64) float64 {
		cell := sort.Search(len(c)-1, func(cell int) bool { return c.upTo(cell, &unweighted) > rank })
		return cells.Slowdown(cell, 0.5)
	}
	lo := of(rank)
	fraction := at - float64(rank)
	if fraction == 0 {
		return lo
	}
	return lo + float64(fraction*(of(rank+1)-lo))
}

// quantileName returns the name of a quantile, such as p99.9.
func quantileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// intervalWarning says why the workload is too short for a percentile, or returns "".
func intervalWarning(row *Interval) string {
	name := quantileName(row.Quantile)
	beyond := math.Round(float64(row.Flows)*(1-row.Quantile)*1000) / 1000
	if beyond < fewBeyond {
		return fmt.Sprintf("%s: only %d flows are above it; %.0f flows are enough for an interval", name,
			int64(beyond), math.Round(fewBeyond/(1-row.Quantile)))
	}
	lo := row.Lo
	hi := row.Hi
	part := ""
	if row.Method != nil {
		lo = row.Method.WorkloadLo
		hi = row.Method.WorkloadHi
		part = " without the method's own error"
	}
	wide := (hi - lo) / row.Estimate
	if wide > wideInterval {
		return fmt.Sprintf("%s: its interval is %.0f%% wide%s", name, 100*wide, part)
	}
	return ""
}

// Record returns the rows as a batch of table intervals, which the caller must release.
func Record(rows []Interval) arrow.Record {
	return columns.RecordOf(schema.Intervals, rows, func(r Interval) columns.Row {
		row := columns.Row{"size_bin": r.SizeBin, "quantile": r.Quantile, "flows": r.Flows, "estimate": r.Estimate,
			"warning": r.Warning}
		if !math.IsNaN(r.Lo) {
			row["lo"] = r.Lo
			row["hi"] = r.Hi
		}
		if r.By == ByService || r.By == ByServiceVNet {
			row["service"] = r.Service
		}
		if r.By == ByVNet || r.By == ByServiceVNet {
			row["vnet"] = r.VNet
		}
		m := r.Method
		if m != nil {
			row["workload_lo"] = m.WorkloadLo
			row["workload_hi"] = m.WorkloadHi
			row["method_error"] = m.Error
		}
		return row
	})
}
