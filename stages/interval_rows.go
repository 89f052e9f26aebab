package stages

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/sizebin"
)

// A percentile gets a warning if fewer flows are beyond it, or if its interval is wider relative to it. With
// a hundred flows beyond, their number alone varies by 10%.
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
	Lo, Hi   float64 // 95%: of both parts if the method's is known, else of the workload
	Warning  string  // why the workload is too short for this percentile; empty if it is not

	Method *MethodPart // nil: Lo and Hi leave out the method's own error
}

// MethodPart says how an interval is composed.
type MethodPart struct {
	WorkloadLo, WorkloadHi float64 // 95%, without the method's own error
	Error                  float64 // of the method, relative to the estimate
	Disagreement           float64 // percentile by the link cases where flows wait longest / by the estimate, less 1
}

// Tails returns the p99 of slowdown of all flows and of each size bin. Read must not be called afterwards.
func (x *Intervals) Tails() Tails {
	p99 := func(bin int, least int64) float64 {
		g := &x.all.bins[bin]
		if g.flows <= least {
			return math.Inf(1)
		}
		g.accumulate()
		return cellEdge(g.cellOfAll(0.99), 0.5)
	}
	t := Tails{All: p99(sizebin.Count, 0)}
	for b := range t.Bins {
		t.Bins[b] = p99(b, fewInBin)
	}
	return t
}

// Rows returns the intervals of the groups that have flows: those of all flows, then those of the labels, in
// the order in which the labels first came. Read must not be called afterwards.
func (x *Intervals) Rows() []Interval {
	var out []Interval
	var of []*intervalGroup // by row of out
	var binOf []int
	bins := append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All})
	for _, set := range x.order {
		for b := range set.bins {
			g := &set.bins[b]
			if g.flows == 0 {
				continue
			}
			g.accumulate()
			for _, q := range IntervalQuantiles() {
				out = append(out, Interval{By: set.by, Service: set.labels.service, VNet: set.labels.vnet,
					SizeBin: bins[b].Name, Flows: g.flows, Quantile: q})
				of, binOf = append(of, g), append(binOf, b)
			}
		}
	}
	var both sync.WaitGroup
	for half := range 2 { // the rows do not depend on each other
		both.Go(func() {
			for i := half; i < len(out); i += 2 {
				x.interval(of[i], &out[i])
			}
		})
	}
	both.Wait()
	for i := range out {
		x.addMethod(binOf[i], &out[i])
	}
	return out
}

// interval sets the estimate, the interval and the warning of a row.
func (x *Intervals) interval(g *intervalGroup, row *Interval) {
	at := g.cellOfAll(row.Quantile)
	lo, hi := at, at
	for from := 0; from < len(x.weights); from += bootstraps {
		var cells []int
		for _, w := range x.weights[from : from+bootstraps] {
			if cell, ok := g.quantile(row.Quantile, w); ok {
				cells = append(cells, cell)
			}
		}
		slices.Sort(cells)
		outside := len(cells) * 25 / 1000 // at either end
		lo, hi = min(lo, cells[outside]), max(hi, cells[len(cells)-1-outside])
	}
	row.Estimate, row.Lo, row.Hi = cellEdge(at, 0.5), cellEdge(lo, 0), cellEdge(hi, 1)
	row.Warning = intervalWarning(row)
}

// The method's own error, from the disagreement of link cases: the other case is not exact either, so its distance is
// taken methodFactor times; and what all cases share (the transport's reaction to means over blocks, the ideal FCT of
// the path) is methodBase of the delay. Both were chosen on the scenarios of datasets/ACCURACY.md, section "How honest
// the intervals are".
const (
	methodFactor = 1.5
	methodBase   = 0.03
)

func methodError(estimate, disagreement float64) float64 {
	return methodFactor*math.Abs(disagreement) + methodBase*(1-1/estimate)
}

// addMethod widens an interval by the method's part. The parts are independent, so their widths add up in squares
// (Guide to the Expression of Uncertainty in Measurement, 5.1.2). The disagreement is that of all flows of the size
// bin.
func (x *Intervals) addMethod(bin int, row *Interval) {
	cell, ok := x.cases.quantile(bin, row.Quantile)
	if !ok {
		return
	}
	m := &MethodPart{WorkloadLo: row.Lo, WorkloadHi: row.Hi}
	own := row
	if row.By != ByNothing {
		own = &Interval{Estimate: x.estimates[bin][row.Quantile]}
	} else {
		x.estimates[bin][row.Quantile] = row.Estimate
	}
	m.Disagreement = cellEdge(cell, 0.5)/own.Estimate - 1
	m.Error = methodError(row.Estimate, m.Disagreement)
	row.Lo = max(1, row.Estimate-math.Hypot(row.Estimate-row.Lo, m.Error*row.Estimate))
	row.Hi = row.Estimate + math.Hypot(row.Hi-row.Estimate, m.Error*row.Estimate)
	row.Method = m
}

// accumulate turns counts, once, into the number of flows up to and including each cell.
func (g *intervalGroup) accumulate() {
	if g.cells > 0 {
		return
	}
	for b := range g.counts {
		for c := 1; c < len(g.counts[b]); c++ {
			g.counts[b][c] += g.counts[b][c-1]
		}
		g.cells = max(g.cells, len(g.counts[b]))
	}
}

// upTo returns the weight of the flows up to and including a cell.
func (g *intervalGroup) upTo(cell int, weights []uint8) (sum int64) {
	for b, c := range g.counts {
		if len(c) > 0 && weights[b] > 0 {
			sum += int64(weights[b]) * int64(c[min(cell, len(c)-1)])
		}
	}
	return sum
}

// quantile returns the cell of a quantile of the weighted flows; ok is false if their weight is 0.
func (g *intervalGroup) quantile(p float64, weights []uint8) (cell int, ok bool) {
	total := g.upTo(g.cells, weights)
	want := int64(math.Ceil(p * float64(total)))
	return sort.Search(g.cells-1, func(c int) bool { return g.upTo(c, weights) >= want }), total > 0
}

// cellOfAll returns the cell of a quantile of the flows as they are, of which there are some.
func (g *intervalGroup) cellOfAll(p float64) int {
	cell, _ := g.quantile(p, slices.Repeat([]uint8{1}, intervalBlocks))
	return cell
}

// intervalWarning says why the workload is too short for a percentile; "" if it is not.
func intervalWarning(row *Interval) string {
	name := fmt.Sprintf("p%g", math.Round(row.Quantile*100_000)/1000)
	if beyond := math.Round(float64(row.Flows)*(1-row.Quantile)*1000) / 1000; beyond < fewBeyond {
		return fmt.Sprintf("%s: only %d flows beyond it (%.0f flows needed)", name, int64(beyond),
			math.Round(fewBeyond/(1-row.Quantile)))
	}
	if wide := (row.Hi - row.Lo) / row.Estimate; wide > wideInterval {
		return fmt.Sprintf("%s: its interval is %.0f%% wide", name, 100*wide)
	}
	return ""
}

// IntervalsRecord returns the rows as a batch of table intervals, which the caller releases.
func IntervalsRecord(rows []Interval) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Intervals.Arrow())
	defer b.Release()
	field := func(name string) array.Builder { return b.Field(schema.Intervals.Index(name)) }
	text := func(name, value string, set bool) {
		if set {
			field(name).(*array.StringBuilder).Append(value)
		} else {
			field(name).AppendNull()
		}
	}
	number := func(name string, value float64) { field(name).(*array.Float64Builder).Append(value) }
	for _, r := range rows {
		text("service", r.Service, r.By == ByService || r.By == ByServiceVNet)
		text("vnet", r.VNet, r.By == ByVNet || r.By == ByServiceVNet)
		text("size_bin", r.SizeBin, true)
		number("quantile", r.Quantile)
		field("flows").(*array.Int64Builder).Append(r.Flows)
		number("estimate", r.Estimate)
		number("lo", r.Lo)
		number("hi", r.Hi)
		text("warning", r.Warning, true)
		for i, name := range []string{"workload_lo", "workload_hi", "method_error"} {
			if r.Method == nil {
				field(name).AppendNull()
			} else {
				number(name, [...]float64{r.Method.WorkloadLo, r.Method.WorkloadHi, r.Method.Error}[i])
			}
		}
	}
	return b.NewRecord()
}
